//! A message bus with a ModemManager on it for tests: a socket of the bus's kind, answers to the
//! calls of ModemManager's clients, and its signals. Needs no installed software.

#![allow(dead_code, reason = "every user needs its own part")]

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU32, Ordering},
    },
};

use futures_lite::StreamExt as _;
use tokio::net::{UnixListener, UnixStream};
use zbus::{
    Connection, Guid,
    connection::Builder,
    message::{Message, Type},
    zvariant::{ObjectPath, OwnedValue, Value},
};

type Properties = HashMap<String, OwnedValue>;
type Object = HashMap<String, Properties>;

const MANAGER: &str = "org.freedesktop.ModemManager1";
const ROOT: &str = "/org/freedesktop/ModemManager1";
pub(crate) const MODEM: &str = "org.freedesktop.ModemManager1.Modem";
pub(crate) const NETWORK: &str = "org.freedesktop.ModemManager1.Modem.Modem3gpp";
pub(crate) const SIGNAL: &str = "org.freedesktop.ModemManager1.Modem.Signal";
pub(crate) const BEARER: &str = "org.freedesktop.ModemManager1.Bearer";
pub(crate) const FIRST: &str = "/org/freedesktop/ModemManager1/Modem/0";

/// Answer to `Setup`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Setup {
    #[default]
    Granted,
    Denied,
    WrongState,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Object>,
    /// ModemManager is on the bus.
    runs: bool,
    /// The bus denies clients access to ModemManager.
    closed: bool,
    setup: Setup,
    /// Requested rates.
    rates: Vec<u32>,
    clients: Vec<Connection>,
}

impl State {
    /// Sets the rate; returns the name of the error if it is refused.
    fn set_up(&mut self, path: &str, rate: u32) -> Option<&'static str> {
        self.rates.push(rate);
        let signal = self.objects.get_mut(path).and_then(|object| object.get_mut(SIGNAL)).expect("is there");
        match self.setup {
            Setup::Granted => {
                signal.extend(properties([("Rate", Value::from(rate))]));
                None
            }
            Setup::Denied => Some("org.freedesktop.ModemManager1.Error.Core.Unauthorized"),
            Setup::WrongState => Some("org.freedesktop.ModemManager1.Error.Core.WrongState"),
        }
    }
}

/// The bus. Connected clients stay connected until they leave or it is dropped.
pub(crate) struct ModemManager {
    state: Arc<Mutex<State>>,
    socket: PathBuf,
}

