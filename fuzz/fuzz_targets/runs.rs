//! See `harness/runs.rs`. The mean time per item is limited to a fifth of a millisecond.

#![no_main]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};

#[path = "../harness/runs.rs"]
mod harness;

/// Counts the allocated bytes.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let begin = used();
    let items = harness::check(input, || LIVE.load(Relaxed));
    // The tables of the code are built at its first use.
    let most = Duration::from_millis(100) + Duration::from_micros(200) * items as u32;
    let took = used() - begin;
    assert!(took < most, "{items} items took {took:?}");
});

/// Returns the CPU time of this thread, which other load on the machine does not lengthen.
fn used() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
