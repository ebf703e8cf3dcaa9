//! DAMS, DAMS-C, DAMS-Robust.

use proptest::{collection::vec, prelude::*};
use squall_sched::{BlockId, capacity};
use squall_units::short::{at_ms, ms, us};

use super::dems::bytes;
use crate::stage::{CHUNK, Packet, Stage, Wanted, block};

fn due(len: u32, ms: u64, priority: u8) -> Wanted {
    Wanted { deadline: Some(ms), priority, ..block(len) }
}

/// Returns the blocks in the order of their first packets.
fn order(packets: &[Packet]) -> Vec<BlockId> {
    let mut order = Vec::new();
    for packet in packets {
        if !order.contains(&packet.block) {
            order.push(packet.block);
        }
    }
    order
}

#[test]
fn the_earliest_deadline_goes_first() {
    let mut stage = Stage::paced("dams", &[(10_000, 10)]);
    let blocks = [due(5_000, 300, 0), due(5_000, 100, 7), due(5_000, 200, 3)].map(|b| stage.hand_over(b));
    let without = stage.hand_over(block(5_000));
    assert_eq!(order(&stage.send_all()), [blocks[1], blocks[2], blocks[0], without]);
}

#[test]
fn when_not_all_fit_the_least_credit_a_byte_waits() {
    // 10 Mbps = 1.25 kB/ms, 10 ms away.
    let mut stage = Stage::paced("dams", &[(10_000, 10)]);
    // 62.5 kB fit until 60 ms. d = 8 / 50,000.
    let a = stage.hand_over(due(50_000, 60, 0));
    // 87.5 kB fit until 80 ms; the two are 100. d = 5 / 50,000, the smallest: it waits.
    let b = stage.hand_over(due(50_000, 80, 3));
    // 100 kB fit until 90 ms; without b the two are 70. d = 1 / 20,000.
    let c = stage.hand_over(due(20_000, 90, 7));
    assert_eq!(order(&stage.send_all()), [a, c, b]);
}

#[test]
fn an_earlier_block_gives_way_to_one_worth_more() {
    let mut stage = Stage::paced("dams", &[(10_000, 10)]);
    // d = 1 / 50,000 against 8 / 50,000: the first waits, though its deadline is earlier.
    let a = stage.hand_over(due(50_000, 60, 7));
    let b = stage.hand_over(due(50_000, 80, 0));
    assert_eq!(order(&stage.send_all()), [b, a]);
}

#[test]
fn a_block_does_not_wait_long_for_a_path_that_should_have_room_and_has_none() {
    // The second path is the last in the division, so it gets the rest smaller than a packet.
    let mut stage = Stage::paced("dams", &[(10_000, 10), (10_000, 10)]);
    stage.path(1).in_flight = stage.path(1).window;
    let waiting = stage.hand_over(due(100, 300, 0));
    assert!(stage.send_all().is_empty(), "its acknowledgements are due now");
    stage.elapse(ms(11));
    stage.path(1).in_flight = stage.path(1).window;
    let packets = stage.send_all();
    assert_eq!(packets.iter().map(|p| (p.block, p.path)).collect::<Vec<_>>(), [(waiting, 0)]);
}

#[test]
fn the_credit_can_be_steeper() {
    // Linear: 8 / 60,000 against 7 / 40,000, so the larger waits. Exponential: 128 / 60,000 against
    // 64 / 40,000, so the other does.
    for (scheduler, larger_first) in [("dams", false), ("dams(credit=exponential)", true)] {
        let mut stage = Stage::paced(scheduler, &[(10_000, 10)]);
        let a = stage.hand_over(due(60_000, 70, 0));
        let b = stage.hand_over(due(40_000, 80, 1));
        assert_eq!(order(&stage.send_all()) == [a, b], larger_first, "{scheduler}");
    }
    // Exponential: 128 / 70,000 against 64 / 10,000. Steep: 10⁷ / 70,000 against 10⁶ / 10,000.
    for (scheduler, larger_first) in [("dams(credit=exponential)", false), ("dams(credit=steep)", true)] {
        let mut stage = Stage::paced(scheduler, &[(10_000, 10)]);
        let a = stage.hand_over(due(70_000, 70, 0));
        let b = stage.hand_over(due(10_000, 72, 1));
        assert_eq!(order(&stage.send_all()) == [a, b], larger_first, "{scheduler}");
    }
}

