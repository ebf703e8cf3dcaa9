//! Selection of the path that each interface tries, and of the interfaces that get a path where the
//! path limit is smaller than their number.

use std::time::{Duration, Instant};

use crate::net::interfaces::Candidate;

/// Time for which a path is tried before the next address of its interface, or another interface,
/// gets its turn. Doubled with each round.
const PATIENCE: Duration = Duration::from_millis(1_500);
/// Largest number of doublings of [`PATIENCE`], which gives 96 s. The peer grants a session only a
/// limited number of paths that never come up.
const MAX_DOUBLINGS: u32 = 6;
/// Silence of an established path after which another address of its interface is tried in
/// addition.
const SILENT: Duration = Duration::from_secs(10);
/// Largest number of interfaces with state.
const MAX_PLACES: usize = 64;

/// State of a path, derived from the answers of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// No such path exists: the peer has not allowed it yet, or it is closed.
    Absent,
    /// The peer has never answered on it.
    Opening,
    /// It was up, and is suspected.
    Silent,
    Alive,
}

/// Selection of the path of each interface.
#[derive(Debug, Default)]
pub(crate) struct Places {
    all: Vec<Place>,
}

#[derive(Debug)]
struct Place {
    tried: Candidate,
    since: Instant,
    /// The path exists. Its time does not count before.
    is_open: bool,
    /// Consecutive unanswered tries.
    rounds: u32,
    /// Path that was answered last.
    good: Option<Candidate>,
    silent_since: Option<Instant>,
    /// It yielded its place to another interface.
    is_out: bool,
    /// It has another candidate to change to.
    has_more: bool,
}

/// Claims to a place, strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    /// The path was answered.
    Good,
    /// The path has been tried for a short time.
    Fresh,
    /// The path has not been tried yet, or has waited since the given time. Longer waits come
    /// first.
    Next(Option<Instant>),
    /// The path has been tried for long, or is a further path of an interface that has one.
    Stale,
    /// As `Next`, but beyond the first: the peer allows one more path per second.
    Late,
}

impl Places {
    /// Chooses at most `most` paths: for each interface the candidate that is answered, and another
    /// candidate to try while none is. `is_usable` is `true` for a path that is no longer a
    /// candidate but can still carry data.
    pub(crate) fn choose(
        &mut self,
        wanted: Vec<Vec<Candidate>>,
        most: usize,
        answer: impl Fn(&Candidate) -> Answer,
        is_usable: impl Fn(&Candidate) -> bool,
        now: Instant,
    ) -> Vec<Candidate> {
        let mut before = std::mem::take(&mut self.all);
        let mut claims: Vec<(Claim, usize, Candidate)> = Vec::new();
        for candidates in wanted.into_iter().take(MAX_PLACES) {
            let is_same = |place: &Place| candidates.contains(&place.tried);
            let shares =
                |place: &Place| place.tried.name().is_some() && place.tried.shares_interface(&candidates[0]);
            let known = before.iter().position(is_same).or_else(|| before.iter().position(shares));
            let mut place = match known {
                Some(index) => before.remove(index),
                None => {
                    let alive = candidates.iter().find(|one| answer(one) == Answer::Alive);
                    Place::new(alive.unwrap_or(&candidates[0]).clone(), now)
                }
            };
            let is_new = known.is_none();
            place.advance(&candidates, &answer, &is_usable, now);
            let index = self.all.len();
            // Take the current candidate: equal paths may differ in price or trouble.
            let current = |path: &Candidate| candidates.iter().find(|o| *o == path).unwrap_or(path).clone();
            let is_alive = place.good.is_some() && place.silent_since.is_none();
            if let Some(good) = &place.good {
                let is_wanted = is_alive || candidates.contains(good);
                claims.push((if is_wanted { Claim::Good } else { Claim::Stale }, index, current(good)));
            }
            if place.good.as_ref() != Some(&place.tried) {
                let claim = match place.good {
                    Some(_) if is_alive => Claim::Stale,
                    _ if is_new => Claim::Next(None),
                    _ if place.is_out => Claim::Next(Some(place.since)),
                    _ if place.is_fresh(now) => Claim::Fresh,
                    _ => Claim::Stale,
                };
                claims.push((claim, index, current(&place.tried)));
            }
            self.all.push(place);
        }
        claims.sort_by_key(|(claim, _, _)| *claim);
        let is_next = |claim: &Claim| matches!(claim, Claim::Next(_));
        let others = claims.iter().filter(|(claim, _, _)| !is_next(claim)).count();
        let news = claims.iter_mut().filter(|(claim, _, _)| is_next(claim));
        news.skip(most.saturating_sub(others) + 1).for_each(|(claim, _, _)| *claim = Claim::Late);
        claims.sort_by_key(|(claim, _, _)| *claim);
        let rest = claims.split_off(most.min(claims.len()));
        for (_, index, path) in &claims {
            self.all[*index].enter(path, now);
        }
        for (_, index, path) in rest {
            self.all[index].leave(&path, now);
        }
        claims.into_iter().map(|(_, _, path)| path).collect()
    }

