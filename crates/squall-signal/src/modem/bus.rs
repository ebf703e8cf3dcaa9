//! Talking with ModemManager over D-Bus.

use std::{
    collections::HashMap,
    fmt, io,
    pin::Pin,
    time::{Duration, Instant},
};

use async_io::Timer;
use futures_lite::{Stream, StreamExt as _, future, stream};
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

/// How long ModemManager has for an answer; it may have to ask the modem first.
const ANSWER: Duration = Duration::from_secs(5);

/// An object's interfaces with their properties.
pub(super) type Object = HashMap<String, Properties>;

/// Something that happened to an object.
#[derive(Debug)]
pub(super) enum News {
    /// Properties have new values; of others it is only known that they do.
    Changed {
        path: String,
        interface: String,
        properties: Properties,
        /// Whether there are some of which the values are not told.
        incomplete: bool,
    },
    /// The object lost interfaces.
    Removed { path: String, interfaces: Vec<String> },
    /// ModemManager left the bus.
    ManagerEnded,
}

/// A connection to the bus, on which ModemManager is listened to.
pub(super) struct Bus {
    connection: Connection,
    news: Pin<Box<dyn Stream<Item = zbus::Result<Message>> + Send>>,
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
        Ok(Self { connection, news: Box::pin(stream::or(of_bus, of_manager)) })
    }

    /// Everything that ModemManager manages: the modems.
    pub(super) async fn objects(&self) -> zbus::Result<HashMap<String, Object>> {
        let reply = self.call(MANAGER_PATH, OBJECTS, "GetManagedObjects", &()).await?;
        let objects: HashMap<OwnedObjectPath, Object> = reply.body().deserialize()?;
        Ok(objects.into_iter().map(|(path, object)| (path.as_str().to_owned(), object)).collect())
    }

    /// All properties of an object's interface.
    pub(super) async fn properties(&self, path: &str, interface: &str) -> zbus::Result<Properties> {
        self.call(path, PROPERTIES, "GetAll", &interface).await?.body().deserialize()
    }

    /// Asks for a measurement each `seconds`.
    pub(super) async fn set_rate(&self, path: &str, seconds: u32) -> zbus::Result<()> {
        self.call(path, SIGNAL, "Setup", &seconds).await.map(|_| ())
    }

    async fn call<B>(&self, path: &str, interface: &str, method: &str, body: &B) -> zbus::Result<Message>
    where
        B: serde::Serialize + DynamicType + Sync,
    {
        self.connection.call_method(Some(MANAGER), path, Some(interface), method, body).await
    }

    /// Waits for news until then; `None` if there are none.
    pub(super) async fn news(&mut self, until: Instant) -> zbus::Result<Option<News>> {
        loop {
            let over = async {
                Timer::at(until).await;
                None
            };
            let message = async { Some(self.news.next().await) };
            match future::or(message, over).await {
                None => return Ok(None),
                Some(None) => return Err(io::Error::from(io::ErrorKind::ConnectionAborted).into()),
                Some(Some(message)) => {
                    if let Some(news) = parse(&message?) {
                        return Ok(Some(news));
                    }
                }
            }
        }
    }
}

/// What a signal tells; `None` for others, and for those that are not as they should be.
fn parse(message: &Message) -> Option<News> {
    let header = message.header();
    let (body, path) = (message.body(), header.path()?.as_str().to_owned());
    match (header.interface()?.as_str(), header.member()?.as_str()) {
        (PROPERTIES, "PropertiesChanged") => {
            let (interface, properties, others): (String, Properties, Vec<String>) =
                body.deserialize().ok()?;
            Some(News::Changed { path, interface, properties, incomplete: !others.is_empty() })
        }
        (OBJECTS, "InterfacesRemoved") => {
            let (path, interfaces): (OwnedObjectPath, Vec<String>) = body.deserialize().ok()?;
            Some(News::Removed { path: path.as_str().to_owned(), interfaces })
        }
        (BUS, "NameOwnerChanged") => {
            let (_, _, owner): (String, String, String) = body.deserialize().ok()?;
            // It may have been started by our own question.
            owner.is_empty().then_some(News::ManagerEnded)
        }
        _ => None,
    }
}

/// Whether an error says that this user may not do that.
pub(super) fn is_denied(error: &zbus::Error) -> bool {
    let zbus::Error::MethodError(name, ..) = error else { return false };
    matches!(
        name.as_str(),
        "org.freedesktop.DBus.Error.AccessDenied"
            | "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired"
            | "org.freedesktop.ModemManager1.Error.Core.Unauthorized"
    )
}

/// What an answer means.
pub(super) fn explain(radio: &str, error: &zbus::Error) -> SourceError {
    let radio = radio.to_owned();
    if is_denied(error) {
        let problem = format!("the bus keeps this user from ModemManager ({})", said(error));
        return SourceError::Denied { radio, problem };
    }
    if let zbus::Error::MethodError(name, ..) = error
        && ["ServiceUnknown", "NameHasNoOwner"].contains(&name.rsplit('.').next().unwrap_or_default())
    {
        let problem = "ModemManager is not there; it comes with the package modemmanager".to_owned();
        return SourceError::Missing { radio, problem };
    }
    SourceError::Failed { radio, problem: format!("ModemManager does not answer: {}", said(error)) }
}

/// What it means that there is no connection.
pub(super) fn explain_connect(radio: &str, error: &zbus::Error) -> SourceError {
    let (radio, said) = (radio.to_owned(), said(error));
    match error {
        zbus::Error::InputOutput(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            SourceError::Denied { radio, problem: format!("the system bus refuses this user ({said})") }
        }
        _ => {
            let problem = format!("there is no system bus, and so no ModemManager ({said})");
            SourceError::Missing { radio, problem }
        }
    }
}

/// The words of an error, in one line.
pub(super) fn said(error: &zbus::Error) -> String {
    let words = match error {
        zbus::Error::MethodError(_, Some(words), _) => words.clone(),
        zbus::Error::MethodError(name, None, _) => name.to_string(),
        zbus::Error::InputOutput(error) => error.to_string(),
        other => other.to_string(),
    };
    words.lines().next().unwrap_or_default().to_owned()
}
