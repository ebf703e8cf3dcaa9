use super::{effect::tolerance, *};
use crate::experiment::claim::Against;
use crate::result::{DistributionPoint, sample::run};

/// A run that cancelled `cancelled` blocks.
fn record(scheduler: &str, place: &str, seed: u64, cancelled: u64) -> Record {
    let mut run = run(scheduler, seed);
    for class in &mut run.flows[0].classes {
        class.tally.cancelled_blocks = 0;
    }
    run.flows[0].total.cancelled_blocks = cancelled;
    let point = [("place".to_owned(), place.to_owned())].into();
    Record { experiment: "e".into(), point, key: String::new(), run }
}

/// A claim of `storm` against `minrtt`.
fn claim(expectation: Expectation, over: Over) -> Claim {
    Claim {
        id: String::new(),
        of: Of::Mean,
        says: String::new(),
        at: Point::new(),
        over,
        subject: Subject::flow("camera"),
        measure: "cancelled_blocks".parse().unwrap(),
        scheduler: "storm".into(),
        against: Against { scheduler: "minrtt".into(), at: Point::new(), subject: Subject::flow("camera") },
        expectation,
        evidence: BTreeMap::new(),
        finding: String::new(),
    }
}

/// Returns the verdict on these cells, each run twice with the same outcome.
fn found_twice(expectation: Expectation, over: Over, cells: &[(&str, u64, u64)]) -> (Verdict, String) {
    found(expectation, over, &[cells, cells].concat())
}

fn found(expectation: Expectation, over: Over, numbers: &[(&str, u64, u64)]) -> (Verdict, String) {
    let records: Vec<Record> = numbers
        .iter()
        .zip(1..)
        .flat_map(|(&(place, own, other), seed)| {
            [record("storm", place, seed, own), record("minrtt", place, seed, other)]
        })
        .collect();
    let claim = claim(expectation, over);
    let records: Vec<&Record> = records.iter().collect();
    let finding = Evaluator { claim: &claim, records: &records, apart: &[] }.outcome();
    (finding.verdict, finding.found)
}

#[test]
fn a_cell_with_next_to_nothing_does_not_decide() {
    let cells = [("hall", 50, 100), ("street", 2, 1)];
    let mean = found_twice(Expectation::Change(-0.5), Over::Mean, &cells);
    assert_eq!(mean, (Verdict::Holds, "-48.5 % (-48.5 % to -48.5 %)".into()));
    let least = found_twice(Expectation::Change(-0.5), Over::Least, &cells);
    assert_eq!(least, (Verdict::DoesNotHold, "+100.0 % (+100.0 % to +100.0 %)".into()));
}

#[test]
fn a_cell_where_runs_have_nothing_to_measure_is_left_out() {
    let cells = [("hall", 5, 10), ("hall", 6, 10), ("hall", 5, 10), ("street", 9, 1)];
    assert_eq!(found(Expectation::Less, Over::Mean, &cells).0, Verdict::Holds);
    assert_eq!(found(Expectation::Less, Over::Least, &cells).0, Verdict::Holds);
}

#[test]
fn nothing_can_be_compared_with() {
    let some = [("hall", 7, 0)];
    assert_eq!(
        found_twice(Expectation::Change(-0.9), Over::Mean, &some),
        (Verdict::DoesNotHold, "7.00 against none".into())
    );
    assert_eq!(found_twice(Expectation::More, Over::Mean, &some).0, Verdict::Holds);
    let once = [("hall", 7, 0), ("hall", 0, 0)];
    assert_eq!(found(Expectation::More, Over::Mean, &once).0, Verdict::Unclear, "in one of two runs");
    let none = [("hall", 0, 0)];
    assert_eq!(found(Expectation::Less, Over::Mean, &none), (Verdict::NotMeasured, "none in either".into()));
    assert_eq!(found_twice(Expectation::Less, Over::Mean, &[("hall", 0, 5)]).0, Verdict::Holds);
}

