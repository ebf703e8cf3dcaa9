//! Paths of a session in the status, and events about them.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use squall::{
    Capacity, PathChange, PathInfo, PathStats, Session,
    sched::{PathId, PathState},
};
use squall_observe::{
    journal::{Kind, PeerJournal},
    status::{CapacityStatus, PathStatus},
    totals,
};
use squall_units::Span;

/// Share of the sent data from which a path counts as the main one. Between similar paths data
/// moves all the time, which is not worth an event.
const MAIN_SHARE: f64 = 0.75;

/// Minimum bytes of sent data to determine a main path.
const MAIN_BYTES: u64 = 20_000;

/// Interval between events about the main path. Two equally good links may alternate every second.
const MAIN_INTERVAL: Duration = Duration::from_secs(60);

/// Number of samples kept per path; rates are measured over them.
const SAMPLES: usize = 4;

/// Interval between events about one path. Of several changes, the last one is reported at the end
/// of the interval.
const EVENT_INTERVAL: Duration = Duration::from_secs(1);

/// Time without an answer after which a path is reported. Reported once until the path is answered.
const UNANSWERED: Duration = Duration::from_secs(10);

/// As [`UNANSWERED`], for a path on which no answer can arrive according to the system.
const HOPELESS: Duration = Duration::from_secs(2);

/// Hint for a path without answers.
const WHY_UNANSWERED: &str = "likely reasons: a firewall, a gateway that does not answer, an MTU below 1,228 bytes, or a network that drops \
    packets marked with ECN";

/// Maximum number of paths whose first answer is awaited. An interface that returns with other
/// addresses has another name each time.
const MAX_AWAITED: usize = 64;

/// Paths of a session.
#[derive(Debug)]
pub(super) struct Paths {
    /// This side connected. The paths of an entry differ in the local address, those of an exit in
    /// the remote one.
    is_entry: bool,
    samples: HashMap<u32, VecDeque<Sample>>,
    /// Number of the path that carries most data.
    main: Option<u32>,
    /// Number of changes of `main`.
    switches: u64,
    /// Number and name of the main path in the last event. The first main path needs no event.
    reported: Option<(u32, String)>,
    /// Time of that event.
    reported_at: Option<Instant>,
    /// Events by path. There are at most [`squall::sched::MAX_PATHS`] ids.
    events: HashMap<PathId, Events>,
    /// Paths that the peer has never answered on, by name: start of the wait, and `true` once
    /// reported. The wait of a path that is closed and opened again continues.
    awaited: HashMap<String, (Instant, bool)>,
}

/// Events about a path.
#[derive(Debug, Default)]
struct Events {
    /// Name of the path, kept because a closed path has no statistics.
    name: String,
    /// Time of the last reported event.
    at: Option<Instant>,
    /// Last unreported event: `true` for a warning, and its text.
    held: Option<(bool, String)>,
    /// Number of unreported events.
    count: u32,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Instant,
    sent: u64,
    received: u64,
    data: u64,
}

impl Paths {
    pub(super) fn new(is_entry: bool) -> Self {
        Self {
            is_entry,
            samples: HashMap::new(),
            main: None,
            switches: 0,
            reported: None,
            reported_at: None,
            events: HashMap::new(),
            awaited: HashMap::new(),
        }
    }

    /// Returns the names of the answered paths for messages. The others are reported when they come
    /// up.
    pub(super) fn names(&self, infos: &[PathInfo]) -> String {
        let is_answered = |info: &&PathInfo| info.stats.state != PathState::Opening;
        let names: Vec<String> = infos.iter().filter(is_answered).map(|info| self.name(info)).collect();
        names.join(", ")
    }

