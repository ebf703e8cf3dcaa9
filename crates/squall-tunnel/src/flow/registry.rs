//! The flows that begin or end here, and how they change.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{net::UdpSocket, sync::watch};

use super::{Flow, inlet, socket};
use crate::{
    clock::Clock,
    config::FlowConfig,
    journal::Journal,
    supervise::{self, Kept},
};

/// All flows, by name.
#[derive(Debug)]
pub(crate) struct Registry {
    clock: Clock,
    journal: Arc<Journal>,
    flows: Mutex<BTreeMap<String, Entry>>,
    /// Told when flows came, went or are free for others.
    changed: watch::Sender<u64>,
}

#[derive(Debug)]
struct Entry {
    flow: Arc<Flow>,
    inlet: Kept,
}

/// A flow that cannot be, and why.
#[derive(Debug, thiserror::Error)]
#[error("flow '{name}': {end}: {source}")]
pub struct FlowError {
    name: String,
    end: crate::config::End,
    source: io::Error,
}

/// What a change of the configuration did to flows.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) added: Vec<String>,
    pub(crate) removed: Vec<String>,
    pub(crate) changed: Vec<String>,
}

impl Changes {
    /// In words; none if nothing changed.
    pub(crate) fn words(&self) -> Option<String> {
        let parts = [("added", &self.added), ("removed", &self.removed), ("changed", &self.changed)];
        let told = parts.iter().filter(|(_, names)| !names.is_empty());
        let words: Vec<_> = told.map(|(verb, names)| format!("{verb} {}", names.join(", "))).collect();
        (!words.is_empty()).then(|| words.join("; "))
    }
}

impl Registry {
    pub(crate) fn new(clock: Clock, journal: Arc<Journal>) -> Self {
        Self { clock, journal, flows: Mutex::default(), changed: watch::Sender::new(0) }
    }

    /// Has exactly these flows from now on. Those that stay as they are are not touched, and of those that change
    /// only the sockets whose address does. If one cannot be, nothing changes.
    pub(crate) fn set(&self, wanted: &[FlowConfig]) -> Result<Changes, FlowError> {
        let mut flows = self.lock();
        let mut fresh = Vec::new();
        for config in wanted {
            let known = flows.get(&config.name);
            if known.is_none_or(|entry| entry.flow.config().end != config.end) {
                // An address may have passed from one flow to another, whose socket is bound to it still.
                let left = flows.values().find(|entry| {
                    let before = entry.flow.config();
                    let stays = wanted.iter().any(|one| one.name == before.name && one.end == before.end);
                    config.is_in() && before.end == config.end && !stays
                });
                fresh.push((config, self.open(config, left.map(|entry| entry.flow.socket.clone()))?));
            }
        }
        let mut changes = Changes::default();
        let is_wanted = |name: &str| wanted.iter().any(|config| config.name == name);
        flows.retain(|name, _| {
            let stays = is_wanted(name);
            if !stays {
                changes.removed.push(name.clone());
            }
            stays
        });
        for config in wanted {
            let Some(entry) = flows.get(&config.name) else { continue };
            entry.inlet.retry();
            if *entry.flow.config() != *config && entry.flow.config().end == config.end {
                entry.flow.config.send_replace(Arc::new(config.clone()));
                entry.flow.note_media(config.media);
                changes.changed.push(config.name.clone());
            }
        }
        for (config, flow) in fresh {
            let inlet = self.take_in(&flow);
            match flows.insert(config.name.clone(), Entry { flow, inlet }) {
                Some(_) => changes.changed.push(config.name.clone()),
                None => changes.added.push(config.name.clone()),
            }
        }
        drop(flows);
        if changes != Changes::default() {
            self.announce();
        }
        Ok(changes)
    }

    /// Reads the flow's socket from now on.
    fn take_in(&self, flow: &Arc<Flow>) -> Kept {
        let (name, flow) = (format!("flow '{}'", flow.config().name), flow.clone());
        supervise::keep(self.journal.clone(), name, move || inlet::run(flow.clone()))
    }

    /// A session carries nothing any more, however it ended. Others may carry its flows now.
    pub(crate) fn release(&self, session: u64) {
        let freed = self.all().iter().filter(|flow| flow.detach(session)).count();
        if freed > 0 {
            self.announce();
        }
    }

    /// Has sessions look again at which flows there are.
    pub(crate) fn announce(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    /// Told when [`Self::announce`] is called.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<Flow>> {
        self.lock().get(name).map(|entry| entry.flow.clone())
    }

    pub(crate) fn all(&self) -> Vec<Arc<Flow>> {
        self.lock().values().map(|entry| entry.flow.clone()).collect()
    }

    /// A flow with this socket, or one of its own.
    fn open(&self, config: &FlowConfig, socket: Option<Arc<UdpSocket>>) -> Result<Arc<Flow>, FlowError> {
        let failed = |source| FlowError { name: config.name.clone(), end: config.end, source };
        let socket = match socket {
            Some(socket) => socket,
            None => Arc::new(socket::open(config.end).map_err(failed)?),
        };
        Ok(Arc::new(Flow::new(config.clone(), self.clock, socket)))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.flows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
