//! Allocator that counts allocations when enabled.

use std::{
    alloc::{GlobalAlloc, Layout},
    sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed},
};

use mimalloc::MiMalloc;

/// Allocator of the `squall` program with counters. Unless enabled by [`start`], it only reads one
/// additional flag.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static ON: AtomicBool = AtomicBool::new(false);
/// Bytes allocated minus bytes freed since the start.
static LIVE: AtomicI64 = AtomicI64::new(0);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

/// Starts counting.
pub(super) fn start() {
    ON.store(true, Relaxed);
}

/// Bytes allocated and not freed since the start.
pub(super) fn live_bytes() -> i64 {
    LIVE.load(Relaxed)
}

/// Number of allocations since the start.
pub(super) fn allocations() -> u64 {
    ALLOCATIONS.load(Relaxed)
}

fn count(allocated: usize, freed: usize) {
    if ON.load(Relaxed) {
        LIVE.fetch_add(allocated as i64 - freed as i64, Relaxed);
        ALLOCATIONS.fetch_add(u64::from(allocated > 0), Relaxed);
    }
}

#[expect(unsafe_code, reason = "a global allocator is unsafe to write; this one only counts")]
// SAFETY: every call is passed to mimalloc unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller upholds the contract.
        unsafe { MiMalloc.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller upholds the contract.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        // SAFETY: the caller upholds the contract.
        unsafe { MiMalloc.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: the caller upholds the contract.
        unsafe { MiMalloc.dealloc(memory, layout) }
    }
}
