//! RAS.

use proptest::{collection::vec, prelude::*};
use squall_sched::{PathState, WorkKind};
use squall_units::short::{ms, us};

use super::dems::bytes;
use crate::stage::{CHUNK, Packet, Stage, Wanted, block};

fn due(len: u32, ms: u64, priority: u8) -> Wanted {
    Wanted { deadline: Some(ms), priority, ..block(len) }
}

fn unreliable(len: u32, ms: u64) -> Wanted {
    Wanted { reliable: false, ..due(len, ms, 7) }
}

/// Returns the time that the path takes for a packet, in microseconds.
fn packet_time(stage: &mut Stage, path: u8) -> u64 {
    u64::from(CHUNK) * 8_000_000 / stage.path(path).bandwidth
}

fn busy(stage: &mut Stage, path: u8) -> u64 {
    let view = stage.path(path);
    view.waiting * 8_000_000 / view.bandwidth
}

#[test]
fn reliable_blocks_arrive_over_both_paths_at_once() {
    // Like DEMS: 87.5 and 12.5 kB of 100.
    let mut stage = Stage::paced("ras", &[(20_000, 15), (10_000, 40)]);
    let block = stage.hand_over(due(100_000, 300, 0));
    let sent = bytes(&stage.send_all());
    assert!(sent[&(block, 0)].abs_diff(87_500) <= CHUNK, "{sent:?}");
    assert_eq!(sent[&(block, 0)] + sent[&(block, 1)], 100_000);
}

#[test]
fn a_warned_path_counts_for_less() {
    // F = 0.5 on the fast path: 1.25·(T − 15) + 1.25·(T − 40) = 100  ⇒  T = 67.5 ms: 65.6 and 34.4 kB.
    let mut stage = Stage::paced("ras", &[(20_000, 15), (10_000, 40)]);
    stage.path(0).factor = 0.5;
    let block = stage.hand_over(due(100_000, 300, 0));
    let sent = bytes(&stage.send_all());
    assert!(sent[&(block, 0)].abs_diff(65_625) <= CHUNK, "{sent:?}");
}

#[test]
fn a_deactivated_path_carries_nothing() {
    let mut stage = Stage::paced("ras", &[(20_000, 15), (10_000, 40)]);
    stage.path(0).state = PathState::Deactivated;
    stage.path(0).usable = false;
    stage.hand_over(due(100_000, 300, 0));
    stage.hand_over(unreliable(10_000, 300));
    assert!(stage.send_all().iter().all(|p| p.path == 1));
}

#[test]
fn urgent_blocks_go_first_and_so_do_important_ones() {
    let mut stage = Stage::paced("ras", &[(10_000, 10)]);
    // 10 Mbps, alone on the path: Gbw = 10 − 8·len/Trsd. A: 8·60 kb / 90 ms = 5.33 Mbps, so weight
    // 0.5·0.467 + 0.5·1 = 0.73. B: 8·10 / 190 = 0.42, weight 0.5·0.958 + 0.5·1 = 0.98. C: the same as B with
    // priority 0: 0.48.
    let a = stage.hand_over(due(60_000, 100, 4));
    let b = stage.hand_over(due(10_000, 200, 4));
    let c = stage.hand_over(due(10_000, 200, 0));
    let mut order: Vec<_> = stage.send_all().iter().map(|p| p.block).collect();
    order.dedup();
    assert_eq!(order, [c, a, b]);
}

#[test]
fn alpha_decides_between_urgency_and_priority() {
    for (scheduler, urgent_first) in [("ras(alpha=1)", true), ("ras(alpha=0)", false)] {
        let mut stage = Stage::paced(scheduler, &[(10_000, 10)]);
        let urgent = stage.hand_over(due(60_000, 100, 4));
        let important = stage.hand_over(due(10_000, 200, 0));
        let first = stage.send().expect("room").block;
        assert_eq!(first, if urgent_first { urgent } else { important }, "{scheduler}");
    }
}

/// Returns the blocks in the order of their first packets.
fn order(stage: &mut Stage) -> Vec<squall_sched::BlockId> {
    let mut order = Vec::new();
    for packet in stage.send_all() {
        if !order.contains(&packet.block) {
            order.push(packet.block);
        }
    }
    order
}

#[test]
fn a_block_that_is_half_sent_goes_before_a_whole_one_of_the_same_gap() {
    let mut stage = Stage::paced("ras(alpha=1)", &[(10_000, 10)]);
    let half = stage.hand_over(due(34 * CHUNK, 200, 0));
    (0..17).for_each(|_| assert!(stage.send().is_some_and(|packet| packet.block == half)));
    // 20.4 kB are left of both: Gbw = 10 − 8·20.4/190 = 9.14 and 10 − 8·20.4/189 = 9.14; R = 0.5 and 1.
    let whole = stage.hand_over(due(17 * CHUNK, 199, 0));
    assert_eq!(order(&mut stage), [half, whole]);
}

