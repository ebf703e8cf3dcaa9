//! Schedulers by name, with options: `minrtt`, `sp(path=1)`.

use std::{collections::BTreeMap, fmt, ops::RangeInclusive, str::FromStr};

use crate::{Cap, Capped, Multiplexer, Scheduler, StreamScheduler};

type Builder<T> = Box<dyn Fn(&mut Options) -> Result<Box<T>, BuildError> + Send + Sync>;

/// Scheduler of sessions that name none.
pub const DEFAULT_SCHEDULER: &str = "squall";

/// The packet schedulers, stream schedulers and multiplexers that are available by name.
///
/// ```
/// let registry = squall_sched::Registry::standard();
/// assert!(registry.build("sp(path=1)").is_ok());
/// let error = registry.build("sp(pth=1)").err().unwrap();
/// assert_eq!(error.to_string(), "scheduler 'sp' has no option 'pth'; it has path, cap");
/// ```
pub struct Registry {
    schedulers: Catalogue<dyn Scheduler>,
    streams: Catalogue<dyn StreamScheduler>,
    multiplexers: Catalogue<dyn Multiplexer>,
}

/// The entries of one kind, by name.
struct Catalogue<T: ?Sized> {
    /// Name of the kind, for errors.
    what: &'static str,
    /// Options that every entry takes, beside its own.
    common: &'static [OptionSpec],
    entries: BTreeMap<&'static str, (Entry, Builder<T>)>,
}

/// The description of a scheduler, a stream scheduler or a multiplexer.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Name in the registry.
    pub name: &'static str,
    /// Purpose, in one line.
    pub summary: &'static str,
    /// Source of the design.
    pub source: &'static str,
    /// Options that can be set.
    pub options: &'static [OptionSpec],
    /// The scheduler uses radio signals: in comparisons only such packet schedulers follow them,
    /// unless requested.
    pub signal: bool,
}

/// An option of a scheduler.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// Name of the option.
    pub name: &'static str,
    /// Value if the option is not given.
    pub default: &'static str,
    /// Meaning, with unit and bounds.
    pub help: &'static str,
}

/// Options that every scheduler takes beside its own.
pub const COMMON_OPTIONS: &[OptionSpec] = &[OptionSpec {
    name: "cap",
    default: "none",
    help: "bytes that each metered path may carry in a session, such as 250MB",
}];

/// Reason why a scheduler could not be built from its description.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No entry has this name.
    #[error("unknown {what} '{name}'; there are {known}")]
    Unknown {
        /// Kind of the entry: a scheduler, a stream scheduler or a multiplexer.
        what: &'static str,
        /// The requested name.
        name: String,
        /// The available names.
        known: String,
    },
    /// The entry has no such option.
    #[error("{what} '{name}' has no option '{option}'; it has {known}")]
    UnknownOption {
        /// Kind of the entry: a scheduler, a stream scheduler or a multiplexer.
        what: &'static str,
        /// Name of the entry.
        name: String,
        /// The requested option.
        option: String,
        /// The available options.
        known: String,
    },
    /// The value is invalid for the option.
    #[error("scheduler option {option}={value}: {why}")]
    BadValue {
        /// Name of the option.
        option: String,
        /// The given value.
        value: String,
        /// Description of the problem.
        why: String,
    },
    /// The description is not of the form `name` or `name(key=value, …)`.
    #[error("scheduler '{0}' is not of the form name or name(option=value, …)")]
    Syntax(String),
    /// Channels were to share by weights, but the scheduler's order leaves no choice between
    /// blocks.
    #[error(
        "scheduler '{0}' orders blocks by their remaining bytes, so channels have no weights (streams: only fifo)"
    )]
    OwnOrder(String),
    /// Results were to be repeatable, but the scheduler depends on other sessions of the process.
    #[error(
        "scheduler '{0}' learns from other sessions of the process, so its results could not be repeated"
    )]
    NotRepeatable(String),
}

impl<T: ?Sized> Catalogue<T> {
    fn new(what: &'static str, common: &'static [OptionSpec]) -> Self {
        Self { what, common, entries: BTreeMap::new() }
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values().map(|(entry, _)| entry)
    }

    /// Returns the builder of the described entry, and the given options.
    fn find(&self, description: &str) -> Result<(&Builder<T>, Options), BuildError> {
        let (name, options) = Options::parse(description)?;
        let what = self.what;
        let Some((entry, build)) = self.entries.get(name.as_str()) else {
            return Err(BuildError::Unknown { what, name, known: list(self.entries.keys().copied()) });
        };
        let known = || entry.options.iter().chain(self.common).map(|o| o.name);
        if let Some(option) = options.values.keys().find(|k| !known().any(|name| name == **k)) {
            return Err(BuildError::UnknownOption {
                what,
                name,
                option: option.clone(),
                known: list(known()),
            });
        }
        Ok((build, options))
    }
}