#[test]
fn what_is_mostly_sent_is_worth_more_a_byte() {
    let mut stage = Stage::paced("dams", &[(10_000, 10)]);
    stage.path(0).window = 40 * u64::from(CHUNK);
    // 48 of 60 kB leave at once; the rest waits for the window.
    let a = stage.hand_over(due(60_000, 100, 7));
    assert_eq!(stage.send_all().len(), 40);
    // 25 kB fit until 30 ms: the 12 kB left of a, and 18, do not. 1 / 12,000 is more than 1 /
    // 18,000: the new block waits, although it has the earlier deadline.
    let b = stage.hand_over(due(18_000, 104, 7));
    stage.now = at_ms(70);
    stage.path(0).in_flight = 0;
    assert_eq!(order(&stage.send_all()), [a, b]);
}

#[test]
fn a_block_that_nothing_can_save_does_not_cost_others() {
    let mut stage = Stage::paced("dams", &[(10_000, 10)]);
    // Until 40 ms 37.5 kB fit.
    let hopeless = stage.hand_over(due(50_000, 40, 0));
    let others = [due(30_000, 50, 7), due(30_000, 90, 7)].map(|b| stage.hand_over(b));
    assert_eq!(order(&stage.send_all()), [others[0], others[1], hopeless]);
}

#[test]
fn what_cannot_arrive_any_more_is_cancelled() {
    let mut stage = Stage::paced("dams", &[(10_000, 10), (10_000, 30)]);
    let late = stage.hand_over(due(5_000, 10, 0));
    let in_time = stage.hand_over(due(5_000, 100, 0));
    assert_eq!(order(&stage.send_all()), [in_time]);
    assert_eq!(stage.cancelled, [late]);
}

#[test]
fn what_is_sent_is_not_cancelled() {
    let mut stage = Stage::paced("dams", &[(10_000, 10)]);
    stage.hand_over(due(5_000, 100, 0));
    assert_eq!(stage.send_all().len(), 5);
    stage.elapse(ms(95));
    assert_eq!(stage.send(), None);
    assert!(stage.cancelled.is_empty(), "it may have arrived");
}

#[test]
fn the_paths_finish_sending_together() {
    // In proportion to the bandwidths, whatever the delays: 2 : 1 of 90 kB.
    let mut stage = Stage::paced("dams", &[(20_000, 15), (10_000, 40)]);
    let block = stage.hand_over(due(90_000, 500, 0));
    let sent = bytes(&stage.send_all());
    assert_eq!((sent[&(block, 0)], sent[&(block, 1)]), (60_000, 30_000));
}

#[test]
fn what_would_be_late_moves_to_the_shorter_path() {
    // Sending takes 24 ms on both. The slow path delivers in time the data sent within 50 − 40 ms:
    // 12.5 kB of its 30.
    let mut stage = Stage::paced("dams", &[(20_000, 15), (10_000, 40)]);
    let block = stage.hand_over(due(90_000, 50, 0));
    let sent = bytes(&stage.send_all());
    assert!(sent[&(block, 1)].abs_diff(12_500) <= CHUNK, "{sent:?}");
    assert_eq!(sent[&(block, 0)] + sent[&(block, 1)], 90_000);
}

#[test]
fn of_several_the_shortest_path_with_time_left_takes_it() {
    // 2 : 2 : 1 of 100 kB, sent within 16 ms. The third could deliver nothing before 60 ms; its 20
    // kB move to the second, which is the shortest, up to 60 − 10 ms.
    let mut stage = Stage::paced("dams", &[(20_000, 30), (20_000, 10), (10_000, 80)]);
    let block = stage.hand_over(due(100_000, 60, 0));
    let sent = bytes(&stage.send_all());
    assert_eq!(sent.get(&(block, 2)), None);
    assert!(sent[&(block, 0)].abs_diff(40_000) <= CHUNK, "{sent:?}");
    assert!(sent[&(block, 1)].abs_diff(60_000) <= CHUNK, "{sent:?}");
}

#[test]
fn dams_c_places_as_dems_does() {
    for len in [20_000, 50_000, 100_000, 400_000] {
        let division = |scheduler| {
            let mut stage = Stage::paced(scheduler, &[(20_000, 15), (10_000, 40)]);
            stage.hand_over(due(len, 900, 0));
            bytes(&stage.send_all())
        };
        assert_eq!(division("dams-c"), division("dems"), "{len} bytes");
        assert_ne!(division("dams-c"), division("dams"), "{len} bytes");
    }
}