#[test]
fn more_than_twice_the_claimed_size_exceeds_the_claim() {
    let change =
        |own, claimed| found_twice(Expectation::Change(claimed), Over::Mean, &[("hall", own, 100)]).0;
    assert_eq!([change(26, -0.5), change(24, -0.5)], [Verdict::Holds, Verdict::Exceeds], "twice is −75 %");
    assert_eq!([change(168, 0.3), change(170, 0.3)], [Verdict::Holds, Verdict::Exceeds], "twice is +69 %");
    assert_eq!(change(500, -0.5), Verdict::DoesNotHold);
    let times = |own| found_twice(Expectation::Times(2.0), Over::Mean, &[("hall", own, 100)]).0;
    assert_eq!([times(400), times(401)], [Verdict::Holds, Verdict::Exceeds]);
    let more = |own| found_twice(Expectation::Difference(30.0), Over::Mean, &[("hall", own, 100)]).0;
    assert_eq!([more(160), more(161)], [Verdict::Holds, Verdict::Exceeds]);
    assert_eq!(
        found_twice(Expectation::More, Over::Mean, &[("hall", 900, 1)]).0,
        Verdict::Holds,
        "it has no size"
    );
    let chance = [("hall", 24, 100), ("hall", 30, 100), ("hall", 20, 100)];
    assert_eq!(found(Expectation::Change(-0.5), Over::Mean, &chance).0, Verdict::Holds, "it may be twice");
}

#[test]
fn what_may_be_chance_is_unclear() {
    let seeds = [("hall", 5, 10), ("hall", 12, 10), ("hall", 7, 10)];
    assert_eq!(found(Expectation::Less, Over::Mean, &seeds).0, Verdict::Unclear);
    let seeds = [("hall", 5, 10), ("hall", 6, 10), ("hall", 5, 10)];
    // -46.9 % (-59.1 % to -31.0 %).
    assert_eq!(found(Expectation::Change(-0.38), Over::Mean, &seeds).0, Verdict::Holds);
    assert_eq!(found(Expectation::Change(-0.4), Over::Mean, &seeds).0, Verdict::DirectionOnly);
    assert_eq!(found(Expectation::Change(-0.5), Over::Mean, &seeds).0, Verdict::DirectionOnly);
    assert_eq!(found(Expectation::Change(-0.9), Over::Mean, &seeds).0, Verdict::DirectionOnly);
    assert_eq!(found(Expectation::Change(0.5), Over::Mean, &seeds).0, Verdict::DoesNotHold);
}

#[test]
fn an_effect_of_the_claimed_size_that_is_excluded_does_not_hold() {
    // -7.6 % (-15.0 % to +0.5 %).
    let little = [("hall", 9, 10), ("hall", 10, 10), ("hall", 9, 10), ("hall", 9, 10)];
    assert_eq!(found(Expectation::Change(-0.9), Over::Mean, &little).0, Verdict::DoesNotHold);
    assert_eq!(found(Expectation::Change(-0.19), Over::Mean, &little).0, Verdict::Unclear, "it may be");
    assert_eq!(found(Expectation::Less, Over::Mean, &little).0, Verdict::Unclear, "any size would do");
    let alike = [("hall", 1_001, 1_000), ("hall", 999, 1_000), ("hall", 1_000, 1_000)];
    assert_eq!(found(Expectation::Less, Over::Mean, &alike).0, Verdict::Tied);
    assert_eq!(found(Expectation::More, Over::Mean, &alike).0, Verdict::Tied);
    let same = [("hall", 1_000, 1_000), ("hall", 900, 900), ("hall", 1_100, 1_100)];
    for expectation in [Expectation::Less, Expectation::More] {
        assert_eq!(found(expectation, Over::Mean, &same).0, Verdict::Tied, "no difference at all");
    }
    assert_eq!(found(Expectation::Change(-0.5), Over::Mean, &same).0, Verdict::DoesNotHold);
    let wider = [("hall", 1_040, 1_000), ("hall", 980, 1_000), ("hall", 1_000, 1_000)];
    assert_eq!(found(Expectation::More, Over::Mean, &wider).0, Verdict::Unclear, "up to 8 %");
}

#[test]
fn a_value_and_a_limit_are_judged_by_the_whole_interval() {
    let value =
        |claimed: f64, runs: &[(&str, u64, u64)]| found(Expectation::Value(claimed), Over::Mean, runs).0;
    let narrow = [("hall", 95, 0), ("hall", 96, 0), ("hall", 95, 0)];
    assert_eq!(value(100.0, &narrow), Verdict::Holds);
    assert_eq!(value(64.4, &narrow), Verdict::DoesNotHold);
    let wide = [("hall", 92, 0), ("hall", 100, 0)];
    assert_eq!(value(64.4, &wide), Verdict::Unclear, "96 ± 50.8 includes it");
    assert_eq!(value(96.0, &wide), Verdict::Unclear, "and much else");
    let limit = |expectation: Expectation, runs| found(expectation, Over::Mean, runs).0;
    assert_eq!(limit(Expectation::AtLeast(90.0), &narrow), Verdict::Holds);
    assert_eq!(limit(Expectation::AtLeast(90.0), &wide), Verdict::Unclear);
    assert_eq!(limit(Expectation::AtMost(90.0), &narrow), Verdict::DoesNotHold);
}

