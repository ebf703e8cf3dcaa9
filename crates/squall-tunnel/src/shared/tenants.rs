//! Tenants of an exit: entries with their own tokens, flows and limits.
//!
//! Tenants come from the configuration, from a list on a web server and over the control socket.
//! All changes pass [`Tenants::change`], which applies them completely or not at all.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, TryLockError},
    time::Duration,
};

use squall_observe::{
    clock::lock,
    journal::{Journal, Kind},
    status::TenantStatus,
};

use crate::{
    config::{Config, FlowConfig, TenantConfig, TenantLimits, TokenHash, flows_of},
    flow::{FlowError, Registry},
    tenant::{
        Tenant,
        calendar::Date,
        state::{Changes, StateError, StateFolder, Usage},
    },
};

/// Interval at which the date and the counts are checked.
const TICK: Duration = Duration::from_secs(1);

/// Number of ticks between writes of the counts. A crash loses the bytes counted since.
const SAVE_TICKS: u32 = 5;

/// Maximum number of removed tenants whose count is kept; beyond it, the first by name is dropped.
const MAX_REMOVED: usize = 1024;

/// All tenants.
#[derive(Debug)]
pub(crate) struct Tenants {
    journal: Arc<Journal>,
    pub(crate) state: Option<StateFolder>,
    /// Held while a change is applied.
    sources: Mutex<Sources>,
    /// Tenants by name, including removed ones whose period has not ended.
    all: Mutex<BTreeMap<String, Arc<Tenant>>>,
    /// Held while counts are written.
    saved: Mutex<Saved>,
}

/// Counts as stored in the state folder.
#[derive(Debug, Default)]
struct Saved {
    usage: BTreeMap<String, Usage>,
    /// The last write failed.
    is_failing: bool,
}

/// Sources of tenants.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    /// Tenants from the configuration.
    pub(crate) configured: Vec<TenantConfig>,
    /// Tenants from the list on a web server.
    pub(crate) fetched: Vec<TenantConfig>,
    /// Changes over the control socket.
    pub(crate) changes: Changes,
}

