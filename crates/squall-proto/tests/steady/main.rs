//! Steady on a link that it shares with flows of its kind and with transfers of noq, packet by
//! packet.

mod net;
mod transfer;

use squall_proto::congestion::{Group, Steady, SteadyConfig};
use squall_units::{
    Span,
    short::{at_ms, us},
};

use self::net::{MTU, Net, next_chance};

fn steady() -> Steady {
    Steady::new(SteadyConfig::default(), MTU, &Group::default(), Span::ZERO)
}

/// Returns the longest accepted p95 of the round trip, in milliseconds.
fn limit_ms(mbps: f64, round_trip_ms: u64) -> f64 {
    // Reports are up to 10 ms late. The window grows by up to half a round trip before it meets a queue.
    let base = round_trip_ms as f64 + 10.0;
    base + f64::max(25.0, base / 4.0).max(4.0 * MTU as f64 * 8.0 / mbps / 1e3)
}

#[test]
fn a_transfer_uses_links_of_any_rate_and_length_with_a_short_queue() {
    for (mbps, round_trip) in
        [5.0, 20.0, 60.0, 150.0].into_iter().flat_map(|mbps| [10, 40, 100, 200].map(|ms| (mbps, ms)))
    {
        let mut net = Net::new(mbps, round_trip).flow(steady(), 0, 100);
        net.run_until(5.0);
        let used = net.measure(15.0)[0] / mbps;
        let p95 = net.flows[0].p95_ms();
        println!("{mbps} Mbps, {round_trip} ms: {used:.2} of it, p95 of the round trip {p95:.0} ms");
        // Each dip costs a second's growth: most where few packets are in flight.
        assert!(used > if mbps > 5.0 { 0.9 } else { 0.85 }, "{used} of {mbps} Mbps over {round_trip} ms");
        assert!(p95 < 1.05 * limit_ms(mbps, round_trip), "{p95} ms over {mbps} Mbps, {round_trip} ms");
    }
}

#[test]
fn a_link_with_a_larger_rate_is_found_within_two_seconds() {
    for round_trip in [10, 40, 100] {
        let mut net = Net::new(5.0, round_trip).flow(steady(), 0, 100);
        net.run_until(10.0);
        net.set_rate(50.0);
        net.run_until(12.0);
        let used = net.measure(1.0)[0];
        println!("{round_trip} ms: {used:.1} of 50 Mbps after two seconds");
        assert!(used > 45.0, "{used} Mbps over {round_trip} ms");
    }
}

#[test]
fn a_link_with_a_smaller_rate_has_a_short_queue_again_within_half_a_second() {
    for round_trip in [10, 40] {
        let mut net = Net::new(50.0, round_trip).flow(steady(), 0, 100);
        net.run_until(10.0);
        net.set_rate(5.0);
        net.run_until(10.5);
        let mut longest = 0.0f64;
        for step in 0..50 {
            net.run_until(10.5 + 0.05 * f64::from(step));
            longest = longest.max(net.queue_ms());
        }
        println!("{round_trip} ms: {longest:.0} ms of queue at most after half a second");
        assert!(longest < 55.0, "{longest} ms over {round_trip} ms");
    }
}

#[test]
fn losses_of_the_medium_change_nothing() {
    for (loss, round_trip) in [(0.01, 40), (0.05, 40), (0.02, 100)] {
        let mut net = Net::new(20.0, round_trip).flow(steady(), 0, 100);
        net.loss = loss;
        net.run_until(5.0);
        let used = net.measure(15.0)[0] / (20.0 * (1.0 - loss));
        println!("{loss} lost over {round_trip} ms: {used:.2} of the rest");
        assert!(used > 0.9, "{used} with {loss} lost over {round_trip} ms");
    }
}

