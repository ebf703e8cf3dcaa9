//! Quotas of interfaces, counted over sessions and restarts.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use squall_proto::{
    Endpoint, Interface, SessionId,
    quota::{Account, Quota, Record},
    sched::Time,
};
use tokio::runtime::Handle;

use crate::{net::routes::Routes, part::part_of};

/// Interval between readings of the sessions' usage.
const PERIOD: Duration = Duration::from_millis(100);

/// Size limit of the file of records in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Bytes by which the file may exceed the use and the leases: a hundredth of the quota, at most
/// this. The file is therefore written only once per half that number of bytes, and still covers
/// the use during a write. A program that is killed loses this number of bytes, and its leases.
const MAX_AHEAD: u64 = 4_000_000;

/// Delay before a file that could not be written is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Quotas of bytes for interfaces per day, week or month, counted over all sessions that [use
/// them](crate::Connect::quotas) and over restarts of the program. Clones share one count. The file
/// belongs to one program at a time.
///
/// Both directions count, including IP and UDP headers. The remaining bytes are spread over the
/// rest of the period. An interface that is ahead of its pace by a hundredth of the quota becomes a
/// [backup](crate::Role::Backup) until it has earned half of that again, so only data that no other
/// path can carry exceeds the pace. When the quota is exhausted, the paths are closed, and sessions
/// begin without the interface, until the next period.
///
/// The count is that of the interface: packets that left, and packets that arrived. Data that the
/// peer has in flight when a quota ends still arrives and exceeds it: a round trip at the rate of
/// the path, and its queue. While there is another path, the last hundredth is kept for that.
/// Packets to this side that are lost on the way are not counted, though a provider may count them.
#[derive(Clone, Debug)]
pub struct Quotas {
    inner: Arc<Mutex<Inner>>,
    /// Held while the file is written, so that no older content replaces a newer one.
    writing: Arc<Mutex<()>>,
}

#[derive(Debug)]
struct Inner {
    file: PathBuf,
    accounts: BTreeMap<String, Account>,
    /// Start of the period and bytes used according to the file, by account; empty if the file
    /// could not be written.
    written: BTreeMap<String, (Time, u64)>,
    /// A thread is writing the file.
    is_writing: bool,
    /// Earliest time of the next try. Set while the file cannot be written, which has been logged.
    failing: Option<Instant>,
}

/// Content of the file.
struct Content {
    file: PathBuf,
    text: String,
    /// Start of the period and bytes used, as in [`Inner::written`].
    has: BTreeMap<String, (Time, u64)>,
}

/// State of a quota.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct QuotaState {
    /// Name or local address of the interface.
    pub interface: String,
    /// Bytes per period.
    pub bytes: u64,
    /// Bytes used in this period.
    pub used: u64,
    /// Bytes left in this period.
    pub left: u64,
    /// Bytes per second at which the rest lasts until the end of the period.
    pub pace: f64,
    /// The interface is ahead of its pace, and a backup meanwhile.
    pub is_held: bool,
    /// Start of the next period.
    pub ends: SystemTime,
}