#[test]
fn one_seed_proves_nothing() {
    let expectations = [
        Expectation::Change(-0.5),
        Expectation::Times(0.5),
        Expectation::Difference(-50.0),
        Expectation::Less,
        Expectation::More,
        Expectation::Value(50.0),
        Expectation::AtLeast(10.0),
        Expectation::AtMost(90.0),
        Expectation::Best(Best::Lowest),
        Expectation::Best(Best::Highest),
    ];
    for expectation in expectations {
        assert_eq!(
            found(expectation, Over::Mean, &[("hall", 50, 100)]).0,
            Verdict::Unclear,
            "{expectation:?}"
        );
    }
    assert_eq!(found(Expectation::More, Over::Mean, &[("hall", 7, 0)]).0, Verdict::Unclear);
}

/// Runs of any number of schedulers in one cell; the claim is about the first.
fn all(schedulers: &[(&str, &[u64])]) -> Vec<Record> {
    let runs = schedulers.iter().flat_map(|(name, values)| {
        values.iter().zip(1..).map(|(value, seed)| record(name, "hall", seed, *value))
    });
    runs.collect()
}

fn among(expectation: Expectation, schedulers: &[(&str, &[u64])]) -> Outcome {
    let records = all(schedulers);
    let records: Vec<&Record> = records.iter().collect();
    let claim = claim(expectation, Over::Mean);
    Evaluator { claim: &claim, records: &records, apart: &[] }.outcome()
}

#[test]
fn the_best_is_ahead_of_all_and_not_only_behind_none() {
    let lowest = |schedulers: &[(&str, &[u64])]| among(Expectation::Best(Best::Lowest), schedulers).verdict;
    let own: (&str, &[u64]) = ("storm", &[10, 11, 10]);
    assert_eq!(lowest(&[own, ("minrtt", &[20, 21, 20]), ("ecf", &[30, 31, 30])]), Verdict::Holds);
    assert_eq!(lowest(&[own, ("minrtt", &[20, 21, 20]), ("ecf", &[10, 12, 9])]), Verdict::Tied);
    assert_eq!(lowest(&[own, ("minrtt", &[20, 21, 20]), ("ecf", &[5, 6, 5])]), Verdict::DoesNotHold);
}

#[test]
fn a_value_that_all_have_says_nothing() {
    let value = |schedulers: &[(&str, &[u64])]| among(Expectation::Value(100.0), schedulers).verdict;
    let own: (&str, &[u64]) = ("storm", &[100, 101, 100]);
    assert_eq!(value(&[own, ("minrtt", &[100, 100, 100])]), Verdict::Saturated);
    assert_eq!(value(&[own, ("minrtt", &[104, 104, 104])]), Verdict::Holds);
    assert_eq!(value(&[own]), Verdict::Holds, "there is no other");
}

#[test]
fn an_outlier_does_not_hide_what_all_seeds_show() {
    // The difference of the means is 504 ± 1,090.
    let more = among(
        Expectation::More,
        &[("storm", &[110, 2_600, 130, 120, 125]), ("minrtt", &[80, 83, 85, 82, 84])],
    );
    assert_eq!(more.verdict, Verdict::Unclear, "even so: {}", more.found);
    let more = among(
        Expectation::More,
        &[("storm", &[160, 2_600, 180, 170, 175]), ("minrtt", &[40, 43, 45, 42, 44])],
    );
    assert_eq!(more.verdict, Verdict::Holds, "{}", more.found);
}

#[test]
fn what_is_unclear_says_how_many_seeds_would_decide() {
    let less = among(Expectation::Less, &[("storm", &[5, 12, 7]), ("minrtt", &[10, 10, 10])]);
    // The interval of the logarithm is -0.29 ± 1.09, which gives 3 · (1.09 / 0.29)² for the plain
    // numbers.
    assert!(
        less.verdict == Verdict::Unclear && less.seeds.is_some_and(|n| (10..200).contains(&n)),
        "{:?}",
        less.seeds
    );
    let clear = among(Expectation::Less, &[("storm", &[5, 6, 5]), ("minrtt", &[10, 10, 10])]);
    assert_eq!(clear.seeds, None);
}

