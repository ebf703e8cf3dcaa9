//! Modems on Linux: ModemManager, over D-Bus.

mod bus;
mod levels;

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::Mutex;
use zbus::zvariant::OwnedObjectPath;

use self::{
    bus::{BEARER, Bus, Event, MODEM, NETWORK, Object, SIGNAL},
    levels::{Known, Properties},
};
use crate::{Clock, Reading, SignalSource, SourceError, Time};

/// Time without a signal after which the levels are read, which confirms that they did not change.
/// ModemManager measures at whole seconds and signals changes.
const REFRESH: Duration = Duration::from_secs(1);

/// Requested seconds between measurements: the shortest period of ModemManager.
const RATE: u32 = 1;

const NO_MODEM: &str = "ModemManager has no modem";

/// MM_MODEM_PORT_TYPE_NET.
const PORT_NET: u32 = 2;

/// A modem that ModemManager manages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Modem {
    /// Physical device, by ModemManager's property `Device`. It is the same after the modem is
    /// plugged in again.
    pub device: String,
    /// Manufacturer and model, in readable form.
    pub name: String,
    /// Its network interfaces; with some modems none while there is no connection.
    pub interfaces: Vec<String>,
}

/// Converts properties on the bus to a reading, for fuzzers.
#[cfg(any(test, fuzzing))]
pub(crate) fn reading_of(modem: Properties, network: Properties, signal: Properties) -> crate::Reading {
    Known { modem, network, signal: Some(signal) }.reading(Time::EPOCH)
}

/// Returns the modems of this machine.
///
/// # Errors
/// [`SourceError::Missing`] if there are none, no ModemManager, or no system bus;
/// [`SourceError::Denied`] if this user lacks the permission; [`SourceError::Failed`] for other
/// errors.
pub fn modems() -> Result<Vec<Modem>, SourceError> {
    const RADIO: &str = "modems";
    bus::run(RADIO, async {
        let bus = Bus::connect(None).await.map_err(|error| bus::explain_connect(RADIO, &error))?;
        let found = list(&bus).await.map_err(|error| bus::explain(RADIO, &error))?;
        if found.is_empty() {
            return Err(missing(RADIO, NO_MODEM));
        }
        Ok(found.into_iter().map(|(_, modem, _)| modem).collect())
    })
}

/// Reads a modem by ModemManager.
///
/// ModemManager is set to measure each second (`Modem.Signal.Setup`), which may need a privilege:
/// without it [`SignalSource::note`] returns the reason, and the levels are read at ModemManager's
/// own rate. The setting outlives the source. A modem that leaves the bus is a passing error: it is
/// searched again.
#[derive(Debug)]
pub struct ModemSource {
    label: String,
    note: Option<String>,
    reader: Arc<Mutex<Reader>>,
}

/// The part of a source that runs on the bus's thread.
#[derive(Debug)]
struct Reader {
    label: String,
    wanted: Wanted,
    /// Address of the bus, if it is not the system's.
    address: Option<String>,
    /// `None` while the modem is gone.
    link: Option<Link>,
    /// There was a reading before: the first one does not wait for a change.
    begun: bool,
}

#[derive(Debug)]
enum Wanted {
    Interface(String),
    Device(String),
}

impl ModemSource {
    /// Opens a source for the modem with that network interface, such as `wwan0`.
    ///
    /// # Errors
    /// See [`modems`]; also [`SourceError::Missing`] if no modem has the interface.
    pub fn open(interface: &str) -> Result<Self, SourceError> {
        Self::attach(interface.to_owned(), Wanted::Interface(interface.to_owned()), None)
    }

    /// Like [`Self::open`], on a bus other than the system's, by its D-Bus address.
    ///
    /// # Errors
    /// See [`Self::open`].
    pub fn open_at(address: &str, interface: &str) -> Result<Self, SourceError> {
        let wanted = Wanted::Interface(interface.to_owned());
        Self::attach(interface.to_owned(), wanted, Some(address.to_owned()))
    }

    /// Opens a source for one of [`modems`], which need not have a network interface.
    ///
    /// # Errors
    /// See [`modems`].
    pub fn of(modem: &Modem) -> Result<Self, SourceError> {
        let label = modem.interfaces.first().unwrap_or(&modem.name).clone();
        Self::attach(label, Wanted::Device(modem.device.clone()), None)
    }

    fn attach(label: String, wanted: Wanted, address: Option<String>) -> Result<Self, SourceError> {
        let mut reader = Reader { label: label.clone(), wanted, address, link: None, begun: false };
        bus::run(&label.clone(), async move {
            let link = reader.find().await?;
            let note = link.note.clone();
            reader.link = Some(link);
            Ok(Self { label, note, reader: Arc::new(Mutex::new(reader)) })
        })
    }
}