    /// Samples all paths, and returns their status. Without `agreed`, nothing is reported.
    pub(super) fn sample(
        &mut self,
        journal: &PeerJournal,
        infos: &[PathInfo],
        capacity: &Capacity,
        agreed: bool,
    ) -> Vec<PathStatus> {
        let now = Instant::now();
        self.events.values_mut().for_each(|events| events.release(journal, now));
        self.samples.retain(|number, _| infos.iter().any(|info| info.stats.number == *number));
        let (mut carried, mut all) = (Vec::new(), Vec::<PathStatus>::new());
        for info in infos {
            let stats = &info.stats;
            let data = stats.fresh_bytes + stats.repair_bytes + stats.copy_bytes + stats.parity_bytes;
            let sample = Sample { at: now, sent: stats.sent_bytes, received: stats.received_bytes, data };
            let samples = self.samples.entry(stats.number).or_default();
            samples.push_back(sample);
            let before = samples[0];
            if samples.len() > SAMPLES {
                samples.pop_front();
            }
            carried.push((info, data - before.data));
            let capacity = capacity.paths.iter().find(|path| path.id == info.id);
            let capacity = capacity.map(CapacityStatus::from).unwrap_or_default();
            let name = self.name(info);
            let label = totals::label(self.is_entry, &name, info.id.0, &all);
            all.push(PathStatus { capacity, label, ..status(name, info, sample, before) });
        }
        if agreed {
            self.update_main(journal, &carried, now);
            self.report_unanswered(journal, infos, now);
        }
        all
    }

    /// Reports paths that have never been answered, at an entry. The entry opened the paths, so an
    /// exit does not report them.
    fn report_unanswered(&mut self, journal: &PeerJournal, infos: &[PathInfo], now: Instant) {
        if !self.is_entry {
            return;
        }
        for info in infos {
            let name = self.name(info);
            let patience = if info.trouble.is_some() { HOPELESS } else { UNANSWERED };
            let is_answered = info.stats.state != PathState::Opening;
            if let Some(waited) = self.unanswered(&name, is_answered, patience, now) {
                let (remote, seconds) = (info.remote, waited.as_secs());
                let why = info.trouble.as_deref().unwrap_or(WHY_UNANSWERED);
                let words = format!("{name} is not used: no answer from {remote} for {seconds} s; {why}");
                journal.warn(Kind::Path, words);
            }
        }
    }

    /// Returns how long a path has waited for its first answer, if that should be reported now.
    fn unanswered(
        &mut self,
        name: &str,
        is_answered: bool,
        patience: Duration,
        now: Instant,
    ) -> Option<Duration> {
        if is_answered {
            self.awaited.remove(name);
            return None;
        }
        if self.awaited.len() >= MAX_AWAITED && !self.awaited.contains_key(name) {
            self.awaited.clear();
        }
        let (since, is_reported) = self.awaited.entry(name.to_owned()).or_insert((now, false));
        let waited = now.saturating_duration_since(*since);
        (waited >= patience && !std::mem::replace(is_reported, true)).then_some(waited)
    }

    /// Counts and reports a change of the path that carries most data, with the state of both
    /// paths.
    fn update_main(&mut self, journal: &PeerJournal, carried: &[(&PathInfo, u64)], now: Instant) {
        let sum: u64 = carried.iter().map(|(_, bytes)| bytes).sum();
        let most = carried.iter().max_by_key(|(_, bytes)| *bytes);
        let Some((info, bytes)) = most.filter(|_| sum >= MAIN_BYTES) else { return };
        let share = *bytes as f64 / sum as f64;
        let (number, name) = (info.stats.number, self.name(info));
        if share < MAIN_SHARE {
            return;
        }
        if let Some((before, old)) = self.set_main(number, &name, now) {
            let old_info = carried.iter().find(|(info, _)| info.stats.number == before);
            let old_state = old_info.map_or_else(|| "closed".to_owned(), |(info, _)| state(&info.stats));
            let (share, state) = (share * 100.0, state(&info.stats));
            let words =
                format!("{name} carries most data ({share:.0} %, {state}) instead of {old} ({old_state})");
            journal.info(Kind::Main, words);
        }
    }