impl Registry {
    /// Creates a registry without entries.
    pub fn empty() -> Self {
        Self {
            schedulers: Catalogue::new("scheduler", COMMON_OPTIONS),
            streams: Catalogue::new("stream scheduler", &[]),
            multiplexers: Catalogue::new("multiplexer", &[]),
        }
    }

    /// Adds a packet scheduler, or replaces the one with that name.
    pub fn register(
        &mut self,
        entry: Entry,
        build: impl Fn(&mut Options) -> Result<Box<dyn Scheduler>, BuildError> + Send + Sync + 'static,
    ) {
        self.schedulers.entries.insert(entry.name, (entry, Box::new(build)));
    }

    /// Adds a stream scheduler, or replaces the one with that name.
    pub fn register_streams(
        &mut self,
        entry: Entry,
        build: impl Fn(&mut Options) -> Result<Box<dyn StreamScheduler>, BuildError> + Send + Sync + 'static,
    ) {
        self.streams.entries.insert(entry.name, (entry, Box::new(build)));
    }

    /// Adds a multiplexer, or replaces the one with that name.
    pub fn register_multiplexer(
        &mut self,
        entry: Entry,
        build: impl Fn(&mut Options) -> Result<Box<dyn Multiplexer>, BuildError> + Send + Sync + 'static,
    ) {
        self.multiplexers.entries.insert(entry.name, (entry, Box::new(build)));
    }

    /// Returns the description of the packet scheduler with that name.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.schedulers.entries.get(name).map(|(entry, _)| entry)
    }

    /// Iterates over the packet schedulers, by name.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.schedulers.entries()
    }

    /// Iterates over the stream schedulers, by name.
    pub fn streams(&self) -> impl Iterator<Item = &Entry> {
        self.streams.entries()
    }

    /// Iterates over the multiplexers, by name.
    pub fn multiplexers(&self) -> impl Iterator<Item = &Entry> {
        self.multiplexers.entries()
    }

    /// Builds a packet scheduler from `name` or `name(option=value, …)`.
    ///
    /// # Errors
    /// If the name or an option is unknown, or a value does not fit.
    pub fn build(&self, description: &str) -> Result<Box<dyn Scheduler>, BuildError> {
        let (build, mut options) = self.schedulers.find(description)?;
        let Cap(cap) = options.take("cap", Cap::default())?;
        let built = build(&mut options)?;
        Ok(match cap {
            Some(cap) => Box::new(Capped::new(built, cap)),
            None => built,
        })
    }

    /// Builds a stream scheduler from `name` or `name(option=value, …)`.
    ///
    /// # Errors
    /// See [`Self::build`].
    pub fn build_streams(&self, description: &str) -> Result<Box<dyn StreamScheduler>, BuildError> {
        let (build, mut options) = self.streams.find(description)?;
        build(&mut options)
    }

    /// Builds a multiplexer from `name` or `name(option=value, …)`.
    ///
    /// # Errors
    /// See [`Self::build`].
    pub fn build_multiplexer(&self, description: &str) -> Result<Box<dyn Multiplexer>, BuildError> {
        let (build, mut options) = self.multiplexers.find(description)?;
        build(&mut options)
    }
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

/// The options given for a scheduler.
#[derive(Clone, Debug, Default)]
pub struct Options {
    values: BTreeMap<String, String>,
}

impl Options {
    /// Splits `name(key=value, …)`.
    fn parse(description: &str) -> Result<(String, Self), BuildError> {
        let syntax = || BuildError::Syntax(description.to_owned());
        let description = description.trim();
        let (name, inner) = match description.split_once('(') {
            None => (description, ""),
            Some((name, rest)) => (name.trim_end(), rest.strip_suffix(')').ok_or_else(syntax)?),
        };
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
            return Err(syntax());
        }
        let mut values = BTreeMap::new();
        for pair in inner.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or_else(syntax)?;
            let (key, value) = (key.trim(), value.trim());
            if key.is_empty() {
                return Err(syntax());
            }
            if values.insert(key.to_owned(), value.to_owned()).is_some() {
                let (option, value) = (key.to_owned(), value.to_owned());
                return Err(BuildError::BadValue { option, value, why: "the option is given twice".into() });
            }
        }
        Ok((name.to_owned(), Self { values }))
    }

    /// Removes an option and returns its value, or `default` if it was not given.
    ///
    /// # Errors
    /// If the value cannot be parsed.
    pub fn take<T>(&mut self, option: &str, default: T) -> Result<T, BuildError>
    where
        T: FromStr<Err: fmt::Display>,
    {
        let Some(value) = self.values.remove(option) else {
            return Ok(default);
        };
        value.parse().map_err(|e: T::Err| BuildError::BadValue {
            option: option.into(),
            value: value.clone(),
            why: e.to_string(),
        })
    }

    /// Like [`Self::take`], for a value within bounds.
    ///
    /// # Errors
    /// If the value cannot be parsed or is out of bounds.
    pub fn take_in<T>(&mut self, option: &str, default: T, bounds: RangeInclusive<T>) -> Result<T, BuildError>
    where
        T: FromStr<Err: fmt::Display> + PartialOrd + fmt::Display,
    {
        let value = self.take(option, default)?;
        if bounds.contains(&value) {
            return Ok(value);
        }
        Err(BuildError::BadValue {
            option: option.into(),
            value: value.to_string(),
            why: format!("must be from {} to {}", bounds.start(), bounds.end()),
        })
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.entries().chain(self.streams()).chain(self.multiplexers()).map(|entry| entry.name);
        f.debug_list().entries(all).finish()
    }
}

