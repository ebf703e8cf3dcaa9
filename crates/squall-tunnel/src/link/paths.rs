//! The paths of a session as people see them, and what changes about them.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use squall::{Capacity, PathChange, PathInfo, Session, sched::PathId};

use crate::{
    journal::{Journal, Kind},
    status::{CapacityStatus, PathStatus},
};

/// A path is the one that carries most when it has this share of what was sent, or more. Between paths that are alike
/// data goes now here, now there, of which there is nothing to tell.
const MOST: f64 = 0.75;

/// Bytes below which it does not matter which path carried them.
const FEW: u64 = 20_000;

/// How long rates are taken over, in looks of the link.
const LOOKS: usize = 4;

/// Of a path one change is reported in this time; of several the last, when it is over.
const ONE_LINE: Duration = Duration::from_secs(1);

/// What was known of paths at the last looks.
#[derive(Debug)]
pub(super) struct Paths {
    /// Whether this side called: paths differ by the local address then, else by the remote one.
    caller: bool,
    marks: HashMap<u32, Vec<Mark>>,
    /// The path that carried most, by number and name.
    main: Option<(u32, String)>,
    /// What was reported of each path. There are [`squall::sched::MAX_PATHS`] ids.
    told: HashMap<PathId, Told>,
}

/// What was reported of a path.
#[derive(Debug)]
struct Told {
    at: Instant,
    /// The last change that was not, and how many there were.
    held: Option<(Level, String)>,
    count: u32,
}

#[derive(Debug, Clone, Copy)]
enum Level {
    Info,
    Warn,
}

#[derive(Debug, Clone, Copy)]
struct Mark {
    at: Instant,
    sent: u64,
    received: u64,
    data: u64,
}

impl Paths {
    pub(super) fn new(caller: bool) -> Self {
        Self { caller, marks: HashMap::new(), main: None, told: HashMap::new() }
    }

    /// The names of paths, for words.
    pub(super) fn names(&self, infos: &[PathInfo]) -> String {
        let names: Vec<String> = infos.iter().map(|info| self.name(info)).collect();
        names.join(", ")
    }

    /// Takes a look: what the paths are doing. Nothing is reported of sessions that are not `agreed` on.
    pub(super) fn look(
        &mut self,
        journal: &Journal,
        now: Instant,
        infos: &[PathInfo],
        capacity: &Capacity,
        agreed: bool,
    ) -> Vec<PathStatus> {
        for told in self.told.values_mut() {
            told.release(journal, now);
        }
        self.marks.retain(|number, _| infos.iter().any(|info| info.stats.number == *number));
        let mut carried = Vec::new();
        let mut all = Vec::new();
        for info in infos {
            let mark = Mark {
                at: now,
                sent: info.stats.sent_bytes,
                received: info.stats.received_bytes,
                data: info.stats.fresh_bytes + info.stats.repair_bytes + info.stats.copy_bytes,
            };
            let marks = self.marks.entry(info.stats.number).or_default();
            let before = marks.first().copied().unwrap_or(mark);
            marks.push(mark);
            if marks.len() > LOOKS {
                marks.remove(0);
            }
            carried.push((info, mark.data - before.data));
            let capacity = capacity.paths.iter().find(|path| path.id == info.id);
            let capacity = capacity.map(CapacityStatus::from).unwrap_or_default();
            all.push(PathStatus { capacity, ..status(self.name(info), info, mark, before) });
        }
        if agreed {
            self.note_main(journal, &carried);
        }
        all
    }

    /// The smallest round trip of all paths, in microseconds; 0 without any.
    pub(super) fn min_rtt_us(infos: &[PathInfo]) -> u64 {
        infos
            .iter()
            .map(|info| info.stats.min_rtt.as_micros() as u64)
            .filter(|rtt| *rtt > 0)
            .min()
            .unwrap_or(0)
    }

    /// Tells when most data goes another way than before, and what is known of both ways.
    fn note_main(&mut self, journal: &Journal, carried: &[(&PathInfo, u64)]) {
        let sum: u64 = carried.iter().map(|(_, bytes)| bytes).sum();
        let most = carried.iter().max_by_key(|(_, bytes)| *bytes);
        let Some((info, bytes)) = most.filter(|_| sum >= FEW) else { return };
        let share = *bytes as f64 / sum as f64;
        let (number, name) = (info.stats.number, self.name(info));
        if share < MOST || self.main.as_ref().is_some_and(|(main, _)| *main == number) {
            return;
        }
        if let Some((before, old)) = self.main.replace((number, name.clone())) {
            let was = carried.iter().find(|(info, _)| info.stats.number == before);
            let was = was.map_or_else(|| "which is gone".to_owned(), |(info, _)| evidence(info));
            let words = format!(
                "most data goes over {name} now ({:.0} %, {}), before over {old} ({was})",
                share * 100.0,
                evidence(info)
            );
            journal.info(Kind::Path, words);
        }
    }

