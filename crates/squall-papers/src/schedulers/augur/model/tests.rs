//! The models by hand, and the threshold compared with a search of all sets of states.

use proptest::{array, collection::vec, prelude::*};
use squall_units::short::{at_ms, ms};

use super::*;

/// One δ for all paths.
fn settings(delta: f64) -> Settings {
    let (allowances, users) = ([Allowance::Delta(delta); MAX_PATHS], Users::default());
    Settings { stall: ms(200), allowances, users, window: ms(300_000), sample: ms(10), stalls: Stalls::Late }
}

impl StateManager {
    /// Returns X₁ of the only group.
    fn retransmit_at(&self) -> Option<Span> {
        assert_eq!(self.groups.len(), 1);
        self.groups[0].retransmit_at
    }

    /// Returns X₂ of the only group.
    fn switch_at(&self) -> Option<Span> {
        assert_eq!(self.groups.len(), 1);
        self.groups[0].switch_at
    }

    fn note_backup(&mut self, now: Time, rtt: Option<Span>) {
        self.note_backups(now, |_| rtt);
    }
}

/// Returns a frame that ended after this many milliseconds and was never the oldest.
fn delivered(millis: u64) -> Outcome {
    let (reported, supposed) = (false, false);
    Outcome {
        first_sent: Time::EPOCH,
        ended: at_ms(millis),
        bytes: 1000,
        delivered: true,
        oldest: None,
        reported,
        supposed,
    }
}

fn manager(delta: f64, ends: &[(u64, u32)], backup: &[u64]) -> StateManager {
    let mut manager = StateManager::new(settings(delta));
    for (ms, times) in ends {
        (0..*times).for_each(|_| _ = manager.note(Time::EPOCH, &delivered(*ms)));
    }
    backup.iter().for_each(|millis| manager.note_backup(Time::EPOCH, Some(ms(*millis))));
    manager.solve(Time::EPOCH);
    manager
}

/// 1000 frames, of which 10 stall: P(stall) = 0.01.
const ENDS: [(u64, u32); 3] = [(20, 950), (80, 40), (300, 10)];

#[test]
fn the_threshold_by_hand() {
    // Eq. 6: P(X) ≤ 3.5 · 0.01. P(T ≥ 80 ms) = 0.05 is too much, P(T ≥ 81 ms) = 0.01 is not.
    assert_eq!(manager(3.5, &ENDS, &[60]).retransmit_at(), Some(ms(81)));
    // 5 · 0.01 = 0.05 affords those of 80 ms too, but not those of 20 ms.
    assert_eq!(manager(5.0, &ENDS, &[60]).retransmit_at(), Some(ms(21)));
    assert_eq!(manager(100.0, &ENDS, &[60]).retransmit_at(), Some(ms(0)), "1.0: everything");
    assert_eq!(manager(0.9, &ENDS, &[60]).retransmit_at(), None, "not even the stalls themselves");
}

#[test]
fn the_backup_must_reach_by_hand() {
    // Eq. 8 at 81 ms: P(RTT ≤ 119 ms).
    assert_eq!(manager(3.5, &ENDS, &[119, 300]).retransmit_at(), Some(ms(81)));
    assert_eq!(manager(3.5, &ENDS, &[120, 300]).retransmit_at(), None);
    assert_eq!(manager(3.5, &ENDS, &[]).retransmit_at(), None, "the backup has no samples");
    let mut above = manager(3.5, &ENDS, &[]);
    above.note_backup(Time::EPOCH, Some(ms(119) + Span::TICK));
    above.solve(Time::EPOCH + SOLVE_INTERVAL);
    assert_eq!(above.retransmit_at(), None, "a part of a step counts as one");
    let mut unusable = manager(3.5, &ENDS, &[]);
    unusable.note_backup(Time::EPOCH, None);
    unusable.solve(Time::EPOCH + SOLVE_INTERVAL);
    assert_eq!(unusable.retransmit_at(), None);
}

#[test]
fn without_a_stall_there_is_no_budget() {
    assert_eq!(manager(3.5, &[(20, 900), (200, 100)], &[60]).retransmit_at(), None, "200 ms is no stall yet");
    assert_eq!(manager(3.5, &[], &[60]).retransmit_at(), None);
}