impl SignalSource for ModemSource {
    fn label(&self) -> String {
        self.label.clone()
    }

    fn note(&self) -> Option<String> {
        self.note.clone()
    }

    fn next(&mut self, clock: Clock, timeout: Duration) -> Result<Option<Reading>, SourceError> {
        let reader = self.reader.clone();
        bus::run(&self.label, async move { reader.lock().await.read(clock, timeout).await })
    }
}

impl Reader {
    /// Searches the modem on a new connection.
    async fn find(&self) -> Result<Link, SourceError> {
        let radio = &self.label;
        let bus = Bus::connect(self.address.as_deref())
            .await
            .map_err(|error| bus::explain_connect(radio, &error))?;
        let found = list(&bus).await.map_err(|error| bus::explain(radio, &error))?;
        let known: Vec<String> = found.iter().map(|(_, modem, _)| modem.to_string()).collect();
        let is_wanted = |modem: &Modem| match &self.wanted {
            Wanted::Interface(name) => modem.interfaces.contains(name),
            Wanted::Device(device) => modem.device == *device,
        };
        let Some((path, _, object)) = found.into_iter().find(|(_, modem, _)| is_wanted(modem)) else {
            return Err(match known.is_empty() {
                true => missing(radio, NO_MODEM),
                false => {
                    missing(radio, &format!("no modem has this interface; there are: {}", known.join(", ")))
                }
            });
        };
        let mut link = Link::new(bus, path, object);
        link.set_up().await;
        Ok(link)
    }

    async fn read(&mut self, clock: Clock, timeout: Duration) -> Result<Option<Reading>, SourceError> {
        if self.link.is_none() {
            self.link = Some(self.find().await.map_err(SourceError::passing)?);
            self.begun = false;
        }
        let Some(link) = &mut self.link else { return Ok(None) };
        let outcome = if std::mem::replace(&mut self.begun, true) {
            link.wait(Instant::now() + timeout).await
        } else {
            Ok(true)
        };
        match outcome {
            Ok(is_new) => Ok(is_new.then(|| link.known.reading(clock.now()))),
            Err(lost) => {
                self.link = None;
                Err(lost.explain(&self.label))
            }
        }
    }
}

/// A modem on the bus.
#[derive(Debug)]
struct Link {
    bus: Bus,
    path: String,
    known: Known,
    note: Option<String>,
    /// The measurement each second is requested again when the modem changes its state.
    pending: bool,
    /// Time at which the levels were last received.
    received: Instant,
}

/// Reason why a modem is gone.
enum Lost {
    /// The modem left the bus.
    Modem,
    /// ModemManager ended.
    Manager,
    /// The bus did not answer.
    Bus(zbus::Error),
}

impl Lost {
    fn explain(&self, radio: &str) -> SourceError {
        let gone =
            |problem: &str| SourceError::Failed { radio: radio.to_owned(), problem: problem.to_owned() };
        match self {
            Self::Modem => gone("ModemManager no longer has the modem"),
            Self::Manager => gone("ModemManager ended"),
            Self::Bus(error) => bus::explain(radio, error).passing(),
        }
    }
}

impl From<zbus::Error> for Lost {
    fn from(error: zbus::Error) -> Self {
        Self::Bus(error)
    }
}

impl Link {
    fn new(bus: Bus, path: String, mut object: Object) -> Self {
        let modem = object.remove(MODEM).unwrap_or_default();
        let network = object.remove(NETWORK).unwrap_or_default();
        let known = Known { modem, network, signal: object.remove(SIGNAL) };
        Self { bus, path, known, note: None, pending: false, received: Instant::now() }
    }

    /// Sets ModemManager to measure each second.
    async fn set_up(&mut self) {
        let Some(signal) = &self.known.signal else {
            let note = "ModemManager reports no levels of this modem, only whether it is registered";
            self.note = Some(note.to_owned());
            return;
        };
        let rate = signal.get("Rate").and_then(|rate| rate.downcast_ref::<u32>().ok()).unwrap_or(0);
        if rate == RATE {
            return;
        }
        let Err(error) = self.bus.set_rate(&self.path, RATE).await else {
            self.pending = false;
            return;
        };
        let now = match rate {
            0 => "it measures nothing now".to_owned(),
            rate => format!("it measures every {rate} s"),
        };
        let number = self.path.rsplit('/').next().unwrap_or_default();
        self.pending = !bus::is_denied(&error);
        self.note = Some(if self.pending {
            format!("ModemManager does not measure each second yet, {now}: {}", bus::text_of(&error))
        } else {
            format!(
                "not permitted to have ModemManager measure each second, {now}; as root: \
                 mmcli -m {number} --signal-setup={RATE}"
            )
        });
    }

