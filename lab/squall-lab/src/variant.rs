//! Labels of schedulers in scenarios: a registry's name with options, and suffixes in any order,
//! such as `+late` and `-R`.

use std::sync::Arc;

use squall_proto::{
    Config, LabConfig, SchedulerFactory,
    sched::{BuildError, Registry},
};

use crate::flow::Flow;
use crate::scenario::Scenario;
use crate::traffic::Traffic;

/// Suffix: every block is reliable, as in STORM's MPQUIC-R and DAMS-R (§2.2), i.e. the same
/// scheduler over a transport that repairs everything.
pub const ALL_RELIABLE: &str = "-R";

/// Suffix: use radio signals, as in "SWM over minRTT": STORM's signal-watermark mechanism (§3.2)
/// under a scheduler without its own.
pub const WITH_SIGNAL: &str = "+swm";

/// Suffix: the transport gets no deadlines and sends late blocks to the end, as the MPQUIC of all
/// four papers does. Results are still judged by the deadlines.
pub const WITHOUT_DEADLINES: &str = "+late";

/// Suffix: the scheduler has the deadlines, but the transport sends late blocks to the end, as the
/// DAMS that STORM compares with (§5.2.1); see [`LabConfig::expire`].
pub const KEEPING_LATE: &str = "+keep";

/// Suffix: the encoder of films follows the capacity of the session.
pub const FOLLOWING: &str = "+follow";

/// Suffix: the transport is standard multipath QUIC, which does not suspect silent paths; see
/// [`LabConfig::standard`].
pub const STOCK: &str = "+stock";

/// Suffix: all reliable blocks form one ordered stream, each delivered after those before it.
pub const ONE_STREAM: &str = "+stream";

/// Suffix: acknowledgements leave on the first path, whichever that is; see
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

/// A participant of a comparison: a scheduler and the changes around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variant<'a> {
    /// Name and options, as the registry takes them.
    pub scheduler: &'a str,
    /// Radio signals are requested; see [`Self::uses_radios`].
    pub signal: bool,
    /// Encoders of films follow the capacity of the session.
    pub follow: bool,
    /// The transport gets no deadlines.
    pub late: bool,
    /// Blocks outlive their deadlines, which only the scheduler uses.
    pub keep: bool,
    /// Every block is sent as a reliable one; see [`LabConfig::all_reliable`].
    pub all_reliable: bool,
    /// Paths recover as in standard multipath QUIC.
    pub stock: bool,
    /// Reliable blocks are delivered in order.
    pub one_stream: bool,
    /// Acknowledgements leave on the first path.
    pub unsteered_acks: bool,
}

impl<'a> Variant<'a> {
    /// Parses a label such as `minrtt`, `minrtt-R`, `storm+follow` or
    /// `sp(path=1)+swm+follow+late-R`.
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

    /// `true` if radio signals are requested or belong to the scheduler.
    pub fn uses_radios(&self, registry: &Registry) -> bool {
        self.signal || registry.entry(self.name()).is_some_and(|entry| entry.signal)
    }

    /// Name of the scheduler without its options.
    pub fn name(&self) -> &'a str {
        self.scheduler.split('(').next().unwrap_or(self.scheduler).trim()
    }

    /// Returns the factory for the schedulers of sessions.
    ///
    /// # Errors
    /// If the registry has no scheduler of that name, the scheduler rejects its options, or it uses
    /// data from sessions of other runs.
    pub fn factory(&self, registry: &Arc<Registry>) -> Result<SchedulerFactory, BuildError> {
        // Building one here reports errors before a session exists.
        self.check(registry)?;
        let (registry, scheduler) = (registry.clone(), self.scheduler.to_owned());
        Ok(Arc::new(move || registry.build(&scheduler).expect("it was built before")))
    }

    /// Checks that the registry has the scheduler with these options and that its results are
    /// repeatable.
    ///
    /// # Errors
    /// As [`Self::factory`].
    pub fn check(&self, registry: &Registry) -> Result<(), BuildError> {
        if registry.build(self.scheduler)?.profile().learns_from_others {
            return Err(BuildError::NotRepeatable(self.scheduler.to_owned()));
        }
        Ok(())
    }

    /// Like [`Self::check`], for a scenario with this stream scheduler.
    ///
    /// # Errors
    /// Also if the stream scheduler is unknown, or if it orders channels but the scheduler imposes
    /// an order of its own.
    pub fn check_in(&self, scenario: &Scenario, registry: &Registry) -> Result<(), BuildError> {
        self.check(registry)?;
        let follows = registry.build(self.scheduler)?.profile().follows_queue;
        if follows || registry.build_streams(&scenario.streams)?.is_fifo() {
            return Ok(());
        }
        Err(BuildError::OwnOrder(self.name().to_owned()))
    }

    /// Applies the suffixes to a flow, as its application offers it.
    pub fn flow(&self, flow: &Flow) -> Flow {
        let mut flow = flow.clone();
        if let Traffic::Film(film) = &mut flow.traffic {
            film.follow |= self.follow;
        }
        flow
    }

    /// Returns the configuration of sessions.
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

/// Adds to a label the suffixes of another one that concern the application: reliability and order
/// of blocks (`-R`, `+stream`), treatment of late ones (`+late`, `+keep`), and an encoder that
/// follows (`+follow`). If the label sets the treatment of late blocks itself, that takes
/// precedence. The suffixes that concern the transport and the radios (`+stock`, `+unsteered`,
/// `+swm`) are not taken from the other label.
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

/// Splits off the last suffix.
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
