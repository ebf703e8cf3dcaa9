use proptest::{prelude::*, strategy::ValueTree as _};
use squall_units::short::{at_ms, at_us, ms, us};

use super::*;

const SRTT: Span = ms(30);
const EXPECTED: Expectation =
    Expectation { rtt: SRTT, deviation: ms(5), probe_timeout: ms(60), silence: ms(200) };

/// A path in use without history.
fn in_use() -> Life {
    Life { state: State::InUse, ..Life::default() }
}

fn lost(life: &mut Life, now: Time, packet: Packet, window: u64) -> bool {
    life.on_loss(now, packet, window, true) == Some(Change::Narrowed)
}

fn full(sent_at: Time) -> Packet {
    Packet::without_data(sent_at, FULL_SIZE)
}

fn small(sent_at: Time) -> Packet {
    Packet::without_data(sent_at, 100)
}

#[test]
fn a_path_that_passes_small_packets_only_is_out_until_a_full_size_one_passes() {
    let mut life = in_use();
    life.suspect(at_ms(1_000), None, 80_000);
    let back = life.on_proof(at_ms(1_100), small(at_ms(1_090)), SRTT);
    assert_eq!(back, Some(Change::Readmitted(ms(100))), "the first time a small one is enough");
    life.suspect(at_ms(1_300), None, 80_000);
    assert_eq!(life.on_proof(at_ms(1_350), small(at_ms(1_340)), SRTT), Some(Change::StillNarrow));
    assert!(life.is_narrow() && !life.is_suspect());
    assert_eq!(life.full_probe_at(), Some(at_ms(1_350)));
    assert_eq!(life.on_full_probe(at_ms(1_350)), Some((FULL_SIZE, false)));
    assert_eq!(life.full_probe_at(), Some(at_ms(1_600)));
    assert_eq!(life.on_full_probe(at_ms(1_600)), Some((FULL_SIZE, true)), "the first was not answered");
    assert_eq!(life.full_probe_at(), Some(at_ms(2_100)));
    assert_eq!(life.on_proof(at_ms(1_700), small(at_ms(1_690)), SRTT), None);
    let back = life.on_proof(at_ms(1_800), full(at_ms(1_700)), SRTT);
    assert_eq!(back, Some(Change::Readmitted(ms(500))));
    life.suspect(at_ms(3_000), None, 80_000);
    let back = life.on_proof(at_ms(3_100), small(at_ms(3_090)), SRTT);
    assert_eq!(back, Some(Change::Readmitted(ms(100))), "a full-size packet had passed");
}

#[test]
fn a_path_that_loses_full_size_packets_and_passes_small_ones_is_narrow() {
    let mut life = in_use();
    life.on_proof(at_ms(1_030), full(at_ms(1_000)), SRTT);
    for i in 0..20 {
        assert!(!lost(&mut life, at_ms(1_050), full(at_us(990_000 + i)), 80_000), "older than what arrived");
    }
    for i in 1..10 {
        life.on_proof(at_us(1_100_000 + i), small(at_us(1_002_000 * i)), SRTT);
        assert!(!lost(&mut life, at_us(1_100_000 + i), full(at_ms(1_001)), 80_000));
    }
    assert!(!lost(&mut life, at_ms(1_200), small(at_ms(1_001)), 80_000));
    assert!(lost(&mut life, at_ms(1_200), full(at_ms(1_001)), 80_000));
    assert!(life.is_narrow());
    let back = life.on_proof(at_ms(1_300), full(at_ms(1_200)), SRTT);
    assert_eq!(back, Some(Change::Readmitted(ms(100))));
}

/// Applies fates of packets with data of 700 bytes, one in 10 ms, while small ones arrive; returns
/// the changes from losses.
fn fates(life: &mut Life, from: Time, count: u64, is_lost: impl Fn(u64) -> bool) -> Vec<Change> {
    let fate = |n| {
        let now = from + ms(10 * n);
        life.on_proof(now, small(now - SRTT), SRTT);
        let packet = Packet { sent_at: now - SRTT, bytes: 700, has_data: true };
        if is_lost(n) { life.on_loss(now, packet, 80_000, true) } else { life.on_proof(now, packet, SRTT) }
    };
    (0..count).filter_map(fate).collect()
}