/// Reason why a change is not applied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeError {
    #[error("{0}")]
    Conflict(String),
    #[error(transparent)]
    Flow(#[from] FlowError),
    #[error(transparent)]
    State(#[from] StateError),
}

impl Sources {
    /// Returns the limits of a tenant in its source.
    pub(crate) fn own_limits(&self, name: &str) -> Option<TenantLimits> {
        let mut listed = self.configured.iter().chain(&self.fetched);
        let listed = listed.find(|tenant| tenant.name == name).map(|tenant| tenant.limits);
        listed.or_else(|| Some(TenantConfig::from_json(self.changes.added.get(name)?).ok()?.limits))
    }

    /// Returns all tenants, with their effective limits.
    fn merged(&self) -> Result<Vec<TenantConfig>, String> {
        let mut all = [&self.configured[..], &self.fetched].concat();
        for (name, value) in &self.changes.added {
            all.push(
                TenantConfig::from_json(value).map_err(|problem| format!("tenant '{name}': {problem}"))?,
            );
        }
        for tenant in &mut all {
            tenant.limits = self.changes.limits.get(&tenant.name).copied().unwrap_or(tenant.limits);
        }
        Ok(all)
    }
}

impl Tenants {
    /// Opens the state folder of a configuration, if it has one, and reads the stored counts and
    /// changes.
    pub(crate) fn open(config: &Config, journal: Arc<Journal>) -> Result<Self, StateError> {
        let state = config.tenants.state.as_deref().map(StateFolder::open).transpose()?;
        let (mut changes, mut usage) = (Changes::default(), BTreeMap::<String, Usage>::new());
        if let Some(state) = &state {
            (changes, usage) = (state.load()?, state.load()?);
        }
        let tenant = |(name, usage): (String, Usage)| (name.clone(), Arc::new(Tenant::new(name, usage)));
        let all = Mutex::new(usage.into_iter().map(tenant).collect());
        let sources = Mutex::new(Sources { changes, ..Sources::default() });
        Ok(Self { journal, state, sources, all, saved: Mutex::default() })
    }

    /// Applies a change of the sources, and the flows of this configuration. Unchanged tenants and
    /// flows are not interrupted. Returns a description of the changes of flows. Nothing changes on
    /// failure.
    pub(crate) fn change(
        &self,
        config: &Config,
        registry: &Registry,
        change: impl FnOnce(&mut Sources) -> Result<(), ChangeError>,
    ) -> Result<String, ChangeError> {
        let mut current = lock(&self.sources);
        let mut sources = current.clone();
        change(&mut sources)?;
        let listed = sources.merged().map_err(ChangeError::Conflict)?;
        config.check_tenants(&listed).map_err(ChangeError::Conflict)?;
        self.create(&listed);
        self.keep(&current.changes, &sources.changes)?;
        let flows: Vec<FlowConfig> = config.all_flows().into_iter().chain(flows_of(&listed)).collect();
        let set = registry.set(&flows, &|tenant| self.get(tenant));
        let words = set.inspect_err(|_| drop(self.keep(&sources.changes, &current.changes)))?;
        self.list(listed);
        *current = sources;
        Ok(words)
    }

    /// Writes the changes made over the control socket, if they have changed.
    fn keep(&self, before: &Changes, now: &Changes) -> Result<(), StateError> {
        let state = self.state.as_ref().filter(|_| before != now);
        state.map_or(Ok(()), |state| state.save(now))
    }

    /// Creates tenants that do not exist yet, so that their flows can refer to them.
    fn create(&self, listed: &[TenantConfig]) {
        let mut all = lock(&self.all);
        for TenantConfig { name, .. } in listed {
            let new = || Arc::new(Tenant::new(name.clone(), Usage::default()));
            all.entry(name.clone()).or_insert_with(new);
        }
    }

    /// Sets the configuration of listed tenants, and removes that of tenants that are no longer
    /// listed.
    fn list(&self, listed: Vec<TenantConfig>) {
        let all = lock(&self.all).clone();
        let mut listed: BTreeMap<_, _> =
            listed.into_iter().map(|tenant| (tenant.name.clone(), tenant)).collect();
        let (mut added, mut removed) = (Vec::new(), Vec::new());
        for (name, tenant) in &all {
            let (before, now) = (tenant.config().is_some(), listed.remove(name));
            match (before, now.is_some()) {
                (false, true) => added.push(name.as_str()),
                (true, false) => removed.push(name.as_str()),
                _ => {}
            }
            tenant.set(now, Date::today());
        }
        for (verb, names) in [("added", added), ("removed", removed)] {
            if !names.is_empty() {
                self.journal.info(Kind::Tenant, format!("tenants {verb}: {}", names.join(", ")));
            }
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<Tenant>> {
        lock(&self.all).get(name).cloned()
    }

    /// Returns the tenant that a token belongs to. Always compares with all tenants, so that the
    /// time does not depend on the match.
    pub(crate) fn identify(&self, token: &TokenHash) -> Option<Arc<Tenant>> {
        let all = lock(&self.all);
        all.values()
            .fold(None, |found, tenant| if tenant.has_token(token) { Some(tenant) } else { found })
            .cloned()
    }

    /// Returns the number of listed tenants without a session.
    pub(crate) fn without_sessions(&self) -> usize {
        let all = lock(&self.all);
        all.values().filter(|tenant| tenant.is_listed() && tenant.session_count() == 0).count()
    }

    /// Returns the status of the listed tenants, by name.
    pub(crate) fn status(&self) -> Vec<TenantStatus> {
        lock(&self.all).values().filter_map(|tenant| tenant.status()).collect()
    }

    /// Checks dates and counts until the task is aborted.
    pub(crate) async fn run(self: Arc<Self>) -> Result<(), String> {
        let mut tick = tokio::time::interval(TICK);
        for ticks in 1.. {
            tick.tick().await;
            self.check(Date::today());
            if ticks % SAVE_TICKS == 0 {
                // Writing to a disk may block, and the async threads carry media.
                let tenants = self.clone();
                let saved = tokio::task::spawn_blocking(move || tenants.save()).await;
                saved.map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    fn check(&self, date: Date) {
        for tenant in lock(&self.all).values() {
            tenant.set_date(date);
            if tenant.meter.take_warning() {
                let words = tenant.config().map(|config| words_of_usage(&config, &tenant.meter.usage()));
                words.into_iter().for_each(|words| self.journal.warn(Kind::Tenant, words));
            }
        }
        self.prune();
    }

    /// Drops removed tenants without a count. Skipped while a change is being applied, which may
    /// have created tenants that are not listed yet; the next tick repeats it, as a change may wait
    /// for the disk.
    fn prune(&self) {
        let sources = self.sources.try_lock();
        if matches!(sources, Err(TryLockError::WouldBlock)) {
            return;
        }
        let mut all = lock(&self.all);
        let is_removed = |tenant: &Arc<Tenant>| tenant.config().is_none();
        let mut removed = all.values().filter(|tenant| is_removed(tenant)).count();
        all.retain(|_, tenant| {
            let goes = is_removed(tenant) && (removed > MAX_REMOVED || tenant.meter.usage().is_unused());
            removed -= usize::from(goes);
            !goes
        });
    }

    /// Writes the counts, if they have changed and there is a folder. Waits for a concurrent call,
    /// so that the latest counts are the ones stored.
    pub(crate) fn save(&self) {
        let Some(state) = &self.state else { return };
        let saved = &mut *lock(&self.saved);
        let usage: BTreeMap<_, _> =
            lock(&self.all).iter().map(|(name, tenant)| (name.clone(), tenant.meter.usage())).collect();
        if usage == saved.usage {
            return;
        }
        let written = state.save(&usage);
        let was_failing = std::mem::replace(&mut saved.is_failing, written.is_err());
        match written {
            Ok(()) => {
                saved.usage = usage;
                if was_failing {
                    self.journal.info(Kind::Tenant, "the count of bytes is kept again");
                }
            }
            // Reported only once: a full disk may stay full for a while, and the log may be on it.
            Err(error) if !was_failing => {
                self.journal.warn(Kind::Tenant, format!("the count of bytes is not kept: {error}"));
            }
            Err(_) => {}
        }
    }
}

fn words_of_usage(config: &TenantConfig, usage: &Usage) -> String {
    let most = config.limits.bytes.unwrap_or_default();
    let percent = usage.bytes.saturating_mul(100) / most.bytes().max(1);
    format!(
        "tenant '{}' has used {percent} % of its {most} of this {}",
        config.name,
        config.limits.period.name()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{IdentityConfig, ListenConfig, Side, Token};
    use squall_observe::clock::Clock;

    #[test]
    fn a_tick_while_a_tenant_is_added_does_not_drop_it() {
        let listen = ListenConfig::new(([127, 0, 0, 1], 4433).into(), IdentityConfig::Fresh);
        let config =
            Config::new(Side::Listen(listen), Token::new("a token for tests").expect("is long enough"));
        let tenants = Tenants::open(&config, Arc::new(Journal::new(Clock::start()))).expect("is opened");
        let added = serde_json::json!({ "name": "acme", "token_sha256": "0".repeat(64) });
        let added = TenantConfig::from_json(&added).expect("is right");
        let sources = lock(&tenants.sources);
        tenants.create(&[added]);
        tenants.check(Date::today());
        assert!(tenants.get("acme").is_some(), "its flows count for it");
        // Simulates a failed change.
        drop(sources);
        tenants.check(Date::today());
        assert!(tenants.get("acme").is_none());
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_reported_once() {
        let parent = tempfile::tempdir().expect("is made");
        let folder = parent.path().join("state");
        let listen = ListenConfig::new(([127, 0, 0, 1], 4433).into(), IdentityConfig::Fresh);
        let token = Token::new("a token for tests").expect("is long enough");
        let mut config = Config::new(Side::Listen(listen), token);
        config.tenants.state = Some(folder.clone());
        let journal = Arc::new(Journal::new(Clock::start()));
        let tenants = Tenants::open(&config, journal.clone()).expect("is opened");
        for round in 0..4 {
            if round % 2 == 0 {
                std::fs::remove_dir_all(&folder).expect("is there");
            } else {
                std::fs::create_dir(&folder).expect("is made");
            }
            for bytes in 0..3 {
                let usage = Usage { bytes, ..Usage::default() };
                let tenant = Arc::new(Tenant::new("acme".to_owned(), usage));
                lock(&tenants.all).insert("acme".to_owned(), tenant);
                tenants.save();
            }
        }
        let words: Vec<_> = journal.events().into_iter().map(|event| event.words).collect();
        let has = |part| words.iter().filter(|words: &&String| words.contains(part)).count();
        assert_eq!((has("is not kept: "), has("is kept again"), words.len()), (2, 2, 4), "{words:?}");
    }
}