#[cfg(test)]
mod tests {

    use squall_units::short::at_us;

    use super::*;
    use crate::{Context, Decision, Time};

    fn error(description: &str) -> String {
        Registry::standard().build(description).err().expect("is refused").to_string()
    }

    #[test]
    fn builds_by_name_with_and_without_options() {
        let registry = Registry::standard();
        for description in
            ["sp", "sp()", "sp( path = 7 )", " sp (path=0)", "sp(path=1,)", "minrtt", "rr", "redundant()"]
        {
            assert!(registry.build(description).is_ok(), "{description}");
        }
    }

    #[test]
    fn every_listed_default_is_accepted() {
        let registry = Registry::standard();
        for entry in registry.entries() {
            let options: Vec<_> = entry.options.iter().map(|o| format!("{}={}", o.name, o.default)).collect();
            let description = format!("{}({})", entry.name, options.join(", "));
            assert!(registry.build(&description).is_ok(), "{description}");
            assert!(!entry.summary.is_empty() && !entry.source.is_empty());
        }
    }

    #[test]
    fn an_unknown_scheduler_is_answered_with_those_there_are() {
        let known: Vec<_> = Registry::standard().entries().map(|e| e.name).collect();
        assert!(known.is_sorted());
        let expected = format!("unknown scheduler 'fastest'; there are {}", known.join(", "));
        assert_eq!(error("fastest"), expected);
        let none = Registry::empty().build("sp").err().expect("empty");
        assert_eq!(none.to_string(), "unknown scheduler 'sp'; there are none");
    }

    #[test]
    fn an_unknown_option_is_answered_with_those_there_are() {
        assert_eq!(error("sp(pth=1)"), "scheduler 'sp' has no option 'pth'; it has path, cap");
        assert_eq!(error("rr(path=1)"), "scheduler 'rr' has no option 'path'; it has cap");
    }

    #[test]
    fn a_bad_value_is_named() {
        assert_eq!(error("sp(path=8)"), "scheduler option path=8: must be from 0 to 7");
        assert_eq!(error("sp(path=x)"), "scheduler option path=x: invalid digit found in string");
        assert_eq!(
            error("rr(cap=5mb)"),
            "scheduler option cap=5mb: \"5mb\" is not a size: the unit must be one of B, kB, MB, GB, KiB, MiB or GiB"
        );
        assert_eq!(error("sp(path=1, path=2)"), "scheduler option path=2: the option is given twice");
    }

    #[test]
    fn a_malformed_description_is_quoted() {
        for bad in ["", "()", "sp(path=1", "sp(path=1)x", "sp(path)", "sp(=1)", "s p", "sp)", "(path=1)"] {
            let expected = format!("scheduler '{bad}' is not of the form name or name(option=value, …)");
            assert_eq!(error(bad), expected);
        }
    }

    struct WakeAt(u64);

    impl Scheduler for WakeAt {
        fn next(&mut self, _: &Context<'_>) -> Decision {
            Decision::Idle { wake: Some(at_us(self.0)) }
        }
    }

    const OUTSIDER: Entry = Entry {
        name: "wake-at",
        summary: "never sends",
        source: "this test",
        options: &[OptionSpec { name: "at", default: "5", help: "µs" }],
        signal: false,
    };

    fn wake(registry: &Registry, description: &str) -> Option<Time> {
        let queue = crate::BlockQueue::new();
        let mut scheduler = registry.build(description).expect("is registered");
        match scheduler.next(&Context { now: Time::EPOCH, queue: &queue, paths: &[] }) {
            Decision::Idle { wake } => wake,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_outsider_registers_its_own_with_options() {
        let mut registry = Registry::standard();
        let before = registry.entries().count();
        registry.register(OUTSIDER, |options| Ok(Box::new(WakeAt(options.take("at", 5)?))));
        assert_eq!(registry.entries().count(), before + 1);
        assert_eq!(wake(&registry, "wake-at"), Some(at_us(5)));
        assert_eq!(wake(&registry, "wake-at(at=9)"), Some(at_us(9)));
        assert!(format!("{registry:?}").contains("wake-at"));
    }

    #[test]
    fn registering_a_name_again_replaces_it() {
        let mut registry = Registry::standard();
        let before = registry.entries().count();
        registry.register(Entry { name: "minrtt", ..OUTSIDER }, |_| Ok(Box::new(WakeAt(1))));
        assert_eq!(registry.entries().count(), before);
        assert_eq!(wake(&registry, "minrtt"), Some(at_us(1)));
    }
}
