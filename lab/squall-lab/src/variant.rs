//! A scheduler as a scenario names it: a registry's name with options, and suffixes in any order, such as `+late` and `-R`.

use std::sync::Arc;

use squall_proto::{
    Config, LabConfig, SchedulerFactory,
    sched::{BuildError, Registry},
};

use crate::flow::Flow;
use crate::scenario::Scenario;
use crate::traffic::Traffic;

/// What stands behind the scheduler's name when every block is to be reliable, as in STORM's MPQUIC-R and
/// DAMS-R (§2.2): the same scheduler over a transport that repairs everything.
pub const ALL_RELIABLE: &str = "-R";

/// What stands behind the scheduler's name when it is to use radio signals, as in "SWM over minRTT": STORM's
/// signal-watermark mechanism (§3.2) under a scheduler that does not have it by itself.
pub const WITH_SIGNAL: &str = "+swm";

/// What stands behind the scheduler's name when the transport gets no deadlines: it sends late blocks to the end, as
/// the MPQUIC of all four papers does. Results are judged by the deadlines all the same.
pub const WITHOUT_DEADLINES: &str = "+late";

/// What stands behind the scheduler's name when the scheduler has the deadlines and the transport sends late blocks to the
/// end, as the DAMS that STORM compares with (§5.2.1); see [`LabConfig::expire`].
pub const KEEPING_LATE: &str = "+keep";

/// What stands behind the scheduler's name when the encoder of films makes what the session can carry.
pub const FOLLOWING: &str = "+follow";

/// What stands behind the scheduler's name when the transport is standard multipath QUIC, without suspicion of silent
/// paths; see [`LabConfig::standard`].
pub const STOCK: &str = "+stock";

/// What stands behind the scheduler's name when all reliable blocks are one ordered stream: each is delivered after those
/// before it.
pub const ONE_STREAM: &str = "+stream";

/// What stands behind the scheduler's name when acknowledgements leave on the first path, whichever that is; see
/// [`LabConfig::steer_acks`].
pub const UNSTEERED_ACKS: &str = "+unsteered";

/// All suffixes.
const SUFFIXES: [&str; 8] = [
    ALL_RELIABLE,
    WITH_SIGNAL,
    WITHOUT_DEADLINES,
    KEEPING_LATE,
    FOLLOWING,
    STOCK,
    ONE_STREAM,
    UNSTEERED_ACKS,
];

/// What takes part in a comparison: a scheduler, and what changes around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variant<'a> {
    /// Name and options, as the registry takes them.
    pub scheduler: &'a str,
    /// Whether it is asked to use radio signals; see [`Self::uses_radios`].
    pub signal: bool,
    /// Whether the encoders of films follow what the session can carry.
    pub follow: bool,
    /// Whether the transport gets no deadlines.
    pub late: bool,
    /// Whether blocks outlive their deadlines, which only the scheduler uses.
    pub keep: bool,
    /// Whether every block is sent as a reliable one; see [`LabConfig::all_reliable`].
    pub all_reliable: bool,
    /// Whether paths recover as in standard multipath QUIC.
    pub stock: bool,
    /// Whether reliable blocks are delivered in order.
    pub one_stream: bool,
    /// Whether acknowledgements leave on the first path.
    pub unsteered_acks: bool,
}

impl<'a> Variant<'a> {
    /// Takes a label such as `minrtt`, `minrtt-R`, `storm+follow` or `sp(path=1)+swm+follow+late-R` apart.
    pub fn of(label: &'a str) -> Self {
        let mut scheduler = label.trim();
        let mut found = Vec::new();
        while let Some((rest, suffix)) = split(scheduler) {
            scheduler = rest;
            found.push(suffix);
        }
        let has = |suffix| found.contains(&suffix);
        Self {
            scheduler,
            signal: has(WITH_SIGNAL),
            follow: has(FOLLOWING),
            late: has(WITHOUT_DEADLINES),
            keep: has(KEEPING_LATE),
            all_reliable: has(ALL_RELIABLE),
            stock: has(STOCK),
            one_stream: has(ONE_STREAM),
            unsteered_acks: has(UNSTEERED_ACKS),
        }
    }

