//! ModemManager's messages on D-Bus.

use std::{
    collections::HashMap,
    fmt,
    future::pending,
    io,
    pin::Pin,
    sync::{LazyLock, mpsc::sync_channel},
    thread,
    time::{Duration, Instant},
};

use futures_lite::{Stream, StreamExt as _, stream};
use tokio::{
    runtime::{Builder as RuntimeBuilder, Handle},
    time::timeout_at,
};
use zbus::{
    Connection, MatchRule, Message, MessageStream,
    connection::Builder,
    message::Type,
    zvariant::{DynamicType, OwnedObjectPath},
};

use super::levels::Properties;
use crate::SourceError;

const MANAGER: &str = "org.freedesktop.ModemManager1";
const MANAGER_PATH: &str = "/org/freedesktop/ModemManager1";
const BUS: &str = "org.freedesktop.DBus";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
const OBJECTS: &str = "org.freedesktop.DBus.ObjectManager";

pub(super) const MODEM: &str = "org.freedesktop.ModemManager1.Modem";
pub(super) const NETWORK: &str = "org.freedesktop.ModemManager1.Modem.Modem3gpp";
pub(super) const SIGNAL: &str = "org.freedesktop.ModemManager1.Modem.Signal";
pub(super) const BEARER: &str = "org.freedesktop.ModemManager1.Bearer";

/// Timeout for an answer of ModemManager, which may have to query the modem first.
const ANSWER: Duration = Duration::from_secs(5);

/// The runtime of all connections, on its own thread: callers may be inside another runtime, where
/// blocking on a future panics.
static RUNTIME: LazyLock<io::Result<Handle>> = LazyLock::new(|| {
    let runtime = RuntimeBuilder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    thread::Builder::new().name("modem bus".to_owned()).spawn(move || runtime.block_on(pending::<()>()))?;
    Ok(handle)
});

/// Runs a task of the source `radio` on the thread of all connections, and waits for its result.
pub(super) fn run<T: Send + 'static>(
    radio: &str,
    task: impl Future<Output = Result<T, SourceError>> + Send + 'static,
) -> Result<T, SourceError> {
    let failed = |problem: String| SourceError::Failed { radio: radio.to_owned(), problem };
    let runtime = RUNTIME.as_ref().map_err(|error| failed(error.to_string()))?;
    let (send, result) = sync_channel(1);
    runtime.spawn(async move {
        let _ = send.send(task.await);
    });
    result.recv().unwrap_or_else(|_| Err(failed("reading it panicked".to_owned())))
}

/// Interfaces of an object with their properties.
pub(super) type Object = HashMap<String, Properties>;

/// A change of an object.
#[derive(Debug)]
pub(super) enum Event {
    /// Properties have new values.
    Changed {
        path: String,
        interface: String,
        properties: Properties,
        /// More properties changed, whose values are not included.
        incomplete: bool,
    },
    /// The object lost interfaces.
    Removed { path: String, interfaces: Vec<String> },
    /// ModemManager left the bus.
    ManagerEnded,
}

/// A connection to the bus, subscribed to ModemManager.
pub(super) struct Bus {
    connection: Connection,
    messages: Pin<Box<dyn Stream<Item = zbus::Result<Message>> + Send + Sync>>,
}

impl Drop for Bus {
    /// Unsubscribes inside a runtime: the streams do so in a task when they are dropped.
    fn drop(&mut self) {
        let _inside = RUNTIME.as_ref().map(Handle::enter);
        self.messages = Box::pin(stream::empty());
    }
}

impl fmt::Debug for Bus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bus").field("name", &self.connection.unique_name()).finish_non_exhaustive()
    }
}

impl Bus {
    /// Connects to the bus of that address, or to the system's.
    pub(super) async fn connect(address: Option<&str>) -> zbus::Result<Self> {
        let builder = match address {
            Some(address) => Builder::address(address)?,
            None => Builder::system()?,
        };
        let connection = builder.method_timeout(ANSWER).build().await?;
        let of_manager = MatchRule::builder().msg_type(Type::Signal).sender(MANAGER)?.build();
        let of_bus = MatchRule::builder().msg_type(Type::Signal).interface(BUS)?;
        let of_bus = of_bus.member("NameOwnerChanged")?.arg(0, MANAGER)?.build();
        let of_manager = MessageStream::for_match_rule(of_manager, &connection, None).await?;
        let of_bus = MessageStream::for_match_rule(of_bus, &connection, None).await?;
        Ok(Self { connection, messages: Box::pin(stream::or(of_bus, of_manager)) })
    }