#[test]
fn a_queue_too_short_for_the_target_loses_little() {
    for (queue, least) in [(20_000, 0.7), (40_000, 0.9)] {
        let mut net = Net::new(20.0, 40).flow(steady(), 0, 100);
        net.queue_limit = queue;
        net.run_until(5.0);
        let used = net.measure(20.0)[0] / 20.0;
        let lost = net.flows[0].lost();
        println!("queue of {queue}: {used:.2} of the link, {lost:.4} lost");
        assert!(used > least && lost < 0.012, "{used} and {lost} lost with a queue of {queue}");
    }
}

#[test]
fn a_stream_below_the_capacity_leaves_no_queue_and_opens_no_window() {
    // 30 frames of 12.5 kB a second are 3 Mbps.
    let mut net = Net::new(20.0, 40).flow(steady(), 0, 100).frames(12_500, us(33_333));
    net.run_until(3.0);
    net.measure(20.0);
    let p95 = net.flows[0].p95_ms();
    let window = net.flows[0].controller.window();
    println!("p95 of the round trip {p95:.0} ms, window {window}");
    assert!(p95 < 55.0, "a frame takes 5 ms: {p95}");
    assert!(window < 250_000, "twice what the link takes in 40 ms, and 10 until a report: {window}");
}

#[test]
fn the_estimate_is_the_links_rate_and_outlives_a_pause() {
    // 30 frames of 62.5 kB a second are 15 Mbps.
    let mut net = Net::new(20.0, 40).flow(steady(), 0, 10).frames(62_500, us(33_333));
    net.run_until(9.9);
    let before = net.flows[0].controller.capacity().expect("it is known");
    println!("{before} bps");
    assert!((17_000_000..23_000_000).contains(&before), "{before}");
    net.run_until(15.0);
    assert_eq!(net.flows[0].controller.capacity(), Some(before), "nothing was sent since");
}

#[test]
fn cubic_and_this_leave_each_other_a_share() {
    for (queue, round_trip) in [(100_000, 30), (100_000, 80), (400_000, 30), (400_000, 80)] {
        for (ours, other) in [(0, 2), (2, 0)] {
            let mut net = Net::new(20.0, round_trip).flow(steady(), ours, 100).transfer(other, 100);
            net.queue_limit = queue;
            net.run_until(10.0);
            let shares = net.measure(40.0);
            println!("queue of {queue}, {round_trip} ms: {shares:.1?}");
            assert!(shares.iter().all(|share| *share > 4.0), "{shares:?} of 20 Mbps");
        }
    }
}

/// Returns the seconds until the queue has been short for four of them, after a flow with CUBIC
/// took part from `begins` to `ends`.
fn short_again(begins: u64, ends: u64) -> u64 {
    let mut net = Net::new(20.0, 40).flow(steady(), 0, 100).transfer(begins, ends);
    net.queue_limit = 200_000;
    net.run_until(ends as f64);
    let mut is_short = || net.measure(2.0)[0] > 17.0 && net.flows[0].p95_ms() < 70.0;
    let (mut seconds, mut short) = (0, 0);
    while seconds < 40 && short < 2 {
        short = if is_short() { short + 1 } else { 0 };
        seconds += 2;
    }
    seconds
}

#[test]
fn the_queue_is_short_again_within_half_a_minute_when_others_have_left() {
    for begins in 1..=4 {
        let seconds = [12, 16, 20, 24].map(|ends| short_again(begins, ends));
        println!("others from {begins} s on: {seconds:?} s");
        assert!(seconds.iter().all(|seconds| *seconds <= 30), "others from {begins} s on: {seconds:?} s");
    }
}

/// Paths of one session.
fn paths<const N: usize>() -> [Steady; N] {
    let group = Group::default();
    std::array::from_fn(|_| Steady::new(SteadyConfig::default(), MTU, &group, Span::ZERO))
}