#[test]
fn a_path_that_loses_the_size_of_data_is_out_until_that_size_passes() {
    let mut life = in_use();
    assert_eq!(fates(&mut life, at_ms(1_000), 90, |_| true), [], "not long enough");
    assert_eq!(fates(&mut life, at_ms(1_900), 20, |_| true), [Change::Picky(ms(1_000))]);
    assert!(life.is_narrow() && life.is_trusted());
    assert_eq!(life.on_full_probe(at_ms(2_000)), Some((700, false)));
    assert_eq!(life.on_full_probe(at_ms(2_250)), Some((700, false)), "its MTU is large enough");
    assert_eq!(life.on_proof(at_ms(2_300), small(at_ms(2_250)), SRTT), None);
    assert_eq!(life.on_proof(at_ms(2_300), full(at_ms(2_250)), SRTT), None);
    let back = life.on_proof(at_ms(2_310), Packet::without_data(at_ms(2_250), 710), SRTT);
    assert!(matches!(back, Some(Change::Readmitted(_))));
    assert_eq!(fates(&mut life, at_ms(2_400), 90, |_| true), [], "it is judged again");
}

#[test]
fn ordinary_loss_says_nothing_of_sizes() {
    for (of, lost) in [(100, 8), (10, 3), (2, 1), (5, 3)] {
        let mut life = in_use();
        assert_eq!(fates(&mut life, at_ms(1_000), 6_000, |n| n % of < lost), [], "{lost} of {of}");
        // Half a second of each.
        assert_eq!(fates(&mut life, at_ms(70_000), 6_000, |n| n % 100 < 50), [], "bursts");
    }
    let mut life = in_use();
    for n in 0..300 {
        let packet = Packet { sent_at: at_ms(1_000 + 10 * n), bytes: 700, has_data: true };
        assert_eq!(life.on_loss(packet.sent_at + SRTT, packet, 80_000, false), None, "the last path");
    }
}

#[test]
fn what_an_outage_took_along_says_nothing_of_sizes() {
    let mut life = in_use();
    life.on_proof(at_ms(1_030), full(at_ms(1_000)), SRTT);
    life.suspect(at_ms(1_200), None, 80_000);
    // Some are declared lost during the outage, the others once a probe has passed.
    for i in 0..50 {
        assert!(!lost(&mut life, at_ms(1_300), full(at_us(1_010_000 + i)), 80_000));
    }
    let back = life.on_proof(at_ms(1_400), small(at_ms(1_380)), SRTT);
    assert_eq!(back, Some(Change::Readmitted(ms(200))));
    for i in 0..50 {
        assert!(!lost(&mut life, at_ms(1_400), full(at_us(1_020_000 + i)), 80_000));
    }
    // Packets that leave from then on do.
    life.on_proof(at_ms(1_460), small(at_ms(1_440)), SRTT);
    assert!((1..10).all(|i| !lost(&mut life, at_ms(1_470), full(at_us(1_410_000 + i)), 80_000)));
    assert!(lost(&mut life, at_ms(1_470), full(at_ms(1_420)), 80_000));
}

#[test]
fn silence_counts_from_when_proof_was_due_and_through_a_challenge() {
    let mut life = in_use();
    life.on_proof(at_ms(1_000), full(at_ms(970)), SRTT);
    assert_eq!(life.challenge_at(None, &EXPECTED), None, "nothing in flight");
    // Sent just now: due after a round trip, overdue 20 ms later.
    assert_eq!(life.challenge_at(Some(at_ms(1_000)), &EXPECTED), Some(at_ms(1_050)));
    // Sent long ago, but other packets were acknowledged since.
    assert_eq!(life.challenge_at(Some(at_ms(500)), &EXPECTED), Some(at_ms(1_020)));
    assert_eq!(life.suspect_at(Some(at_ms(500)), &EXPECTED), None, "not challenged yet");
    life.on_challenge(at_ms(1_020), &EXPECTED);
    assert_eq!(life.challenge_at(Some(at_ms(500)), &EXPECTED), Some(at_ms(1_040)));
    assert_eq!(life.suspect_at(Some(at_ms(500)), &EXPECTED), Some(at_ms(1_120)), "two probe timeouts");
    // Long probe timeouts are limited, short ones are extended.
    let suspect_at =
        |probe_timeout| life.suspect_at(Some(at_ms(500)), &Expectation { probe_timeout, ..EXPECTED });
    assert_eq!(suspect_at(ms(500)), Some(at_ms(1_200)));
    assert_eq!(suspect_at(ms(1)), Some(at_ms(1_070)), "the answer to the challenge may take 50 ms");
    let silent = |now, oldest| ({ life }).suspect(now, Some(oldest), 80_000);
    assert_eq!(silent(at_ms(1_120), at_ms(500)), Change::Suspected(ms(120)));
    assert_eq!(silent(at_ms(3_120), at_ms(3_000)), Change::Suspected(ms(120)), "it was idle before");
    // An answer ends the challenge.
    life.on_proof(at_ms(1_050), full(at_ms(1_015)), SRTT);
    assert_eq!(life.suspect_at(Some(at_ms(500)), &EXPECTED), None);
    assert_eq!(life.challenge_at(Some(at_ms(500)), &EXPECTED), Some(at_ms(1_070)));
}