    /// Queries the objects that ModemManager manages: the modems.
    pub(super) async fn objects(&self) -> zbus::Result<HashMap<String, Object>> {
        let reply = self.call(MANAGER_PATH, OBJECTS, "GetManagedObjects", &()).await?;
        let objects: HashMap<OwnedObjectPath, Object> = reply.body().deserialize()?;
        Ok(objects.into_iter().map(|(path, object)| (path.as_str().to_owned(), object)).collect())
    }

    /// Queries all properties of an object's interface.
    pub(super) async fn properties(&self, path: &str, interface: &str) -> zbus::Result<Properties> {
        self.call(path, PROPERTIES, "GetAll", &interface).await?.body().deserialize()
    }

    /// Requests a measurement every `seconds`.
    pub(super) async fn set_rate(&self, path: &str, seconds: u32) -> zbus::Result<()> {
        self.call(path, SIGNAL, "Setup", &seconds).await.map(|_| ())
    }

    async fn call<B>(&self, path: &str, interface: &str, method: &str, body: &B) -> zbus::Result<Message>
    where
        B: serde::Serialize + DynamicType + Sync,
    {
        self.connection.call_method(Some(MANAGER), path, Some(interface), method, body).await
    }

    /// Returns the next event; `None` if none arrives before `until`.
    pub(super) async fn next_event(&mut self, until: Instant) -> zbus::Result<Option<Event>> {
        loop {
            let Ok(message) = timeout_at(until.into(), self.messages.next()).await else { return Ok(None) };
            let Some(message) = message else {
                return Err(io::Error::from(io::ErrorKind::ConnectionAborted).into());
            };
            if let Some(event) = parse(&message?) {
                return Ok(Some(event));
            }
        }
    }
}

/// Parses a D-Bus signal; `None` for signals that are no event, and malformed ones.
fn parse(message: &Message) -> Option<Event> {
    let header = message.header();
    let (body, path) = (message.body(), header.path()?.as_str().to_owned());
    match (header.interface()?.as_str(), header.member()?.as_str()) {
        (PROPERTIES, "PropertiesChanged") => {
            let (interface, properties, others): (String, Properties, Vec<String>) =
                body.deserialize().ok()?;
            Some(Event::Changed { path, interface, properties, incomplete: !others.is_empty() })
        }
        (OBJECTS, "InterfacesRemoved") => {
            let (path, interfaces): (OwnedObjectPath, Vec<String>) = body.deserialize().ok()?;
            Some(Event::Removed { path: path.as_str().to_owned(), interfaces })
        }
        (BUS, "NameOwnerChanged") => {
            let (_, _, owner): (String, String, String) = body.deserialize().ok()?;
            // A new owner is the service that our own call has started.
            owner.is_empty().then_some(Event::ManagerEnded)
        }
        _ => None,
    }
}

/// Returns `true` if the user lacks the permission.
pub(super) fn is_denied(error: &zbus::Error) -> bool {
    let zbus::Error::MethodError(name, ..) = error else { return false };
    matches!(
        name.as_str(),
        "org.freedesktop.DBus.Error.AccessDenied"
            | "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired"
            | "org.freedesktop.ModemManager1.Error.Core.Unauthorized"
    )
}

/// Explains the error of a call.
pub(super) fn explain(radio: &str, error: &zbus::Error) -> SourceError {
    let radio = radio.to_owned();
    if is_denied(error) {
        let problem = format!("the bus keeps this user from ModemManager ({})", text_of(error));
        return SourceError::Denied { radio, problem };
    }
    if let zbus::Error::MethodError(name, ..) = error
        && ["ServiceUnknown", "NameHasNoOwner"].contains(&name.rsplit('.').next().unwrap_or_default())
    {
        let problem = "ModemManager is not there; it comes with the package modemmanager".to_owned();
        return SourceError::Missing { radio, problem };
    }
    SourceError::Failed { radio, problem: format!("ModemManager does not answer: {}", text_of(error)) }
}

/// Explains the error of a connection attempt.
pub(super) fn explain_connect(radio: &str, error: &zbus::Error) -> SourceError {
    let (radio, text) = (radio.to_owned(), text_of(error));
    match error {
        zbus::Error::InputOutput(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            SourceError::Denied { radio, problem: format!("the system bus refuses this user ({text})") }
        }
        _ => {
            let problem = format!("there is no system bus, and so no ModemManager ({text})");
            SourceError::Missing { radio, problem }
        }
    }
}

/// Returns the text of an error, in one line.
pub(super) fn text_of(error: &zbus::Error) -> String {
    let text = match error {
        zbus::Error::MethodError(_, Some(text), _) => text.clone(),
        zbus::Error::MethodError(name, None, _) => name.to_string(),
        zbus::Error::InputOutput(error) => error.to_string(),
        other => other.to_string(),
    };
    text.lines().next().unwrap_or_default().to_owned()
}