/// Sends packets on the first path with these round trips in milliseconds, 100 ms apart; round
/// trips of the others are constant.
fn measured(scheduler: &str, paths: &[(u64, u64)], rtts: &[u64]) -> Stage {
    let mut stage = Stage::paced(scheduler, paths);
    for rtt in rtts {
        stage.elapse(ms(100));
        stage.path(0).latest_rtt = ms(*rtt);
        stage.reliable(paths.len() as u32 * CHUNK);
        for packet in stage.send_all() {
            stage.arrive(&packet);
        }
    }
    stage.elapse(ms(100));
    assert!(stage.queue.iter().all(squall_sched::Block::is_complete));
    stage
}

#[test]
fn a_shaky_rtt_moves_deadlines_earlier() {
    // Two blocks of 30 kB until 60 ms, where 62.5 kB fit. Round trips of 20, 40 and 60 ms deviate
    // by 20 ms, so the deadlines are 20 / 2 = 10 ms earlier: 50 kB, and one block is too many.
    for (scheduler, both_kept) in [
        ("dams", true),
        ("dams-robust(alpha=0)", true),
        ("dams-robust", false),
        ("dams-robust(alpha=0.1)", true),
    ] {
        let mut stage = measured(scheduler, &[(10_000, 10)], &[20, 40, 60]);
        let a = stage.hand_over(due(30_000, 60, 7));
        let b = stage.hand_over(due(30_000, 61, 0));
        assert_eq!(order(&stage.send_all()), if both_kept { [a, b] } else { [b, a] }, "{scheduler}");
    }
}

#[test]
fn the_deviation_is_that_of_the_past_seconds() {
    // 1.6 s after the last measurement, 2.1 s after it, and with a longer memory.
    for (scheduler, pause, both_kept) in
        [("dams-robust", 1_500, false), ("dams-robust", 2_000, true), ("dams-robust(window=3)", 2_000, false)]
    {
        let mut stage = measured(scheduler, &[(10_000, 10)], &[20, 40, 60]);
        stage.elapse(ms(pause));
        let a = stage.hand_over(due(30_000, 60, 7));
        let b = stage.hand_over(due(30_000, 61, 0));
        assert_eq!(
            order(&stage.send_all()),
            if both_kept { [a, b] } else { [b, a] },
            "{scheduler}, {pause} ms"
        );
    }
}

#[test]
fn a_shaky_path_costs_the_steady_one_nothing() {
    // Until 60 ms each path delivers 62.5 kB, the one with a varying RTT 50 with its margin of 10
    // ms: 112.5 kB, enough for two of 55; of 57 kB one is too many.
    for (bytes, both_kept) in [(55_000, true), (57_000, false)] {
        let mut stage = measured("dams-robust", &[(10_000, 10), (10_000, 10)], &[20, 40, 60]);
        let a = stage.hand_over(due(bytes, 60, 7));
        let b = stage.hand_over(due(bytes, 60, 0));
        let sent = stage.send_all();
        assert_eq!(order(&sent), if both_kept { [a, b] } else { [b, a] }, "{bytes}");
        let on_shaky: u32 = sent.iter().filter(|p| p.path == 0).map(Packet::len).sum();
        assert!(!both_kept || on_shaky <= 50_000 + CHUNK, "{on_shaky} would be late");
    }
}

#[test]
fn unreliable_blocks_may_leave_in_order_of_arrival() {
    let mut stage = Stage::paced("dams(unreliable=minrtt)", &[(20_000, 15), (10_000, 40)]);
    let unreliable = |len, ms| Wanted { reliable: false, ..due(len, ms, 7) };
    let reliable = stage.hand_over(due(90_000, 500, 0));
    // Deadlines have no influence, not even one that cannot be met.
    let late =
        [unreliable(6_000, 400), unreliable(6_000, 10), unreliable(6_000, 200)].map(|b| stage.hand_over(b));
    let packets = stage.send_all();
    let apart: Vec<_> = packets.iter().filter(|p| p.block != reliable).cloned().collect();
    assert_eq!(order(&apart), late);
    assert!(stage.cancelled.is_empty());
    // The path with the lowest RTT has window left. The plan starts from the 7.2 ms for which that
    // path is busy with them: 2.5 · (T − 7.2) + 1.25 · T = 90, so T = 28.8 ms, and 54 and 36 kB.
    assert!(apart.iter().all(|packet| packet.path == 0), "{apart:?}");
    let sent = bytes(&packets);
    assert_eq!((sent[&(reliable, 0)], sent[&(reliable, 1)]), (54_000, 36_000));
    // If it has no room they take the next.
    stage.path(0).in_flight = stage.path(0).window;
    stage.hand_over(unreliable(6_000, 300));
    assert_eq!(stage.send_all().iter().map(|p| p.path).collect::<Vec<_>>(), [1; 5]);
}