#[test]
fn what_was_not_delivered_is_a_stall_at_the_age_it_had() {
    let mut manager = manager(3.5, &[(20, 90), (100, 9)], &[60]);
    manager.note(Time::EPOCH, &Outcome { delivered: false, ..delivered(120) });
    manager.solve(Time::EPOCH + SOLVE_INTERVAL);
    // 3.5 · 0.01 allows the frame of 120 ms, not the nine of 100 ms.
    assert_eq!(manager.retransmit_at(), Some(ms(101)));
}

/// Returns a model of 1000 frames, of which the peer reports those of 90 ms as stalls, at once or
/// after their end.
fn reported(at_once: bool) -> StateManager {
    let mut manager = StateManager::new(Settings { stalls: Stalls::Reported, ..settings(3.5) });
    manager.note_backup(Time::EPOCH, Some(ms(60)));
    for (ms, times) in [(20, 950), (80, 30), (90, 10), (300, 10)] {
        for _ in 0..times {
            let outcome = Outcome { oldest: Some((Time::EPOCH, at_ms(ms))), ..delivered(ms) };
            let reported = ms == 90;
            let stalled = manager.note(Time::EPOCH, &Outcome { reported: reported && at_once, ..outcome });
            assert_eq!(stalled, reported && at_once);
            if reported && !stalled {
                manager.note_stall(Time::EPOCH, &outcome);
            }
        }
    }
    manager.solve(Time::EPOCH);
    manager
}

#[test]
fn what_the_peer_reports_is_a_stall_in_the_state_that_it_had() {
    for mut manager in [reported(true), reported(false)] {
        let stalled = manager.frames.stalled.counts(Time::EPOCH);
        assert_eq!((stalled[90], stalled.iter().sum::<u32>()), (10, 10), "those of 300 ms are none");
        assert_eq!(manager.frames.seen.counts(Time::EPOCH).iter().sum::<u32>(), 1000);
        let looks = [10, 90, 100].map(|ms| manager.oldest.stalled.counts(Time::EPOCH)[ms]);
        assert_eq!(looks, [10, 10, 0], "of the oldest frame as well");
        // Below T_thresh P(stall|S) is no longer 0, and P_backup neither: Eq. 7 has terms. 3.5 · 0.01 affords the
        // 20 frames of 90 ms and more, not the 30 of 80 ms.
        assert_eq!(manager.retransmit_at(), Some(ms(81)));
    }
    let mut manager = StateManager::new(Settings { stalls: Stalls::Reported, ..settings(3.5) });
    assert!(
        manager.note(Time::EPOCH, &Outcome { delivered: false, ..delivered(20) }),
        "no viewer ever sees it"
    );
    assert!(
        manager.note(Time::EPOCH, &Outcome { supposed: true, ..delivered(201) }),
        "no peer can report it"
    );
    assert!(!manager.note(Time::EPOCH, &Outcome { supposed: true, ..delivered(200) }));
}

#[test]
fn ages_of_the_oldest_frame_are_sampled_on_a_grid() {
    let mut manager = manager(3.5, &[], &[60]);
    // Sampled at ages of 5, 15, 25 and 35 ms: at 10, 20, 30 and 40 ms.
    let late = Outcome { first_sent: at_ms(5), oldest: Some((at_ms(7), at_ms(44))), ..delivered(45) };
    manager.note(Time::EPOCH, &late);
    let at = |manager: &mut StateManager, ms| manager.oldest.seen.counts(Time::EPOCH)[ms];
    assert_eq!([5, 15, 25, 35].map(|ms| at(&mut manager, ms)), [1; 4]);
    assert_eq!(manager.oldest.seen.counts(Time::EPOCH).iter().sum::<u32>(), 4);
    // A stall of 1 s: 19 samples below 200 ms, at 10…190 ms, and 81 at 200…1000 ms, all of them
    // stalls.
    let stall = Outcome { ended: at_ms(1_000), oldest: Some((Time::EPOCH, at_ms(1_000))), ..delivered(0) };
    manager.note(Time::EPOCH, &stall);
    let stalled = manager.oldest.stalled.counts(Time::EPOCH);
    assert_eq!((stalled[..STATES].iter().sum::<u32>(), stalled[STATES]), (19, 81));
}

