//! Flows that begin or end here, and changes of their configuration.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use squall_observe::{
    clock::{Clock, lock},
    journal::Journal,
    supervise::{self, Supervised},
    wait::problem,
};
use tokio::sync::watch;

use super::{Flow, Port, inlet, live::FlowSocket};
use crate::{
    config::{End, FlowConfig},
    tenant::Tenant,
    tun::{self, Tun},
};

/// All flows, by name.
#[derive(Debug)]
pub(crate) struct Registry {
    clock: Clock,
    journal: Arc<Journal>,
    /// Flows record the scheduling decisions and outcomes of their blocks.
    explains: bool,
    tun: Option<Arc<Tun>>,
    flows: Mutex<BTreeMap<String, Entry>>,
    /// Incremented when flows are added or removed, or a session that carried some has ended.
    changed: watch::Sender<u64>,
}

#[derive(Debug)]
struct Entry {
    flow: Arc<Flow>,
    /// Task that reads the socket. A TUN device has one reader for all its flows.
    inlet: Option<Supervised>,
}

/// A flow that can never be opened, as opposed to one whose address, interface or route does not
/// exist yet.
#[derive(Debug, thiserror::Error)]
#[error("flow '{name}': {end}: {problem}")]
pub struct FlowError {
    name: String,
    end: End,
    problem: String,
}

impl Registry {
    pub(crate) fn new(clock: Clock, journal: Arc<Journal>, explains: bool, tun: Option<Arc<Tun>>) -> Self {
        Self { clock, journal, explains, tun, flows: Mutex::default(), changed: watch::Sender::new(0) }
    }

    /// Replaces the flows. Unchanged flows continue; a changed flow gets a new socket only if its
    /// address or interface changed. Returns a description of the changes. Nothing changes on
    /// failure.
    ///
    /// `tenant` returns the tenant that counts a flow, by the name of the flow.
    pub(crate) fn set(
        &self,
        wanted: &[FlowConfig],
        tenant: &dyn Fn(&str) -> Option<Arc<Tenant>>,
    ) -> Result<String, FlowError> {
        let mut flows = lock(&self.flows);
        let mut opened = Vec::new();
        for config in wanted {
            if flows.get(&config.name).is_none_or(|entry| !entry.flow.config().has_socket_of(config)) {
                // Another flow may be releasing the address, and its socket is still bound to it.
                let previous = flows.values().find(|entry| {
                    let before = entry.flow.config();
                    let stays =
                        wanted.iter().any(|one| one.name == before.name && one.has_socket_of(&before));
                    matches!(config.end, End::In(_)) && before.has_socket_of(config) && !stays
                });
                let port = previous.map(|entry| entry.flow.port.clone());
                let tenant = config.tenant().and_then(tenant);
                opened.push((config, self.open(config, port, tenant)?));
            }
        }
        let (mut added, mut removed, mut changed) = (Vec::new(), Vec::new(), Vec::new());
        flows.retain(|name, _| {
            let stays = wanted.iter().any(|config| config.name == *name);
            if !stays {
                removed.push(name.clone());
            }
            stays
        });
        for config in wanted {
            let Some(entry) = flows.get(&config.name) else { continue };
            entry.inlet.iter().for_each(Supervised::retry);
            if *entry.flow.config() != *config && entry.flow.config().has_socket_of(config) {
                entry.flow.reconfigure(config);
                changed.push(config.name.clone());
            }
        }
        for (config, flow) in opened {
            let inlet = match flow.port.clone() {
                Port::Socket(socket) => {
                    let (task, reader) = (format!("flow '{}'", config.name), flow.clone());
                    let journal = self.journal.clone();
                    let read = move || inlet::run(reader.clone(), socket.clone(), journal.clone());
                    Some(supervise::restarting(self.journal.clone(), task, read))
                }
                Port::Tun(_) => None,
            };
            match flows.insert(config.name.clone(), Entry { flow, inlet }) {
                Some(_) => changed.push(config.name.clone()),
                None => added.push(config.name.clone()),
            }
        }
        drop(flows);
        let lists = [("added", added), ("removed", removed), ("changed", changed)];
        let lists = lists.into_iter().filter(|(_, names)| !names.is_empty());
        let words: Vec<_> = lists.map(|(verb, names)| format!("{verb} {}", names.join(", "))).collect();
        if words.is_empty() {
            return Ok("no flow changed".to_owned());
        }
        self.announce();
        Ok(words.join("; "))
    }

    /// Detaches all flows from a session that has ended, so that other sessions may carry them.
    pub(crate) fn release(&self, session: u64) {
        let detached = self.all().iter().filter(|flow| flow.detach(session)).count();
        if detached > 0 {
            self.announce();
        }
    }

    /// Makes sessions check the flows again.
    pub(crate) fn announce(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    /// Returns a receiver that changes with each [`Self::announce`].
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<Flow>> {
        lock(&self.flows).get(name).map(|entry| entry.flow.clone())
    }

    pub(crate) fn all(&self) -> Vec<Arc<Flow>> {
        lock(&self.flows).values().map(|entry| entry.flow.clone()).collect()
    }

    /// Returns the flows of a tenant, or those without a tenant: all that one of their sessions can
    /// carry.
    pub(crate) fn of(&self, tenant: Option<&str>) -> Vec<Arc<Flow>> {
        let flows = lock(&self.flows);
        let first = tenant.map_or_else(String::new, |tenant| format!("{tenant}/"));
        let of_tenant = flows.range(first.clone()..).take_while(|(name, _)| name.starts_with(&first));
        let own = of_tenant.filter(|(name, _)| tenant.is_some() || !name.contains('/'));
        own.map(|(_, entry)| entry.flow.clone()).collect()
    }

    /// Opens a flow with this port, or with a new one.
    fn open(
        &self,
        config: &FlowConfig,
        port: Option<Port>,
        tenant: Option<Arc<Tenant>>,
    ) -> Result<Arc<Flow>, FlowError> {
        let failed = |problem| FlowError { name: config.name.clone(), end: config.end, problem };
        let open = || match (config.end, &self.tun) {
            (End::In(address) | End::Out(address), _) => {
                let opened = FlowSocket::open(config, address, &self.journal);
                opened.map_or_else(
                    |error| Err(failed(problem(address, &error))),
                    |socket| Ok(Port::Socket(Arc::new(socket))),
                )
            }
            (_, Some(tun)) => Ok(Port::Tun(tun::Port::new(tun.clone(), &config.name))),
            (_, None) => Err(failed("there is no TUN device".to_owned())),
        };
        let port = port.map_or_else(open, Ok)?;
        let journal = self.journal.clone();
        Ok(Arc::new(Flow::new(config.clone(), self.clock, journal, port, self.explains, tenant)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn flows_are_those_of_one_tenant_or_of_none() {
        let clock = Clock::start();
        let registry = Registry::new(clock, Arc::new(Journal::new(clock)), false, None);
        let flow = |name: &str| {
            let flow = FlowConfig::parse("x=udp://127.0.0.1:9", false).expect("is right");
            FlowConfig { name: name.to_owned(), ..flow }
        };
        let names = ["a", "a-/x", "a.b/x", "a/x", "a/y", "b/x", "z"];
        registry.set(&names.map(flow), &|_| None).expect("is opened");
        for (tenant, flows) in [(None, "a z"), (Some("a"), "a/x a/y"), (Some("b"), "b/x"), (Some("c"), "")] {
            let names: Vec<_> = registry.of(tenant).iter().map(|flow| flow.config().name.clone()).collect();
            assert_eq!(names.join(" "), flows);
        }
    }
}