#[test]
fn unreliable_blocks_may_leave_ahead_of_the_plan() {
    for (scheduler, expected) in [("dams(unreliable=minrtt)", [1, 3, 2, 0]), ("dams", [3, 2, 1, 0])] {
        let mut stage = Stage::paced(scheduler, &[(10_000, 10)]);
        let wanted = |(reliable, ms)| Wanted { reliable, ..due(3_000, ms, 0) };
        let blocks = [(true, 600), (false, 500), (true, 400), (false, 300)].map(wanted);
        let blocks = blocks.map(|wanted| stage.hand_over(wanted));
        assert_eq!(order(&stage.send_all()), expected.map(|i| blocks[i]), "{scheduler}");
    }
}

#[test]
fn what_was_taken_back_leaves_again_before_younger_blocks() {
    let mut stage = Stage::paced("dams(unreliable=minrtt)", &[(10_000, 10)]);
    let first = stage.unreliable(2 * CHUNK);
    let sent = stage.send_all();
    let second = stage.unreliable(CHUNK);
    stage.take_back(&sent[1]);
    assert_eq!(order(&stage.send_all()), [first, second]);
}

#[test]
fn what_is_late_may_be_sent_to_its_end() {
    for (scheduler, keeps) in [("dams", false), ("dams(cancel=false)", true)] {
        let mut stage = Stage::paced(scheduler, &[(10_000, 10)]);
        stage.path(0).window = 10 * u64::from(CHUNK);
        let begun = stage.hand_over(due(15 * CHUNK, 100, 0));
        assert_eq!(stage.send_all().len(), 10);
        stage.elapse(ms(95));
        stage.path(0).in_flight = 0;
        let [never, in_time] = [due(CHUNK, 5, 0), due(CHUNK, 100, 7)].map(|b| stage.hand_over(b));
        let sent = stage.send_all();
        // The others cannot be in time, so they wait until it is sent.
        let expected = if keeps { vec![in_time, begun, never] } else { vec![in_time] };
        let cancelled = if keeps { vec![] } else { vec![begun, never] };
        assert_eq!((order(&sent), stage.cancelled), (expected, cancelled), "{scheduler}");
    }
}

#[test]
fn what_cannot_make_it_may_be_held_while_a_queue_stands() {
    for (scheduler, queue, is_sent) in [
        ("dams", 20, true),
        ("dams(hold=15)", 20, false),
        ("dams(hold=15)", 15, true),
        ("dams-c(hold=15)", 20, false),
    ] {
        let mut stage = Stage::paced(scheduler, &[(10_000, 10)]);
        stage.send_all();
        // 37.5 kB fit until 40 ms, less the part of the queue.
        stage.path(0).owd = us(10_000 + queue * 1_000);
        let [too_large, fits] = [due(50_000, 40, 0), due(5_000, 90, 7)].map(|b| stage.hand_over(b));
        let expected = if is_sent { vec![fits, too_large] } else { vec![fits] };
        assert_eq!(order(&stage.send_all()), expected, "{scheduler} behind {queue} ms");
        if !is_sent {
            assert_eq!(stage.wake, Some(at_ms(10)), "the queue may be shorter then");
        }
    }
}

#[test]
fn a_held_block_uses_the_path_without_a_queue() {
    let mut stage = Stage::paced("dams(hold=15)", &[(10_000, 10), (10_000, 10)]);
    stage.send_all();
    stage.path(0).owd = ms(30);
    let too_large = stage.hand_over(due(100_000, 40, 0));
    let sent = bytes(&stage.send_all());
    assert_eq!((sent.get(&(too_large, 0)), sent[&(too_large, 1)]), (None, 100_000));
}