/// 100 frames of 25 ms, each sampled at ages of 10 and 20 ms, and one of 240 ms, sampled 24 times.
fn looked_at(delta: f64, backup: u64) -> StateManager {
    let mut manager = StateManager::new(settings(delta));
    manager.note_backup(Time::EPOCH, Some(ms(backup)));
    for (frame, took) in (0..100).map(|frame| (frame, 25)).chain([(100, 240)]) {
        let start = at_ms(30 * frame);
        let ended = start + ms(took);
        let oldest = Some((start, ended));
        manager.note(Time::EPOCH, &Outcome { first_sent: start, ended, oldest, ..delivered(0) });
    }
    manager.solve(Time::EPOCH);
    manager
}

#[test]
fn the_switch_has_a_threshold_of_its_own() {
    // δ·24 = 14.4 samples may be acted on: 14 are at 110 ms or more, 15 at 100 ms or more.
    let manager = looked_at(0.6, 60);
    assert_eq!((manager.retransmit_at(), manager.switch_at()), (None, Some(ms(101))));
    // δ·24 = 84 samples: the 22 older than 20 ms, but not also the 101 of that age. But half of the
    // frames take 25 ms, so this age has no meaning.
    let manager = looked_at(3.5, 60);
    assert_eq!((manager.retransmit_at(), manager.switch_at()), (Some(ms(26)), Some(ms(26))));
    // A backup that reaches no further than to 23 ms.
    assert_eq!(looked_at(3.5, 177).switch_at(), Some(ms(23)));
}

#[test]
fn old_samples_leave_and_the_strategy_with_them() {
    let mut manager = manager(3.5, &ENDS, &[60]);
    let later = Time::EPOCH + manager.settings().window;
    manager.note(later, &delivered(20));
    manager.solve(later);
    assert_eq!(manager.retransmit_at(), None);
}

/// Returns a model of ages in milliseconds, and of backups with one δ and one round trip each.
fn grouped(ages: &[u64], backups: &[(f64, u64)]) -> StateManager {
    let mut settings = settings(0.0);
    for (allowance, (delta, _)) in settings.allowances.iter_mut().zip(backups) {
        *allowance = Allowance::Delta(*delta);
    }
    let mut manager = StateManager::new(settings);
    for age in ages {
        let outcome = Outcome { oldest: Some((Time::EPOCH, at_ms(*age))), ..delivered(*age) };
        manager.note(Time::EPOCH, &outcome);
    }
    manager.note_backups(Time::EPOCH, |paths| {
        let rtts = paths.iter().filter_map(|path| backups.get(usize::from(path.0)));
        rtts.map(|(_, rtt)| ms(*rtt)).min()
    });
    manager.solve(Time::EPOCH);
    manager
}

/// Returns the group of a path.
fn group(manager: &StateManager, path: u8) -> &Group {
    manager.groups().iter().find(|group| group.paths.contains(PathId(path))).expect("each path is in one")
}

#[test]
fn each_delta_has_thresholds_of_its_own() {
    let ages: Vec<u64> = ENDS.iter().flat_map(|(ms, times)| vec![*ms; *times as usize]).collect();
    let manager = grouped(&ages, &[(3.5, 60), (5.0, 60), (0.0, 60), (3.5, 500), (5.1, 190)]);
    let thresholds = [0, 1, 2, 3, 4].map(|path| group(&manager, path).retransmit_at);
    assert_eq!(thresholds, [Some(ms(81)), Some(ms(21)), None, Some(ms(81)), None]);
    assert_eq!(manager.groups().len(), 4, "those of one δ are one, with the shortest of their round trips");
    assert_eq!(group(&manager, 7).paths, group(&manager, 2).paths);
}