#[test]
fn two_paths_through_one_bottleneck_take_one_flows_share() {
    for (queue, round_trip) in [(100_000, 30), (100_000, 80), (400_000, 30), (400_000, 80)] {
        let [one, another] = paths();
        let mut net = Net::new(20.0, round_trip).flow(one, 0, 100).flow(another, 0, 100);
        net = net.transfer(2, 100);
        net.queue_limit = queue;
        net.run_until(10.0);
        let shares = net.measure(50.0);
        println!("queue of {queue}, {round_trip} ms: {shares:.1?}");
        let ours = shares[0] + shares[1];
        assert!((4.0..13.0).contains(&ours), "{ours} of 20 Mbps, queue of {queue}, {round_trip} ms");
    }
}

#[test]
fn two_paths_through_two_bottlenecks_take_a_share_of_each() {
    for (queue, round_trip) in [(100_000, 30), (100_000, 80), (400_000, 30), (400_000, 80)] {
        let mut starts = [2, 5].into_iter();
        let mut nets = paths::<2>().map(|path| {
            let other = starts.next().expect("one for each");
            let mut net = Net::new(20.0, round_trip).flow(path, 0, 100).transfer(other, 100);
            net.queue_limit = queue;
            net
        });
        for step in 1..=6_000 {
            for net in &mut nets {
                if step == 1_000 {
                    net.begin_measure();
                }
                net.run_until(f64::from(step) / 100.0);
            }
        }
        let shares = nets.map(|net| net.measured(50.0));
        println!("queue of {queue}, {round_trip} ms: {shares:.1?}");
        assert!(shares.iter().all(|share| share[0] > 5.0), "{shares:?}, queue of {queue}, {round_trip} ms");
    }
}

#[test]
fn two_of_these_share_a_link() {
    let mut net = Net::new(20.0, 40).flow(steady(), 0, 100).flow(steady(), 5, 100);
    net.run_until(15.0);
    let shares = net.measure(30.0);
    let p95 = net.flows[0].p95_ms();
    println!("{shares:.1?} Mbps, p95 of the round trip {p95:.0} ms");
    assert!(shares.iter().all(|share| *share > 6.0), "{shares:?} of 20 Mbps");
}

#[test]
fn a_mark_cuts_the_window_once_a_round_trip() {
    let mut net = Net::new(20.0, 40).flow(steady(), 0, 100);
    net.run_until(8.0);
    let controller = &mut net.flows[0].controller;
    let before = controller.window();
    controller.on_mark(at_ms(8_000), u64::MAX - 1);
    let after = controller.window();
    assert!(after < before * 3 / 4, "{after} after {before}");
    controller.on_mark(at_ms(8_001), 0);
    assert_eq!(controller.window(), after, "of a packet that left before the cut");
}

/// Returns rates in Mbps of a link that wanders between 0.3 and 20 by a factor of up to three each.
fn wander(mut random: u64) -> impl Iterator<Item = f64> {
    let mut rate = 5.0f64;
    std::iter::repeat_with(move || {
        rate = (rate * 9f64.powf(next_chance(&mut random) - 0.5)).clamp(0.3, 20.0);
        rate
    })
}

#[test]
fn a_link_that_wanders_is_not_taken_for_others() {
    for (seconds, round_trip) in
        [0.2, 0.5, 1.0, 2.0].into_iter().flat_map(|step| [30, 80].map(|ms| (step, ms)))
    {
        let (mut long, mut count) = (0, 0);
        for seed in 1..=4 {
            let mut net = Net::new(5.0, round_trip).flow(steady(), 0, 1_000);
            net.queue_limit = 250_000;
            for (step, rate) in wander(seed).take((100.0 / seconds) as usize).enumerate() {
                net.set_rate(rate);
                net.run_until(seconds * (step + 1) as f64);
                long += u32::from(net.queue_ms() > 200.0);
                count += 1;
            }
        }
        let share = f64::from(long) / f64::from(count);
        println!("each {seconds} s, {round_trip} ms: queue beyond 200 ms in {share:.3} of the time");
        // As the only path it is taken for one that holds packets, too. Observed: 0.10 with steps
        // as short as the round trip.
        assert!(share < 0.12, "{share} of the time with a new rate each {seconds} s over {round_trip} ms");
    }
}