    /// Whether it uses radio signals: because it is asked to, or because they belong to the scheduler.
    pub fn uses_radios(&self, registry: &Registry) -> bool {
        self.signal || registry.entry(self.name()).is_some_and(|entry| entry.signal)
    }

    /// The scheduler's name without its options.
    pub fn name(&self) -> &'a str {
        self.scheduler.split('(').next().unwrap_or(self.scheduler).trim()
    }

    /// Makes the schedulers of sessions.
    ///
    /// # Errors
    /// If the registry has none of that name, it does not take its options, or it learns from sessions outside of a run.
    pub fn factory(&self, registry: &Arc<Registry>) -> Result<SchedulerFactory, BuildError> {
        // Building one now reports mistakes before there is a session.
        self.check(registry)?;
        let (registry, scheduler) = (registry.clone(), self.scheduler.to_owned());
        Ok(Arc::new(move || registry.build(&scheduler).expect("it was built before")))
    }

    /// Whether the registry has the scheduler, with these options, and its results can be repeated.
    ///
    /// # Errors
    /// As [`Self::factory`].
    pub fn check(&self, registry: &Registry) -> Result<(), BuildError> {
        if registry.build(self.scheduler)?.profile().learns_from_others {
            return Err(BuildError::NotRepeatable(self.scheduler.to_owned()));
        }
        Ok(())
    }

    /// The same, for a scenario with this stream scheduler.
    ///
    /// # Errors
    /// Also if the stream scheduler is unknown, or orders channels and the scheduler's order leaves it no choice.
    pub fn check_in(&self, scenario: &Scenario, registry: &Registry) -> Result<(), BuildError> {
        self.check(registry)?;
        let follows = registry.build(self.scheduler)?.profile().follows_queue;
        if follows || registry.build_streams(&scenario.streams)?.is_fifo() {
            return Ok(());
        }
        Err(BuildError::OwnOrder(self.name().to_owned()))
    }

    /// A flow as its application offers it.
    pub fn flow(&self, flow: &Flow) -> Flow {
        let mut flow = flow.clone();
        if let Traffic::Film(film) = &mut flow.traffic {
            film.follow |= self.follow;
        }
        flow
    }

    /// How sessions are to behave.
    ///
    /// # Errors
    /// As [`Self::factory`].
    pub fn config(&self, registry: &Arc<Registry>) -> Result<Config, BuildError> {
        let scheduler = self.factory(registry)?;
        let lab = LabConfig {
            all_reliable: self.all_reliable,
            expire: !self.keep,
            steer_acks: !self.unsteered_acks,
            ..if self.stock { LabConfig::standard() } else { LabConfig::default() }
        };
        let config = Config::default().scheduler(scheduler).lab(lab);
        let signal = config.signal.filter(|_| self.uses_radios(registry));
        Ok(config.signal(signal))
    }
}

/// A label with the suffixes of another one that say what the application asks of the session: which blocks are reliable and
/// in order (`-R`, `+stream`), what becomes of late ones (`+late`, `+keep`), and whether its encoder follows (`+follow`). One
/// that says itself what becomes of late blocks stays with it. Those about how the transport recovers and what it reads from
/// radios (`+stock`, `+unsteered`, `+swm`) remain its own.
pub(crate) fn under_conditions_of(other: &str, label: &str) -> String {
    let (other, own) = (Variant::of(other), Variant::of(label));
    let is_open = !own.late && !own.keep;
    let shared = [
        (WITHOUT_DEADLINES, other.late && is_open),
        (KEEPING_LATE, other.keep && is_open),
        (FOLLOWING, other.follow && !own.follow),
        (ONE_STREAM, other.one_stream && !own.one_stream),
        (ALL_RELIABLE, other.all_reliable && !own.all_reliable),
    ];
    let suffixes = shared.into_iter().filter(|(_, is_missing)| *is_missing).map(|(suffix, _)| suffix);
    std::iter::once(label.trim()).chain(suffixes).collect()
}