#[test]
fn what_is_learned_of_users_changes_the_thresholds() {
    let counted = std::sync::Arc::default();
    let mut settings = settings(0.0);
    settings.users = Users::learned(&counted);
    settings.allowances[1] = Allowance::Monthly { budget: 500_000_000, playing: 0.25 };
    let mut manager = StateManager::new(settings);
    manager.note_backup(Time::EPOCH, Some(ms(60)));
    for (ms, times) in ENDS {
        (0..times).for_each(|_| _ = manager.note(Time::EPOCH, &delivered(ms)));
    }
    manager.solve(Time::EPOCH);
    assert_eq!(group(&manager, 1).retransmit_at, Some(ms(81)), "as with δ = 3.5");
    // Others play 100 hours without a stall: δ is above 50.
    let others = Users::learned(&counted);
    (0..360_000).for_each(|_| others.played(ms(1_000)));
    manager.note_backup(Time::EPOCH, Some(ms(60)));
    manager.solve(Time::EPOCH + SOLVE_INTERVAL);
    assert_eq!(group(&manager, 1).retransmit_at, Some(ms(21)));
    assert_eq!(group(&manager, 2).retransmit_at, None, "its δ is 0");
}

/// A small model with equally many states and round-trip times: (seen, stalled, backup).
type Small = (Vec<u32>, Vec<u32>, Vec<u32>);

fn small() -> impl Strategy<Value = Small> {
    let state = (0..20u32, 0..=100u32).prop_map(|(seen, share)| (seen, seen * share / 100));
    vec((state, prop_oneof![Just(0), 0..9u32]), 1..=8).prop_map(|states| {
        let (samples, backup): (Vec<_>, Vec<_>) = states.into_iter().unzip();
        let (seen, stalled) = samples.into_iter().unzip();
        (seen, stalled, backup)
    })
}

/// Every set of states, as bits.
fn sets(states: usize) -> impl Iterator<Item = u32> {
    0..1 << states
}

fn sum(counts: &[u32]) -> u64 {
    counts.iter().map(|n| u64::from(*n)).sum()
}

/// P_backup of Eq. 8 times the number of probes.
fn in_time(backup: &[u32], state: usize) -> u64 {
    sum(&backup[..backup.len() - state])
}

/// Returns cost and gain of a set of states if every frame ages through the states up to the one in
/// which it ends and is acted on in the first that belongs to the set.
fn aged(set: u32, (seen, stalled, backup): &Small) -> (u64, u64) {
    let (mut cost, mut gain) = (0, 0);
    for end in 0..seen.len() {
        if let Some(first) = (0..=end).find(|state| set & 1 << state != 0) {
            cost += u64::from(seen[end]);
            gain += u64::from(stalled[end]) * in_time(backup, first);
        }
    }
    (cost, gain)
}

/// Σ P(S) and Σ P(stall|S)·P(S)·P_backup(S) over a set, as Eq. 6 and 7 are printed.
fn printed(set: u32, (seen, stalled, backup): &Small) -> (u64, u64) {
    let members = || (0..seen.len()).filter(|state| set & 1 << state != 0);
    let cost = members().map(|s| u64::from(seen[s])).sum();
    (cost, members().map(|s| u64::from(stalled[s]) * in_time(backup, s)).sum())
}

/// Returns the set of all states from `state` on.
fn from(state: usize, states: usize) -> u32 {
    (1 << states) - (1 << state)
}

/// Generates models whose states are equally frequent, with P(stall|S)·P_backup(S) that does not
/// fall.
fn rising() -> impl Strategy<Value = Small> {
    (vec((0..4u64, 0..5u32), 1..=8), 0..20u32).prop_map(|(states, more)| {
        let backup: Vec<u32> = states.iter().enumerate().map(|(k, (_, n))| n + u32::from(k == 0)).collect();
        let mut stalled = Vec::new();
        let mut product = 0u64;
        for (state, (step, _)) in states.iter().enumerate() {
            let reach = in_time(&backup, state);
            let count = product.div_ceil(reach) + step;
            product = count * reach;
            stalled.push(count as u32);
        }
        let seen = stalled.iter().max().map_or(0, |most| most + more);
        (vec![seen; stalled.len()], stalled, backup)
    })
}