#[test]
fn priorities_count_by_the_lowest_that_waits() {
    let mut stage = Stage::paced("ras", &[(10_000, 10)]);
    // Gbw of 0.67 and 9.84 of 10 Mbps: 0.5·0.067 + 0.5·2/2 = 0.53, and 0.5·0.984 = 0.49. With P/7 it would be 0.18.
    let unimportant = stage.hand_over(due(105_000, 100, 2));
    let important = stage.hand_over(due(10_000, 500, 0));
    assert_eq!(order(&mut stage), [important, unimportant]);
}

#[test]
fn the_gap_is_that_of_the_path_where_bandwidth_is_scarcest() {
    let mut stage = Stage::paced("ras(alpha=1)", &[(20_000, 10), (10_000, 40)]);
    // The first alone: 20 − 8·54/30 = 5.6 Mbps.
    let alone = stage.hand_over(due(54_000, 40, 0));
    // 91.7 and 8.3 kB: 20 − 8·91.7/50 = 5.3 and 10 − 8·8.3/20 = 6.7, whose mean would be 6.0.
    let both = stage.hand_over(due(100_000, 60, 0));
    assert_eq!(order(&mut stage), [both, alone]);
}

#[test]
fn a_warned_path_leaves_more_for_the_others_to_carry() {
    let mut stage = Stage::paced("ras(alpha=1)", &[(20_000, 40), (10_000, 10)]);
    stage.path(0).factor = 0.5;
    // The second alone: 10 − 8·22.5/30 = 4.0 Mbps.
    let alone = stage.hand_over(due(22_500, 40, 0));
    // With F = 0.5 81 and 119 kB: 10 − 8·119/140 = 3.2 on the second. Without it would be 4.8 with 92 kB.
    let both = stage.hand_over(due(200_000, 150, 0));
    assert_eq!(order(&mut stage), [both, alone]);
}

#[test]
fn a_block_that_cannot_make_it_is_postponed() {
    let mut stage = Stage::paced("ras", &[(10_000, 10)]);
    // 100 kB until 60 ms need 16 Mbps.
    let hopeless = stage.hand_over(due(100_000, 60, 0));
    let modest = stage.hand_over(due(20_000, 500, 7));
    let mut order: Vec<_> = stage.send_all().iter().map(|p| p.block).collect();
    order.dedup();
    assert_eq!(order, [modest, hopeless]);
}

#[test]
fn without_residual_time_a_block_is_cancelled() {
    let mut stage = Stage::paced("ras", &[(10_000, 10), (10_000, 40)]);
    let gone = [stage.hand_over(due(5_000, 10, 0)), stage.hand_over(unreliable(5_000, 9))];
    stage.hand_over(due(5_000, 30, 0));
    assert!(stage.send_all().iter().all(|p| p.path == 0), "the slow path is too far for what is left");
    assert_eq!(stage.cancelled, [gone[1], gone[0]]);
}

#[test]
fn unreliable_data_goes_into_the_hole_of_the_slow_path() {
    // The fast path sends its 87.5 kB in 35 ms, the slow one its 12.5 kB in 10: a hole of 25 ms, 31.25 kB.
    let mut stage = Stage::paced("ras", &[(20_000, 15), (10_000, 40)]);
    let first = stage.hand_over(due(100_000, 300, 0));
    let second = stage.hand_over(due(100_000, 310, 0));
    let filler = stage.hand_over(unreliable(200_000, 300));
    let sent = stage.send_all();
    let before_second = sent.iter().take_while(|p| p.block != second || p.path == 0);
    let before_second: Vec<Packet> = before_second.cloned().collect();
    let sums = bytes(&before_second);
    assert!(sums[&(filler, 1)].abs_diff(31_250) <= CHUNK, "{sums:?}");
    assert!(sums[&(first, 1)].abs_diff(12_500) <= CHUNK, "{sums:?}");
    assert!(sent.iter().all(|p| p.block != filler || p.path == 1), "never on the fast path");
}

#[test]
fn without_unreliable_data_there_is_no_hole() {
    let division = |scheduler: &str| {
        let mut stage = Stage::paced(scheduler, &[(20_000, 15), (10_000, 40)]);
        stage.hand_over(due(100_000, 300, 0));
        stage.hand_over(due(100_000, 310, 0));
        bytes(&stage.send_all())
    };
    assert_eq!(division("ras"), division("dems"), "the slow path begins with the next block at once");
}