/// The label without its last suffix, and that suffix.
fn split(label: &str) -> Option<(&str, &'static str)> {
    SUFFIXES.into_iter().find_map(|suffix| Some((label.strip_suffix(suffix)?, suffix)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suffix_is_no_part_of_the_schedulers_name() {
        let variant = |scheduler, signal, all_reliable| Variant {
            scheduler,
            signal,
            all_reliable,
            ..Variant::of(scheduler)
        };
        assert_eq!(Variant::of("minrtt"), variant("minrtt", false, false));
        assert_eq!(Variant::of("minrtt-R"), variant("minrtt", false, true));
        assert_eq!(Variant::of("minrtt+swm"), variant("minrtt", true, false));
        assert_eq!(Variant::of(" sp(path=1)+swm-R "), variant("sp(path=1)", true, true));
        assert_eq!(Variant::of("minrtt+late"), Variant { late: true, ..variant("minrtt", false, false) });
        assert_eq!(Variant::of("sp+swm+late-R"), Variant { late: true, ..variant("sp", true, true) });
        let follows = Variant { follow: true, ..variant("storm", false, false) };
        assert_eq!(Variant::of("storm+follow"), follows);
        let stock = Variant { stock: true, late: true, one_stream: true, ..variant("minrtt", false, true) };
        for label in ["minrtt+stream+late+stock-R", "minrtt-R+stock+late+stream"] {
            assert_eq!(Variant::of(label), stock);
        }
        assert_eq!(Variant::of("dams+keep"), Variant { keep: true, ..variant("dams", false, false) });
        assert_eq!(Variant::of("minrtt-r"), variant("minrtt-r", false, false));
        assert_eq!(Variant::of("sp (path=1)-R").name(), "sp");
        assert!(Variant::of("-R").check(&squall_papers::registry()).is_err());
    }

    #[test]
    fn signals_are_for_those_they_belong_to_and_those_that_ask() {
        let registry = Arc::new(squall_papers::registry());
        let signal = |label| Variant::of(label).config(&registry).unwrap().signal.is_some();
        assert!(signal("storm") && signal("storm(alpha=0.2)-R") && signal("minrtt+swm"));
        assert!(!signal("ras") && !signal("minrtt") && !signal("dams-R"));
    }

    #[test]
    fn what_learns_from_the_sessions_of_other_runs_is_refused() {
        let registry = Arc::new(squall_papers::registry());
        let error = |label: &str| Variant::of(label).factory(&registry).err().map(|error| error.to_string());
        let why = "learns from other sessions of the process, so its results could not be repeated";
        let learned = "augur(budget=1GB,users=learned)";
        assert_eq!(error(&format!("{learned}+late-R")), Some(format!("scheduler '{learned}' {why}")));
        assert_eq!(error("augur(budget=1GB,users=paper)"), None);
    }

    #[test]
    fn blocks_outlive_their_deadlines_on_request() {
        let registry = Arc::new(squall_papers::registry());
        let expire = |label| Variant::of(label).config(&registry).unwrap().lab.expire;
        assert!(
            expire("dams") && expire("dams+late") && !expire("dams+keep") && !expire("dams+stock+keep-R")
        );
    }

    #[test]
    fn what_the_application_asks_for_is_the_same_for_both() {
        let cases = [
            ("storm", "dams", "dams"),
            ("augur+late", "dams", "dams+late"),
            ("augur+late", "dams+late", "dams+late"),
            ("augur+late", " dams+keep ", "dams+keep"),
            ("ras+swm+stock+unsteered", "dams(alpha=2)", "dams(alpha=2)"),
            ("dams+keep+follow+stream-R", "minrtt+stock", "minrtt+stock+keep+follow+stream-R"),
            ("dams+follow+stream-R", "minrtt-R+stream+follow", "minrtt-R+stream+follow"),
        ];
        for (other, label, expected) in cases {
            assert_eq!(under_conditions_of(other, label), expected, "{label} beside {other}");
        }
    }

    #[test]
    fn no_scheduler_can_be_mistaken_for_the_reliable_one_of_another() {
        for entry in squall_papers::registry().entries() {
            assert!(!SUFFIXES.iter().any(|suffix| entry.name.ends_with(suffix)), "{}", entry.name);
        }
    }
}
