//! A scheduler as a scenario names it: a registry's name with options, and perhaps the suffix `-R`.

use std::sync::Arc;

use squall_proto::{
    Config, SchedulerFactory,
    sched::{BuildError, Registry},
};

/// What stands behind the scheduler's name when every block is to be reliable, as in STORM's MPQUIC-R and
/// DAMS-R (§2.2): the same scheduler over a transport that repairs everything.
pub const ALL_RELIABLE: &str = "-R";

/// What takes part in a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contender<'a> {
    /// Name and options, as the registry takes them.
    pub scheduler: &'a str,
    /// Whether every block is sent as a reliable one; see [`Config::all_reliable`].
    pub all_reliable: bool,
}

impl<'a> Contender<'a> {
    /// Takes a label such as `minrtt`, `minrtt-R` or `sp(path=1)-R` apart.
    pub fn of(label: &'a str) -> Self {
        let label = label.trim();
        match label.strip_suffix(ALL_RELIABLE) {
            Some(scheduler) => Self { scheduler, all_reliable: true },
            None => Self { scheduler: label, all_reliable: false },
        }
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

    /// How sessions are to behave.
    ///
    /// # Errors
    /// As [`Self::factory`].
    pub fn config(&self, registry: &Arc<Registry>) -> Result<Config, BuildError> {
        let scheduler = self.factory(registry)?;
        Ok(Config { scheduler, all_reliable: self.all_reliable, ..Config::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suffix_is_no_part_of_the_schedulers_name() {
        let contender = |scheduler, all_reliable| Contender { scheduler, all_reliable };
        assert_eq!(Contender::of("minrtt"), contender("minrtt", false));
        assert_eq!(Contender::of("minrtt-R"), contender("minrtt", true));
        assert_eq!(Contender::of(" sp(path=1)-R "), contender("sp(path=1)", true));
        assert_eq!(Contender::of("minrtt-r"), contender("minrtt-r", false));
        assert_eq!(Contender::of("sp (path=1)-R").name(), "sp");
        assert!(Contender::of("-R").check(&Registry::standard()).is_err());
    }

    #[test]
    fn no_scheduler_can_be_mistaken_for_the_reliable_one_of_another() {
        for entry in Registry::standard().entries() {
            assert!(!entry.name.ends_with(ALL_RELIABLE), "{}", entry.name);
        }
    }
}
