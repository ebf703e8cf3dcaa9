use squall_units::{Span, Time};

use super::{round::Sample, *};
use crate::congestion::steady::units::{ByteRate, Delay};

fn ms(millis: f64) -> Delay {
    Delay::new(1e3 * millis)
}

fn at(seconds: u64) -> Time {
    Time::EPOCH + Span::from_secs(seconds)
}

/// Creates a path of 20 Mbps and 40 ms, in use, with a queue of this length in milliseconds and
/// this many bytes in flight.
fn round(queue: f64, in_flight: u64) -> Round {
    Round {
        now: at(100),
        queue: QueueDelay { latest: ms(queue), own: Delay::ZERO, target: ms(30.0) },
        round_trip: ms(40.0),
        rate: ByteRate::new(2.5e6),
        in_flight,
        window: in_flight,
        calm: 100_000,
        emptied: at(100),
        is_limited: true,
        is_known: true,
        is_shared: false,
    }
}

/// Creates a queue of 80 ms and 300 kB in flight, of which a dip leaves 250 out: they explain 100
/// ms.
fn before() -> Sample {
    round(80.0, 300_000).sample()
}

/// Returns the step after this many rounds, and none before.
fn step_after(rounds: u32, mut phase: Phase, round: Round) -> Step {
    for _ in 1..rounds {
        assert!(phase.end_round(&round).is_none(), "{} is over", phase.name());
    }
    phase.end_round(&round).expect("is over")
}

fn next(rounds: u32, phase: impl Into<Phase>, round: Round) -> Next {
    step_after(rounds, phase.into(), round).next
}

fn dip(others_since: Option<Time>) -> Next {
    Next::Dip { before: before(), others_since }
}

fn restore() -> Next {
    Next::Restore { before: before(), bottom: round(70.0, 50_000).sample() }
}

fn beside(since: Time, start: Sample) -> Phase {
    Next::Beside { since, start }.into()
}

#[test]
fn phases_follow_each_other_as_drawn() {
    let sample = Sample::default();
    let others = [
        Next::Alone,
        dip(None),
        restore(),
        Next::Lift { before: sample, again: false },
        Next::Beside { since: at(0), start: sample },
    ];
    let phases: Vec<Phase> = [Phase::default()].into_iter().chain(others.map(Phase::from)).collect();
    let follow = |phase: &Phase| -> Vec<&str> {
        phases.iter().filter(|next| phase.may_become(next)).map(Phase::name).collect()
    };
    let drawn: [&[&str]; 6] = [
        &["alone"],
        &["dip"],
        &["alone", "restore", "lift", "beside"],
        &["alone", "beside"],
        &["alone", "lift", "beside"],
        &["alone", "dip"],
    ];
    assert_eq!(phases.iter().map(follow).collect::<Vec<_>>(), drawn);
}

#[test]
fn the_start_ends_when_the_rate_has_not_grown_by_a_quarter_for_twelve_rounds() {
    // The first round grows from nothing.
    assert_eq!(next(13, Phase::default(), round(0.0, 100_000)), Next::Alone);
    let mut start = Phase::default();
    for step in 0..40 {
        let rate = ByteRate::new(1e6 * 1.26f64.powi(step / 12));
        assert!(start.end_round(&Round { rate, ..round(0.0, 100_000) }).is_none(), "grows each 12 rounds");
        let waits = Round { is_limited: false, ..round(0.0, 100_000) };
        assert!(start.end_round(&waits).is_none(), "the application is the limit");
    }
    let mut start = Phase::default();
    for _ in 0..300 {
        assert!(start.end_round(&Round { is_known: false, ..round(0.0, 100_000) }).is_none());
    }
}

#[test]
fn a_start_grows_by_three_times_what_used_the_window() {
    let mut start = Start::default();
    assert_eq!(start.window(1_000_000, 1_250), 12_500);
    start.on_ack(10_000, 6_249, 12_500);
    assert_eq!(start.window(1_000_000, 1_250), 12_500, "less than half was in use");
    start.on_ack(10_000, 6_250, 12_500);
    assert_eq!(start.window(1_000_000, 1_250), 42_500);
    assert_eq!((start.window(20_000, 1_250), start.window(0, 1_250)), (32_500, 17_500));
}

