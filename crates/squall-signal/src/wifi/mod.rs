//! Wi-Fi on Linux: the kernel's nl80211, read without privileges.

mod netlink;
mod nl80211;

use std::{
    fs, io,
    time::{Duration, Instant},
};

use self::{
    netlink::{Kernel, Queries, Wire, messages},
    nl80211::{Event, Family, Interface},
};
use crate::{Clock, Reading, SignalSource, SourceError, Technology};

pub use self::nl80211::Station;

/// Parses any bytes as messages of the kernel, for fuzzers.
#[cfg(any(test, fuzzing))]
pub(crate) fn parse_all(bytes: &[u8]) {
    let mut family = Family { id: 28, mlme: None };
    for message in messages(bytes) {
        family = Family::parse(message.body).unwrap_or(family);
        Interface::parse(message.body);
        if let Some(station) = Station::parse(message.body) {
            assert!(station.level().is_none_or(|level| level < 0.0), "{station:?}");
        }
        Event::parse(&family, &message, 3);
    }
    netlink::parse_all(bytes);
}

/// ENODEV of Linux: the interface is gone.
const NO_DEVICE: i32 = 19;

/// Returns the Wi-Fi interfaces of this machine that connect to access points, by name.
///
/// # Errors
/// [`SourceError::Missing`] if there are none, or the kernel has no nl80211; otherwise the kernel's
/// error.
pub fn wifi_interfaces() -> Result<Vec<String>, SourceError> {
    const RADIO: &str = "Wi-Fi";
    let kernel = Kernel::open().map_err(|error| explain(RADIO, &error))?;
    let found = list(&mut Queries::new(kernel), RADIO)?;
    let names: Vec<_> = found.into_iter().filter(|one| one.is_client).map(|one| one.name).collect();
    if names.is_empty() {
        return Err(missing(RADIO, "no interface that connects to access points"));
    }
    Ok(names)
}

/// Reads the signal of the access point that an interface is connected to.
///
/// The kernel is queried once in each timeout of [`SignalSource::next`], and at once when it
/// reports that the connection began, moved or ended. An interface that is not associated is
/// disconnected; one that is gone is a passing error, and is searched again by its name.
#[derive(Debug)]
pub struct WifiSource {
    source: Source<Kernel>,
}

impl WifiSource {
    /// Opens a source for the interface of that name, such as `wlan0`.
    ///
    /// # Errors
    /// [`SourceError::Missing`] if there is no such interface, it is not of Wi-Fi, or it is an
    /// access point itself; [`SourceError::Denied`] if the system does not permit the query.
    pub fn open(interface: &str) -> Result<Self, SourceError> {
        if !is_there(interface) {
            return Err(missing(interface, "there is no such interface"));
        }
        let open = || Kernel::open().map_err(|error| explain(interface, &error));
        Ok(Self { source: Source::open(interface, open()?, open()?)? })
    }

    /// Returns the kernel's answer of the last reading; `None` if the interface was not associated.
    pub fn station(&self) -> Option<Station> {
        self.source.station
    }
}

impl SignalSource for WifiSource {
    fn label(&self) -> String {
        self.source.interface.clone()
    }

    fn next(&mut self, clock: Clock, timeout: Duration) -> Result<Option<Reading>, SourceError> {
        self.source.next(clock, timeout)
    }
}

/// The source with any kernel.
struct Source<W> {
    interface: String,
    /// Connection for queries.
    queries: Queries<W>,
    /// Connection for events.
    events: W,
    buffer: Vec<u8>,
    family: Family,
    /// Index of the interface; `None` while it is gone.
    index: Option<u32>,
    /// A reading was returned before: the first call does not wait.
    begun: bool,
    station: Option<Station>,
}

impl<W> std::fmt::Debug for Source<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut fields = f.debug_struct("Source");
        fields.field("interface", &self.interface).field("index", &self.index);
        fields.field("station", &self.station).finish_non_exhaustive()
    }
}

impl<W: Wire> Source<W> {
    fn open(interface: &str, kernel: W, mut events: W) -> Result<Self, SourceError> {
        let mut queries = Queries::new(kernel);
        let index = find(&mut queries, interface)?;
        let explained = |error: io::Error| explain(interface, &error);
        let family = Family::query(&mut queries).map_err(explained)?;
        if let Some(mlme) = family.mlme {
            events.join(mlme).map_err(explained)?;
        }
        let interface = interface.to_owned();
        let (buffer, index) = (Vec::new(), Some(index));
        Ok(Self { interface, queries, events, buffer, family, index, begun: false, station: None })
    }

