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

/// How often sessions are asked what they have used.
const PERIOD: Duration = Duration::from_millis(100);

/// Longest file of records.
const MAX_FILE: u64 = 1 << 20;

/// What the file says more than was used and leased, so that it is written once for half that number of bytes, and says more while it
/// is being written, too: a hundredth of the quota, but at most this. A program that is killed loses it, and its leases.
const MAX_AHEAD: u64 = 4_000_000;

/// Pause before a file that could not be written is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// What may be sent and received over interfaces in each day, week or month, counted over all sessions that
/// [are given it](crate::Connect::quotas) and over restarts of the program. Clones share one count. The file belongs to one
/// program at a time.
///
/// Both directions count, with the headers of IP and UDP. What is left is spread over the rest of the period: an
/// interface that is ahead of its pace by a hundredth of the quota becomes a [backup](crate::Role::Backup) until it has earned
/// half of that again, so only data that no other path can carry exceeds the pace. When nothing is left, the paths
/// are closed, and sessions begin without the interface, until the next period.
///
/// What counts is what the interface counts: packets that left, and packets that arrived. What the peer has under way when a quota ends
/// still arrives and exceeds it: a round trip at the rate of the path, and its queue. While there is another path, the last
/// hundredth is kept for that. Packets to this side that are lost on the way are not counted, though a provider may.
#[derive(Clone, Debug)]
pub struct Quotas {
    inner: Arc<Mutex<Inner>>,
    /// Held while the file is written, so that no older content follows a newer one.
    writing: Arc<Mutex<()>>,
}

#[derive(Debug)]
struct Inner {
    file: PathBuf,
    accounts: BTreeMap<String, Account>,
    /// The start of the period and the bytes that the file has of each; nothing if it could not be written.
    written: BTreeMap<String, (Time, u64)>,
    /// A thread is writing the file.
    is_writing: bool,
    /// The file could not be written, which was reported, and is not tried again before this.
    failing: Option<Instant>,
}

/// The content of the file.
struct Content {
    file: PathBuf,
    text: String,
    /// As in [`Inner::written`].
    has: BTreeMap<String, (Time, u64)>,
}

/// The state of a quota.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct QuotaState {
    /// Name or local address of the interface.
    pub interface: String,
    /// Bytes in each period.
    pub bytes: u64,
    /// Bytes used in this one.
    pub used: u64,
    /// Bytes left of it.
    pub left: u64,
    /// Bytes per second that may be used now and last to the end of the period.
    pub pace: f64,
    /// Whether the interface is ahead of its pace, and a backup meanwhile.
    pub is_held: bool,
    /// When the next period begins.
    pub ends: SystemTime,
}

impl Quotas {
    /// The quotas of interfaces, each by name or local address, with what was used by the record in a file. The file is made if
    /// there is none; its folder must be there.
    ///
    /// An interface without a readable record counts as evenly used so far: what was used is not known, and no more
    /// than the rest of an even use is spent. A file that is no record is reported in the log, in one line.
    ///
    /// A file that cannot be read or written, as on a full disk, is reported in the log once. Quotas are counted in memory then, and the
    /// file is tried again until it can be written.
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

    /// Writes the file now: for a program that ends at once, and may not drop the last clone before. May block.
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

    /// Has the file written if it says hardly more than was used or leased. A disk may take its time: not in a task of a runtime.
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

    /// What was used of each, and what is left.
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

    /// Whether nothing is left for an interface, by name or local address.
    pub(crate) fn is_exhausted(&self, interface: &str) -> bool {
        let (mut inner, now) = (self.lock(), now());
        inner.accounts.get_mut(interface).is_some_and(|account| {
            account.advance(now);
            account.is_exhausted()
        })
    }
}

impl Inner {
    /// The file that says `ahead` bytes more than was used.
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

    /// Whether the file is to be written.
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

    /// Takes note of what became of the file, and reports what is new.
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
    /// Writes the file. Returns what it has.
    fn write(self) -> io::Result<BTreeMap<String, (Time, u64)>> {
        // A power failure may bring back an older one.
        part_of(&self.file, self.text.as_bytes())?.persist(&self.file)?;
        Ok(self.has)
    }
}

/// How much more than was used the file says at most.
fn most_ahead(account: &Account) -> u64 {
    MAX_AHEAD.min(account.quota().bytes / 100)
}

impl Drop for Inner {
    fn drop(&mut self) {
        let content = self.content(0);
        // A file that could not be written a moment ago is not tried again.
        if self.failing.is_none_or(|until| until <= Instant::now()) && self.written != content.has {
            self.note(content.write());
        }
    }
}

/// Reads a file of records.
///
/// # Errors
/// The number of the first line that is none, from 1.
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

/// The time since the Unix epoch, which it is before that.
fn now() -> Time {
    Time::EPOCH + SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().into()
}

/// The sessions that spend from quotas.
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

/// What a session has of the quota of an account, for one of the interfaces that bear its name.
struct Lease {
    interface: Interface,
    account: String,
    bytes: u64,
    /// What the session had used when the lease was given.
    used: u64,
}

impl Meters {
    /// Has a session spend from quotas as long as it lasts.
    pub(crate) fn follow(&mut self, session: SessionId, quotas: Quotas) {
        self.metered.push(Metered { session, quotas, leases: Vec::new() });
        self.due = Some(Instant::now());
    }

    /// When sessions are to be asked next.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Asks sessions what they have used, and renews their leases, if it is time to.
    pub(crate) fn read(&mut self, at: Instant, proto: &mut Endpoint, routes: &Routes) {
        if self.due.is_none_or(|due| due > at) {
            return;
        }
        self.metered.retain_mut(|metered| {
            // While it connects there is no session yet.
            if let Some(session) = proto.session(metered.session) {
                metered.settle(session, routes);
            }
            proto.has(metered.session)
        });
        self.due = (!self.metered.is_empty()).then(|| at + PERIOD);
    }

    /// Takes what a session has used to account for the last time: it is over.
    pub(crate) fn finish(&mut self, session: SessionId, proto: &mut Endpoint, routes: &Routes) {
        for mut metered in self.metered.extract_if(.., |metered| metered.session == session) {
            if let Some(session) = proto.session(session) {
                metered.settle(session, routes);
            }
        }
    }

    /// The same of all sessions.
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
                    // What opened the first path was used before there was a lease.
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

    /// A record of this month of which a tenth is used.
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
        // A program that is killed writes nothing more.
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
