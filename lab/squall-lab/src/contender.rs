//! A scheduler as a scenario names it: a registry's name with options, and perhaps the suffixes `+swm` and `-R`.

use std::sync::Arc;

use squall_proto::{
    Config, SchedulerFactory,
    sched::{BuildError, Registry, StreamScheduler},
};

use crate::scenario::Scenario;

/// What stands behind the scheduler's name when every block is to be reliable, as in STORM's MPQUIC-R and
/// DAMS-R (§2.2): the same scheduler over a transport that repairs everything.
pub const ALL_RELIABLE: &str = "-R";

/// What stands behind the scheduler's name when it is to go by radio signals, as in "SWM over minRTT": STORM's
/// signal-watermark mechanism (§3.2) under a scheduler that does not have it by itself.
pub const WITH_SIGNAL: &str = "+swm";

/// What stands behind the scheduler's name when the transport is told of no deadline: it sends to the end what is
/// late, as the MPQUIC of all four papers does. Results are judged by the deadlines all the same.
pub const WITHOUT_DEADLINES: &str = "+late";

/// What takes part in a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contender<'a> {
    /// Name and options, as the registry takes them.
    pub scheduler: &'a str,
    /// Whether it is asked to go by radio signals; see [`Self::heeds_signals`].
    pub signal: bool,
    /// Whether the transport is told of no deadline.
    pub late: bool,
    /// Whether every block is sent as a reliable one; see [`Config::all_reliable`].
    pub all_reliable: bool,
}

impl<'a> Contender<'a> {
    /// Takes a label such as `minrtt`, `minrtt-R`, `minrtt+late`, `minrtt+swm` or `sp(path=1)+swm+late-R` apart.
    pub fn of(label: &'a str) -> Self {
        let label = label.trim();
        let (label, all_reliable) = split(label, ALL_RELIABLE);
        let (label, late) = split(label, WITHOUT_DEADLINES);
        let (scheduler, signal) = split(label, WITH_SIGNAL);
        Self { scheduler, signal, late, all_reliable }
    }

    /// Whether it goes by radio signals: because it is asked to, or because they belong to the scheduler.
    pub fn heeds_signals(&self, registry: &Registry) -> bool {
        self.signal || registry.entry(self.name()).is_some_and(|entry| entry.signal)
    }

    /// The scheduler's name without its options.
    pub fn name(&self) -> &'a str {
        self.scheduler.split('(').next().unwrap_or(self.scheduler).trim()
    }

    /// Makes the schedulers of sessions.
    ///
    /// # Errors
    /// If the registry has none of that name, or it does not take its options.
    pub fn factory(&self, registry: &Arc<Registry>) -> Result<SchedulerFactory, BuildError> {
        // Building one now tells of mistakes before there is a session.
        self.check(registry)?;
        let (registry, scheduler) = (registry.clone(), self.scheduler.to_owned());
        Ok(Arc::new(move || registry.build(&scheduler).expect("it was built before")))
    }

    /// Whether the registry has the scheduler, with these options.
    ///
    /// # Errors
    /// As [`Self::factory`].
    pub fn check(&self, registry: &Registry) -> Result<(), BuildError> {
        registry.build(self.scheduler).map(drop)
    }

    /// The same, for a scenario whose channels share by this rule.
    ///
    /// # Errors
    /// Also if channels are to take turns and the scheduler does not follow the queue's order.
    pub fn check_in(&self, scenario: &Scenario, registry: &Registry) -> Result<(), BuildError> {
        let follows = registry.build(self.scheduler)?.follows_queue();
        if follows || scenario.streams == StreamScheduler::Fifo {
            return Ok(());
        }
        Err(BuildError::OwnOrder(self.name().to_owned()))
    }

    /// How sessions are to behave.
    ///
    /// # Errors
    /// As [`Self::factory`].
    pub fn config(&self, registry: &Arc<Registry>) -> Result<Config, BuildError> {
        let scheduler = self.factory(registry)?;
        let config = Config::default();
        let signal = config.signal.filter(|_| self.heeds_signals(registry));
        Ok(Config { scheduler, signal, all_reliable: self.all_reliable, ..config })
    }
}

/// The label without the suffix, and whether it had it.
fn split<'a>(label: &'a str, suffix: &str) -> (&'a str, bool) {
    label.strip_suffix(suffix).map_or((label, false), |rest| (rest, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suffix_is_no_part_of_the_schedulers_name() {
        let contender =
            |scheduler, signal, all_reliable| Contender { scheduler, signal, late: false, all_reliable };
        assert_eq!(Contender::of("minrtt"), contender("minrtt", false, false));
        assert_eq!(Contender::of("minrtt-R"), contender("minrtt", false, true));
        assert_eq!(Contender::of("minrtt+swm"), contender("minrtt", true, false));
        assert_eq!(Contender::of(" sp(path=1)+swm-R "), contender("sp(path=1)", true, true));
        assert_eq!(
            Contender::of("minrtt+late"),
            Contender { late: true, ..contender("minrtt", false, false) }
        );
        assert_eq!(Contender::of("sp+swm+late-R"), Contender { late: true, ..contender("sp", true, true) });
        assert_eq!(Contender::of("minrtt-r"), contender("minrtt-r", false, false));
        assert_eq!(Contender::of("sp (path=1)-R").name(), "sp");
        assert!(Contender::of("-R").check(&Registry::standard()).is_err());
    }

    #[test]
    fn signals_are_for_those_they_belong_to_and_those_that_ask() {
        let registry = Arc::new(Registry::standard());
        let signal = |label| Contender::of(label).config(&registry).unwrap().signal.is_some();
        assert!(signal("storm") && signal("storm(alpha=0.2)-R") && signal("minrtt+swm"));
        assert!(!signal("ras") && !signal("minrtt") && !signal("dams-R"));
    }

    #[test]
    fn no_scheduler_can_be_mistaken_for_the_reliable_one_of_another() {
        for entry in Registry::standard().entries() {
            assert!(
                ![ALL_RELIABLE, WITH_SIGNAL, WITHOUT_DEADLINES]
                    .iter()
                    .any(|suffix| entry.name.ends_with(suffix)),
                "{}",
                entry.name
            );
        }
    }
}