#[test]
fn the_greatest_of_many_needs_more() {
    // Four equal cells: each alone would be less, but the least of four requires more.
    let runs = [("hall", 5, 10), ("street", 5, 10), ("yard", 5, 10), ("road", 5, 10)];
    let noisy = [("hall", 9, 10), ("street", 9, 10), ("yard", 9, 10), ("road", 9, 10)];
    let third = [("hall", 6, 10), ("street", 6, 10), ("yard", 6, 10), ("road", 6, 10)];
    let cells = [runs, noisy, third].concat();
    assert_eq!(found(Expectation::Less, Over::Most, &cells[..]).0, Verdict::Unclear);
    let one: Vec<_> = cells.iter().filter(|cell| cell.0 == "hall").copied().collect();
    assert_eq!(found(Expectation::Less, Over::Most, &one).0, Verdict::Unclear);
}

#[test]
fn tolerances_suit_the_unit() {
    assert_eq!((tolerance(Unit::Level, 46.1), tolerance(Unit::Frames, 29.6)), (1.0, 1.0));
    assert!((tolerance(Unit::Ratio, 0.92) - 0.02).abs() < 1e-9, "8 % lack");
    assert!((tolerance(Unit::Ratio, 0.04) - 0.01).abs() < 1e-9);
    assert!((tolerance(Unit::Ratio, 0.999) - 0.001).abs() < 1e-9, "printed with one decimal");
    assert!((tolerance(Unit::Likeness, 0.99) - 0.01).abs() < 1e-9, "printed with two");
    assert!((tolerance(Unit::Time, 100.0) - 25.0).abs() < 1e-9);
}

#[test]
fn pooled_percentiles_are_those_of_all_blocks() {
    let point = |latency_us, later| DistributionPoint { latency_us, later };
    let good = [point(0, 1.0), point(10, 0.001), point(20, 0.0)];
    let bad = [point(0, 1.0), point(10, 0.5), point(300, 0.01), point(400, 0.0)];
    let tails = [Tail { decided: 900.0, points: &good }, Tail { decided: 100.0, points: &bad }];
    // Out of 1,000 blocks, one exceeds 300 and fewer than 50.9 exceed 10.
    assert_eq!(pooled(tails.into_iter(), 0.9), Some(10.0));
    assert_eq!(pooled(tails.into_iter(), 0.99), Some(300.0));
    assert_eq!(pooled(tails.into_iter(), 0.9999), Some(400.0));
    let lost = [point(0, 1.0), point(10, 0.2)];
    assert_eq!(
        pooled([Tail { decided: 10.0, points: &lost }].into_iter(), 0.9),
        None,
        "a fifth never arrived"
    );
}

#[test]
fn values_are_of_the_runs_that_are_compared() {
    let records = all(&[("storm", &[10, 20, 60]), ("minrtt", &[2, 4])]);
    let records: Vec<&Record> = records.iter().collect();
    let values = |of: Of| {
        let claim = Claim { of, ..claim(Expectation::Less, Over::Mean) };
        let values = Evaluator { claim: &claim, records: &records, apart: &[] }.compared().unwrap();
        assert_eq!((values.system.as_str(), values.challenger.as_str()), ("minrtt", "storm"));
        (values.of_system, values.of_challenger)
    };
    // The third seed of `storm` has no counterpart.
    assert_eq!(values(Of::Mean), ("3.00".into(), "15.0".into()));
    assert_eq!(values(Of::Median), ("3.00".into(), "15.0".into()));
    assert_eq!(values(Of::Highest), ("4.00".into(), "20.0".into()));
}

#[test]
fn rivals_over_another_transport_are_no_rivals() {
    let records = all(&[("storm", &[10, 11, 10]), ("minrtt", &[20, 21, 20]), ("minrtt+stock", &[5, 6, 5])]);
    let records: Vec<&Record> = records.iter().collect();
    let claim = claim(Expectation::Best(Best::Lowest), Over::Mean);
    let verdict = |apart: &str| {
        Evaluator { claim: &claim, records: &records, apart: &[&apart.to_owned()] }.outcome().verdict
    };
    assert_eq!((verdict("minrtt+stock"), verdict("minrtt")), (Verdict::Holds, Verdict::DoesNotHold));
}