#[test]
fn the_fast_path_takes_unreliable_data_only_if_the_slow_one_is_too_far() {
    let mut stage = Stage::paced("ras", &[(20_000, 15), (10_000, 40)]);
    stage.hand_over(unreliable(3_000, 100));
    assert!(stage.send_all().iter().all(|p| p.path == 1));
    let near = stage.hand_over(unreliable(3_000, 35));
    let sent = stage.send_all();
    assert!(sent.iter().all(|p| (p.block, p.path) == (near, 0)), "{sent:?}");
    stage.path(0).window = stage.path(0).in_flight + 5 * u64::from(CHUNK);
    stage.hand_over(due(200_000, 300, 0));
    let near = stage.hand_over(unreliable(3_000, 35));
    assert!(stage.send_all().iter().all(|p| p.block != near), "not while reliable bytes wait");
}

#[test]
fn on_the_last_path_unreliable_data_waits_for_the_reliable() {
    let mut stage = Stage::paced("ras", &[(10_000, 15)]);
    let first = stage.hand_over(unreliable(6_000, 300));
    let second = stage.hand_over(due(6_000, 300, 7));
    let order: Vec<_> = stage.send_all().iter().map(|p| p.block).collect();
    assert_eq!(order[..5], [second; 5]);
    assert!(order[5..].iter().all(|b| *b == first));
}

#[test]
fn bytes_on_a_path_that_died_are_sent_once_more_after_the_rest() {
    let mut stage = Stage::paced("ras", &[(20_000, 15), (10_000, 40)]);
    let saved = stage.hand_over(due(48_000, 300, 0));
    let lost_cause = stage.hand_over(due(12_000, 60, 0));
    let gone = stage.hand_over(unreliable(2_400, 300));
    let before = stage.send_all();
    assert!(before.iter().filter(|p| p.block != gone).all(|p| p.path == 0), "{before:?}");
    stage.elapse(ms(30));
    let next = stage.hand_over(due(3_000, 300, 7));
    stage.lose_path(0);
    let after = stage.send_all();
    assert_eq!(after[..3].iter().map(|p| p.block).collect::<Vec<_>>(), [next; 3], "new data first");
    let again = &after[3..];
    assert_eq!(again.iter().map(Packet::len).sum::<u32>(), 48_000);
    for packet in again {
        assert_eq!((packet.block, packet.path, packet.kind), (saved, 1, WorkKind::Copy));
    }
    assert!(again.iter().all(|p| p.block != lost_cause), "its deadline cannot be met there");
}

#[test]
fn stranded_bytes_go_before_unreliable_data_that_waits() {
    let mut stage = Stage::paced("ras", &[(20_000, 15), (10_000, 40)]);
    let saved = stage.hand_over(due(48_000, 400, 0));
    let before = stage.send_all();
    assert!(before.iter().all(|p| p.path == 0));
    stage.path(1).window = 10 * u64::from(CHUNK);
    stage.lose_path(0);
    let filler = stage.hand_over(unreliable(200_000, 400));
    let mut sent = stage.send_all();
    while sent.len() < 60 {
        stage.elapse(ms(1));
        let packet = sent.last().cloned().expect("something is sent");
        stage.arrive(&packet);
        sent.extend(stage.send_all());
    }
    let blocks: Vec<_> = sent.iter().map(|p| p.block).collect();
    assert_eq!(blocks[..40], [saved; 40]);
    assert!(blocks[40..].iter().all(|block| *block == filler));
}

#[test]
fn what_cannot_be_whole_in_time_is_neither_reinjected_nor_repaired() {
    let mut stage = Stage::paced("ras", &[(20_000, 15), (10_000, 40)]);
    // The second path delivers 1.25·(120 − 40) = 100 kB until 120 ms, slightly less with each
    // packet.
    let lost_cause = stage.hand_over(due(101_000, 120, 0));
    let saved = stage.hand_over(due(30_000, 400, 0));
    stage.path(1).usable = false;
    assert_eq!(stage.send_all().iter().map(Packet::len).sum::<u32>(), 131_000);
    stage.path(1).usable = true;
    stage.lose_path(0);
    let sent = stage.send_all();
    assert!(sent.iter().all(|p| p.block == saved && p.kind == WorkKind::Copy), "{sent:?}");
    assert_eq!(sent.iter().map(Packet::len).sum::<u32>(), 30_000);
    assert!(stage.cancelled.is_empty(), "it may still arrive");
    stage.suspect(0);
    assert_eq!(stage.send_all(), []);
    assert_eq!(stage.cancelled, [lost_cause]);
}