impl Quotas {
    /// Opens quotas of interfaces, each by name or local address, and reads from a file what was
    /// used before. Creates the file if it does not exist; its folder must exist.
    ///
    /// An interface without a readable record counts as evenly used so far: its use is unknown, and
    /// no more is spent than the rest of an even use. A file that is not a record is logged, in one
    /// line.
    ///
    /// A file that cannot be read or written, for instance on a full disk, is logged once. Quotas
    /// are then counted in memory, and writing is retried until it succeeds.
    pub fn open(file: impl AsRef<Path>, quotas: impl IntoIterator<Item = (String, Quota)>) -> Self {
        let (file, now) = (file.as_ref().to_owned(), now());
        let records = match squall_file::read_text(&file, MAX_FILE) {
            Ok(text) => read(&text).unwrap_or_else(|line| {
                let file = file.display();
                tracing::warn!("{file}:{line}: no record of a quota; all quotas count as evenly used so far");
                BTreeMap::new()
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => {
                let file = file.display();
                tracing::warn!("{file}: {error}; all quotas count as evenly used so far");
                BTreeMap::new()
            }
        };
        let account = |(name, quota): (String, Quota)| {
            let account = Account::new(quota, now, records.get(&name).copied());
            (name, account)
        };
        let accounts = quotas.into_iter().map(account).collect();
        let written = BTreeMap::new();
        let mut inner = Inner { file, accounts, written, is_writing: false, failing: None };
        let content = inner.content(0);
        inner.note(content.write());
        Self { inner: Arc::new(Mutex::new(inner)), writing: Arc::default() }
    }

    /// Writes the file now, for a program that is about to exit and may not drop the last clone
    /// first. May block.
    pub fn save(&self) {
        self.write(0);
    }

    fn write(&self, ahead: u64) {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let content = self.lock().content(ahead);
        let written = content.write();
        let mut inner = self.lock();
        inner.is_writing = false;
        inner.note(written);
    }

    /// Writes the file if it hardly exceeds the use and the leases. Disks may be slow, so it is not
    /// written in an async task.
    fn keep(&self) {
        let mut inner = self.lock();
        if !inner.is_due() {
            return;
        }
        inner.is_writing = true;
        drop(inner);
        let quotas = self.clone();
        let write = move || quotas.write(MAX_AHEAD);
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(write)),
            Err(_) => write(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the use and the rest of each quota.
    pub fn state(&self) -> Vec<QuotaState> {
        let (mut inner, now) = (self.lock(), now());
        let state = |(name, account): (&String, &mut Account)| {
            account.advance(now);
            let quota = account.quota();
            QuotaState {
                interface: name.clone(),
                bytes: quota.bytes,
                used: account.used(),
                left: quota.bytes.saturating_sub(account.used()),
                pace: account.pace(),
                is_held: account.is_held(),
                ends: UNIX_EPOCH + account.ends().since_epoch().duration(),
            }
        };
        inner.accounts.iter_mut().map(state).collect()
    }

    /// `true` if the quota of an interface, by name or local address, is exhausted.
    pub(crate) fn is_exhausted(&self, interface: &str) -> bool {
        let (mut inner, now) = (self.lock(), now());
        inner.accounts.get_mut(interface).is_some_and(|account| {
            account.advance(now);
            account.is_exhausted()
        })
    }
}

impl Inner {
    /// Returns the content of a file that exceeds the use by `ahead` bytes.
    fn content(&self, ahead: u64) -> Content {
        let mut text = String::from("# Bytes used of quotas; written by Squall.\n");
        let mut has = BTreeMap::new();
        for (name, account) in &self.accounts {
            let Record { start, used, earned } = account.record();
            let used = used.saturating_add(ahead.min(most_ahead(account)));
            has.insert(name.clone(), (start, used));
            // Names of interfaces have no spaces.
            let _ = writeln!(text, "{name} start={} used={used} earned={earned}", start.micros());
        }
        Content { file: self.file.clone(), text, has }
    }

    /// `true` if the file should be written.
    fn is_due(&self) -> bool {
        let is_behind = |(name, account): (&String, &Account)| {
            let Record { start, used, .. } = account.record();
            let least = used.saturating_add(most_ahead(account) / 2);
            self.written.get(name).is_none_or(|(begun, most)| *begun != start || *most < least)
        };
        !self.is_writing
            && self.failing.is_none_or(|until| until <= Instant::now())
            && self.accounts.iter().any(is_behind)
    }

    /// Stores the result of a write, and logs changes between success and failure.
    fn note(&mut self, written: io::Result<BTreeMap<String, (Time, u64)>>) {
        let file = self.file.display();
        match &written {
            Err(error) if self.failing.is_none() => {
                tracing::warn!("{file}: {error}; what is used of quotas is lost if the program ends");
            }
            Ok(_) if self.failing.is_some() => tracing::info!("{file}: what is used of quotas is kept again"),
            _ => {}
        }
        self.failing = written.is_err().then(|| Instant::now() + RETRY);
        self.written = written.unwrap_or_default();
    }
}

impl Content {
    /// Writes the file. Returns the written records.
    fn write(self) -> io::Result<BTreeMap<String, (Time, u64)>> {
        // Not synced to disk: after a power failure an older file may reappear.
        part_of(&self.file, self.text.as_bytes())?.persist(&self.file)?;
        Ok(self.has)
    }
}

/// Returns the bytes by which the file may exceed the use.
fn most_ahead(account: &Account) -> u64 {
    MAX_AHEAD.min(account.quota().bytes / 100)
}

impl Drop for Inner {
    fn drop(&mut self) {
        let content = self.content(0);
        // Do not try again if a write failed a moment ago.
        if self.failing.is_none_or(|until| until <= Instant::now()) && self.written != content.has {
            self.note(content.write());
        }
    }
}

/// Parses a file of records.
///
/// # Errors
/// The number, from 1, of the first line that is not a record.
fn read(text: &str) -> Result<BTreeMap<String, Record>, usize> {
    let record = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next()?.to_owned();
        let start = Time::from_micros(words.next()?.strip_prefix("start=")?.parse().ok()?);
        let used = words.next()?.strip_prefix("used=")?.parse().ok()?;
        let earned = words.next()?.strip_prefix("earned=")?.parse().ok()?;
        words.next().is_none().then_some((name, Record { start, used, earned }))
    };
    let lines =
        text.lines().enumerate().filter(|(_, line)| !line.starts_with('#') && !line.trim().is_empty());
    lines.map(|(index, line)| record(line).ok_or(index + 1)).collect()
}

/// Returns the time since the Unix epoch; the epoch itself if the clock is before it.
fn now() -> Time {
    Time::EPOCH + SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().into()
}

/// Sessions that spend from quotas.
#[derive(Default)]
pub(crate) struct Meters {
    metered: Vec<Metered>,
    due: Option<Instant>,
}

struct Metered {
    session: SessionId,
    quotas: Quotas,
    leases: Vec<Lease>,
}

/// Share of an account's quota that is leased to a session, for one of the interfaces of that name.
struct Lease {
    interface: Interface,
    account: String,
    bytes: u64,
    /// Bytes that the session had used when the lease was granted.
    used: u64,
}

impl Meters {
    /// Makes a session spend from quotas until it ends.
    pub(crate) fn follow(&mut self, session: SessionId, quotas: Quotas) {
        self.metered.push(Metered { session, quotas, leases: Vec::new() });
        self.due = Some(Instant::now());
    }

    /// Returns the time of the next reading.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Reads the usage of all sessions and renews their leases, if it is time to.
    pub(crate) fn read(&mut self, at: Instant, proto: &mut Endpoint, routes: &Routes) {
        if self.due.is_none_or(|due| due > at) {
            return;
        }
        self.metered.retain_mut(|metered| {
            // While it connects, there is no session yet.
            if let Some(session) = proto.session(metered.session) {
                metered.settle(session, routes);
            }
            proto.has(metered.session)
        });
        self.due = (!self.metered.is_empty()).then(|| at + PERIOD);
    }

    /// Settles the final usage of a session that has ended.
    pub(crate) fn finish(&mut self, session: SessionId, proto: &mut Endpoint, routes: &Routes) {
        for mut metered in self.metered.extract_if(.., |metered| metered.session == session) {
            if let Some(session) = proto.session(session) {
                metered.settle(session, routes);
            }
        }
    }

    /// Settles the final usage of all sessions.
    pub(crate) fn finish_all(&mut self, proto: &mut Endpoint, routes: &Routes) {
        let all: Vec<SessionId> = self.metered.iter().map(|metered| metered.session).collect();
        all.into_iter().for_each(|session| self.finish(session, proto, routes));
    }
}

impl Metered {
    fn settle(&mut self, session: &mut squall_proto::Session, routes: &Routes) {
        let now = now();
        let mut inner = self.quotas.lock();
        for account in inner.accounts.keys() {
            for interface in routes.matching(account) {
                if !self.leases.iter().any(|lease| lease.interface == interface) {
                    let account = account.clone();
                    // The packets that opened the first path were used before there was a lease.
                    self.leases.push(Lease { interface, account, bytes: 0, used: 0 });
                }
            }
        }
        let mut shares = Vec::new();
        for lease in &mut self.leases {
            let Some(account) = inner.accounts.get_mut(&lease.account) else { continue };
            let used = session.usage(lease.interface);
            lease.bytes = account.settle(now, lease.bytes, used.saturating_sub(lease.used));
            lease.used = used;
            shares.push((lease.interface, account.share(lease.bytes)));
        }
        drop(inner);
        self.quotas.keep();
        for (interface, share) in shares {
            session.set_quota(Instant::now(), interface, Some(share));
        }
    }
}

impl Drop for Metered {
    fn drop(&mut self) {
        let (mut inner, now) = (self.quotas.lock(), now());
        for lease in &self.leases {
            if let Some(account) = inner.accounts.get_mut(&lease.account) {
                account.end_lease(now, lease.bytes, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use squall_proto::quota::Period;

    use super::*;

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("squall-quotas-{}-{name}", std::process::id()))
    }

    fn quota(bytes: u64) -> Vec<(String, Quota)> {
        vec![("wwan0".into(), Quota { bytes, period: Period::Month(1) })]
    }

    /// Writes a record of this month with `used` bytes.
    fn write(file: &Path, used: u64) {
        let (start, _) = Period::Month(1).around(now());
        fs::write(file, format!("wwan0 start={} used={used} earned=5\n", start.micros()))
            .expect("is written");
    }

    #[test]
    fn what_was_used_is_kept_over_restarts_and_leases_count_until_they_end() {
        let file = scratch("kept");
        write(&file, 100_000);
        let quotas = Quotas::open(&file, quota(10_000_000));
        assert_eq!((quotas.state()[0].used, quotas.state()[0].left), (100_000, 9_900_000));
        let lease = quotas.lock().accounts.get_mut("wwan0").expect("is there").settle(now(), 0, 0);
        quotas.keep();
        // A killed program writes nothing more.
        let killed = read(&fs::read_to_string(&file).expect("is there")).expect("is a record");
        assert!(killed["wwan0"].used >= 100_000 + lease, "{killed:?}");
        quotas.lock().accounts.get_mut("wwan0").expect("is there").end_lease(now(), lease, 30_000);
        drop(quotas);
        let again = Quotas::open(&file, quota(10_000_000));
        assert_eq!(again.state()[0].used, 130_000);
        let _ = fs::remove_file(file);
    }

    #[test]
    fn a_file_that_is_no_record_counts_as_even_use() {
        let file = scratch("broken");
        for content in ["wwan0 start=1 used=many earned=0\n", "\u{0}\u{0}", "wwan0 start=5"] {
            fs::write(&file, content).expect("is written");
            let state = Quotas::open(&file, quota(10_000_000)).state();
            let (start, end) = Period::Month(1).around(now());
            let even = 10_000_000.0 * (now() - start).micros() as f64 / (end - start).micros() as f64;
            assert!((state[0].used as f64 - even).abs() < 1_000.0, "{content:?}: {state:?}");
        }
        let _ = fs::remove_file(file);
        assert_eq!(read("# text\nwwan0 start=1 used=2 earned=-3\nx\n"), Err(3));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_in_place_of_the_file_is_not_written_through() {
        let (file, precious) = (scratch("linked"), scratch("precious"));
        fs::write(&precious, "precious").expect("is written");
        std::os::unix::fs::symlink(&precious, &file).expect("is made");
        drop(Quotas::open(&file, quota(10_000_000)));
        assert_eq!(fs::read_to_string(&precious).expect("is there"), "precious");
        assert_eq!(read(&fs::read_to_string(&file).expect("is there")).expect("is a record").len(), 1);
        let _ = (fs::remove_file(file), fs::remove_file(precious));
    }

    #[test]
    fn a_file_that_cannot_be_written_counts_in_memory_and_is_tried_again_after_a_pause() {
        let folder = scratch("absent");
        let quotas = Quotas::open(folder.join("quotas"), quota(10_000_000));
        let before = quotas.state()[0].used;
        quotas.lock().accounts.get_mut("wwan0").expect("is there").settle(now(), 0, 30_000);
        assert!(!quotas.lock().is_due(), "at once");
        assert!(quotas.state()[0].used >= before + 30_000);
        fs::create_dir(&folder).expect("is made");
        quotas.lock().failing = Some(Instant::now());
        quotas.keep();
        let kept = read(&fs::read_to_string(folder.join("quotas")).expect("is there")).expect("is a record");
        assert!(kept["wwan0"].used >= before + 30_000, "{kept:?}");
        drop(quotas);
        let _ = fs::remove_dir_all(folder);
    }

    #[test]
    fn an_interface_whose_quota_is_used_up_is_known() {
        let file = scratch("exhausted");
        write(&file, 10_000_000);
        let quotas = Quotas::open(&file, quota(10_000_000));
        assert!(quotas.is_exhausted("wwan0") && !quotas.is_exhausted("wlan0"));
        let _ = fs::remove_file(file);
    }
}
