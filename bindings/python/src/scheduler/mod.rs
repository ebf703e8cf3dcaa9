//! Schedulers written in Python.
//!
//! `Custom` is a class of schedulers. One instance is created for each session, and called through
//! `Adapter`. Its input is lent during the call (`context`); its answer is checked (`decision`). An
//! exception ends its decisions, and is raised when the run has ended.

mod block;
mod context;
mod decision;
mod event;
mod path;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;
use squall_sched::{
    BuildError, Context as View, Decision, Entry, PathId, Profile, Registry, SchedEvent, Scheduler, Sharing,
};

use crate::error::scenario as problem;
pub(crate) use block::{Block, Work};
pub(crate) use context::Context;
pub(crate) use decision::{Cancel, Idle, Probe, SendWork};
pub(crate) use event::Event;
pub(crate) use path::Path;

/// A class of schedulers.
pub(crate) struct Custom {
    name: &'static str,
    class: Arc<Py<PyAny>>,
    habits: Habits,
}

/// Properties that a class declares for all its schedulers, as attributes; the names are those of
/// [`Profile`].
#[derive(Clone, Copy)]
struct Habits {
    signal: bool,
    profile: Profile,
    takes_events: bool,
}

/// The first exception of a run.
#[derive(Clone, Default)]
pub(crate) struct Failure(Arc<Mutex<Option<PyErr>>>);

/// One scheduler.
struct Adapter {
    object: Py<PyAny>,
    habits: Habits,
    failure: Failure,
}

impl Custom {
    /// Creates classes from pairs of a name and a class.
    pub(crate) fn of(classes: Vec<(String, Py<PyAny>)>) -> PyResult<Vec<Self>> {
        let standard = squall_papers::registry();
        let known = |name: &str| standard.entry(name).is_some();
        Python::attach(|py| {
            classes
                .into_iter()
                .map(|(name, class)| {
                    if known(&name) {
                        return Err(problem(format!("schedulers: {name:?} is the name of a built-in one")));
                    }
                    let habits = Habits::of(class.bind(py))?;
                    Ok(Self { name: lasting(name), class: Arc::new(class), habits })
                })
                .collect()
        })
    }
}

impl Habits {
    fn of(class: &Bound<'_, PyAny>) -> PyResult<Self> {
        let is = |name: &str| class.getattr(name)?.is_truthy();
        Ok(Self {
            signal: is("signal")?,
            profile: Profile {
                may_hedge: is("may_hedge")?,
                follows_queue: is("follows_queue")?,
                judges_deadlines: is("judges_deadlines")?,
                wants_stalls: is("wants_stalls")?,
                metered_cap: class.getattr("metered_cap")?.extract()?,
                sharing: sharing(&class.getattr("sharing")?)?,
                ..Profile::default()
            },
            takes_events: is("on_event")?,
        })
    }
}

/// Parses a path's id, or one of the words of `squall.lab.Scheduler`.
fn sharing(value: &Bound<'_, PyAny>) -> PyResult<Sharing> {
    if let Ok(path) = value.extract() {
        return Ok(Sharing::Only(PathId(path)));
    }
    match value.extract::<String>().as_deref() {
        Ok("sum") => Ok(Sharing::Sum),
        Ok("free") => Ok(Sharing::Free),
        Ok("best") => Ok(Sharing::Best),
        _ => Err(problem(format!(
            "schedulers: sharing is 'sum', 'free', 'best' or a path's id, not {}",
            value.repr()?
        ))),
    }
}

impl Failure {
    /// Takes the exception, if there was one.
    pub(crate) fn take(&self) -> Option<PyErr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn is_set(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn set(&self, error: PyErr) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

/// Returns a registry of the built-in schedulers and these.
pub(crate) fn registry(classes: &[Custom], failure: &Failure) -> Registry {
    let mut registry = squall_papers::registry();
    for &Custom { name, ref class, habits } in classes {
        let entry = Entry {
            name,
            summary: "written in Python",
            source: "the program that runs it",
            options: &[],
            signal: habits.signal,
        };
        let (class, failure) = (class.clone(), failure.clone());
        registry.register(entry, move |_| match Python::attach(|py| class.call0(py)) {
            Ok(object) => Ok(Box::new(Adapter { object, habits, failure: failure.clone() })),
            Err(error) => {
                failure.set(error);
                // The caller checks the exception first.
                Err(BuildError::Syntax(name.to_owned()))
            }
        });
    }
    registry
}

/// Returns the name with a static lifetime, which descriptions of schedulers require. Each name is
/// stored once.
fn lasting(name: String) -> &'static str {
    static NAMES: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name.as_str()) {
        return known;
    }
    let name: &str = Box::leak(name.into_boxed_str());
    names.insert(name);
    name
}

impl Scheduler for Adapter {
    fn next(&mut self, cx: &View<'_>) -> Decision {
        if self.failure.is_set() {
            return Decision::idle();
        }
        let answer = Python::attach(|py| {
            let object = self.object.bind(py);
            context::lend(py, cx, |context, call| {
                let answer = object.call_method1(intern!(py, "next"), (context,))?;
                decision::read(&answer, cx, call)
            })
        });
        answer.unwrap_or_else(|error| {
            self.failure.set(error);
            Decision::idle()
        })
    }

    fn on_event(&mut self, event: &SchedEvent, cx: &View<'_>) {
        if !self.habits.takes_events || self.failure.is_set() {
            return;
        }
        let Some(event) = Event::of(event) else { return };
        let taken = Python::attach(|py| {
            context::lend(py, cx, |context, _| {
                self.object.call_method1(py, intern!(py, "on_event"), (event, context)).map(drop)
            })
        });
        if let Err(error) = taken {
            self.failure.set(error);
        }
    }

    fn profile(&self) -> Profile {
        self.habits.profile
    }
}