#[test]
fn what_is_stranded_twice_is_reinjected_twice() {
    let mut stage = Stage::paced("ras", &[(20_000, 15), (10_000, 40), (10_000, 60)]);
    let saved = stage.hand_over(due(24_000, 500, 0));
    assert!(stage.send_all().iter().all(|p| p.path == 0));
    for (dead, next) in [(0, 1), (1, 2)] {
        stage.lose_path(dead);
        let again = stage.send_all();
        assert_eq!(again.iter().map(Packet::len).sum::<u32>(), 24_000);
        assert!(again.iter().all(|p| (p.block, p.path, p.kind) == (saved, next, WorkKind::Copy)));
    }
}

#[test]
fn of_those_that_cannot_make_it_the_nearest_goes_first() {
    let mut stage = Stage::paced("ras", &[(10_000, 10)]);
    // Until 60 ms 62.5 kB: they lack 237.5 and 7.5 kB.
    let far = stage.hand_over(due(300_000, 60, 0));
    let near = stage.hand_over(due(70_000, 60, 7));
    let mut order: Vec<_> = stage.send_all().iter().map(|p| p.block).collect();
    order.dedup();
    assert_eq!(order, [near, far]);
}

#[test]
fn spilling_data_takes_the_fast_path_when_it_is_there_sooner() {
    let division = |scheduler| {
        let mut stage = Stage::paced(scheduler, &[(20_000, 15), (5_000, 60)]);
        let block = stage.hand_over(unreliable(60_000, 500));
        let sent = bytes(&stage.send_all());
        [0, 1].map(|path| sent.get(&(block, path)).copied().unwrap_or(0))
    };
    // By the paper only as much as the slow path takes now, and nothing on the fast one while that
    // suffices.
    let [fast, slow] = division("ras");
    assert!(fast == 0 && slow > 0, "{fast} {slow}");
    // 60 kB arrive after 39 ms on the fast path, 156 ms on the slow one.
    let [fast, slow] = division("ras(spill=true)");
    assert!(fast >= 30_000 && fast > slow, "{fast} {slow}");
    // While reliable bytes wait it has no effect.
    let mut stage = Stage::paced("ras(spill=true)", &[(20_000, 15), (5_000, 60)]);
    stage.path(0).window = 5 * u64::from(CHUNK);
    stage.hand_over(due(100_000, 400, 0));
    let filler = stage.hand_over(unreliable(60_000, 400));
    assert!(stage.send_all().iter().all(|p| p.block != filler || p.path == 1));
}

#[derive(Clone, Debug)]
enum Step {
    HandOver(Wanted),
    Elapse(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let wanted = (1..60_000u32, 50..400u64, 0..8u8, any::<bool>());
    prop_oneof![
        wanted.prop_map(|(len, ms, priority, reliable)| {
            Step::HandOver(Wanted { reliable, ..due(len, ms, priority) })
        }),
        (1..30_000u64).prop_map(Step::Elapse),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// An injection ends at most a packet after its time hole: when the busiest path has finished,
    /// or, while no reliable bytes wait, when as much is queued in advance as the delays differ by,
    /// or a packet if that is more.
    #[test]
    fn a_time_hole_is_overrun_by_a_packet_at_most(
        fast in (2_000..40_000u64, 1..30u64),
        slow in (2_000..40_000u64, 30..90u64),
        steps in vec(step(), 1..40),
    ) {
        let mut stage = Stage::paced("ras", &[fast, slow]);
        for step in steps {
            match step {
                Step::HandOver(wanted) => drop(stage.hand_over(wanted)),
                Step::Elapse(time) => stage.elapse(us(time)),
            }
            while let Some(packet) = stage.send() {
                let is_reliable = stage.queue.get(packet.block).is_some_and(|b| b.meta().reliable);
                if is_reliable || packet.path == 0 {
                    continue;
                }
                let others = busy(&mut stage, 0);
                let packet = packet_time(&mut stage, 1);
                let ahead = packet.max((slow.1 - fast.1) * 1000);
                let end = busy(&mut stage, 1);
                let waits = stage.queue.reliable_by_deadline().map(|b| u64::from(b.unsent_bytes())).sum::<u64>();
                // The fast path's backlog keeps it busy too.
                let backlog = waits * 8_000_000 / stage.path(0).bandwidth;
                let hole = (others + backlog).max(ahead);
                prop_assert!(end <= hole + packet + 1, "{end} µs in a hole of {hole} µs");
            }
        }
    }
}