#[test]
fn a_queue_that_stands_for_three_rounds_calls_for_a_dip() {
    let called = step_after(3, Next::Alone.into(), round(80.0, 300_000));
    assert_eq!((called.next, called.why), (dip(None), "a queue stands"));
    let mut alone = Phase::from(Next::Alone);
    for step in 0..20 {
        let queue = 400.0 * 0.89f64.powi(step);
        assert!(alone.end_round(&round(queue, 300_000)).is_none(), "it falls by itself");
    }
}

#[test]
fn a_queue_that_was_not_seen_to_be_empty_for_long_calls_for_a_dip() {
    let short = |emptied, round_trip| Round {
        emptied: at(emptied),
        round_trip: ms(round_trip),
        ..round(25.0, 100_000)
    };
    assert_eq!(
        next(1, Next::Alone, short(91, 40.0)),
        Next::Dip { before: short(91, 40.0).sample(), others_since: None }
    );
    for (emptied, round_trip) in [(92, 40.0), (91, 200.0)] {
        assert!(
            Phase::from(Next::Alone).end_round(&short(emptied, round_trip)).is_none(),
            "50 round trips are 10 s"
        );
    }
}

#[test]
fn a_queue_that_falls_with_the_flight_was_ours() {
    let step = step_after(3, dip(None).into(), round(20.0, 50_000));
    assert_eq!((step.next, step.finding), (Next::Alone, Some(Finding::Own)));
    assert!(step.loss_bound.is_none());
    let fallen =
        Round { queue: QueueDelay { latest: ms(130.0), ..round(0.0, 0).queue }, ..round(0.0, 50_000) };
    let from = Next::Dip { before: Sample { queue: ms(180.0), ..before() }, others_since: Some(at(90)) };
    let step = step_after(3, from.into(), fallen);
    assert_eq!(step.next, Next::Alone, "by half of what was left out");
    assert!(step.loss_bound.is_some_and(|bound| !bound.is_finite()), "the others are gone");
    let shared = Round { is_shared: true, ..round(20.0, 50_000) };
    assert_eq!(step_after(3, dip(None).into(), shared).finding, None);
}

#[test]
fn a_queue_that_falls_by_less_is_of_others() {
    let step = step_after(3, dip(None).into(), round(50.0, 50_000));
    assert_eq!(step.next, Next::Beside { since: at(100), start: round(50.0, 50_000).sample() });
    assert_eq!(step.loss_bound.map(|bound| bound.window()), Some(100_000.0), "the calm flight");
    let step = step_after(3, dip(Some(at(90))).into(), round(50.0, 50_000));
    assert_eq!(step.next, Next::Beside { since: at(90), start: round(50.0, 50_000).sample() });
    assert!(step.loss_bound.is_none(), "CUBIC goes on");
}

#[test]
fn a_delay_that_does_not_follow_the_flight_is_tested_by_as_much_in_flight_as_before() {
    let step = step_after(3, dip(None).into(), round(70.0, 50_000));
    assert_eq!((step.next, step.finding), (restore(), Some(Finding::Own)));
    let shared = Round { is_shared: true, ..round(70.0, 50_000) };
    assert!(matches!(next(3, dip(None), shared), Next::Beside { .. }));
}

#[test]
fn a_dip_that_leaves_nothing_out_is_followed_by_a_lift() {
    let before = Sample { flight: 90_000, ..before() };
    let lift = next(3, Next::Dip { before, others_since: None }, round(70.0, 50_000));
    assert_eq!(
        lift,
        Next::Lift { before: Sample { flight: 90_000, ..round(70.0, 50_000).sample() }, again: false }
    );
}

#[test]
fn a_dip_keeps_half_a_pipe_and_at_least_a_quarter_of_that_before() {
    let Phase::Dip(dip) = Phase::from(dip(None)) else { unreachable!() };
    let window = |rate| dip.window(ByteRate::new(rate), ms(40.0));
    assert_eq!([2.5e6, 1.25e6, 0.5e6].map(window), [50_000, 25_000, 25_000]);
}

