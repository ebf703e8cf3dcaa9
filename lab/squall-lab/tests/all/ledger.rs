//! Compares the session's ledger with the emulator's own log: path and outcome of every packet,
//! with reordering, loss, duplication and a rebinding.

use std::collections::{BTreeMap, BTreeSet};

use squall_lab::world::{Side, UDP_OVERHEAD};
use squall_net::{Direction, log};
use squall_proto::{
    Block, BlockOptions, CongestionControl, Outcome, PacketFate, PacketLog, PathStats, Reasons,
    sched::{Decision, PathId, WorkKind},
};
use squall_trace::Micros;

use crate::stage::{Stage, plain};

const PATHS: [&str; 2] = [
    "name='a'\nrate='12mbps'\ndelay='15ms'\nloss='2%'\nduplicate='1%'\n\
     jitter={uniform='2ms', reorder=true}\nevents=[{at='4s', rebind=true}]",
    "name='b'\nrate='8mbps'\ndelay='40ms'\nloss='1%/4'\nduplicate='2%'\njitter={uniform='3ms', reorder=true}",
];
const SIZE: u32 = 30_000;
/// Number of blocks, sent every 33 ms: ten seconds of video.
const BLOCKS: u32 = 300;
const REBINDING: Micros = 4_000_000;

/// The emulator's record of a packet.
#[derive(Debug, Default)]
struct Seen {
    at: Micros,
    size: u32,
    delivered: Vec<Micros>,
    dropped: bool,
}

#[test]
fn the_ledger_agrees_with_the_emulators_log() {
    for seed in 1..=3 {
        compare(seed);
    }
}

fn compare(seed: u64) {
    // CUBIC reacts to the losses of the first path, so that both paths carry blocks.
    let cubic = plain().congestion(CongestionControl::CUBIC);
    let mut stage = Stage::with(&PATHS, seed, cubic.clone(), cubic);
    stage.world.session(Side::Server).unwrap().keep_packets(true);
    stage.world.session(Side::Server).unwrap().keep_reasons(true);
    for path in 0..2 {
        stage.world.network.keep_records(path, Direction::Down, true);
    }
    for i in 0..BLOCKS {
        let options = BlockOptions::new().reliable(i % 3 != 0);
        stage.send(Side::Server, Block::with(vec![i as u8; SIZE as usize], options));
        stage.run_for(33_000);
    }
    stage.run_for(3_000_000);
    let log = stage.world.session(Side::Server).unwrap().take_packets();
    let reasons = stage.world.session(Side::Server).unwrap().take_reasons();
    compare_reasons(&reasons, &log, &stage.path_stats(Side::Server));
    for path in 0..2 {
        let records = stage.world.network.drain_records(path, Direction::Down);
        let own: Vec<&PacketLog> = log.iter().filter(|l| l.path == path as u32).collect();
        compare_path(path, &own, &by_number(&records));
    }
    check_fates(&stage);
}

/// Checks that the reasons account for all bytes sent and all losses.
fn compare_reasons(reasons: &Reasons, log: &[PacketLog], paths: &[PathStats]) {
    let taken = |kind: WorkKind| {
        let bytes = reasons.decisions.iter().map(|entry| match &entry.decision {
            Decision::Send(assignment) if assignment.kind == kind => entry.taken,
            _ => 0,
        });
        bytes.sum::<u64>()
    };
    let sent = |bytes: fn(&PathStats) -> u64| paths.iter().map(bytes).sum::<u64>();
    // Few bytes were assigned to a path but not sent because the block had ended.
    for (taken, sent) in [
        (taken(WorkKind::Fresh), sent(|path| path.fresh_bytes)),
        (taken(WorkKind::Repair), sent(|path| path.repair_bytes)),
    ] {
        assert!(
            sent > 0 && (sent..=sent + u64::from(SIZE)).contains(&taken),
            "{taken} bytes taken, {sent} sent"
        );
    }
    let lost = |entry: &&PacketLog| {
        let is_data = entry.chunk.as_ref().is_some_and(|chunk| !chunk.kind.is_parity());
        matches!(entry.fate, PacketFate::Lost | PacketFate::Unknown) && is_data
    };
    assert_eq!(reasons.losses.len(), log.iter().filter(lost).count());
}

fn by_number(records: &[log::Record]) -> BTreeMap<u64, Seen> {
    let mut seen: BTreeMap<u64, Seen> = BTreeMap::new();
    for record in records {
        match record.event {
            log::Event::Push { number, size } => {
                seen.insert(number, Seen { at: record.at, size, ..Seen::default() });
            }
            log::Event::Deliver { number, .. } => {
                if let Some(packet) = seen.get_mut(&number) {
                    packet.delivered.push(record.at);
                }
            }
            log::Event::Drop { number, .. } => {
                if let Some(packet) = seen.get_mut(&number) {
                    packet.dropped = true;
                }
            }
            _ => {}
        }
    }
    seen
}

