use proptest::prelude::*;
use squall_units::short::{at_ms, at_us, ms, us};

use super::*;

const MTU: u64 = 1_250;

fn steady() -> Steady {
    Steady::new(SteadyConfig::default(), MTU, &Group::default(), Span::ZERO)
}

#[test]
fn a_mark_before_the_rate_is_known_leaves_a_bound() {
    let mut steady = steady();
    for packet in 0..10 {
        steady.on_sent(at_ms(packet), packet, MTU);
    }
    steady.on_mark(at_ms(40), 0);
    assert!(steady.window() < 100_000, "{}", steady.window());
}

#[test]
fn what_was_lost_in_an_outage_is_not_in_flight() {
    let mut steady = steady();
    for packet in 0..10 {
        steady.on_sent(at_ms(packet), packet, MTU);
    }
    (0..10).for_each(|_| steady.on_forgiven(MTU));
    assert_eq!(steady.flight.in_flight(), 0);
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Sent(u64),
    Waiting(bool, bool),
    Acked(u64),
    Arrived(u64, i64),
    Lost(u64),
    Marked(u64),
    Spurious,
    Persistent,
    Mtu(u64),
}

fn calls() -> impl Strategy<Value = Vec<(u64, Call)>> {
    let call = prop_oneof![
        8 => (1u64..2_000).prop_map(Call::Sent),
        2 => any::<(bool, bool)>().prop_map(|(waits, is_alone)| Call::Waiting(waits, is_alone)),
        6 => (0u64..300).prop_map(Call::Acked),
        6 => (0u64..300, -(1i64 << 40)..1 << 40).prop_map(|(packet, at)| Call::Arrived(packet, at)),
        4 => (0u64..400, 0i64..10_000_000).prop_map(|(packet, at)| Call::Arrived(packet, at)),
        2 => (0u64..300).prop_map(Call::Lost),
        1 => (0u64..300).prop_map(Call::Marked),
        1 => Just(Call::Spurious),
        1 => Just(Call::Persistent),
        1 => (1_200u64..65_000).prop_map(Call::Mtu),
    ];
    prop::collection::vec((0u64..300_000, call), 1..500)
}

proptest! {
    /// Receivers choose their reports: for any of them, something may leave, and the window stays
    /// within the memory.
    #[test]
    fn whatever_is_reported_the_window_stays_within_its_bounds(calls in calls()) {
        let mut steady = steady();
        let (mut now, mut next, mut mtu) = (at_us(0), 0, MTU);
        for (step, call) in calls {
            now += us(step);
            match call {
                Call::Sent(bytes) => {
                    steady.on_sent(now, next, bytes);
                    next += 1;
                }
                Call::Waiting(waits, is_alone) => steady.on_waiting(now, waits, is_alone),
                Call::Acked(packet) => {
                    let sent = now - ms(50);
                    steady.on_ack(now, &Ack { packet, sent, bytes: MTU, is_app_limited: false, smallest_rtt: us(0) });
                    steady.on_end_acks(now, MTU);
                }
                Call::Arrived(packet, at) => {
                    steady.on_arrival(now, Arrival { packet, sent: now - ms(50), at });
                }
                Call::Lost(packet) => steady.on_loss(now, packet, MTU),
                Call::Marked(packet) => steady.on_mark(now, packet),
                Call::Spurious => steady.on_spurious_loss(),
                Call::Persistent => steady.on_persistent_congestion(now),
                Call::Mtu(bytes) => {
                    mtu = bytes;
                    steady.on_mtu(bytes);
                }
            }
            prop_assert!((MIN_WINDOW_QUEUED * mtu..=MAX_WINDOW).contains(&steady.window()), "{}", steady.window());
            prop_assert!(steady.pacing_rate().is_none_or(|rate| rate > 0), "{:?}", steady.pacing_rate());
        }
    }
}