    /// `true` if the choice may change with time alone.
    pub(crate) fn is_searching(&self) -> bool {
        let waits = self.all.iter().any(|place| place.is_out);
        self.all.iter().any(|place| match &place.good {
            Some(good) => *good != place.tried || place.has_more && place.silent_since.is_some(),
            None => place.has_more || waits,
        })
    }
}

impl Place {
    fn new(tried: Candidate, now: Instant) -> Self {
        Self {
            tried,
            since: now,
            is_open: false,
            rounds: 0,
            good: None,
            silent_since: None,
            is_out: false,
            has_more: false,
        }
    }

    fn is_fresh(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) < PATIENCE * (1 << self.rounds.min(MAX_DOUBLINGS))
    }

    /// Moves to the next candidate once the current one has had its time.
    fn advance(
        &mut self,
        candidates: &[Candidate],
        answer: &impl Fn(&Candidate) -> Answer,
        is_usable: &impl Fn(&Candidate) -> bool,
        now: Instant,
    ) {
        self.has_more = candidates.len() > 1;
        self.is_open |= answer(&self.tried) != Answer::Absent;
        if !self.is_open && !self.is_out {
            self.since = now;
        }
        if answer(&self.tried) == Answer::Alive && candidates.contains(&self.tried) {
            self.good = Some(self.tried.clone());
        }
        self.good = self.good.take().filter(|good| {
            answer(good) != Answer::Absent
                && answer(good) != Answer::Opening
                && (candidates.contains(good) || is_usable(good))
        });
        let is_alive = self.good.as_ref().is_some_and(|good| answer(good) == Answer::Alive);
        self.silent_since = match self.good {
            Some(_) if !is_alive => self.silent_since.or(Some(now)),
            _ => None,
        };
        if let Some(good) = self.good.as_ref().filter(|good| candidates.contains(good)) {
            let is_silent = |since: Instant| now.saturating_duration_since(since) >= SILENT;
            if !self.silent_since.is_some_and(is_silent) {
                (self.tried, self.rounds, self.is_out) = (good.clone(), 0, false);
                return;
            }
        }
        if !candidates.contains(&self.tried) {
            // The system has another address or route for the interface.
            self.turn_to(&candidates[0], now);
        } else if self.good.as_ref() == Some(&self.tried) || !self.is_out && !self.is_fresh(now) {
            let at = candidates.iter().position(|one| *one == self.tried).unwrap_or(0);
            let others = candidates.iter().cycle().skip(at + 1).take(candidates.len() - 1);
            if let Some(next) = others.into_iter().find(|next| self.good.as_ref() != Some(next)) {
                self.rounds += u32::from(self.good.as_ref() != Some(&self.tried));
                self.turn_to(next, now);
            }
        }
    }

    fn turn_to(&mut self, next: &Candidate, now: Instant) {
        (self.tried, self.since, self.is_open) = (next.clone(), now, false);
    }

    /// Notes that the path got a place.
    fn enter(&mut self, path: &Candidate, now: Instant) {
        if self.tried == *path && std::mem::take(&mut self.is_out) {
            (self.since, self.is_open) = (now, false);
        }
    }

    /// Notes that the path got no place.
    fn leave(&mut self, path: &Candidate, now: Instant) {
        if self.tried == *path && self.good.is_none() && !std::mem::replace(&mut self.is_out, true) {
            (self.since, self.rounds) = (now, self.rounds + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::*;

    fn path(interface: &str, local: u8, remote: u8) -> Candidate {
        Candidate {
            device: Some(interface.to_owned()),
            network: None,
            index: 3,
            local: ([10, 0, 0, local], 0).into(),
            remote: ([192, 0, 2, remote], 4433).into(),
            trouble: None,
        }
    }

    /// A session with these interfaces, updated once per second.
    struct Run {
        places: Places,
        start: Instant,
        most: usize,
    }

    impl Run {
        fn new(most: usize) -> Self {
            Self { places: Places::default(), start: Instant::now(), most }
        }

        fn at(
            &mut self,
            ms: u64,
            wanted: &[&[Candidate]],
            alive: &[Candidate],
            silent: &[Candidate],
        ) -> Vec<Candidate> {
            let wanted = wanted.iter().map(|paths| paths.to_vec()).collect();
            let answer = |one: &Candidate| match one {
                one if alive.contains(one) => Answer::Alive,
                one if silent.contains(one) => Answer::Silent,
                _ => Answer::Opening,
            };
            let now = self.start + Duration::from_millis(ms);
            let chosen = self.places.choose(wanted, self.most, answer, |_| true, now);
            assert!(chosen.len() <= self.most && self.places.all.len() <= MAX_PLACES);
            chosen
        }
    }

    #[test]
    fn an_interface_tries_its_next_address_until_one_is_answered() {
        let (v6, v4) = (path("wwan1", 1, 6), path("wwan1", 1, 4));
        let wanted: &[&[Candidate]] = &[&[v6.clone(), v4.clone()]];
        let mut run = Run::new(8);
        assert_eq!(run.at(0, wanted, &[], &[]), from_ref(&v6));
        assert_eq!(run.at(1_000, wanted, &[], &[]), from_ref(&v6));
        assert!(run.places.is_searching());
        assert_eq!(run.at(2_000, wanted, &[], &[]), from_ref(&v4));
        assert_eq!(run.at(4_000, wanted, &[], &[]), from_ref(&v4), "ever longer");
        assert_eq!(run.at(5_000, wanted, &[], &[]), from_ref(&v6));
        assert_eq!(run.at(12_000, wanted, &[], &[]), from_ref(&v4));
        assert_eq!(run.at(12_200, wanted, from_ref(&v4), &[]), from_ref(&v4));
        assert!(!run.places.is_searching());
        assert_eq!(run.at(3_600_000, wanted, from_ref(&v4), &[]), [v4]);
    }

    #[test]
    fn tries_in_vain_become_rare() {
        let mut run = Run::new(8);
        let paths = [path("wwan1", 1, 6), path("wwan1", 1, 4)];
        let (mut last, mut changes) = (paths[0].clone(), 0);
        for second in 0..3_600 {
            let now = run.at(second * 1_000, &[&paths], &[], &[]).remove(0);
            changes += u32::from(now != last);
            last = now;
        }
        assert!((30..60).contains(&changes), "{changes}");
    }

    #[test]
    fn the_address_that_won_the_race_is_kept() {
        let (v6, v4) = (path("wwan1", 1, 6), path("wwan1", 1, 4));
        let mut run = Run::new(8);
        assert_eq!(run.at(0, &[&[v6, v4.clone()]], from_ref(&v4), &[]), [v4]);
    }

    #[test]
    fn a_new_address_takes_over_once_it_is_answered() {
        let (old, new) = (path("wwan1", 1, 1), path("wwan1", 2, 1));
        let mut run = Run::new(8);
        assert_eq!(run.at(0, &[from_ref(&old)], from_ref(&old), &[]), from_ref(&old));
        let renumbered: &[&[Candidate]] = &[from_ref(&new)];
        let both = run.at(1_000, renumbered, from_ref(&old), &[]);
        assert_eq!(both, [old.clone(), new.clone()]);
        assert_eq!(run.at(1_100, renumbered, &[], from_ref(&old)), [new.clone(), old.clone()]);
        assert_eq!(run.at(1_200, renumbered, &[old, new.clone()], &[]), [new]);
    }

    #[test]
    fn a_path_that_falls_silent_is_kept_while_another_address_is_tried() {
        let (v6, v4) = (path("wwan1", 1, 6), path("wwan1", 1, 4));
        let wanted: &[&[Candidate]] = &[&[v6.clone(), v4.clone()]];
        let (alive, silent) = (from_ref(&v6), from_ref(&v6));
        let mut run = Run::new(8);
        assert_eq!(run.at(0, wanted, alive, &[]), from_ref(&v6));
        assert_eq!(run.at(1_000, wanted, &[], silent), from_ref(&v6));
        assert_eq!(run.at(9_000, wanted, &[], silent), from_ref(&v6));
        assert_eq!(run.at(11_000, wanted, &[], silent), [v6.clone(), v4.clone()]);
        assert_eq!(run.at(60_000, wanted, &[], silent), [v6.clone(), v4.clone()]);
        assert_eq!(run.at(61_000, wanted, alive, &[]), from_ref(&v6), "it is back");
        run.at(62_000, wanted, &[], silent);
        assert_eq!(run.at(73_000, wanted, &[], silent), [v6.clone(), v4.clone()]);
        assert_eq!(run.at(74_000, wanted, from_ref(&v4), silent), [v4]);
    }

    #[test]
    fn a_closed_path_is_followed_by_the_next_address() {
        let (v6, v4) = (path("wwan1", 1, 6), path("wwan1", 1, 4));
        let wanted: &[&[Candidate]] = &[&[v6.clone(), v4.clone()]];
        let mut run = Run::new(8);
        run.at(0, wanted, from_ref(&v6), &[]);
        assert_eq!(run.at(30_000, wanted, &[], &[]), [v4]);
    }

    #[test]
    fn a_path_that_stays_is_as_the_system_has_it_now() {
        let path = path("wwan1", 1, 1);
        let changed = Candidate { trouble: Some("rp_filter".into()), ..path.clone() };
        let mut run = Run::new(8);
        assert_eq!(run.at(0, &[from_ref(&path)], &[], &[])[0].trouble, None);
        for alive in [&[][..], from_ref(&path)] {
            assert_eq!(run.at(1_000, &[from_ref(&changed)], alive, &[])[0].trouble, changed.trouble);
        }
    }

    #[test]
    fn a_path_has_its_time_once_the_peer_allows_it() {
        let wanted = vec![vec![path("wwan1", 1, 6), path("wwan1", 1, 4)]];
        let (mut places, start) = (Places::default(), Instant::now());
        let mut at = |second, answer: Answer| {
            let now = start + Duration::from_secs(second);
            places.choose(wanted.clone(), 8, |_| answer, |_| true, now).remove(0)
        };
        for second in 0..10 {
            assert_eq!(at(second, Answer::Absent), wanted[0][0]);
        }
        assert_eq!(at(10, Answer::Opening), wanted[0][0]);
        // From then on it counts, even if the path is closed.
        assert_eq!(at(11, Answer::Absent), wanted[0][1]);
    }

    #[test]
    fn interfaces_without_an_answer_give_their_place_to_others() {
        let all: Vec<[Candidate; 1]> = (0..5).map(|n| [path(&format!("wwan{n}"), n, 1)]).collect();
        let wanted: Vec<&[Candidate]> = all.iter().map(<[Candidate; 1]>::as_slice).collect();
        let name = |path: &Candidate| path.name().expect("has one").to_owned();
        let mut run = Run::new(3);
        let mut seen = std::collections::BTreeSet::new();
        // One interface is answered, and keeps its place throughout.
        let alive = [all[1][0].clone()];
        for second in 0..20 {
            let chosen = run.at(second * 1_000, &wanted, &alive, &[]);
            assert_eq!(chosen.len(), 3);
            assert_eq!(chosen[0], alive[0]);
            seen.extend(chosen.iter().map(name));
            assert_eq!(seen.len(), [3, 3, 4].get(second as usize).copied().unwrap_or(5), "{seen:?}");
        }
        // Answered interfaces do not yield: a further one waits.
        let alive: Vec<Candidate> = all[..3].iter().map(|paths| paths[0].clone()).collect();
        for second in 200..300 {
            let chosen = run.at(second * 1_000, &wanted, &alive, &[]);
            assert!(second == 200 || chosen == alive, "{chosen:?}");
        }
    }
}