impl ModemManager {
    /// Starts a bus with a ModemManager that has no modem.
    pub(crate) fn start() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("squall-bus-{}-{number}", std::process::id());
        let socket = std::env::temp_dir().join(name);
        // Left over from an earlier process with the same id.
        let _ = std::fs::remove_file(&socket);
        let state = Arc::new(Mutex::new(State { runs: true, ..State::default() }));
        let shared = state.clone();
        zbus::block_on(async {
            let listener = UnixListener::bind(&socket).expect("the socket is made");
            // Ends with the process.
            tokio::spawn(async move {
                loop {
                    let (stream, _) = listener.accept().await.expect("is accepted");
                    tokio::spawn(serve(stream, shared.clone()));
                }
            });
        });
        Self { state, socket }
    }

    /// Starts with a modem at [`FIRST`], on an interface, registered in LTE, with these levels.
    pub(crate) fn with_lte(interface: &str, levels: &[(&str, f64)]) -> Self {
        let manager = Self::start();
        manager.add(FIRST, interface);
        manager.levels(FIRST, "Lte", levels);
        manager
    }

    /// Returns the bus's address in D-Bus syntax.
    pub(crate) fn address(&self) -> String {
        format!("unix:path={}", self.socket.display())
    }

    /// Adds a modem.
    pub(crate) fn add(&self, path: &str, interface: &str) {
        let ports = vec![("cdc-wdm0", 6u32), (interface, 2)];
        let modem = [
            ("State", Value::from(11i32)),
            ("AccessTechnologies", Value::from(1u32 << 14)),
            ("Device", Value::from("/sys/devices/usb1/1-1")),
            ("Manufacturer", Value::from("Acme")),
            ("Model", Value::from("M1")),
            ("Ports", Value::from(ports)),
        ];
        let object = [
            (MODEM.to_owned(), properties(modem)),
            (NETWORK.to_owned(), properties([("RegistrationState", Value::from(1u32))])),
            (SIGNAL.to_owned(), properties([("Rate", Value::from(0u32))])),
        ];
        self.lock().objects.insert(path.to_owned(), object.into());
    }

    /// Removes a modem.
    pub(crate) fn remove(&self, path: &str) {
        let object = self.lock().objects.remove(path).expect("is there");
        let interfaces: Vec<String> = object.into_keys().collect();
        let path = ObjectPath::try_from(path.to_owned()).expect("is a path");
        self.notify(ROOT, "org.freedesktop.DBus.ObjectManager", "InterfacesRemoved", &(path, interfaces));
    }

    /// Adds an object or properties of an interface, without a signal.
    pub(crate) fn put(&self, path: &str, interface: &str, values: Vec<(&str, Value<'_>)>) {
        let mut state = self.lock();
        let object = state.objects.entry(path.to_owned()).or_default();
        object.entry(interface.to_owned()).or_default().extend(properties(values));
    }

    /// Removes an interface of an object, without a signal.
    pub(crate) fn take(&self, path: &str, interface: &str) {
        self.lock().objects.get_mut(path).expect("is there").remove(interface);
    }

    /// Changes properties, and notifies clients without the values of those in `hidden`.
    pub(crate) fn change(
        &self,
        path: &str,
        interface: &str,
        values: Vec<(&str, Value<'_>)>,
        hidden: &[&str],
    ) {
        let values = properties(values);
        {
            let mut state = self.lock();
            let object = state.objects.get_mut(path).expect("is there");
            let copies = values.iter().map(|(name, value)| (name.clone(), copy(value)));
            object.entry(interface.to_owned()).or_default().extend(copies);
        }
        let shown: Properties =
            values.into_iter().filter(|(name, _)| !hidden.contains(&name.as_str())).collect();
        self.notify(
            path,
            "org.freedesktop.DBus.Properties",
            "PropertiesChanged",
            &(interface, shown, hidden),
        );
    }

    /// Changes the levels of a technology.
    pub(crate) fn levels(&self, path: &str, technology: &str, levels: &[(&str, f64)]) {
        let levels: HashMap<String, Value<'_>> =
            levels.iter().map(|(name, dbm)| ((*name).to_owned(), Value::from(*dbm))).collect();
        self.change(path, SIGNAL, vec![(technology, Value::from(levels))], &[]);
    }

    /// Sets the answer to `Setup`.
    pub(crate) fn set_setup(&self, setup: Setup) {
        self.lock().setup = setup;
    }

    /// Sets whether the bus denies access to ModemManager.
    pub(crate) fn set_closed(&self, closed: bool) {
        self.lock().closed = closed;
    }

    /// Makes ModemManager leave the bus or join it.
    pub(crate) fn set_runs(&self, runs: bool) {
        self.lock().runs = runs;
        let (old, new) = if runs { ("", ":1.1") } else { (":1.1", "") };
        let path = "/org/freedesktop/DBus";
        self.notify(path, "org.freedesktop.DBus", "NameOwnerChanged", &(MANAGER, old, new));
    }

    /// Closes all connections of the bus.
    pub(crate) fn cut(&self) {
        for client in std::mem::take(&mut self.lock().clients) {
            zbus::block_on(client.close()).expect("is open");
        }
    }

    /// Returns the rates that were requested with `Setup`.
    pub(crate) fn rates(&self) -> Vec<u32> {
        self.lock().rates.clone()
    }

    fn notify<B>(&self, path: &str, interface: &str, member: &str, body: &B)
    where
        B: serde::Serialize + zbus::zvariant::DynamicType,
    {
        let clients = self.lock().clients.clone();
        for client in clients {
            let sent = client.emit_signal(None::<&str>, path, interface, member, body);
            // The client may just have left.
            let _ = zbus::block_on(sent);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panicked in it")
    }
}

impl Drop for ModemManager {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.socket);
    }
}