    /// Counts a change of the main path. Returns the previously reported one if the change should
    /// be reported now.
    fn set_main(&mut self, number: u32, name: &str, now: Instant) -> Option<(u32, String)> {
        let before = self.main.replace(number);
        self.switches += u64::from(before.is_some_and(|before| before != number));
        let is_known = self.reported.as_ref().is_some_and(|(reported, _)| *reported == number);
        if is_known || self.reported_at.is_some_and(|at| now.saturating_duration_since(at) < MAIN_INTERVAL) {
            return None;
        }
        let reported = self.reported.replace((number, name.to_owned()));
        if reported.is_some() {
            self.reported_at = Some(now);
        }
        reported
    }

    /// Returns the number of changes of the main path.
    pub(super) fn switches(&self) -> u64 {
        self.switches
    }

    /// Returns the interface of a path, or the address in which the paths of the session differ.
    pub(super) fn name(&self, info: &PathInfo) -> String {
        match &info.interface {
            Some(interface) => interface.clone(),
            None if self.is_entry => info.local.ip().to_string(),
            None => info.remote.to_string(),
        }
    }

    /// Reports a change of a path.
    pub(super) fn changed(
        &mut self,
        journal: &PeerJournal,
        session: &Session,
        path: PathId,
        change: &PathChange,
    ) {
        let info = session.paths().into_iter().find(|info| info.id == path);
        if let Some(name) = info.as_ref().map(|info| self.name(info)) {
            self.events.entry(path).or_default().name = name;
        }
        let events = self
            .events
            .entry(path)
            .or_insert_with(|| Events { name: format!("path {path}"), ..Events::default() });
        let name = &events.name;
        let state = info.map_or_else(|| "closed".to_owned(), |info| state(&info.stats));
        if let PathChange::EcnOff { why } = change {
            // Occurs once per path, so it need not displace another change.
            return journal.info(Kind::Path, format!("{name}: ECN is off: {why}"));
        }
        let is_warning =
            matches!(change, PathChange::Suspected { .. } | PathChange::Narrow | PathChange::Down);
        let words = match change {
            PathChange::Up(net) => format!("{name} is up: {} to {}", net.local, net.remote),
            PathChange::Suspected { silent } => {
                format!("{name} is suspected: silent for {} ms ({state})", silent.as_millis())
            }
            PathChange::Readmitted { after } => {
                format!("{name} delivers again after {} ms ({state})", after.as_millis())
            }
            PathChange::Narrow => format!("{name} is not used: its MTU is below 1,228 bytes"),
            PathChange::Signal { kind, quality, by_peer } => {
                let side = if *by_peer { "remote" } else { "local" };
                format!("{name}: {kind:?} of the {side} radio, quality 0.{quality:03}")
            }
            PathChange::Rebound(net) => format!("{name}: the peer has moved to {}", net.remote),
            PathChange::Down => format!("{name} is down"),
            other => format!("{name}: {other:?}"),
        };
        let now = Instant::now();
        (events.held, events.count) = (Some((is_warning, words)), events.count + 1);
        events.release(journal, now);
    }
}

impl Events {
    /// Reports the held event once the interval is over.
    fn release(&mut self, journal: &PeerJournal, now: Instant) {
        if self.at.is_some_and(|at| now.saturating_duration_since(at) < EVENT_INTERVAL) {
            return;
        }
        let Some((is_warning, mut words)) = self.held.take() else { return };
        if self.count > 1 {
            words.push_str(&format!(" (after {} other changes)", self.count - 1));
        }
        (self.at, self.count) = (Some(now), 0);
        if is_warning { journal.warn(Kind::Path, words) } else { journal.info(Kind::Path, words) }
    }
}

/// Returns the smallest round trip of all paths; zero without a measurement.
pub(super) fn min_rtt(infos: &[PathInfo]) -> Span {
    let rtts = infos.iter().map(|info| Span::from(info.stats.min_rtt));
    rtts.filter(|rtt| !rtt.is_zero()).min().unwrap_or_default()
}

/// Returns the state of a path for messages.
fn state(stats: &PathStats) -> String {
    format!(
        "{}, RTT {:.1} ms, {:.1} % lost, {} of {} kB in flight",
        stats.state,
        stats.srtt.as_secs_f64() * 1e3,
        stats.loss * 100.0,
        stats.in_flight / 1000,
        stats.window / 1000
    )
}

