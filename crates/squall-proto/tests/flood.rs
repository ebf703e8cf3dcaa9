//! Memory that a hostile peer can make an inbox hold, measured at the allocator against the limit
//! that the inbox documents.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use rand::{RngExt, SeedableRng};
use squall_proto::{
    Config,
    inbox::{Inbox, InboxError},
    parity,
    sched::{PathId, Span, Time},
    wire::{Cancel, CancelReason, Data, Member, Repair, RunParity, Stamp},
};

#[path = "../../../fuzz/harness/runs.rs"]
mod runs;

/// Counts the bytes in use and their peak.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

#[expect(unsafe_code, reason = "a global allocator is unsafe to write; this one only counts")]
// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(memory, layout) }
    }
}

fn count(bytes: usize) {
    let now = NOW.fetch_add(bytes, Relaxed) + bytes;
    PEAK.fetch_max(now, Relaxed);
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const RUNS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/runs");

/// One flood at a time: the counters are shared.
static TURN: Mutex<()> = Mutex::new(());

const REASSEMBLY: u64 = 8 << 20;
const OPEN_BLOCKS: usize = 4096;

/// The limit in the documentation of `inbox` and `docs/wire.md`.
const BOUND: usize = REASSEMBLY as usize / 16 * 21 + OPEN_BLOCKS * 1024 + (512 << 10);

/// Delivers a chunk.
fn take(inbox: &mut Inbox, header: &Data, payload: &[u8]) -> Result<(), InboxError> {
    inbox.on_data(Time::EPOCH, PathId(0), Span::ZERO, header, payload)
}

/// Runs `attack` until the inbox ends the session, or the attack ends; checks the used memory.
fn measure(name: &str, attack: impl FnOnce(&mut Inbox) -> Result<(), InboxError>) -> usize {
    let _turn = TURN.lock();
    let config = Config::default().max_block(1 << 20).reassembly(REASSEMBLY).open_blocks(OPEN_BLOCKS);
    let mut inbox = Inbox::new(config.limits);
    let before = NOW.load(Relaxed);
    PEAK.store(before, Relaxed);
    let _closed = attack(&mut inbox);
    let taken = PEAK.load(Relaxed) - before;
    assert!(inbox.held_bytes() <= REASSEMBLY);
    assert!(taken <= BOUND, "{name} took {taken} bytes, more than {BOUND}");
    taken
}

fn header(block: u64, offset: u32, total: u32, previous: Option<u64>) -> Data {
    Data {
        block,
        reliable: true,
        partial: true,
        previous,
        priority: 0,
        offset,
        total: Some(total),
        channel: (block % 1024) as u16,
        left: Some(1 << 40),
        sent: Stamp::at(Time::EPOCH),
    }
}

fn cancel(block: u64, previous: Option<u64>) -> Cancel {
    Cancel { block, reason: CancelReason::Lost, priority: 0, channel: (block % 1024) as u16, previous }
}

#[test]
fn one_byte_of_each_of_many_large_blocks() {
    let taken = measure("large blocks", |inbox| {
        (0..1 << 20).try_for_each(|id| take(inbox, &header(id, 0, 1 << 20, None), &[0]))
    });
    assert!(taken >= REASSEMBLY as usize, "the attack works: {taken}");
}

#[test]
fn whole_blocks_of_every_channel_with_stalls_to_be_reported() {
    let taken = measure("cadences", |inbox| {
        inbox.set_reports_stalls(true);
        (0..1 << 15).try_for_each(|id| {
            let now = 400_000 * (id / 1024);
            inbox.on_data(Time::from_micros(now), PathId(0), Span::ZERO, &header(id, 0, 1, None), &[0])?;
            inbox.watch(Time::from_micros(now));
            inbox.poll();
            Ok(())
        })
    });
    assert!((40 << 10..=192 << 10).contains(&taken), "{taken}");
}

#[test]
fn every_other_byte_of_many_small_blocks() {
    measure("dust", |inbox| {
        for id in 0..OPEN_BLOCKS as u64 {
            for piece in 0..16 {
                let header = header(id, 2 * piece, 100, Some(id.min(1)));
                take(inbox, &header, &[0])?;
            }
        }
        Ok(())
    });
}

#[test]
fn every_other_byte_of_large_blocks() {
    measure("much dust", |inbox| {
        for id in 0..8 {
            for piece in 0..200_000 {
                take(inbox, &header(id, 2 * piece, 1 << 20, None), &[0])?;
            }
        }
        Ok(())
    });
}

#[test]
fn whole_blocks_that_wait_for_one_that_never_comes() {
    measure("waiting blocks", |inbox| {
        (1..1 << 20).try_for_each(|id| take(inbox, &header(id, 0, 1, Some(1)), &[0]))
    });
}

#[test]
fn holes_in_every_channel_with_gaps_and_without() {
    for step in [1, 2] {
        measure("holes", |inbox| {
            (1..1 << 19).try_for_each(|n| inbox.on_cancel(Time::EPOCH, &cancel(step * n, Some(1))))
        });
    }
    measure("holes, one channel after another", |inbox| {
        for start in 0..64 {
            let base = start * 10_000;
            (1..2 * 4000).try_for_each(|n| inbox.on_cancel(Time::EPOCH, &cancel(base + 2 * n, Some(1))))?;
            (0..10_000).try_for_each(|n| inbox.on_cancel(Time::EPOCH, &cancel(base + n, None)))?;
            while inbox.poll().is_some() {}
        }
        Ok(())
    });
}

#[test]
fn cancels_of_all_ids_within_reach() {
    measure("sparse ids", |inbox| {
        (0..1 << 14).try_for_each(|n| inbox.on_cancel(Time::EPOCH, &cancel(64 * n + 63, None)))?;
        (0..1 << 20).try_for_each(|id| inbox.on_cancel(Time::EPOCH, &cancel(id, None)))
    });
}

#[test]
fn ids_that_are_far_ahead() {
    measure("a cancelled id", |inbox| inbox.on_cancel(Time::EPOCH, &cancel(1 << 30, None)));
    measure("a whole block", |inbox| take(inbox, &header(1 << 30, 0, 1, None), &[0]));
}

#[test]
fn blocks_that_grow_and_never_end() {
    for piece in [1, 1100, 100_000] {
        let taken = measure("open blocks", |inbox| {
            inbox.set_in_parts(0, true);
            for at in 0.. {
                let before = inbox.held_bytes();
                for id in 0..64 {
                    let header = Data { total: None, ..header(id, at * piece, 1, None) };
                    take(inbox, &header, &vec![0; piece as usize])?;
                }
                if inbox.held_bytes() <= before || at == 20_000 {
                    break;
                }
            }
            Ok(())
        });
        assert!(piece == 1 || taken >= REASSEMBLY as usize / 2, "the attack works: {taken}");
    }
}

#[test]
fn parity_of_blocks_that_are_never_whole() {
    // With the second kind, parity lacks one of the symbols that the block needs.
    for (size, data, symbols) in [(64, 10, 8), (1024, 256, 255), (1024, 1024, 256), (2, 1, 1)] {
        let taken = measure("parity", |inbox| {
            for id in 0..1 << 14 {
                for index in 0..symbols {
                    let block = header(id, 0, size * data, None);
                    let repair = Repair { block, symbol_size: size, index };
                    inbox.on_repair(Time::EPOCH, PathId(0), Span::ZERO, &repair, &vec![0; size as usize])?;
                }
            }
            Ok(())
        });
        assert!(size == 2 || taken >= REASSEMBLY as usize / 2, "the attack works: {taken}");
    }
}

#[test]
fn parity_of_runs_that_are_never_whole() {
    for (members, size) in [(2, 2), (32, 2), (32, 1024)] {
        let taken = measure("parity of runs", |inbox| {
            for id in 0..1 << 14 {
                let first = 1_000 + members * id;
                let members = (first..first + members).map(|block| Member { block, left: None }).collect();
                let run = RunParity { members, sent: Stamp::at(Time::EPOCH), symbol_size: size, index: 0 };
                inbox.on_run_parity(Time::EPOCH, PathId(0), Span::ZERO, &run, &vec![0; size as usize])?;
                take(inbox, &header(id, 0, 1, None), &[0])?;
                while inbox.poll().is_some() {}
            }
            Ok(())
        });
        // Both kinds of memory for runs, and the record of ended blocks.
        assert!(taken <= 512 << 10, "{taken} for runs of {members} blocks, symbols of {size} bytes");
        assert!(taken >= 64 << 10, "the attack works: {taken}");
    }
}

#[test]
fn corpus_of_runs() {
    let _turn = TURN.lock();
    let mut files = 0;
    for file in std::fs::read_dir(RUNS).expect("is a folder") {
        runs::check(&std::fs::read(file.expect("is there").path()).expect("is read"), || NOW.load(Relaxed));
        files += 1;
    }
    assert!(files > 0);
}

#[test]
fn any_runs() {
    let _turn = TURN.lock();
    for seed in 0..100 {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
        let input: Vec<u8> = (0..random.random_range(4..200)).map(|_| random.random()).collect();
        runs::check(&input, || NOW.load(Relaxed));
    }
}

#[test]
fn a_rebuilt_block() {
    let turn = TURN.lock();
    let data = vec![7; 1 << 20];
    let symbols = parity::encode(&data, 1024).expect("has parity");
    drop(turn);
    let taken = measure("a rebuilt block", |inbox| {
        let block = header(0, 0, 1 << 20, None);
        take(inbox, &block, &data[..768 << 10])?;
        for (index, symbol) in (0..).zip(symbols.chunks(1024)) {
            let repair = Repair { block: block.clone(), symbol_size: 1024, index };
            inbox.on_repair(Time::EPOCH, PathId(0), Span::ZERO, &repair, symbol)?;
        }
        assert_eq!(inbox.rebuilt_blocks(), 1);
        Ok(())
    });
    assert!(taken <= 6 << 20, "the block, its parity, and what rebuilding takes: {taken}");
}

#[test]
fn refusals_without_end() {
    measure("refusals", |inbox| {
        (0..1 << 20).try_for_each(|id| take(inbox, &header(id, 0, 16 << 20, None), &[0]))
    });
}

#[test]
fn anything_at_random() {
    for seed in 0..20 {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
        measure("random items", |inbox| {
            for step in 0..20_000u64 {
                let id = step / 3 + random.random_range(0..50_000);
                // Chunks of one block must agree.
                let previous = (id % 2 == 0).then_some(id.min(2));
                if random.random_bool(0.3) {
                    inbox.on_cancel(Time::EPOCH, &cancel(id, previous))?;
                } else {
                    let total = 1 + (id * 7919 % 9000) as u32;
                    let offset = random.random_range(0..total);
                    let len = random.random_range(1..=total - offset) as usize;
                    let mut header = header(id, offset, total, previous);
                    header.total = header.total.filter(|_| id % 5 != 0);
                    inbox.on_data(
                        Time::from_micros(step),
                        PathId(0),
                        Span::ZERO,
                        &header,
                        &[0; 9000][..len],
                    )?;
                }
                if random.random_bool(0.1) {
                    inbox.poll();
                }
            }
            Ok(())
        });
    }
}