    /// Waits until then for a change of the levels or of the network; returns `true` if there is
    /// one.
    async fn wait(&mut self, until: Instant) -> Result<bool, Lost> {
        loop {
            let silent = self.received + REFRESH;
            if let Some(event) = self.bus.next_event(until.min(silent)).await? {
                if self.on_event(event).await? {
                    return Ok(true);
                }
            } else if Instant::now() >= silent {
                self.received = Instant::now();
                if self.known.signal.is_some() {
                    self.known.signal = Some(self.bus.properties(&self.path, SIGNAL).await?);
                    return Ok(true);
                }
            } else if Instant::now() >= until {
                return Ok(false);
            }
        }
    }

    /// Returns `true` if the event may change the reading.
    async fn on_event(&mut self, event: Event) -> Result<bool, Lost> {
        match event {
            Event::ManagerEnded => Err(Lost::Manager),
            Event::Removed { path, interfaces }
                if path == self.path && interfaces.iter().any(|i| i == MODEM) =>
            {
                Err(Lost::Modem)
            }
            Event::Changed { path, interface, properties, incomplete } if path == self.path => {
                let properties = match incomplete {
                    true => self.bus.properties(&self.path, &interface).await?,
                    false => properties,
                };
                self.change(&interface, properties).await
            }
            Event::Changed { .. } | Event::Removed { .. } => Ok(false),
        }
    }

    async fn change(&mut self, interface: &str, properties: Properties) -> Result<bool, Lost> {
        let before = self.known.reading(Time::EPOCH);
        match interface {
            SIGNAL => {
                self.known.signal.get_or_insert_default().extend(properties);
                self.received = Instant::now();
                return Ok(true);
            }
            NETWORK => self.known.network.extend(properties),
            MODEM => {
                let moved = properties.contains_key("State");
                self.known.modem.extend(properties);
                if moved && self.pending {
                    self.set_up().await;
                }
            }
            _ => return Ok(false),
        }
        Ok(self.known.reading(Time::EPOCH) != before)
    }
}

impl std::fmt::Display for Modem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.interfaces.is_empty() {
            true => write!(f, "{} (without an interface)", self.name),
            false => write!(f, "{} ({})", self.name, self.interfaces.join(", ")),
        }
    }
}

/// Queries the modems on the bus, sorted by their paths.
async fn list(bus: &Bus) -> zbus::Result<Vec<(String, Modem, Object)>> {
    let objects: HashMap<String, Object> = bus.objects().await?;
    let mut found = Vec::new();
    for (path, object) in objects {
        let Some(properties) = object.get(MODEM) else { continue };
        let modem = describe(bus, &path, properties).await;
        found.push((path, modem, object));
    }
    found.sort_by(|(one, ..), (other, ..)| one.cmp(other));
    Ok(found)
}

async fn describe(bus: &Bus, path: &str, properties: &Properties) -> Modem {
    let text = |name: &str| properties.get(name).and_then(|value| value.downcast_ref::<String>().ok());
    let ports = properties.get("Ports").and_then(|ports| ports.try_clone().ok());
    let ports: Vec<(String, u32)> = ports.and_then(|ports| ports.try_into().ok()).unwrap_or_default();
    let net = ports.into_iter().filter(|(_, kind)| *kind == PORT_NET);
    let mut interfaces: Vec<String> = net.map(|(name, _)| name).collect();
    // Connections may have interfaces of their own, such as those of PPP.
    let bearers = properties.get("Bearers").and_then(|bearers| bearers.try_clone().ok());
    let bearers: Vec<OwnedObjectPath> =
        bearers.and_then(|bearers| bearers.try_into().ok()).unwrap_or_default();
    for bearer in bearers {
        // A bearer that ended meanwhile has no interface.
        let Ok(bearer) = bus.properties(bearer.as_str(), BEARER).await else { continue };
        let interface = bearer.get("Interface").and_then(|value| value.downcast_ref::<String>().ok());
        interfaces.extend(interface.filter(|name| !name.is_empty()));
    }
    interfaces.sort();
    interfaces.dedup();
    let parts = [text("Manufacturer"), text("Model")].into_iter().flatten().filter(|part| !part.is_empty());
    let name = parts.collect::<Vec<_>>().join(" ");
    let name = if name.is_empty() { path.rsplit('/').next().unwrap_or_default().to_owned() } else { name };
    Modem { device: text("Device").unwrap_or_else(|| path.to_owned()), name, interfaces }
}

fn missing(radio: &str, problem: &str) -> SourceError {
    SourceError::Missing { radio: radio.to_owned(), problem: problem.to_owned() }
}
