//! Small blocks and the parity of runs, in any number, order and size: memory stays within the
//! bound, and no block arrives twice.

use std::collections::HashSet;

use squall_proto::{
    Config, Limits,
    inbox::{Inbox, InboxEvent},
    parity,
    sched::{MAX_RUN, PathId, Span, Time},
    wire::{Data, Item, Items, Member, RunParity, Stamp},
};

/// Returns limits that short inputs reach.
fn limits() -> Limits {
    Config::default().reassembly(64 << 10).open_blocks(64).limits
}

/// Memory bound of an inbox with these limits in bytes, according to `docs/wire.md`: blocks and
/// growing ones, runs, records, ended ids.
const BOUND: usize = (64 << 10) / 16 * 21 + 2 * (8 << 10) + (64 << 10) + (512 << 10);

/// Panics if the inbox violates a property. `live` returns the allocated bytes of the process.
/// Returns the number of items.
pub(crate) fn check(input: &[u8], live: impl Fn() -> usize) -> u64 {
    // Build the tables of the code, which stay allocated.
    assert!(parity::rebuild(&mut [0; 4], 2, |index| index == 0, [(0, [7, 7].as_slice())]));
    let before = live();
    let mut inbox = Inbox::new(limits());
    let mut arrived = HashSet::new();
    let (mut next, mut items) = (1_u64, 0);
    for op in input.chunks_exact(4) {
        let [kind, a, b, times] = *op else { break };
        for n in 0..u64::from(times) + 1 {
            items += 1;
            let is_closed = match kind & 3 {
                0 => {
                    next += 1 + u64::from(a % 2);
                    let payload = content(next);
                    let header = header(next, payload.len() as u32);
                    inbox.on_data(Time::from_micros(items), PathId(0), Span::ZERO, &header, &payload).is_err()
                }
                1 => {
                    inbox.on_packet();
                    next = next.saturating_sub(u64::from(b));
                    false
                }
                _ => {
                    let members = u64::from(a) % MAX_RUN as u64 + 1;
                    let first = if kind & 4 == 0 { next.saturating_sub(members) } else { next + 50 + 32 * n };
                    let size = 2 * (u32::from(b) + 1);
                    let run = RunParity {
                        members: (0..members).map(|m| Member { block: first + m, left: None }).collect(),
                        sent: Stamp::at(Time::EPOCH),
                        symbol_size: size,
                        index: u32::from(kind >> 3) % 8,
                    };
                    let mut wire = Vec::new();
                    let symbol = vec![kind; size as usize];
                    Item::RunParity(run, &symbol).encode(&mut wire);
                    Items::of(&wire).any(|item| match item {
                        Ok(Item::RunParity(run, payload)) => inbox
                            .on_run_parity(Time::from_micros(items), PathId(0), Span::ZERO, &run, payload)
                            .is_err(),
                        other => panic!("a run that is decoded is {other:?}"),
                    })
                }
            };
            while let Some(event) = inbox.poll() {
                if let InboxEvent::Arrived(block) = event {
                    assert!(arrived.insert(block.id.0), "{:?} arrives twice", block.id);
                }
            }
            while inbox.take_rebuilt().is_some() || inbox.take_refusal().is_some() {}
            let held = live().saturating_sub(before + 16 * arrived.capacity());
            assert!(held <= BOUND, "{held} bytes after {items} items");
            if is_closed {
                return items;
            }
        }
    }
    items
}

fn header(block: u64, total: u32) -> Data {
    Data {
        block,
        reliable: true,
        partial: false,
        previous: None,
        priority: 0,
        offset: 0,
        total: Some(total),
        channel: 5,
        left: None,
        sent: Stamp::at(Time::EPOCH),
    }
}

fn content(block: u64) -> Vec<u8> {
    vec![block as u8; 1 + block as usize % 90]
}