#[test]
fn a_path_without_recent_proof_is_in_doubt_and_hedged_for_an_initial_window() {
    let mut life = in_use();
    life.on_proof(at_ms(1_030), full(at_ms(1_000)), SRTT);
    assert!(!life.is_in_doubt(at_ms(1_250), ms(45)));
    assert!(life.is_in_doubt(at_us(1_250_001), ms(45)));
    assert!(!life.is_in_doubt(at_ms(1_600), ms(600)), "a long path proves nothing sooner");
    assert!(life.may_hedge(MAX_HEDGED) && !life.may_hedge(MAX_HEDGED + 1));
    life.on_hedged(14_000);
    assert!(life.may_hedge(720) && !life.may_hedge(721));
    life.on_proof(at_ms(1_400), full(at_ms(1_300)), SRTT);
    assert!(life.may_hedge(MAX_HEDGED));
}

#[test]
fn a_recent_packet_readmits_and_a_stale_one_does_not() {
    let mut life = in_use();
    life.suspect(at_ms(1_000), None, 100_000);
    assert!(life.is_suspect());
    assert_eq!(life.on_proof(at_ms(4_000), full(at_ms(900)), SRTT), None, "three seconds late");
    assert!(life.is_suspect());
    assert_eq!(life.on_proof(at_ms(4_000), full(at_ms(3_950)), SRTT), Some(Change::Readmitted(ms(3_000))));
    assert!(!life.is_suspect());
}

#[test]
fn probation_halves_the_window_for_a_round_trip() {
    let mut life = in_use();
    life.suspect(at_us(0), None, 100_000);
    life.on_proof(at_ms(500), full(at_ms(480)), SRTT);
    assert_eq!(life.cap(100_000), 50_000);
    assert_eq!(life.cap(20_000), 20_000, "never above the controller's own");
    life.on_proof(at_ms(520), full(at_ms(490)), SRTT);
    assert_eq!(life.cap(100_000), 50_000);
    life.on_proof(at_ms(530), full(at_ms(500)), SRTT);
    assert_eq!(life.cap(100_000), 100_000);
}

#[test]
fn a_path_that_flaps_comes_back_ever_smaller() {
    let mut life = in_use();
    let mut caps = Vec::new();
    for i in 0..6u64 {
        life.suspect(at_ms(i * 1_000), None, 80_000);
        life.on_proof(at_ms(i * 1_000 + 500), full(at_ms(i * 1_000 + 480)), SRTT);
        caps.push(life.cap(80_000));
    }
    assert_eq!(caps, [40_000, 20_000, 10_000, 5_000, 4_800, 4_800]);
}

#[test]
fn probes_become_rarer() {
    let mut life = in_use();
    life.suspect(at_us(0), None, 100_000);
    let mut at = vec![life.probe_at().unwrap()];
    while *at.last().unwrap() < at_ms(60_000) {
        life.on_probe(*at.last().unwrap());
        at.push(life.probe_at().unwrap());
    }
    assert_eq!(at[1] - at[0], ms(25));
    assert!(at[..200].last().unwrap() < &at_ms(5_000));
    assert_eq!(at[at.len() - 1] - at[at.len() - 2], ms(1_000));
    assert!(at.len() < 500, "{} probes in a minute", at.len());
}

/// An input of a path's life.
#[derive(Clone, Debug)]
enum Input {
    Validated,
    Silent,
    /// A packet of this age has arrived.
    Arrived(Span, bool),
    Lost(Span, bool),
    Radio(bool, AlertKind),
    Budget(bool),
    Probe,
    FullProbe,
    Challenge,
}

fn any_input() -> impl Strategy<Value = Input> {
    let radio = prop::sample::select(vec![AlertKind::Warning, AlertKind::Outage, AlertKind::Recovery]);
    let arrived = (1_000..1_200_000u64, any::<bool>()).prop_map(|(age, full)| Input::Arrived(us(age), full));
    let lost = (1_000..100_000u64, any::<bool>()).prop_map(|(age, full)| Input::Lost(us(age), full));
    let fixed = [Input::Validated, Input::Silent, Input::Probe, Input::FullProbe, Input::Challenge];
    prop_oneof![
        6 => arrived,
        12 => lost,
        5 => prop::sample::select(fixed.to_vec()),
        1 => (any::<bool>(), radio).prop_map(|(by_peer, kind)| Input::Radio(by_peer, kind)),
        1 => any::<bool>().prop_map(Input::Budget),
    ]
}

