//! What a tunnel is told: the file, checked line by line, with all defaults filled in.
//!
//! `docs/tunnel.md` describes every key.

mod fault;
mod flow;
mod section;
mod source;
#[cfg(test)]
mod tests;
mod token;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use squall::{CongestionControl, Fingerprint};
use toml::de::DeTable;

pub use fault::ConfigError;
pub use flow::{End, FlowConfig, MAX_LATENCY, MAX_NAME, Playout};
pub use source::Source;
pub use token::{MAX_TOKEN, MIN_TOKEN, Token};

use fault::Fault;
use section::{Placed, Section};

use crate::{entry, exit, tunnel::StartError};

/// Largest file in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Most flows of one end.
pub const MAX_FLOWS: usize = 64;

/// All that one end of a tunnel is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Who calls whom.
    pub side: Side,
    /// The secret that both ends know.
    pub token: Token,
    /// Who decides what goes where; see [`squall::scheduler`]. Default: `minrtt`.
    pub scheduler: String,
    /// Congestion control of all paths. Default: [`CongestionControl::Steady`].
    pub congestion: CongestionControl,
    /// The flows that begin or end here, at most [`MAX_FLOWS`].
    pub flows: Vec<FlowConfig>,
    /// Where metrics and status are served, if they are.
    pub metrics: Option<SocketAddr>,
    /// How it tells what happens.
    pub log: LogConfig,
    /// Tunnels at a time, where it listens. Default: 16.
    pub max_sessions: usize,
}

/// Who calls whom.
#[derive(Clone, Debug, PartialEq)]
pub enum Side {
    /// This end calls: the entry.
    Connect(ConnectConfig),
    /// This end is called: the exit.
    Listen(ListenConfig),
}

/// Whom to call.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectConfig {
    /// Host and port.
    pub to: String,
    /// How it is known.
    pub trust: TrustConfig,
    /// Interfaces, by name or by local address; all if empty.
    pub interfaces: Vec<String>,
    /// Which of them cost money by the byte.
    pub metered: Vec<String>,
    /// Whether the session goes by the radios of the interfaces. Default: no.
    pub signal: bool,
}

impl ConnectConfig {
    /// What is said to cost money, and is not among the interfaces that are used: a slip would cost it.
    pub fn stray(&self) -> Option<&str> {
        let mut stray = self.metered.iter().filter(|one| !self.interfaces.contains(one));
        stray.find(|_| !self.interfaces.is_empty()).map(String::as_str)
    }
}

/// How the other end is known.
#[derive(Clone, Debug, PartialEq)]
pub enum TrustConfig {
    /// By an authority of the operating system.
    System,
    /// By the fingerprint of its certificate.
    Pin(Fingerprint),
    /// By the authorities of a PEM file.
    Ca(PathBuf),
    /// Not at all, for tests.
    Insecure,
}

/// Where to be called.
#[derive(Clone, Debug, PartialEq)]
pub struct ListenConfig {
    /// Address and port.
    pub address: SocketAddr,
    /// What it shows of itself.
    pub identity: IdentityConfig,
}

/// The certificate of the end that is called.
#[derive(Clone, Debug, PartialEq)]
pub enum IdentityConfig {
    /// From two PEM files.
    Files {
        /// The chain.
        certificate: PathBuf,
        /// The private key.
        key: PathBuf,
    },
    /// Self-signed, kept in this file, which is made when it is not there.
    Kept(PathBuf),
    /// Self-signed, another one with each start.
    Fresh,
}

/// How a tunnel tells what happens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogConfig {
    /// In which form. Default: text.
    pub format: LogFormat,
    /// How much. Default: info.
    pub level: LogLevel,
}

/// Form of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// An object a line.
    Json,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogLevel {
    /// What went wrong.
    Error,
    /// And what may.
    Warn,
    /// And what happens.
    #[default]
    Info,
    /// And why.
    Debug,
    /// Everything.
    Trace,
}

const FORMATS: &[(&str, LogFormat)] = &[("text", LogFormat::Text), ("json", LogFormat::Json)];

/// The levels by name.
const LEVELS: &[(&str, LogLevel)] = &[
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace", LogLevel::Trace),
];

