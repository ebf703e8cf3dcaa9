use squall::sched::{Assignment, BlockId, Forecast};
use squall_units::short::at_us;

use super::*;

const MS: Micros = 1_000;

fn send(at: Micros, block: u64, kind: WorkKind, path: u8, taken: u64) -> DecisionLog {
    let forecast = Some(Forecast { arrives: at_us(at + 20 * MS), due: at_us(at + 300 * MS) });
    let assignment = Assignment {
        block: BlockId(block),
        range: 0..taken as u32,
        kind,
        path: PathId(path),
        reason: "lowest RTT",
        forecast,
    };
    DecisionLog { at, decision: Decision::Send(assignment), taken }
}

fn loss(at: Micros, block: u64) -> LossLog {
    LossLog { at, block: BlockId(block), range: 0..1_000, path: PathId(0), fate: PacketFate::Lost }
}

/// A recorder with a block 4, the seventh of its flow, that entered at 10 ms and has 300 ms.
fn recorder() -> (Recorder, Arc<Reasons>) {
    let (recorder, reasons) = (Recorder::new(Clock::start(), 1), Arc::default());
    recorder.begin(&reasons, (Class::Key, 10 * MS, 300 * MS), 7, 4);
    lock(&recorder.state).names.insert(PathId(0), "wlan0".into());
    (recorder, reasons)
}

fn end(recorder: &Recorder, outcome: Outcome, at: Micros) {
    lock(&recorder.state).finish(Ended { block: 4, outcome, at, bytes: 5_000 });
}

#[test]
fn decisions_and_losses_of_a_block_are_in_order() {
    let (recorder, reasons) = recorder();
    let decisions = vec![
        send(2 * MS, 4, WorkKind::Fresh, 0, 4_000),
        send(3 * MS, 4, WorkKind::Fresh, 1, 1_000),
        send(50 * MS, 4, WorkKind::Repair, 1, 1_000),
    ];
    // Times of the session count from 10 ms.
    lock(&recorder.state).add(10 * MS, decisions, vec![loss(40 * MS, 4), loss(41 * MS, 5)]);
    end(&recorder, Outcome::Expired, 310 * MS);
    let stories = reasons.stories();
    let [story] = &stories[..] else { panic!("{stories:?}") };
    let steps: Vec<_> = story.steps.iter().map(|step| (step.at_us / MS, &*step.what, &*step.path)).collect();
    let expected =
        [(2, "fresh", "wlan0"), (3, "fresh", "path 1"), (40, "lost", "wlan0"), (50, "repair", "path 1")];
    assert_eq!(steps, expected);
    assert_eq!((story.block, &*story.outcome, story.took_us), (Some(7), "expired", 300 * MS));
    assert_eq!(story.steps[0].expected_us, Some(22 * MS));
    let (shares, stories) = reasons.shares(310 * MS);
    let shares: Vec<_> = shares.iter().map(|share| (&*share.path, &*share.kind, share.bytes)).collect();
    assert_eq!(shares, [("wlan0", "fresh", 4_000), ("path 1", "fresh", 1_000), ("path 1", "repair", 1_000)]);
    assert_eq!(stories, 1);
}

#[test]
fn a_decision_may_come_before_its_block_is_known() {
    let (recorder, reasons) = recorder();
    lock(&recorder.state).add(0, vec![send(12 * MS, 9, WorkKind::Fresh, 0, 500)], Vec::new());
    recorder.begin(&reasons, (Class::Data, 11 * MS, 300 * MS), 8, 9);
    lock(&recorder.state).add(0, vec![send(13 * MS, 9, WorkKind::Copy, 0, 500)], Vec::new());
    assert_eq!(reasons.shares(0).0.len(), 2);
    // Decisions about blocks that are never registered, such as messages between the tunnels, are dropped.
    lock(&recorder.state).add(0, vec![send(14 * MS, 77, WorkKind::Fresh, 0, 500)], Vec::new());
    lock(&recorder.state).add(0, Vec::new(), Vec::new());
    assert!(lock(&recorder.state).early.is_empty());
}

#[test]
fn only_slow_and_undelivered_blocks_have_stories() {
    for (at, outcome) in [(100, None), (200, Some("slow")), (400, Some("late"))] {
        let (recorder, reasons) = recorder();
        lock(&recorder.state).one_way = 20 * MS;
        end(&recorder, Outcome::Delivered, at * MS);
        assert_eq!(reasons.stories().first().map(|story| &*story.outcome), outcome, "{at} ms");
        assert!(lock(&recorder.state).open.is_empty());
    }
}

#[test]
fn open_blocks_are_bounded() {
    let (recorder, reasons) = recorder();
    for block in 0..2 * MAX_OPEN as u64 {
        recorder.begin(&reasons, (Class::Data, 0, 300 * MS), block, 100 + block);
    }
    assert_eq!(lock(&recorder.state).open.len(), MAX_OPEN);
    recorder.close();
    for block in 0..2 * MAX_OPEN as u64 {
        recorder.end(100 + block, Outcome::Closed, None, 10);
    }
    assert_eq!(lock(&recorder.state).open.len(), 1, "that without an end");
}