/// Applies an input as the session does, which applies no other to a path that is not validated.
fn apply(life: &mut Life, now: Time, input: &Input) -> Option<Change> {
    let packet =
        |age, full| Packet { sent_at: now - age, bytes: if full { FULL_SIZE } else { 700 }, has_data: true };
    match *input {
        Input::Validated if !life.is_up() => life.on_validated(now, SRTT),
        Input::Budget(spent) => life.set_spent(spent),
        _ if !life.is_up() => {}
        Input::Silent if !life.is_suspect() => return Some(life.suspect(now, None, 80_000)),
        Input::Arrived(age, full) => return life.on_proof(now, packet(age, full), SRTT),
        Input::Lost(age, full) => return life.on_loss(now, packet(age, full), 80_000, true),
        Input::Radio(by_peer, kind) => {
            return life.on_radio(now, by_peer, RadioState { kind, factor: 0.5 }, 80_000);
        }
        Input::Probe => life.on_probe(now),
        Input::FullProbe => _ = life.on_full_probe(now),
        Input::Challenge => life.on_challenge(now, &EXPECTED),
        Input::Validated | Input::Silent => {}
    }
    None
}

#[test]
fn a_path_is_shown_as_active_only_after_the_peer_has_answered() {
    let mut life = Life::new(at_ms(1_000));
    assert_eq!(life.state(), PathState::Opening);
    life.on_validated(at_ms(1_030), SRTT);
    assert_eq!(life.state(), PathState::Active);
}

/// Returns `true` for transitions of the diagram, with their changes.
fn is_legal(from: Stage, to: Stage, change: Option<Change>) -> bool {
    use Stage::{InUse, Narrow, Opened, Out, Readmitted, Spent, Suspected};
    match (from, to) {
        (Opened, InUse | Spent) | (Readmitted, InUse) => change.is_none(),
        // The budget grows, or is spent.
        (Spent, InUse | Readmitted) | (InUse | Readmitted, Spent) => change.is_none(),
        (InUse | Readmitted | Spent | Narrow, Suspected) => matches!(change, Some(Change::Suspected(_))),
        (InUse | Readmitted | Spent, Narrow) => matches!(change, Some(Change::Narrowed | Change::Picky(_))),
        (Suspected, Narrow) => change == Some(Change::StillNarrow),
        (Suspected | Narrow, Readmitted | Spent) => matches!(change, Some(Change::Readmitted(_))),
        (Opened, Out) | (Out, Opened) => false,
        (_, Out) if from != Out => change == Some(Change::Out),
        (Out, Suspected) => change == Some(Change::RadioBack),
        _ => from == to,
    }
}

fn check(inputs: &[(u64, Input)]) -> Result<std::collections::BTreeSet<Stage>, TestCaseError> {
    let (mut life, mut now) = (Life::new(at_ms(2_000)), at_ms(2_000));
    let mut seen = std::collections::BTreeSet::from([life.stage()]);
    for (step, input) in inputs {
        now += us(*step);
        let from = life.stage();
        let change = apply(&mut life, now, input);
        let to = life.stage();
        prop_assert!(is_legal(from, to, change), "{input:?}: {from:?} to {to:?} with {change:?}");
        seen.insert(to);
        prop_assert_eq!(life.is_in_use(), matches!(to, Stage::InUse | Stage::Readmitted));
        prop_assert_eq!(life.state() == PathState::Opening, to == Stage::Opened && !life.is_out());
        prop_assert!(!life.is_in_use() || life.state() == PathState::Active && life.is_trusted());
        prop_assert!(life.cap(80_000) <= 80_000);
        prop_assert!(life.probe_at().is_none() || life.is_suspect() && !life.is_spent());
        prop_assert!(life.full_probe_at().is_none() || to == Stage::Narrow);
    }
    Ok(seen)
}

proptest! {
    #[test]
    fn no_transition_is_outside_the_picture(inputs in prop::collection::vec((1u64..60_000, any_input()), 1..200)) {
        check(&inputs)?;
    }
}

#[test]
fn every_stage_is_reached() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let inputs = prop::collection::vec((1u64..60_000, any_input()), 2_000);
    let seen = check(&inputs.new_tree(&mut runner).unwrap().current()).unwrap();
    assert_eq!(seen.len(), 7, "{seen:?}");
}