impl LogLevel {
    /// Its name.
    pub fn name(self) -> &'static str {
        LEVELS.iter().find(|(_, level)| *level == self).map_or("info", |(name, _)| name)
    }
}

impl Config {
    /// A configuration with defaults and without flows.
    pub fn new(side: Side, token: Token) -> Self {
        Self {
            side,
            token,
            scheduler: "minrtt".to_owned(),
            congestion: CongestionControl::default(),
            flows: Vec::new(),
            metrics: None,
            log: LogConfig::default(),
            max_sessions: 16,
        }
    }

    /// Reads a file. Paths in it are relative to its folder.
    ///
    /// # Errors
    /// If it cannot be read, or something in it is wrong; with line and column.
    pub fn load(file: &Path) -> Result<Self, ConfigError> {
        let failed = |source| ConfigError::Read { path: file.to_owned(), source };
        let text = squall_file::read_text(file, MAX_FILE).map_err(failed)?;
        Self::parse(&file.display().to_string(), &text, file.parent().unwrap_or(Path::new("")))
    }

    /// Reads a text, called `name` in errors. Paths in it are relative to `folder`.
    ///
    /// # Errors
    /// If something in it is wrong; with line and column.
    pub fn parse(name: &str, text: &str, folder: &Path) -> Result<Self, ConfigError> {
        read(text, folder).map_err(|fault| fault.locate(name, text))
    }

    /// Looks whether the certificates are there, and can be used, that it names. A certificate that is to be made is not.
    ///
    /// # Errors
    /// If one is not.
    pub fn check_files(&self) -> Result<(), StartError> {
        match &self.side {
            Side::Connect(connect) => entry::check(connect),
            Side::Listen(listen) => exit::check(listen),
        }
    }

    /// Whether this end calls the other.
    pub fn is_entry(&self) -> bool {
        matches!(self.side, Side::Connect(_))
    }
}

fn read(text: &str, folder: &Path) -> Result<Config, Fault> {
    let root = DeTable::parse(text)
        .map_err(|error| Fault::new(error.span().map_or(0, |span| span.start), error.message()))?;
    let mut file = Section::new("the file", 0, root.get_ref());
    let side = match (file.section("connect")?, file.section("listen")?) {
        (Some(connect), None) => Side::Connect(read_connect(connect, folder)?),
        (None, Some(listen)) => Side::Listen(read_listen(listen, folder)?),
        (None, None) => return Err(Fault::new(0, "neither [connect] nor [listen]: which end is this?")),
        (Some(_), Some(listen)) => {
            return Err(Fault::new(listen.at(), "both [connect] and [listen]: an end calls or is called"));
        }
    };
    let token = read_token(&mut file, folder)?;
    let mut config = Config::new(side, token);
    if let Some(Placed { value, at }) = file.text("scheduler")? {
        squall::scheduler(&value).map_err(|error| Fault::new(at, error.to_string()))?;
        config.scheduler = value;
    }
    config.congestion = file.parse("congestion")?.map_or(config.congestion, |placed| placed.value);
    config.metrics = file.parse("metrics")?.map(|placed| placed.value);
    config.max_sessions = file.number("max_sessions", 1, 1024)?.map_or(config.max_sessions, |n| n as usize);
    if let Some(mut log) = file.section("log")? {
        config.log.format = log.choice("format", FORMATS)?.unwrap_or_default();
        config.log.level = log.choice("level", LEVELS)?.unwrap_or_default();
        log.finish()?;
    }
    config.flows = read_flows(&mut file)?;
    file.finish()?;
    Ok(config)
}

fn read_flows(file: &mut Section<'_, '_>) -> Result<Vec<FlowConfig>, Fault> {
    let mut flows: Vec<FlowConfig> = Vec::new();
    for section in file.sections("flow")? {
        let (flow, name) = FlowConfig::of(section)?;
        if flows.iter().any(|other| other.name == flow.name) {
            return Err(Fault::new(name.at, format!("name: there is a flow '{}' already", flow.name)));
        }
        let taken = flows.iter().find(|other| other.is_in() && other.end == flow.end);
        if let Some(other) = taken {
            return Err(Fault::new(
                name.at,
                format!("flow '{}' comes in where '{}' does", flow.name, other.name),
            ));
        }
        if flows.len() == MAX_FLOWS {
            return Err(Fault::new(name.at, format!("more than {MAX_FLOWS} flows")));
        }
        flows.push(flow);
    }
    Ok(flows)
}