    /// The interface, or the address that tells the path from others.
    fn name(&self, info: &PathInfo) -> String {
        match &info.interface {
            Some(interface) => interface.clone(),
            None if self.caller => info.local.ip().to_string(),
            None => info.remote.to_string(),
        }
    }

    /// Tells what changed about a path.
    pub(super) fn changed(
        &mut self,
        journal: &Journal,
        session: &Session,
        path: PathId,
        change: &PathChange,
    ) {
        let info = session.path_stats().into_iter().find(|info| info.id == path);
        let known = |info: &PathInfo| (self.name(info), evidence(info));
        let (name, evidence) =
            info.as_ref().map_or_else(|| (format!("path {}", path.0), "gone".to_owned()), known);
        let (level, words) = match change {
            PathChange::Up(net) => (Level::Info, format!("{name} is up: {} to {}", net.local, net.remote)),
            PathChange::Suspected { silent } => (
                Level::Warn,
                format!("{name} is suspected: silent for {} ms ({evidence})", silent.as_millis()),
            ),
            PathChange::Readmitted { after } => {
                (Level::Info, format!("{name} delivers again after {} ms ({evidence})", after.as_millis()))
            }
            PathChange::Narrow => (
                Level::Warn,
                format!("{name} passes small packets only and is not used: its MTU is below 1,228 bytes"),
            ),
            PathChange::Signal { kind, quality, by_peer } => {
                let whose = if *by_peer { "the other end's" } else { "its" };
                (Level::Info, format!("{name}: {whose} radio: {kind:?}, quality 0.{quality:03}"))
            }
            PathChange::Rebound(net) => {
                (Level::Info, format!("{name}: the other end is at {} now", net.remote))
            }
            PathChange::Down => (Level::Warn, format!("{name} is down")),
            other => (Level::Info, format!("{name}: {other:?}")),
        };
        let now = Instant::now();
        match self.told.get_mut(&path) {
            Some(told) => {
                told.held = Some((level, words));
                told.count += 1;
                told.release(journal, now);
            }
            None => {
                level.report(journal, words);
                self.told.insert(path, Told { at: now, held: None, count: 0 });
            }
        }
    }
}

impl Told {
    /// Reports what is held back, once its time has come.
    fn release(&mut self, journal: &Journal, now: Instant) {
        if now.saturating_duration_since(self.at) < ONE_LINE {
            return;
        }
        let Some((level, mut words)) = self.held.take() else { return };
        if self.count > 1 {
            words.push_str(&format!(" (after {} other changes)", self.count - 1));
        }
        (self.at, self.count) = (now, 0);
        level.report(journal, words);
    }
}

impl Level {
    fn report(self, journal: &Journal, words: String) {
        match self {
            Self::Info => journal.info(Kind::Path, words),
            Self::Warn => journal.warn(Kind::Path, words),
        }
    }
}

/// What is known of a path, in a few words.
fn evidence(info: &PathInfo) -> String {
    let stats = &info.stats;
    format!(
        "{}, RTT {:.1} ms, {:.1} % lost, {} of {} kB in flight",
        stats.state,
        stats.srtt.as_secs_f64() * 1e3,
        stats.loss * 100.0,
        stats.in_flight / 1000,
        stats.window / 1000
    )
}

fn status(name: String, info: &PathInfo, mark: Mark, before: Mark) -> PathStatus {
    let stats = &info.stats;
    let seconds = (mark.at - before.at).as_secs_f64();
    let rate = |bytes: u64| if seconds > 0.0 { (bytes as f64 * 8.0 / seconds) as u64 } else { 0 };
    PathStatus {
        name,
        remote: info.remote.to_string(),
        state: stats.state.to_string(),
        metered: stats.metered,
        sent_bps: rate(mark.sent - before.sent),
        received_bps: rate(mark.received - before.received),
        sent_bytes: stats.sent_bytes,
        received_bytes: stats.received_bytes,
        srtt_us: stats.srtt.as_micros() as u64,
        min_rtt_us: stats.min_rtt.as_micros() as u64,
        loss: stats.loss,
        in_flight: stats.in_flight,
        window: stats.window,
        lost_packets: stats.lost_packets,
        repair_bytes: stats.repair_bytes,
        suspicions: stats.suspicions,
        ..PathStatus::default()
    }
}