fn status(name: String, info: &PathInfo, sample: Sample, before: Sample) -> PathStatus {
    let stats = &info.stats;
    let seconds = (sample.at - before.at).as_secs_f64();
    let rate = |bytes: u64| if seconds > 0.0 { (bytes as f64 * 8.0 / seconds) as u64 } else { 0 };
    PathStatus {
        name,
        remote: info.remote.to_string(),
        state: stats.state.to_string(),
        // An answered path has no trouble, whatever the system reports.
        trouble: info.trouble.clone().filter(|_| stats.state == PathState::Opening),
        metered: stats.metered,
        role: stats.role.to_string(),
        rate_limit_bps: stats.rate_limit,
        sent_bps: rate(sample.sent - before.sent),
        received_bps: rate(sample.received - before.received),
        sent_bytes: stats.sent_bytes,
        received_bytes: stats.received_bytes,
        srtt_us: stats.srtt.as_micros() as u64,
        min_rtt_us: stats.min_rtt.as_micros() as u64,
        one_way_us: stats.one_way_delay.as_micros() as u64,
        delivery_bps: stats.delivery_rate,
        signal_factor: stats.signal_factor,
        signal_quality: stats.signal_quality,
        budget: stats.budget,
        loss: stats.loss,
        in_flight: stats.in_flight,
        window: stats.window,
        lost_packets: stats.lost_packets,
        repair_bytes: stats.repair_bytes,
        copy_bytes: stats.copy_bytes,
        parity_bytes: stats.parity_bytes,
        suspicions: stats.suspicions,
        predicted_arrivals: stats.predictions.bounded,
        kept_arrivals: stats.predictions.within,
        ..PathStatus::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_without_an_answer_is_reported_once_until_it_has_had_one() {
        let (mut paths, begin) = (Paths::new(true), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        assert_eq!(paths.unanswered("wwan0", false, UNANSWERED, at(0)), None);
        assert_eq!(paths.unanswered("wwan0", false, UNANSWERED, at(9)), None);
        assert_eq!(paths.unanswered("wwan0", false, UNANSWERED, at(11)), Some(Duration::from_secs(11)));
        assert_eq!(paths.unanswered("wwan0", false, UNANSWERED, at(60)), None, "a second time");
        assert_eq!(paths.unanswered("wwan0", true, UNANSWERED, at(70)), None);
        assert_eq!(paths.unanswered("wwan0", false, UNANSWERED, at(80)), None, "opened again");
        assert_eq!(paths.unanswered("wwan0", false, UNANSWERED, at(90)), Some(Duration::from_secs(10)));
        assert_eq!(paths.unanswered("wwan1", false, HOPELESS, at(0)), None);
        let soon = Some(Duration::from_secs(2));
        assert_eq!(paths.unanswered("wwan1", false, HOPELESS, at(2)), soon, "the system says why");
        for number in 0..1_000 {
            paths.unanswered(&number.to_string(), false, UNANSWERED, at(90));
        }
        assert!(paths.awaited.len() <= MAX_AWAITED);
    }

    #[test]
    fn paths_that_take_turns_are_counted_and_rarely_reported() {
        let (mut paths, begin) = (Paths::new(true), Instant::now());
        let mut at = |seconds, number| {
            let (before, now) = (paths.switches(), begin + Duration::from_secs(seconds));
            let reported = paths.set_main(number, &format!("wwan{number}"), now);
            (reported.map(|(_, name)| name), paths.switches() - before)
        };
        assert_eq!(at(0, 0), (None, 0), "the first one");
        assert_eq!(at(1, 1), (Some("wwan0".to_owned()), 1), "at once");
        for seconds in 2..61 {
            assert_eq!(at(seconds, seconds as u32 % 2), (None, u64::from(seconds > 2 || seconds % 2 == 0)));
        }
        assert_eq!(at(61, 1), (None, 1), "that which was reported");
        assert_eq!(at(62, 0), (Some("wwan1".to_owned()), 1));
    }
}