proptest! {
    /// No set of states gains more under Eq. 6, and none with equal gain acts earlier.
    #[test]
    fn the_threshold_is_the_best_of_all_sets_that_frames_age_through(model in small(), delta in 0.0..6.0) {
        let (seen, stalled, backup) = &model;
        let limit = delta * sum(stalled) as f64;
        let all = sets(seen.len()).map(|set| (set, aged(set, &model)));
        let within = all.filter(|(_, (cost, _))| *cost as f64 <= limit);
        let best = within.filter(|(_, (_, gain))| *gain > 0).max_by_key(|(set, (_, gain))| {
            (*gain, std::cmp::Reverse(set.trailing_zeros()))
        });
        let expected = best.map(|(set, _)| set.trailing_zeros() as usize);
        prop_assert_eq!(threshold(seen, stalled, backup, delta), expected);
    }

    /// If Eq. 7 as printed is not degenerate, the threshold solves it too.
    #[test]
    fn the_threshold_solves_the_printed_problem_where_its_terms_rise(model in rising(), delta in 0.0..6.0) {
        let (seen, stalled, backup) = &model;
        let limit = delta * sum(stalled) as f64;
        let all = sets(seen.len()).map(|set| printed(set, &model));
        let best = all.filter(|(cost, _)| *cost as f64 <= limit).map(|(_, gain)| gain).max();
        let chosen = threshold(seen, stalled, backup, delta).map_or(0, |s| from(s, seen.len()));
        prop_assert_eq!(Some(printed(chosen, &model).1), best);
    }

    /// Eq. 6 holds for the threshold, and a larger δ never acts later.
    #[test]
    fn the_budget_is_kept_and_used((seen, stalled, backup) in small(), delta in 0.0..6.0, more in 0.0..3.0) {
        let one = threshold(&seen, &stalled, &backup, delta);
        if let Some(state) = one {
            prop_assert!(sum(&seen[state..]) as f64 <= delta * sum(&stalled) as f64);
            prop_assert!(sum(&stalled[state..]) > 0 && in_time(&backup, state) > 0);
            let larger = threshold(&seen, &stalled, &backup, delta + more);
            prop_assert!(larger.is_some_and(|other| other <= state));
        }
    }

    /// Eq. 6 holds for each δ, one of 0 is never used, and a larger δ never acts later if its backups reach as far.
    #[test]
    fn each_backup_keeps_its_own_budget(
        ages in vec(prop_oneof![8 => 5..60u64, 2 => 60..200u64, 1 => 201..900u64], 1..300),
        backups in array::uniform4((prop_oneof![Just(0.0), 0.0..20.0f64], 1..250u64)),
    ) {
        let mut manager = grouped(&ages, &backups);
        let models = [&mut manager.frames, &mut manager.oldest].map(|model| {
            (model.seen.counts(Time::EPOCH).to_vec(), model.stalled.counts(Time::EPOCH).to_vec())
        });
        let of = |path| [group(&manager, path).retransmit_at, group(&manager, path).switch_at];
        for (path, (delta, rtt)) in (0..).zip(backups) {
            for ((seen, stalled), threshold) in models.iter().zip(of(path)) {
                if let Some(state) = threshold.map(|age| (age / ms(1)) as usize) {
                    prop_assert!(sum(&seen[state..]) as f64 <= delta * sum(stalled) as f64);
                    prop_assert!(delta > 0.0);
                }
            }
            for (other, (more, _)) in (0..).zip(backups).filter(|(_, (more, far))| *more >= delta && *far <= rtt) {
                for (one, other) in of(path).into_iter().zip(of(other)) {
                    prop_assert!(one.is_none_or(|one| other.is_some_and(|other| other <= one)), "{more}");
                }
            }
        }
    }

    /// As Eq. 7 is printed, no set of states gains anything for M₁ when every frame is delivered.
    #[test]
    fn the_printed_problem_is_degenerate_for_frames(
        ends in vec(0..600u64, 1..50), backup in vec(1..300u64, 1..20),
    ) {
        let frames: Vec<_> = ends.iter().map(|ms| (*ms, 1)).collect();
        let mut manager = manager(3.5, &frames, &backup);
        let stalled = manager.frames.stalled.counts(Time::EPOCH).to_vec();
        let backup = manager.groups[0].rtts.counts(Time::EPOCH)[..=STATES].to_vec();
        let gain = |state| u64::from(stalled[state]) * in_time(&backup, state);
        prop_assert!((0..=STATES).all(|state| gain(state) == 0));
    }
}