#[test]
fn the_delay_may_be_reckoned_from_the_bytes_in_flight() {
    // 10 Mbps, 10 ms one-way, 20 ms round trip, in which 25 kB are in flight; 62.5 kB in flight are
    // a queue of 30 ms, which the smoothed delay does not show yet. Until 60 ms 62.5 kB fit by the
    // one measure and 25 by the other.
    for (scheduler, both_kept) in [("dams", true), ("dams(delay=in-flight)", false)] {
        let mut stage = measured(scheduler, &[(10_000, 10)], &[20]);
        stage.path(0).in_flight = 62_500;
        let a = stage.hand_over(due(20_000, 60, 7));
        let b = stage.hand_over(due(20_000, 61, 0));
        assert_eq!(order(&stage.send_all()), if both_kept { [a, b] } else { [b, a] }, "{scheduler}");
    }
}

#[test]
fn a_spent_budget_brings_nothing() {
    for scheduler in ["dams", "dams-c", "dams-robust"] {
        let mut stage = Stage::paced(scheduler, &[(10_000, 10), (10_000, 5)]);
        stage.path(1).budget = Some(u64::from(CHUNK) - 1);
        // The first path alone delivers 100 kB until 90 ms: two of the four, those of highest
        // value.
        let blocks = [7, 0, 7, 0].map(|priority| stage.hand_over(due(40_000, 90, priority)));
        let sent = stage.send_all();
        assert_eq!(order(&sent), [1, 3, 0, 2].map(|i| blocks[i]), "{scheduler}");
        assert!(sent.iter().all(|packet| packet.path == 0), "{scheduler}");
        // No data reaches the peer within 10 ms, because the budget of the path with 5 ms is spent.
        let late = stage.hand_over(due(1_000, 9, 0));
        stage.send_all();
        assert_eq!(stage.cancelled, [late], "{scheduler}");
    }
}

#[test]
fn what_a_budget_leaves_counts() {
    // 100 kB on the first path, and 24 of the second: three blocks of 40 kB, 24 kB of them on the second.
    let mut stage = Stage::paced("dams", &[(10_000, 10), (10_000, 10)]);
    stage.path(1).budget = Some(20 * u64::from(CHUNK));
    let blocks = [7, 0, 0, 0].map(|priority| stage.hand_over(due(40_000, 90, priority)));
    let sent = stage.send_all();
    assert_eq!(order(&sent), [1, 2, 3, 0].map(|i| blocks[i]));
    assert_eq!(sent.iter().filter(|packet| packet.path == 1).count(), 20);
}

#[test]
fn a_new_block_preempts_what_waits_for_the_window() {
    let mut stage = Stage::paced("dams", &[(10_000, 10)]);
    stage.path(0).window = 10 * u64::from(CHUNK);
    let a = stage.hand_over(due(50_000, 400, 0));
    let sent = stage.send_all();
    let b = stage.hand_over(due(5_000, 100, 7));
    for packet in &sent {
        stage.arrive(packet);
    }
    assert_eq!(order(&stage.send_all()), [b, a]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// If the blocks up to each deadline fit into the capacity of the paths before it, they are
    /// sent by deadline: no block that fits is delayed or cancelled.
    #[test]
    fn never_delays_what_fits(
        paths in vec((500..40_000u64, 1..100u64), 1..=4),
        blocks in vec((1..60_000u32, 50..1_000u64, 0..8u8), 1..12),
        scheduler in prop::sample::select(&["dams", "dams-c", "dams-robust"][..]),
    ) {
        let mut stage = Stage::paced(scheduler, &paths);
        stage.paths.iter_mut().for_each(|path| path.rtt_dev = ms(0));
        let mut by_deadline = Vec::new();
        for (len, ms, priority) in blocks {
            let id = stage.hand_over(due(len, ms, priority));
            by_deadline.push((ms, id, len));
        }
        by_deadline.sort_unstable();
        let mut used = 0;
        let fits = by_deadline.iter().all(|(ms, _, len)| {
            used += u64::from(*len);
            used <= capacity::before(Some(at_ms(*ms)), at_ms(0), &stage.paths)
        });
        let sent = order(&stage.send_all());
        if fits {
            prop_assert!(stage.cancelled.is_empty());
            prop_assert_eq!(sent, by_deadline.iter().map(|(_, id, _)| *id).collect::<Vec<_>>());
        } else {
            prop_assert_eq!(sent.len() + stage.cancelled.len(), by_deadline.len(), "delayed, not forgotten");
        }
    }
}
