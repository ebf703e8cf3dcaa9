//! State of a running tenant of an exit: its limits and its sessions. [`meter`] counts its
//! datagrams, [`state`] stores data that survives a restart.

pub(crate) mod calendar;
pub(crate) mod meter;
pub(crate) mod state;

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use squall_observe::{clock::lock, status::TenantStatus};
use tokio::sync::watch;

use self::{
    calendar::Date,
    meter::{Counts, Direction, Meter},
    state::Usage,
};
use crate::{
    code,
    config::{TenantConfig, TokenHash},
};

/// A tenant.
#[derive(Debug)]
pub(crate) struct Tenant {
    pub(crate) name: String,
    /// `None` before it is listed, and once it is removed.
    config: Mutex<Option<TenantConfig>>,
    pub(crate) meter: Meter,
    /// Places of its sessions, in the order in which they presented the token.
    sessions: Mutex<BTreeSet<u64>>,
    /// Incremented when its sessions have to check whether they may stay.
    changed: watch::Sender<u64>,
    /// Number of refused sessions.
    refused: AtomicU64,
}

/// Reason why a tenant may not have a session: a close code, and a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: u32,
    pub(crate) reason: String,
}

impl Tenant {
    /// Creates a tenant that is not listed yet.
    pub(crate) fn new(name: String, usage: Usage) -> Self {
        Self {
            name,
            config: Mutex::default(),
            meter: Meter::new(usage),
            sessions: Mutex::default(),
            changed: watch::Sender::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// Lists, changes or removes the tenant, and notifies its sessions.
    pub(crate) fn set(&self, config: Option<TenantConfig>, date: Date) {
        if *lock(&self.config) == config {
            return;
        }
        // The limits of a removed tenant stay, for its count.
        if let Some(config) = &config {
            self.meter.set_limits(config.limits);
            self.meter.set_date(date);
        }
        *lock(&self.config) = config;
        self.announce();
    }

    pub(crate) fn config(&self) -> Option<TenantConfig> {
        lock(&self.config).clone()
    }

    pub(crate) fn is_listed(&self) -> bool {
        lock(&self.config).is_some()
    }

    pub(crate) fn has_token(&self, token: &TokenHash) -> bool {
        lock(&self.config).as_ref().is_some_and(|config| config.token == *token)
    }

    fn announce(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    /// Begins a new period if the date requires it.
    pub(crate) fn set_date(&self, date: Date) {
        self.meter.set_date(date);
        if self.meter.is_used_up() && !lock(&self.sessions).is_empty() {
            self.announce();
        }
    }

    /// Adds a session, unless the tenant may not have it.
    pub(crate) fn enter(self: &Arc<Self>, token: TokenHash) -> Result<Membership, Refusal> {
        let membership = Membership {
            tenant: self.clone(),
            place: self.next_place(),
            token,
            changed: self.changed.subscribe(),
        };
        match membership.refusal() {
            None => Ok(membership),
            Some(refusal) => {
                self.refused.fetch_add(1, Relaxed);
                Err(refusal)
            }
        }
    }

    /// Takes the last place.
    fn next_place(&self) -> u64 {
        let mut sessions = lock(&self.sessions);
        let place = sessions.last().map_or(0, |last| last + 1);
        sessions.insert(place);
        place
    }

    /// Returns the number of sessions.
    pub(crate) fn session_count(&self) -> usize {
        lock(&self.sessions).len()
    }

    pub(crate) fn status(&self) -> Option<TenantStatus> {
        let TenantConfig { limits, flows, .. } = self.config()?;
        let (Counts { passed, dropped }, usage) = (self.meter.counts(), self.meter.usage());
        Some(TenantStatus {
            name: self.name.clone(),
            sessions: self.session_count() as u64,
            sessions_refused: self.refused.load(Relaxed),
            flows: flows.into_iter().map(|flow| flow.name).collect(),
            limits,
            received_bytes: passed[Direction::In as usize],
            sent_bytes: passed[Direction::Out as usize],
            dropped_in_bytes: dropped[Direction::In as usize],
            dropped_out_bytes: dropped[Direction::Out as usize],
            period: usage.period,
            period_bytes: usage.bytes,
            used_up: self.meter.is_used_up(),
        })
    }
}

/// A session of a tenant. Dropping it releases the place of the session.
#[derive(Debug)]
pub(crate) struct Membership {
    pub(crate) tenant: Arc<Tenant>,
    /// Place of the session, after those of earlier ones.
    place: u64,
    /// Token that the peer presented.
    token: TokenHash,
    changed: watch::Receiver<u64>,
}

impl Membership {
    /// Waits until the session has to check again whether it may stay. Cancel safe.
    pub(crate) async fn changed(&mut self) {
        // Fails only without the tenant, which `self` keeps alive.
        let _ = self.changed.changed().await;
    }

    /// Returns the reason why the session may not stay; `None` if it may.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        let name = &self.tenant.name;
        let refusal = |code, reason| Some(Refusal { code, reason });
        let Some(TenantConfig { token, limits, .. }) = self.tenant.config() else {
            return refusal(code::REMOVED, format!("tenant '{name}' was removed"));
        };
        if token != self.token {
            return refusal(code::REMOVED, format!("the token of tenant '{name}' was changed"));
        }
        let earlier = lock(&self.tenant.sessions).range(..self.place).count();
        if let Some(most) = limits.max_sessions.filter(|most| earlier >= *most) {
            return refusal(
                code::FULL,
                format!("tenant '{name}' has as many sessions as its max_sessions allows ({most})"),
            );
        }
        let bytes = limits.bytes.filter(|_| self.tenant.meter.is_used_up())?;
        let period = limits.period.name();
        refusal(code::BYTES, format!("tenant '{name}' has used its {bytes} of this {period}"))
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        lock(&self.tenant.sessions).remove(&self.place);
    }
}