    fn next(&mut self, clock: Clock, timeout: Duration) -> Result<Option<Reading>, SourceError> {
        let index = match self.index {
            Some(index) => index,
            None => find(&mut self.queries, &self.interface).map_err(SourceError::passing)?,
        };
        self.index = Some(index);
        if std::mem::replace(&mut self.begun, true) && self.wait(index, timeout)? == Some(Event::Disconnected)
        {
            self.station = None;
            return Ok(Some(Reading::disconnected(clock.now(), Technology::Wifi)));
        }
        self.station = Station::query(&mut self.queries, &self.family, index).map_err(|error| {
            if error.raw_os_error() == Some(NO_DEVICE) {
                self.index = None;
            }
            explain(&self.interface, &error)
        })?;
        let at = clock.now();
        Ok(Some(match self.station {
            Some(station) => {
                Reading { at, technology: Technology::Wifi, rssi: station.level(), ..Reading::default() }
            }
            None => Reading::disconnected(at, Technology::Wifi),
        }))
    }

    /// Waits for an event of the connection.
    fn wait(&mut self, index: u32, timeout: Duration) -> Result<Option<Event>, SourceError> {
        let end = Instant::now() + timeout;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            match self.events.receive(&mut self.buffer, left) {
                Ok(()) => {
                    let of_ours = |message| Event::parse(&self.family, &message, index);
                    if let Some(event) = messages(&self.buffer).filter_map(of_ours).last() {
                        return Ok(Some(event));
                    }
                }
                Err(error) if is_nothing(&error) => {}
                // Too many at once: some are lost, so the state is queried.
                Err(error) if error.raw_os_error() == Some(NO_BUFFERS) => return Ok(Some(Event::Changed)),
                Err(error) => return Err(explain(&self.interface, &error)),
            }
        }
    }
}

/// ENOBUFS of Linux: messages arrived faster than they were read.
const NO_BUFFERS: i32 = 105;

fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

fn list<W: Wire>(queries: &mut Queries<W>, radio: &str) -> Result<Vec<Interface>, SourceError> {
    let family = Family::query(queries).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => missing(radio, NO_FAMILY),
        _ => explain(radio, &error),
    })?;
    Interface::query(queries, &family).map_err(|error| explain(radio, &error))
}

const NO_FAMILY: &str =
    "the kernel has no nl80211: it was built without Wi-Fi, or its module cfg80211 is not loaded";

/// Returns the index of the Wi-Fi interface of that name.
fn find<W: Wire>(queries: &mut Queries<W>, interface: &str) -> Result<u32, SourceError> {
    let all = list(queries, interface)?;
    match all.into_iter().find(|one| one.name == interface) {
        Some(found) if found.is_client => Ok(found.index),
        Some(_) => {
            Err(missing(interface, "is itself an access point, or of a mesh; only clients have a signal"))
        }
        None => Err(missing(interface, "is no Wi-Fi interface")),
    }
}

/// Returns `true` if the system has a network interface of that name.
fn is_there(interface: &str) -> bool {
    // /proc shows the interfaces of this process's network namespace; /sys those of the one that
    // mounted it. If the list cannot be read, the kernel's error to the query describes the
    // problem.
    let Ok(all) = fs::read_to_string("/proc/self/net/dev") else { return true };
    all.lines().any(|line| line.split_once(':').is_some_and(|(name, _)| name.trim() == interface))
}

fn missing(radio: &str, problem: &str) -> SourceError {
    SourceError::Missing { radio: radio.to_owned(), problem: problem.to_owned() }
}

/// Explains an error of the system.
fn explain(radio: &str, error: &io::Error) -> SourceError {
    let radio = radio.to_owned();
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            let problem = "this process may not queries to the kernel by netlink; a sandbox may forbid it";
            SourceError::Denied { radio, problem: problem.to_owned() }
        }
        io::ErrorKind::Unsupported => missing(&radio, "its driver reports nothing of its stations"),
        _ if error.raw_os_error() == Some(NO_DEVICE) => {
            SourceError::Failed { radio, problem: "the interface is gone".to_owned() }
        }
        _ => SourceError::Failed { radio, problem: format!("the kernel does not answer: {error}") },
    }
}

#[cfg(test)]
mod tests;
