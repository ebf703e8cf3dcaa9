use proptest::prelude::*;

use super::*;
use crate::{media::Class, parcel::Parcel};

const LATENCY: Micros = 300_000;
/// The receiver's clock is ahead by this.
const AHEAD: Micros = 5_000_000;
const FRAME: Micros = 33_000;

fn rule(playout: Playout) -> Rule {
    Rule { playout, ordered: true, latency: LATENCY, delay: LATENCY, max_pending: 1024 }
}

fn block(number: u64) -> Bytes {
    let stamp = number * FRAME;
    let mut parcel = Parcel::new(stamp, 0);
    parcel.class = Class::Reference;
    parcel.push(stamp, &number.to_be_bytes());
    parcel.seal(stamp, number, if number == 0 { 0 } else { FRAME }).into()
}

/// Arrives after so long, by the receiver's clock; block ids are twice the numbers.
fn arrive(order: &mut Order, number: u64, after: Micros) -> Micros {
    let now = AHEAD + number * FRAME + after;
    order.arrived(now, number * 2, block(number)).expect("is a parcel");
    now
}

fn numbers(order: &mut Order, now: Micros) -> Vec<u64> {
    std::iter::from_fn(|| order.poll(now)).map(|ready| ready.head.number).collect()
}

#[test]
fn what_comes_in_order_leaves_at_once() {
    let mut order = Order::new(rule(Playout::Soon));
    for number in 0..5 {
        let now = arrive(&mut order, number, 20_000);
        assert_eq!(numbers(&mut order, now), [number]);
    }
    assert_eq!(order.poll_timeout(), None);
}

#[test]
fn what_is_missing_is_waited_for_until_its_deadline() {
    let mut order = Order::new(rule(Playout::Soon));
    arrive(&mut order, 0, 0);
    let now = arrive(&mut order, 2, 0);
    assert_eq!(numbers(&mut order, now), [0]);
    // Number 1 came in at 33 ms and is of no use 300 ms later.
    let deadline = AHEAD + FRAME + LATENCY;
    assert_eq!(order.poll_timeout(), Some(deadline));
    assert!(numbers(&mut order, deadline - 1).is_empty());
    assert_eq!(numbers(&mut order, deadline), [2]);
    order.arrived(deadline + 1, 2, block(1)).expect("is a parcel");
    assert!(numbers(&mut order, deadline + 1).is_empty(), "it is too late");
    assert_eq!(order.take_count(), Count { late: 1, missing: 1 });
}

#[test]
fn what_is_known_not_to_come_is_not_waited_for() {
    let mut order = Order::new(rule(Playout::Soon));
    arrive(&mut order, 0, 0);
    let now = arrive(&mut order, 3, 0);
    assert_eq!(numbers(&mut order, now), [0]);
    order.gone(2);
    assert!(numbers(&mut order, now).is_empty(), "one of two may come");
    order.gone(4);
    assert_eq!(numbers(&mut order, now), [3]);
}

#[test]
fn a_late_one_that_is_waited_for_releases_the_others() {
    let mut order = Order::new(rule(Playout::Soon));
    arrive(&mut order, 0, 0);
    arrive(&mut order, 2, 0);
    arrive(&mut order, 3, 0);
    let now = arrive(&mut order, 1, 150_000);
    let ready: Vec<_> = std::iter::from_fn(|| order.poll(now)).collect();
    assert_eq!(ready.iter().map(|one| one.head.number).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(ready[1].latency, 150_000);
    assert_eq!(ready[2].waited, 150_000 - FRAME);
}

#[test]
fn steady_playout_has_one_delay() {
    let mut order = Order::new(rule(Playout::Steady));
    order.set_way(10_000);
    for (number, after) in [(0, 10_000), (1, 90_000), (2, 60_000), (3, 11_000)] {
        arrive(&mut order, number, after);
    }
    for number in 0..4 {
        // The quickest way takes 10 ms, which the clocks do not tell from their offset.
        let due = AHEAD + number * FRAME + LATENCY;
        assert_eq!(order.poll_timeout(), Some(due));
        assert_eq!(numbers(&mut order, due), [number]);
    }
}

#[test]
fn a_closed_order_waits_for_nothing() {
    let mut order = Order::new(rule(Playout::Soon));
    let now = arrive(&mut order, 4, 0);
    assert!(numbers(&mut order, now).is_empty());
    order.close();
    assert_eq!(numbers(&mut order, now), [4]);
}

#[test]
fn an_order_that_begins_late_waits_for_nothing_before_it() {
    let mut order = Order::new(Rule { ordered: false, ..rule(Playout::Soon) });
    for number in [0, 2, 1] {
        let now = arrive(&mut order, number, 0);
        assert_eq!(numbers(&mut order, now), [number]);
    }
    order.set_rule(rule(Playout::Soon));
    let now = arrive(&mut order, 3, 0);
    assert_eq!(numbers(&mut order, now), [3]);
    assert_eq!(order.take_count(), Count::default());
}

#[test]
fn what_waits_is_bounded() {
    let mut order = Order::new(Rule { max_pending: 10, ..rule(Playout::Soon) });
    let mut now = 0;
    for number in 1..=11 {
        now = arrive(&mut order, number, 0);
    }
    assert_eq!(numbers(&mut order, now), (1..=11).collect::<Vec<_>>());
    assert_eq!(order.take_count().missing, 1);
}

#[test]
fn bytes_that_wait_for_their_time_are_bounded() {
    let mut order = Order::new(rule(Playout::Steady));
    let large = |number: u64| {
        let mut parcel = Parcel::new(0, 0);
        (0..100).for_each(|_| parcel.push(0, &[0; 60_000]));
        Bytes::from(parcel.seal(0, number, 0))
    };
    for number in 0..3 {
        order.arrived(AHEAD, number, large(number)).expect("is a parcel");
    }
    assert_eq!(numbers(&mut order, AHEAD), [0], "the others are below the bound");
}

proptest! {
    /// Whatever is lost or late: in order, none twice, and none held beyond the deadline of what is missing.
    #[test]
    fn parcels_leave_in_order_and_in_time(
        delays in prop::collection::vec(prop::option::of(0..400_000u64), 1..60),
        told in any::<bool>(),
    ) {
        let mut order = Order::new(rule(Playout::Soon));
        let mut events: Vec<(Micros, u64, bool)> = Vec::new();
        for (number, delay) in delays.iter().enumerate() {
            let sent = AHEAD + number as u64 * FRAME;
            match delay {
                Some(delay) => events.push((sent + delay, number as u64, true)),
                None if told => events.push((sent + 100_000, number as u64, false)),
                None => {}
            }
        }
        events.sort_unstable();
        let mut left: Vec<u64> = Vec::new();
        for (now, number, came) in events {
            while let Some(at) = order.poll_timeout().filter(|at| *at <= now) {
                left.extend(numbers(&mut order, at));
            }
            if came {
                order.arrived(now, number * 2, block(number)).expect("is a parcel");
            } else {
                order.gone(number * 2);
            }
            left.extend(numbers(&mut order, now));
            let latest = now.saturating_add(LATENCY);
            prop_assert!(order.poll_timeout().is_none_or(|at| at <= latest));
        }
        left.extend(numbers(&mut order, Micros::MAX / 2));
        prop_assert!(left.windows(2).all(|pair| pair[0] < pair[1]), "{left:?}");
        let late = order.take_count().late as usize;
        prop_assert_eq!(left.len() + late, delays.iter().flatten().count());
    }
}