#[test]
fn a_path_that_carries_as_much_again_and_no_later_only_delays() {
    let step = step_after(3, restore().into(), round(75.0, 300_000));
    assert_eq!((step.next, step.finding), (Next::Alone, None));
    let step = step_after(3, restore().into(), round(160.0, 300_000));
    assert_eq!((step.next, step.finding), (Next::Alone, Some(Finding::Queue)), "80 of 100 ms");
    let slow = Round { rate: ByteRate::new(1.7e6), ..round(75.0, 300_000) };
    let step = step_after(3, restore().into(), slow);
    assert_eq!(
        (step.next, step.finding),
        (Next::Beside { since: at(100), start: slow.sample() }, Some(Finding::Queue))
    );
    assert_eq!(step.loss_bound.map(|bound| bound.window()), Some(300_000.0));
}

#[test]
fn a_lift_finds_others_if_the_share_grows_and_the_queue_does_not() {
    let before = round(70.0, 50_000).sample();
    let lift = |again| Next::Lift { before, again };
    let round = |rate, queue, in_flight| Round { rate: ByteRate::new(rate), ..round(queue, in_flight) };
    let more = round(4e6, 75.0, 100_000);
    assert_eq!(next(4, lift(false), more), Next::Beside { since: at(100), start: more.sample() });
    let little = round(4e6, 75.0, 99_999);
    assert_eq!(next(4, lift(false), little), Next::Lift { before: little.sample(), again: true });
    let later = round(4e6, 91.0, 100_000);
    assert_eq!(next(4, lift(false), later), Next::Alone);
    assert_eq!(next(4, lift(true), round(2.5e6, 91.0, 100_000)), Next::Alone, "the queue has grown for it");
    assert!(matches!(next(4, lift(true), round(2.5e6, 75.0, 100_000)), Next::Beside { .. }));
    let Phase::Lift(lift) = Phase::from(lift(true)) else { unreachable!() };
    assert_eq!(lift.window(), 100_000);
}

#[test]
fn others_are_not_there_if_the_queue_grows_as_ours_does() {
    let start = round(50.0, 100_000).sample();
    assert_eq!(
        next(1, beside(at(100), start), round(140.0, 200_000)),
        Next::Alone,
        "90 ms for 100 kB, of 40"
    );
    let mut others = beside(at(100), start);
    assert!(others.end_round(&round(75.0, 200_000)).is_none(), "25 ms are less than 0.8 of 40");
    (0..3).for_each(|_| assert!(others.end_round(&round(75.0, 100_000)).is_none()));
    assert!(others.end_round(&round(140.0, 200_000)).is_none(), "they were confirmed");
}

#[test]
fn others_are_gone_if_the_queue_is_short_or_grows_as_the_rate_falls() {
    let start = round(50.0, 100_000).sample();
    assert_eq!(next(9, beside(at(100), start), round(30.0, 100_000)), Next::Alone);
    let mut others = beside(at(100), start);
    (0..4).for_each(|_| assert!(others.end_round(&round(50.0, 100_000)).is_none()));
    let fallen = Round { rate: ByteRate::new(1.2e6), ..round(101.0, 100_000) };
    assert_eq!(next(1, others, fallen), Next::Alone);
}

#[test]
fn dips_beside_others_become_rarer() {
    let start = round(50.0, 100_000).sample();
    let called = |since, emptied| {
        let round = Round { emptied: at(emptied), ..round(50.0, 100_000) };
        beside(at(since), start).end_round(&round).is_some()
    };
    assert!(!called(95, 92) && called(95, 91), "8 s");
    assert!(!called(76, 88) && called(76, 87), "half of 24 s");
    assert!(!called(0, 84) && called(0, 83), "16 s");
    let waits = Round { is_limited: false, ..round(50.0, 100_000) };
    assert_eq!(
        next(1, beside(at(95), start), waits),
        Next::Dip { before: waits.sample(), others_since: Some(at(95)) }
    );
}
