//! Counters of paths over all sessions, for time series that outlast a session.
//!
//! A session has a slot, the lowest number that no other session has. Slots and labels of paths
//! have few values, however often an entry reconnects.

use std::{
    collections::BTreeMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use crate::{
    clock::lock,
    metrics::{ARM_COUNTERS, PATH_COUNTERS},
    status::{BlockCounts, PathCounts, PathStatus, SessionStatus, Sums},
};

/// Sums, and the counts of current sessions already included in them.
#[derive(Debug, Default)]
pub struct Totals(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    sums: Sums,
    /// Counts by number of the session.
    sessions: BTreeMap<u64, Counted>,
}

#[derive(Debug, Default)]
struct Counted {
    slot: u64,
    /// Counts by label of the path.
    paths: BTreeMap<String, PathCounts>,
    switches: u64,
    blocks: BlockCounts,
    /// Time up to which the duration was counted.
    at: Option<Instant>,
}

impl Totals {
    /// Adds the increase of a session that both ends have agreed on, and assigns a slot to it.
    pub fn count(&self, session: &mut SessionStatus) {
        if !session.agreed {
            return;
        }
        let Inner { sums, sessions } = &mut *lock(&self.0);
        if !sessions.contains_key(&session.id) {
            let is_free = |slot: &u64| sessions.values().all(|other| other.slot != *slot);
            // There is always one.
            let slot = (1..).find(is_free).unwrap_or(u64::MAX);
            sessions.insert(session.id, Counted { slot, ..Counted::default() });
        }
        let Some(counted) = sessions.get_mut(&session.id) else { return };
        session.slot = Some(counted.slot);
        let mut arm = session.arm.as_ref().map(|arm| sums.arms.entry(arm.clone()).or_default());
        if let Some(arm) = &mut arm {
            let now = Instant::now();
            arm.sessions += u64::from(counted.at.is_none());
            arm.time_ms += (now - counted.at.unwrap_or(now)).as_millis() as u64;
            // Only whole milliseconds were counted.
            counted.at =
                Some(counted.at.map_or(now, |at| at + Duration::from_millis((now - at).as_millis() as u64)));
            arm.delivered += session.blocks.delivered.saturating_sub(counted.blocks.delivered);
            arm.expired += session.blocks.expired.saturating_sub(counted.blocks.expired);
            arm.lost += session.blocks.lost.saturating_sub(counted.blocks.lost);
            counted.blocks = session.blocks;
        }
        let mut paths = BTreeMap::new();
        for path in &session.paths {
            let now = PATH_COUNTERS.map(|(.., value)| value(path));
            let before = counted.paths.get(&path.label).filter(|before| is_same(before, &now));
            let sum = sums.paths.entry((counted.slot, path.label.clone())).or_default();
            let new = |index: usize| now[index] - before.map_or(0, |before| before[index]);
            for (index, sum) in sum.iter_mut().enumerate() {
                *sum += new(index);
            }
            if let Some(arm) = &mut arm {
                let [sent, lost] = ARM_COUNTERS.map(new);
                arm.sent_bytes += sent;
                arm.metered_bytes += if path.metered { sent } else { 0 };
                arm.lost_packets += lost;
            }
            paths.insert(path.label.clone(), now);
        }
        counted.paths = paths;
        *sums.switches.entry(counted.slot).or_default() += session.switches - counted.switches;
        counted.switches = session.switches;
    }

    /// Ends a session, which frees its slot.
    pub fn leave(&self, session: u64) {
        lock(&self.0).sessions.remove(&session);
    }

    /// Returns the sums so far.
    pub fn sums(&self) -> Sums {
        lock(&self.0).sums.clone()
    }
}

/// `true` if both counts belong to the same path. A later path with the same label starts at 0.
fn is_same(before: &PathCounts, now: &PathCounts) -> bool {
    before.iter().zip(now).all(|(before, now)| before <= now)
}

/// Returns the label of a path in metrics: at an entry the name of its interface; at an exit, where
/// names contain ports, the id, which later paths reuse.
pub fn label(is_entry: bool, name: &str, id: u8, others: &[PathStatus]) -> String {
    match is_entry {
        false => id.to_string(),
        // No name of an interface contains a slash.
        true if others.iter().any(|other| other.label == name) => format!("{name}/{id}"),
        true => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(id: u64, paths: &[(&str, u64)]) -> SessionStatus {
        let path = |(label, sent_bytes): &(&str, u64)| PathStatus {
            label: (*label).to_owned(),
            sent_bytes: *sent_bytes,
            ..PathStatus::default()
        };
        SessionStatus {
            id,
            agreed: true,
            paths: paths.iter().map(path).collect(),
            ..SessionStatus::default()
        }
    }

    fn sent(totals: &Totals) -> Vec<(u64, String, u64)> {
        let index =
            PATH_COUNTERS.iter().position(|(name, ..)| *name == "path_sent_bytes_total").expect("is there");
        totals.sums().paths.into_iter().map(|((slot, label), counts)| (slot, label, counts[index])).collect()
    }

    #[test]
    fn sums_outlast_sessions_and_slots_are_used_again() {
        let totals = Totals::default();
        for id in 1..=100 {
            totals.count(&mut session(id, &[("wwan0", 50)]));
            totals.count(&mut session(id, &[("wwan0", 80), ("wlan0", 5)]));
            // A path that was reopened.
            totals.count(&mut session(id, &[("wwan0", 20)]));
            totals.leave(id);
        }
        assert_eq!(sent(&totals), [(1, "wlan0".to_owned(), 500), (1, "wwan0".to_owned(), 10_000)]);

        let mut all = [101, 102, 103].map(|id| session(id, &[("wwan0", 1)]));
        all.iter_mut().for_each(|one| totals.count(one));
        assert_eq!(all.map(|one| one.slot), [Some(1), Some(2), Some(3)]);
        totals.leave(102);
        let mut next = session(104, &[]);
        totals.count(&mut next);
        assert_eq!(next.slot, Some(2));
        let mut stranger = SessionStatus { agreed: false, ..session(105, &[("wwan0", 9)]) };
        totals.count(&mut stranger);
        assert_eq!((stranger.slot, sent(&totals).len()), (None, 4));
    }

    #[test]
    fn labels_of_paths_differ_within_a_session() {
        let mut paths: Vec<PathStatus> = Vec::new();
        for (name, id) in [("wwan0", 0), ("wwan0", 1), ("wlan0", 2)] {
            let label = label(true, name, id, &paths);
            paths.push(PathStatus { label, ..PathStatus::default() });
        }
        let labels: Vec<_> = paths.iter().map(|path| &*path.label).collect();
        assert_eq!(labels, ["wwan0", "wwan0/1", "wlan0"]);
        assert_eq!(label(false, "192.0.2.1:40000", 3, &[]), "3");
    }
}
