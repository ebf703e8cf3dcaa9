use squall::sched::{Assignment, BlockId, Forecast};
use squall_units::short::{at_ms, ms};

use super::*;

fn send(at: u64, block: u64, kind: WorkKind, path: u8, taken: u64) -> DecisionLog {
    let forecast = Some(Forecast { arrives: at_ms(at + 20), due: at_ms(at + 300) });
    let assignment = Assignment {
        block: BlockId(block),
        range: 0..taken as u32,
        kind,
        path: PathId(path),
        reason: "lowest RTT",
        forecast,
    };
    DecisionLog { at: at_ms(at), decision: Decision::Send(assignment), taken }
}

fn loss(at: u64, block: u64) -> LossLog {
    LossLog { at: at_ms(at), block: BlockId(block), range: 0..1_000, path: PathId(0), fate: PacketFate::Lost }
}

/// Returns a recorder with a block 4, the seventh of its flow, that entered at 10 ms and has a
/// latency of 300 ms.
fn recorder() -> (Recorder, Arc<Reasons>) {
    let (recorder, reasons) = (Recorder::new(Clock::start(), 1), Arc::default());
    recorder.begin(&reasons, (Class::Key, at_ms(10), ms(300)), 7, 4);
    lock(&recorder.state).names.insert(PathId(0), "wlan0".into());
    (recorder, reasons)
}

fn end(recorder: &Recorder, outcome: Outcome, at: u64) {
    lock(&recorder.state).finish(Ended { block: 4, outcome, at: at_ms(at), bytes: 5_000 });
}

#[test]
fn decisions_and_losses_of_a_block_are_in_order() {
    let (recorder, reasons) = recorder();
    let decisions = vec![
        send(2, 4, WorkKind::Fresh, 0, 4_000),
        send(3, 4, WorkKind::Fresh, 1, 1_000),
        send(50, 4, WorkKind::Repair, 1, 1_000),
    ];
    // Times of the session are relative to 10 ms.
    lock(&recorder.state).add(ms(10), decisions, vec![loss(40, 4), loss(41, 5)]);
    end(&recorder, Outcome::Expired, 310);
    let stories = reasons.stories();
    let [story] = &stories[..] else { panic!("{stories:?}") };
    let steps: Vec<_> =
        story.steps.iter().map(|step| (step.at_us / 1_000, &*step.what, &*step.path)).collect();
    let expected =
        [(2, "fresh", "wlan0"), (3, "fresh", "path 1"), (40, "lost", "wlan0"), (50, "repair", "path 1")];
    assert_eq!(steps, expected);
    assert_eq!((story.block, &*story.outcome, story.took_us), (Some(7), "expired", 300_000));
    assert_eq!(story.steps[0].expected_us, Some(22_000));
    let (shares, stories) = reasons.shares(at_ms(310));
    let shares: Vec<_> = shares.iter().map(|share| (&*share.path, &*share.kind, share.bytes)).collect();
    assert_eq!(shares, [("wlan0", "fresh", 4_000), ("path 1", "fresh", 1_000), ("path 1", "repair", 1_000)]);
    assert_eq!(stories, 1);
}

#[test]
fn a_decision_may_come_before_its_block_is_known() {
    let (recorder, reasons) = recorder();
    lock(&recorder.state).add(ms(0), vec![send(12, 9, WorkKind::Fresh, 0, 500)], Vec::new());
    recorder.begin(&reasons, (Class::Data, at_ms(11), ms(300)), 8, 9);
    lock(&recorder.state).add(ms(0), vec![send(13, 9, WorkKind::Copy, 0, 500)], Vec::new());
    assert_eq!(reasons.shares(at_ms(0)).0.len(), 2);
    // Decisions about blocks that are never registered, such as messages between the tunnels, are dropped.
    lock(&recorder.state).add(ms(0), vec![send(14, 77, WorkKind::Fresh, 0, 500)], Vec::new());
    lock(&recorder.state).add(ms(0), Vec::new(), Vec::new());
    assert!(lock(&recorder.state).early.is_empty());
}

#[test]
fn only_slow_and_undelivered_blocks_have_stories() {
    for (at, outcome) in [(100, None), (200, Some("slow")), (400, Some("late"))] {
        let (recorder, reasons) = recorder();
        lock(&recorder.state).one_way = ms(20);
        end(&recorder, Outcome::Delivered, at);
        assert_eq!(reasons.stories().first().map(|story| &*story.outcome), outcome, "{at} ms");
        assert!(lock(&recorder.state).open.is_empty());
    }
}

#[test]
fn open_blocks_are_bounded() {
    let (recorder, reasons) = recorder();
    for block in 0..2 * MAX_OPEN as u64 {
        recorder.begin(&reasons, (Class::Data, at_ms(0), ms(300)), block, 100 + block);
    }
    assert_eq!(lock(&recorder.state).open.len(), MAX_OPEN);
    recorder.close();
    for block in 0..2 * MAX_OPEN as u64 {
        recorder.end(100 + block, Outcome::Closed, None, 10);
    }
    assert_eq!(lock(&recorder.state).open.len(), 1, "that without an end");
}