fn compare_path(path: usize, log: &[&PacketLog], seen: &BTreeMap<u64, Seen>) {
    let mut pushes = seen.values().peekable();
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let mut sent: BTreeMap<u64, Option<&Seen>> = BTreeMap::new();
    for entry in log.iter().filter(|l| l.fate == PacketFate::Sent && l.bytes > 0) {
        // The ledger contains only ack-eliciting packets, the emulator all of them; both are in the
        // order of departure.
        let size = usize::from(entry.bytes) + UDP_OVERHEAD;
        while pushes
            .peek()
            .is_some_and(|p| p.at < entry.at.micros() || p.at == entry.at.micros() && p.size as usize != size)
        {
            pushes.next();
        }
        let push = pushes.next_if(|p| p.at == entry.at.micros());
        if push.is_none() {
            // Sent to a port that the NAT had just released.
            assert!(
                (REBINDING..REBINDING + 200_000).contains(&entry.at.micros()),
                "path {path}: {entry:?} never left"
            );
        }
        assert!(sent.insert(entry.packet, push).is_none(), "packet {} twice", entry.packet);
        // Only data queued for the path that moved may leave elsewhere; the ledger shows the path.
        let stray = entry.chunk.as_ref().is_some_and(|chunk| chunk.meant != PathId(path as u8));
        assert!(
            !stray || (REBINDING..REBINDING + 300_000).contains(&entry.at.micros()),
            "{entry:?} on path {path}"
        );
    }
    let mut ended = BTreeSet::new();
    for entry in log.iter().filter(|l| l.fate != PacketFate::Sent) {
        // Sent before logging began.
        if sent.first_key_value().is_some_and(|(first, _)| entry.packet < *first) {
            continue;
        }
        let push = sent[&entry.packet];
        assert!(ended.insert(entry.packet), "packet {} has two outcomes", entry.packet);
        let arrived = push.is_some_and(|p| p.delivered.first().is_some_and(|at| *at < entry.at.micros()));
        let what = match (entry.fate, arrived) {
            (PacketFate::Acked, true) => "acked",
            (PacketFate::Acked, false) => panic!("path {path}: {entry:?} acknowledged, but {push:?}"),
            (PacketFate::Lost, false) => "lost",
            (PacketFate::Lost, true) => "spurious",
            (PacketFate::Unknown, _) => {
                assert!((REBINDING..REBINDING + 300_000).contains(&entry.at.micros()), "{entry:?}");
                "unknown"
            }
            (PacketFate::Sent, _) => unreachable!("filtered above"),
        };
        *counts.entry(what).or_default() += 1;
    }
    println!("path {path}: {} packets, {counts:?}", sent.len());
    let open: Vec<_> =
        log.iter().filter(|l| l.fate == PacketFate::Sent && !ended.contains(&l.packet)).collect();
    assert!(open.is_empty(), "every packet has a outcome, but {open:?}");
    let dropped = sent.values().flatten().filter(|p| p.delivered.is_empty()).count() as u64;
    assert!(dropped >= 10, "the test is about losses");
    let count = |what| counts.get(what).copied().unwrap_or(0);
    let none = sent.values().filter(|p| p.is_none()).count() as u64;
    assert!(count("lost") + count("unknown") >= dropped);
    assert!(count("lost") <= dropped + none);
    // Reordering by a few milliseconds must not be mistaken for loss.
    assert!(count("spurious") * 100 <= 3 * sent.len() as u64, "{counts:?}");
    assert_eq!(count("unknown") > 0, path == 0, "only the path that moved has unknown fates");
}

/// Checks that every block has one outcome at its sender, consistent with its acknowledged bytes
/// and with the receiver.
fn check_fates(stage: &Stage) {
    let outcomes = stage.outcomes(Side::Server);
    assert_eq!(outcomes.len(), BLOCKS as usize);
    let mut delivered = BTreeSet::new();
    for (id, outcome) in &outcomes {
        match outcome {
            Outcome::Delivered { over, .. } => {
                assert_eq!(over.iter().map(|(_, bytes)| bytes).sum::<u32>(), SIZE);
                delivered.insert(*id);
            }
            Outcome::Lost { acked } => assert!(*acked < SIZE && id.0 % 3 == 0),
            other => panic!("{id}: {other:?}"),
        }
    }
    let received: BTreeSet<_> = stage.received(Side::Client).map(|b| b.id).collect();
    assert!(received.is_superset(&delivered));
    // The sender may miss that an unreliable block is complete, because a packet was late and
    // declared lost, or was on the path that moved. A reliable block is repaired until its delivery
    // is confirmed.
    assert!(received.difference(&delivered).all(|id| id.0 % 3 == 0));
    for block in stage.received(Side::Client) {
        assert!(block.data.iter().all(|b| *b == block.id.0 as u8));
    }
}