fn read_token(file: &mut Section<'_, '_>, folder: &Path) -> Result<Token, Fault> {
    match (file.text("token")?, file.text("token_file")?) {
        (Some(token), None) => {
            Token::new(&token.value).map_err(|problem| Fault::new(token.at, format!("token: {problem}")))
        }
        (None, Some(path)) => {
            let at_path = |problem: String| Fault::new(path.at, format!("token_file: {problem}"));
            let full = folder.join(&path.value);
            Token::load(&full).map_err(|problem| at_path(format!("{}: {problem}", full.display())))
        }
        (None, None) => Err(Fault::new(0, "neither token nor token_file: both ends need the same secret")),
        (Some(_), Some(path)) => Err(Fault::new(path.at, "both token and token_file: one will do")),
    }
}

fn read_connect(mut table: Section<'_, '_>, folder: &Path) -> Result<ConnectConfig, Fault> {
    let to = table.text("to")?.ok_or_else(|| table.fault("to is missing: HOST:PORT of the other end"))?;
    let port = to.value.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    if port.is_none_or(|port| port == 0) {
        return Err(Fault::new(to.at, "to: expected HOST:PORT, such as media.example.org:4433"));
    }
    let (pin, ca) = (table.parse::<Fingerprint>("pin")?, table.text("ca")?);
    let insecure = table.flag("insecure")?.unwrap_or(false);
    let trust = match (pin, ca) {
        (Some(_), Some(ca)) => return Err(Fault::new(ca.at, "both pin and ca: one will do")),
        (Some(pin), None) => TrustConfig::Pin(pin.value),
        (None, Some(ca)) => TrustConfig::Ca(folder.join(ca.value)),
        (None, None) if insecure => TrustConfig::Insecure,
        (None, None) => TrustConfig::System,
    };
    let interfaces = table.list("interfaces")?.unwrap_or(Placed { value: Vec::new(), at: 0 });
    let addresses = interfaces.value.iter().filter(|one| one.parse::<std::net::IpAddr>().is_ok()).count();
    if addresses != 0 && addresses != interfaces.value.len() {
        return Err(Fault::new(interfaces.at, "interfaces: names or addresses, not both"));
    }
    let metered = table.list("metered")?.unwrap_or(Placed { value: Vec::new(), at: 0 });
    let signal = table.flag("signal")?.unwrap_or(false);
    table.finish()?;
    let at = metered.at;
    let (interfaces, metered) = (interfaces.value, metered.value);
    let connect = ConnectConfig { to: to.value, trust, interfaces, metered, signal };
    match connect.stray() {
        Some(stray) => Err(Fault::new(at, format!("metered: '{stray}' is not among the interfaces"))),
        None => Ok(connect),
    }
}

fn read_listen(mut table: Section<'_, '_>, folder: &Path) -> Result<ListenConfig, Fault> {
    let address = table
        .parse::<SocketAddr>("address")?
        .ok_or_else(|| table.fault("address is missing, such as \"0.0.0.0:4433\""))?;
    let (certificate, key) = (table.text("certificate")?, table.text("key")?);
    let state = table.text("state")?;
    let identity = match (certificate, key, state) {
        (Some(certificate), Some(key), None) => {
            IdentityConfig::Files { certificate: folder.join(certificate.value), key: folder.join(key.value) }
        }
        (None, None, Some(state)) => IdentityConfig::Kept(folder.join(state.value)),
        (None, None, None) => IdentityConfig::Fresh,
        (Some(one), None, None) | (None, Some(one), None) => {
            return Err(Fault::new(one.at, "certificate and key belong together: one of them is missing"));
        }
        (_, _, Some(state)) => {
            return Err(Fault::new(state.at, "state is for a certificate that is made; there are files"));
        }
    };
    table.finish()?;
    Ok(ListenConfig { address: address.value, identity })
}