fn properties<'a>(values: impl IntoIterator<Item = (&'a str, Value<'a>)>) -> Properties {
    let owned = |value: Value<'_>| value.try_to_owned().expect("holds no file");
    values.into_iter().map(|(name, value)| (name.to_owned(), owned(value))).collect()
}

fn copy(value: &OwnedValue) -> OwnedValue {
    value.try_clone().expect("holds no file")
}

fn copies(properties: &Properties) -> Properties {
    properties.iter().map(|(name, value)| (name.clone(), copy(value))).collect()
}

/// Answers a client until it leaves.
async fn serve(stream: UnixStream, state: Arc<Mutex<State>>) {
    let builder = Builder::unix_stream(stream).server(Guid::generate()).expect("is a guid");
    let builder = builder.p2p().unique_name(":1.1").expect("is a name");
    // A client that only checks for a listener leaves at once.
    let Ok(mut messages) = builder.build_message_stream().await else { return };
    let connection = Connection::from(&messages);
    while let Some(Ok(message)) = messages.next().await {
        if message.message_type() == Type::MethodCall {
            answer(&connection, &state, &message).await;
        }
    }
    state
        .lock()
        .expect("no test panicked in it")
        .clients
        .retain(|client| *client.server_guid() != *connection.server_guid());
}

async fn answer(connection: &Connection, state: &Mutex<State>, message: &Message) {
    let header = message.header();
    let (path, interface, member) = (
        header.path().expect("a call has one").as_str(),
        header.interface().map_or("", |name| name.as_str()),
        header.member().expect("a call has one").as_str(),
    );
    let lock = || state.lock().expect("no test panicked in it");
    let refuse = async |name: &str| {
        let error = zbus::names::ErrorName::try_from(name.to_owned()).expect("is a name");
        connection.reply_error(&header, error, &"no, for a test").await
    };
    let answered = match (interface, member) {
        ("org.freedesktop.DBus", "Hello") => {
            lock().clients.push(connection.clone());
            connection.reply(&header, &":1.7").await
        }
        ("org.freedesktop.DBus", _) => connection.reply(&header, &()).await,
        _ if lock().closed => refuse("org.freedesktop.DBus.Error.AccessDenied").await,
        _ if !lock().runs => refuse("org.freedesktop.DBus.Error.ServiceUnknown").await,
        (_, "GetManagedObjects") => {
            let modems: HashMap<ObjectPath<'static>, Object> = {
                let state = lock();
                let modems = state.objects.iter().filter(|(_, object)| object.contains_key(MODEM));
                let copied =
                    |object: &Object| object.iter().map(|(name, all)| (name.clone(), copies(all))).collect();
                modems
                    .map(|(path, object)| {
                        (ObjectPath::try_from(path.clone()).expect("is a path"), copied(object))
                    })
                    .collect()
            };
            connection.reply(&header, &modems).await
        }
        (_, "GetAll") => {
            let wanted: String = message.body().deserialize().expect("is asked for an interface");
            let found = lock().objects.get(path).and_then(|object| object.get(&wanted)).map(copies);
            match found {
                Some(all) => connection.reply(&header, &all).await,
                None => refuse("org.freedesktop.DBus.Error.UnknownObject").await,
            }
        }
        (SIGNAL, "Setup") => {
            let rate = message.body().deserialize().expect("has a rate");
            let refusal = lock().set_up(path, rate);
            match refusal {
                None => connection.reply(&header, &()).await,
                Some(name) => refuse(name).await,
            }
        }
        _ => refuse("org.freedesktop.DBus.Error.UnknownMethod").await,
    };
    // The client may have left.
    let _ = answered;
}
