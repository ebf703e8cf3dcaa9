//! Schedulers by name, with options: `minrtt`, `sp(path=1)`.

use std::{collections::BTreeMap, fmt, str::FromStr};

use crate::{
    PathId, Scheduler, minrtt::MinRtt, redundant::Redundant, round_robin::RoundRobin, single_path::SinglePath,
};

type Builder = Box<dyn Fn(&mut Options) -> Result<Box<dyn Scheduler>, BuildError> + Send + Sync>;

/// The schedulers that can be picked by name.
///
/// ```
/// let registry = squall_sched::Registry::standard();
/// let scheduler = registry.build("sp(path=1)").unwrap();
/// assert!(registry.build("sp(pth=1)").unwrap_err().to_string().contains("path"));
/// # drop(scheduler);
/// ```
pub struct Registry {
    entries: BTreeMap<&'static str, (Entry, Builder)>,
}

/// What is told of a scheduler.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The name it is picked by.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// What can be set.
    pub options: &'static [OptionSpec],
}

/// An option of a scheduler.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// Its name.
    pub name: &'static str,
    /// What it is when not given.
    pub default: &'static str,
    /// What it means, with unit and bounds.
    pub help: &'static str,
}

/// Why a scheduler could not be built from its description.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// No such name.
    #[error("unknown scheduler '{name}'; there are {known}")]
    UnknownScheduler {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The scheduler has no such option.
    #[error("scheduler '{scheduler}' has no option '{option}'; it has {known}")]
    UnknownOption {
        /// Which scheduler.
        scheduler: String,
        /// What was asked for.
        option: String,
        /// What it has.
        known: String,
    },
    /// The value does not fit the option.
    #[error("scheduler option {option}={value}: {why}")]
    BadValue {
        /// Which option.
        option: String,
        /// What was given.
        value: String,
        /// What is wrong.
        why: String,
    },
    /// Not of the form `name` or `name(key=value, …)`.
    #[error("scheduler '{0}' is not of the form name or name(option=value, …)")]
    Syntax(String),
}

impl Registry {
    /// No scheduler.
    pub fn empty() -> Self {
        Self { entries: BTreeMap::new() }
    }

    /// All schedulers of this crate.
    pub fn standard() -> Self {
        let mut registry = Self::empty();
        registry.register(
            Entry {
                name: "sp",
                summary: "everything on one path",
                source: "baseline of all four papers",
                options: &[OptionSpec { name: "path", default: "0", help: "path id, 0 to 7" }],
            },
            |options| {
                let path = options.take("path", 0u8)?;
                if usize::from(path) >= crate::MAX_PATHS {
                    return Err(BuildError::BadValue {
                        option: "path".into(),
                        value: path.to_string(),
                        why: format!("must be below {}", crate::MAX_PATHS),
                    });
                }
                Ok(Box::new(SinglePath { path: PathId(path) }))
            },
        );
        registry.register(
            Entry {
                name: "minrtt",
                summary: "each packet on the lowest-RTT path with window left",
                source: "Linux MPTCP default; \"MPQUIC\" in STORM and DAMS, \"LowRTT\" in NineTails",
                options: &[],
            },
            |_| Ok(Box::new(MinRtt)),
        );
        registry.register(
            Entry {
                name: "rr",
                summary: "packets in turn over all paths with window left",
                source: "baseline of DAMS and NineTails",
                options: &[],
            },
            |_| Ok(Box::new(RoundRobin::default())),
        );
        registry.register(
            Entry {
                name: "redundant",
                summary: "every byte on every path",
                source: "baseline of NineTails",
                options: &[],
            },
            |_| Ok(Box::new(Redundant::default())),
        );
        registry
    }

    /// Adds a scheduler, or replaces the one of that name.
    pub fn register(
        &mut self,
        entry: Entry,
        build: impl Fn(&mut Options) -> Result<Box<dyn Scheduler>, BuildError> + Send + Sync + 'static,
    ) {
        self.entries.insert(entry.name, (entry, Box::new(build)));
    }

    /// What can be picked, by name.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values().map(|(entry, _)| entry)
    }

    /// Builds a scheduler from `name` or `name(option=value, …)`.
    ///
    /// # Errors
    /// If the name or an option is unknown, or a value does not fit.
    pub fn build(&self, description: &str) -> Result<Box<dyn Scheduler>, BuildError> {
        let (name, mut options) = Options::parse(description)?;
        let Some((entry, build)) = self.entries.get(name.as_str()) else {
            return Err(BuildError::UnknownScheduler { name, known: list(self.entries.keys().copied()) });
        };
        if let Some(option) = options.values.keys().find(|k| !entry.options.iter().any(|o| o.name == **k)) {
            return Err(BuildError::UnknownOption {
                scheduler: name,
                option: option.clone(),
                known: list(entry.options.iter().map(|o| o.name)),
            });
        }
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
            if values.insert(key.trim().to_owned(), value.trim().to_owned()).is_some() {
                return Err(syntax());
            }
        }
        Ok((name.to_owned(), Self { values }))
    }

    /// The value of an option, or `default` when it was not given.
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
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.entries.keys()).finish()
    }
}
