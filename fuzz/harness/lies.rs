//! Well-formed items with otherwise arbitrary content.

use squall_proto::{
    RateLimit, Role,
    signal::{AlertKind, Time},
    wire::{
        Cancel, CancelReason, Data, Feedback, Item, Member, PathAlert, PathInfo, PathLoss, RefuseReason,
        Repair, RunParity, Sample, Stalled, Stamp,
    },
};
use squall_testkit::Input;

/// Payload of all items; the content of symbols does not matter.
static PAYLOAD: [u8; 1_024] = [7; 1_024];

/// Builds an item with numbers from the input.
pub(super) fn item(input: &mut Input<'_>) -> Item<'static> {
    let kind = input.or_zero();
    let path = u32::from(input.or_zero() % 6);
    let id = if kind & 0x80 == 0 { u64::from(input.or_zero() % 32) } else { input.any_number() };
    match kind % 16 {
        0 => Item::Cancel(Cancel {
            block: id,
            reason: [CancelReason::Cancelled, CancelReason::Expired, CancelReason::Lost][path as usize % 3],
            priority: path as u8,
            channel: u16::from(kind >> 5),
            previous: (kind & 0x10 != 0).then_some(1).filter(|back| *back <= id),
        }),
        1 | 2 => Item::Refused(
            id,
            [RefuseReason::TooLarge, RefuseReason::NoMemory, RefuseReason::TooManyBlocks][path as usize % 3],
        ),
        3..=5 => feedback(id, input),
        6 => Item::Probe(id, stamp(input)),
        7 => Item::ProbeReply(id, stamp(input)),
        8 => {
            let role = Role::ALL[usize::from(kind >> 5) % Role::ALL.len()].1;
            let limit = (kind & 0x40 != 0)
                .then(|| RateLimit { bits_per_second: input.any_number(), burst: input.any_number() });
            Item::PathInfo(PathInfo { path, metered: kind & 0x10 != 0, role, limit, sequence: id })
        }
        9 => {
            let kinds = [AlertKind::Recovery, AlertKind::Warning, AlertKind::Outage];
            let kind = kinds[usize::from(kind >> 4) % kinds.len()];
            let (quality, gap) = (input.number() as u16 % 1_001, input.number() as u16 % 1_001);
            Item::PathAlert(PathAlert { path, kind, quality, gap, sequence: id })
        }
        10 => Item::PathLoss(PathLoss { path, acked: input.any_number(), lost: input.any_number() }),
        11 => Item::Stalled(Stalled { block: id, more: input.any_number() }),
        12 | 13 => repair(id, kind, input),
        14 => run_parity(id, input),
        _ => Item::Rebuilt(id),
    }
}

fn stamp(input: &mut Input<'_>) -> Stamp {
    Stamp::at(Time::from_micros(input.any_number()))
}

fn feedback(sequence: u64, input: &mut Input<'_>) -> Item<'static> {
    let flags = input.or_zero();
    let sample = |input: &mut Input<'_>| Sample {
        path: u32::from(input.or_zero() % 6),
        delay: input.any_number() as u32 & 0xff_ffff,
        departure: (flags & 0x20 != 0).then(|| stamp(input)),
        received: input.any_number() as u32,
    };
    Item::Feedback(Feedback {
        sequence,
        credit: input.any_number(),
        duplicates: input.any_number(),
        expired: input.any_number(),
        samples: (0..flags % 5).map(|_| sample(input)).collect(),
        wanted: (flags & 0x40 != 0).then(|| input.any_number()),
    })
}

fn repair(block: u64, kind: u8, input: &mut Input<'_>) -> Item<'static> {
    let total = 1 + input.number() % 20_000;
    // Valid values: even, at most 1,024 symbols, none beyond the existing parity.
    let symbol_size = (2 + input.number() % 1_022) & !1;
    let data = Data {
        block,
        reliable: kind & 0x10 == 0,
        partial: kind & 0x20 == 0,
        previous: (kind & 0x20 != 0).then_some(0),
        priority: kind >> 5,
        offset: 0,
        total: Some(total),
        channel: u16::from(kind >> 6),
        left: (kind & 0x40 != 0).then(|| input.any_number()),
        sent: stamp(input),
    };
    let index = u32::from(input.or_zero() % 12);
    Item::Repair(Repair { block: data, symbol_size, index }, &PAYLOAD[..symbol_size as usize])
}

fn run_parity(first: u64, input: &mut Input<'_>) -> Item<'static> {
    let (count, symbol_size) = (1 + input.or_zero() % 5, (2 + input.number() % 1_022) & !1);
    let member = |n: u8| Member {
        block: first + u64::from(n) * u64::from(1 + input.or_zero() % 3),
        left: (n.is_multiple_of(2)).then(|| input.any_number()),
    };
    let mut members: Vec<Member> = (0..count).map(member).collect();
    members.sort_by_key(|member| member.block);
    members.dedup_by_key(|member| member.block);
    let index = u32::from(input.or_zero() % 6);
    let sent = stamp(input);
    Item::RunParity(RunParity { members, sent, symbol_size, index }, &PAYLOAD[..symbol_size as usize])
}
