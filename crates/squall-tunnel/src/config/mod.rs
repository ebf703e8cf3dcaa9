//! Configuration of one end of a tunnel: read from a file, checked, and completed with defaults.
//!
//! `docs/tunnel.md` describes every key.

mod arm;
mod control;
mod exits;
mod flow;
mod interface;
mod log;
mod machine;
mod scale;
mod source;
mod tenant;
#[cfg(test)]
mod tests;
mod text;
mod token;
mod tun;

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use serde::{Deserialize, Deserializer, de};
use squall::{
    CongestionControl, Connect, Fingerprint, IdentityError, Interfaces, MAX_WORKERS, Quota, Quotas, Trust,
    quic_lb::QuicLbServer, sched::DEFAULT_SCHEDULER,
};
use squall_units::Span;

pub use arm::{ArmConfig, ArmsConfig, MAX_ARMS};
pub use control::{ControlConfig, SocketMode};
pub(crate) use exits::is_host_and_port;
pub use exits::{ExitAddress, MAX_EXITS};
pub(crate) use flow::MAX_THEIR_LATENCY;
#[cfg(test)]
pub(crate) use flow::overlap;
pub use flow::{End, FlowConfig, MAX_FLOWS, MAX_LATENCY, MAX_NAME, Playout, check_flows};
pub use interface::PathConfig;
pub use log::{LogConfig, LogFormat, LogLevel};
pub use source::Source;
pub use squall_observe::status::{Period, TenantLimits};
pub(crate) use tenant::{MAX_LIST, check_limits, check_tenants, read_list, without_query};
pub use tenant::{MAX_TENANT_FLOWS, MAX_TENANTS, TenantConfig, TenantsConfig, TenantsUrl};
pub use text::ConfigError;
pub use text::Mistake;
pub use token::{MAX_TOKEN, MIN_TOKEN, Token, TokenHash};
pub(crate) use tun::flow_name;
pub use tun::{ClassConfig, TrafficClass, TunAddress, TunConfig, TunPeer, TunRule};

use arm::ArmTable;
use exits::Texts;
use flow::{FlowTable, bounded};
use interface::PathTable;
use scale::LoadBalancerTable;
use tenant::{Clash, ListUrl, TenantTable, TenantsTable};
use text::Parsed;
use token::token;
use tun::TunTable;

/// Maximum number of exits that a draining exit names. The length field of the message bounds each
/// to 255 bytes.
pub(crate) const MAX_REDIRECTS: usize = 8;

/// Maximum of [`ListenConfig::drain_timeout`].
const MAX_DRAIN_TIMEOUT: Duration = Duration::from_secs(3600);

/// Size limit of a configuration file in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Configuration of one end of a tunnel.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Side of the connection.
    pub side: Side,
    /// Secret shared by both ends. An exit with tenants may have none: then only its tenants can
    /// connect.
    pub token: Option<Token>,
    /// Tenants of an exit.
    pub tenants: TenantsConfig,
    /// Scheduler with its options; see [`squall::scheduler`]. Default: [`DEFAULT_SCHEDULER`].
    pub scheduler: String,
    /// Schedulers that an exit compares, in place of `scheduler`. Default: none.
    pub arms: ArmsConfig,
    /// Congestion control of all paths. Default: Steady.
    pub congestion: CongestionControl,
    /// Flows that begin or end here, at most [`MAX_FLOWS`].
    pub flows: Vec<FlowConfig>,
    /// TUN device; its traffic classes are flows too. Default: none.
    pub tun: Option<TunConfig>,
    /// Address of `/metrics` and `/status`. Default: none.
    pub metrics: Option<SocketAddr>,
    /// Control socket. Default: none.
    pub control: Option<ControlConfig>,
    /// Form and level of the log.
    pub log: LogConfig,
    /// Maximum number of simultaneous tunnels at an exit. Default: 16.
    pub max_sessions: usize,
    /// Number of worker tasks for the sessions; see [`squall::EndpointConfig::workers`]. Default:
    /// 1.
    pub workers: usize,
    /// Server id of an exit in its connection ids, for load balancers. Default: none.
    pub quic_lb: Option<QuicLbServer>,
}

/// Side of the connection.
#[derive(Clone, Debug, PartialEq)]
pub enum Side {
    /// The entry, which connects.
    Connect(ConnectConfig),
    /// The exit, which listens.
    Listen(ListenConfig),
}

/// Settings of the connections of an entry.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectConfig {
    /// Exits, at most [`MAX_EXITS`]; one of them is in use.
    pub to: Vec<ExitAddress>,
    /// Authentication of the exits.
    pub trust: TrustConfig,
    /// Identity that selects the preferred exit: entries with different identities spread over the
    /// exits. Default: the name of this machine and the names of the flows.
    pub identity: Option<String>,
    /// Interfaces, by name or by local address; all if empty.
    pub interfaces: Vec<String>,
    /// Interfaces whose bytes cost money.
    pub metered: Vec<String>,
    /// Roles and limits of the paths of interfaces, by name or local address.
    pub paths: BTreeMap<String, PathConfig>,
    /// File with the bytes used of quotas; required if an interface has a quota.
    pub quotas: Option<PathBuf>,
    /// Read the radios of the interfaces. Default: `false`.
    pub signal: bool,
}

impl ConnectConfig {
    /// Creates settings with these exits, over all interfaces.
    pub fn new(to: Vec<ExitAddress>, trust: TrustConfig) -> Self {
        Self {
            to,
            trust,
            identity: None,
            interfaces: Vec::new(),
            metered: Vec::new(),
            paths: BTreeMap::new(),
            quotas: None,
            signal: false,
        }
    }

    /// Checks that the values are consistent.
    ///
    /// # Errors
    /// If there is no exit or a wrong number of fingerprints, names of interfaces are mixed with
    /// addresses, or a metered interface is not in use.
    pub fn check(&self) -> Result<(), Mistake> {
        exits::check(&self.to, &self.trust)?;
        let addresses = self.interfaces.iter().filter(|one| one.parse::<IpAddr>().is_ok()).count();
        if addresses != 0 && addresses != self.interfaces.len() {
            return Err(Mistake::new("interfaces", "give names or addresses, not both"));
        }
        let unused = self.metered.iter().find(|one| !self.interfaces.contains(one));
        if let Some(unused) = unused.filter(|_| !self.interfaces.is_empty()) {
            return Err(Mistake::new("metered", format!("'{unused}' is not among the interfaces")));
        }
        let unused = self.paths.keys().find(|one| !self.interfaces.contains(one));
        if let Some(unused) = unused.filter(|_| !self.interfaces.is_empty()) {
            return Err(Mistake::new("paths", format!("'{unused}' is not among the interfaces")));
        }
        let has_quota = self.paths.iter().find(|(_, path)| path.quota.is_some());
        match (has_quota, &self.quotas) {
            (Some((name, _)), None) => {
                let problem = format!("{name}: a quota needs the key quotas, a file for what was used");
                Err(Mistake::new("paths", problem))
            }
            _ => Ok(()),
        }
    }

    /// Returns the quotas of paths, by the name of the interface.
    pub(crate) fn quota_of_paths(&self) -> Vec<(String, Quota)> {
        self.paths.iter().filter_map(|(name, path)| Some((name.clone(), path.quota?))).collect()
    }

    /// Opens the file of the quotas, if there are any. May block.
    pub(crate) fn open_quotas(&self) -> Option<Quotas> {
        let quotas = self.quota_of_paths();
        let file = self.quotas.as_ref().filter(|_| !quotas.is_empty())?;
        Some(Quotas::open(file, quotas))
    }

    /// Lists the exits as text.
    pub(crate) fn words(&self) -> String {
        let exits: Vec<String> = self.to.iter().map(ToString::to_string).collect();
        exits.join(", ")
    }

    /// Reads the file of trusted authorities, if there is one.
    ///
    /// # Errors
    /// If it cannot be used.
    pub(crate) fn check_files(&self) -> Result<(), IdentityError> {
        match &self.trust {
            TrustConfig::Ca(file) => squall::load_certificates(file).map(drop),
            _ => Ok(()),
        }
    }

    /// Builds a request for a session with an exit. Reads the file of trusted authorities, if there
    /// is one. `pin` is the fingerprint of this exit, if each exit has its own.
    ///
    /// # Errors
    /// If the file cannot be used.
    pub fn request(&self, host: &str, pin: Option<Fingerprint>) -> Result<Connect, IdentityError> {
        let trust = match (&self.trust, pin) {
            (TrustConfig::Pins(_), Some(pin)) => Trust::Pinned(pin),
            (TrustConfig::Pin(pin), _) => Trust::Pinned(*pin),
            (TrustConfig::Ca(file), _) => Trust::Roots(squall::load_certificates(file)?),
            (TrustConfig::Insecure, _) => Trust::InsecureAnyone,
            (TrustConfig::System | TrustConfig::Pins(_), _) => Trust::PlatformRoots,
        };
        let addresses: Vec<IpAddr> = self.interfaces.iter().filter_map(|one| one.parse().ok()).collect();
        let interfaces = match (self.interfaces.is_empty(), addresses.is_empty()) {
            (true, _) => Interfaces::Auto,
            (false, true) => Interfaces::Named(self.interfaces.clone()),
            (false, false) => Interfaces::Local(addresses),
        };
        Ok(Connect::to(host).trust(trust).interfaces(interfaces))
    }
}

/// Authentication of the exits.
#[derive(Clone, Debug, PartialEq)]
pub enum TrustConfig {
    /// Certificate from an authority that the operating system trusts.
    System,
    /// Fingerprint of the certificate.
    Pin(Fingerprint),
    /// One fingerprint per exit, in their order.
    Pins(Vec<Fingerprint>),
    /// Certificate from an authority in this PEM file.
    Ca(PathBuf),
    /// No authentication, for tests.
    Insecure,
}

/// Settings of the listening exit.
#[derive(Clone, Debug, PartialEq)]
pub struct ListenConfig {
    /// Address and port.
    pub address: SocketAddr,
    /// Certificate of the exit.
    pub identity: IdentityConfig,
    /// Exits that the entries should use when this one drains, `HOST:PORT`, at most 8. Default:
    /// none; each entry then uses the next exit of its own list.
    pub redirect: Vec<String>,
    /// Time limit for the entries to move when this exit drains. Default:
    /// [`ListenConfig::DRAIN_TIMEOUT`].
    pub drain_timeout: Duration,
}

impl ListenConfig {
    /// Default of [`Self::drain_timeout`].
    pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);

    /// Creates settings with this address and certificate.
    pub fn new(address: SocketAddr, identity: IdentityConfig) -> Self {
        Self { address, identity, redirect: Vec::new(), drain_timeout: Self::DRAIN_TIMEOUT }
    }
}

/// Source of the certificate of an exit.
#[derive(Clone, Debug, PartialEq)]
pub enum IdentityConfig {
    /// Read from two PEM files.
    Files {
        /// File with the chain.
        certificate: PathBuf,
        /// File with the private key.
        key: PathBuf,
    },
    /// Self-signed, stored in this file; created if the file does not exist.
    Kept(PathBuf),
    /// Self-signed, newly generated at each start.
    Fresh,
}

impl Config {
    /// Creates a configuration with defaults and without flows.
    pub fn new(side: Side, token: Token) -> Self {
        Self { token: Some(token), ..Self::without_token(side) }
    }

    fn without_token(side: Side) -> Self {
        Self {
            side,
            token: None,
            tenants: TenantsConfig::default(),
            scheduler: DEFAULT_SCHEDULER.to_owned(),
            arms: ArmsConfig::default(),
            congestion: CongestionControl::default(),
            flows: Vec::new(),
            tun: None,
            metrics: None,
            control: None,
            log: LogConfig::default(),
            max_sessions: 16,
            workers: 1,
            quic_lb: None,
        }
    }

    /// Reads a file. Paths in it are relative to its folder.
    ///
    /// # Errors
    /// If it cannot be read, or its content is wrong; with line and column.
    pub fn load(file: &Path) -> Result<Self, ConfigError> {
        let failed = |source| ConfigError::Read { path: file.to_owned(), source };
        let text = squall_file::read_text(file, MAX_FILE).map_err(failed)?;
        Self::parse(&file.display().to_string(), &text, file.parent().unwrap_or(Path::new("")))
    }

    /// Parses a text, called `name` in errors. Paths in it are relative to `folder`.
    ///
    /// # Errors
    /// If its content is wrong; with line and column.
    pub fn parse(name: &str, text: &str, folder: &Path) -> Result<Self, ConfigError> {
        let file: File = text::parse(name, text)?;
        file.check(folder).map_err(|mistake| mistake.locate(name, text))
    }

    /// Returns the scheduler of a session whose client is not identified yet. If this scheduler
    /// uses stall reports, the peer sends them for the whole session.
    pub(crate) fn first_scheduler(&self) -> &str {
        let wants_stalls =
            |text: &str| squall::scheduler(text).is_ok_and(|factory| factory().profile().wants_stalls);
        let arms = || self.arms.list.iter().map(|arm| arm.scheduler.as_str());
        arms().find(|text| wants_stalls(text)).or_else(|| arms().next()).unwrap_or(&self.scheduler)
    }

    /// Returns a warning about a setting without effect: metered interfaces that the scheduler does
    /// not spare.
    pub fn warning(&self) -> Option<String> {
        let metered = &self.connect()?.metered;
        let spares =
            squall::scheduler(&self.scheduler).is_ok_and(|factory| factory().profile().spares_metered());
        if metered.is_empty() || spares {
            return None;
        }
        let name = self.scheduler.split('(').next().unwrap_or_default().trim();
        let registry = squall::registry();
        let summary = registry.entry(name).map_or("", |entry| entry.summary);
        Some(format!(
            "metered has no effect with {name} ({summary}): use {name}(cap=250MB), with a cap of your own, or squall"
        ))
    }

    /// Returns all flows, including those of the TUN device.
    pub(crate) fn all_flows(&self) -> Vec<FlowConfig> {
        let classes = self.tun.as_ref().map(|tun| tun.flows(self.is_entry()));
        self.flows.iter().cloned().chain(classes.into_iter().flatten()).collect()
    }

    /// Returns the entry that presents a token at an exit: a peer with its own token, or
    /// `Some(None)` for any other entry with the token of the exit. `None` if the token is wrong.
    pub(crate) fn identify(&self, token: &[u8]) -> Option<Option<String>> {
        let mut peers = self.tun.iter().flat_map(|tun| &tun.peers);
        let peer = peers.find(|peer| peer.token.as_ref().is_some_and(|own| own.matches(token)));
        match peer {
            Some(peer) => Some(Some(peer.name.clone())),
            None => self.token.as_ref().is_some_and(|own| own.matches(token)).then_some(None),
        }
    }

    /// `true` if a session of this entry, see [`Self::identify`], may carry a flow. The traffic
    /// classes of a peer with its own token belong to that peer, and it may carry nothing else.
    pub(crate) fn may_carry(&self, entry: Option<&str>, flow: &FlowConfig) -> bool {
        let mut peers = self.tun.iter().flat_map(|tun| &tun.peers).filter(|peer| peer.token.is_some());
        let is_of = |name: &str| TrafficClass::ALL.iter().any(|class| flow_name(name, *class) == flow.name);
        let owner = peers.find(|peer| flow.end == End::TunOut && is_of(&peer.name));
        owner.map(|peer| peer.name.as_str()) == entry
    }

    /// Checks that all flows, including those of the TUN device, can coexist.
    ///
    /// # Errors
    /// See [`check_flows`].
    pub fn check_flows(&self) -> Result<(), Mistake> {
        let flows = self.all_flows();
        let checked = check_flows(&flows, MAX_FLOWS).and_then(|()| self.check_listen(&flows));
        checked.map_err(|(index, problem)| {
            let is_packets = index >= self.flows.len();
            Mistake::new(
                if is_packets { "tun.name".to_owned() } else { format!("flow.{index}.name") },
                problem,
            )
        })
    }

    /// Checks that an exit can listen besides these flows.
    fn check_listen(&self, flows: &[FlowConfig]) -> Result<(), (usize, String)> {
        let Some(listen) = self.listen() else { return Ok(()) };
        let at_its_port = |flow: &FlowConfig| matches!(flow.end, End::In(address) if flow::overlap(address, listen.address));
        let Some(index) = flows.iter().position(at_its_port) else { return Ok(()) };
        let (name, address) = (&flows[index].name, listen.address);
        Err((index, format!("flow '{name}' enters at the address where the exit listens, {address}")))
    }

    /// Checks that these tenants can coexist with each other and with the rest of this
    /// configuration.
    ///
    /// # Errors
    /// A description of the mistake.
    pub(crate) fn check_tenants(&self, tenants: &[TenantConfig]) -> Result<(), String> {
        self.find_clash(tenants).map_err(|clash| clash.problem)
    }

    fn find_clash(&self, tenants: &[TenantConfig]) -> Result<(), Clash> {
        check_tenants(tenants, self.tenants.state.is_some())?;
        let peers = self.tun.iter().flat_map(|tun| &tun.peers).filter_map(|peer| peer.token.as_ref());
        let taken: Vec<TokenHash> = self.token.iter().chain(peers).map(Token::hash).collect();
        if let Some(index) = tenants.iter().position(|tenant| taken.contains(&tenant.token)) {
            let name = &tenants[index].name;
            let problem = format!("the token of tenant '{name}' is also that of the exit or of a peer");
            return Err(Clash::new(&[index], "token_sha256", problem));
        }
        let own = self.all_flows();
        let owners = tenants.iter().enumerate().flat_map(|(index, one)| vec![index; one.flows.len()]);
        let owners: Vec<usize> = owners.collect();
        let flows: Vec<_> = own.iter().cloned().chain(flows_of(tenants)).collect();
        let checked = check_flows(&flows, flows.len()).and_then(|()| self.check_listen(&flows));
        checked.map_err(|(flow, problem)| {
            let owner = flow.checked_sub(own.len()).and_then(|flow| owners.get(flow));
            Clash::new(owner.map_or(&[], std::slice::from_ref), "flow", problem)
        })
    }

    /// `true` if this end connects.
    pub fn is_entry(&self) -> bool {
        self.connect().is_some()
    }

    /// Returns the settings of an entry; `None` at an exit.
    pub fn connect(&self) -> Option<&ConnectConfig> {
        match &self.side {
            Side::Connect(connect) => Some(connect),
            Side::Listen(_) => None,
        }
    }

    /// Returns the settings of an exit; `None` at an entry.
    pub fn listen(&self) -> Option<&ListenConfig> {
        match &self.side {
            Side::Connect(_) => None,
            Side::Listen(listen) => Some(listen),
        }
    }
}

/// Returns the flows of all tenants.
pub(crate) fn flows_of(tenants: &[TenantConfig]) -> impl Iterator<Item = FlowConfig> {
    tenants.iter().flat_map(|tenant| tenant.flows.iter().cloned())
}

/// An address with a port; its parse error shows the expected form.
struct Address(SocketAddr);

impl FromStr for Address {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self).map_err(|_| "expected ADDR:PORT, such as 127.0.0.1:9464")
    }
}

/// A configuration as written in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    connect: Option<ConnectTable>,
    listen: Option<ListenTable>,
    token: Option<String>,
    token_file: Option<PathBuf>,
    scheduler: Option<String>,
    #[serde(default)]
    arm: Vec<ArmTable>,
    arm_seed: Option<u64>,
    #[serde(default, deserialize_with = "congestion")]
    congestion: Option<CongestionControl>,
    metrics: Option<Parsed<Address>>,
    max_sessions: Option<usize>,
    #[serde(default)]
    tenant: Vec<TenantTable>,
    tenants: Option<PathBuf>,
    tenants_url: Option<Parsed<ListUrl>>,
    tenants_token_file: Option<PathBuf>,
    tenants_interval: Option<Span>,
    tenants_state: Option<PathBuf>,
    control: Option<PathBuf>,
    control_mode: Option<Parsed<SocketMode>>,
    #[serde(default)]
    log: LogConfig,
    #[serde(default)]
    flow: Vec<FlowTable>,
    tun: Option<TunTable>,
}

fn congestion<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<CongestionControl>, D::Error> {
    squall::congestion_control(&String::deserialize(deserializer)?).map(Some).map_err(de::Error::custom)
}

impl File {
    fn check(mut self, folder: &Path) -> Result<Config, Mistake> {
        let scale = self.listen.as_mut().map(|listen| (listen.workers, listen.load_balancer.take()));
        let side = match (self.connect, self.listen) {
            (Some(connect), None) => {
                Side::Connect(connect.check(folder).map_err(|wrong| wrong.within("connect"))?)
            }
            (None, Some(listen)) => {
                Side::Listen(listen.check(folder).map_err(|wrong| wrong.within("listen"))?)
            }
            (None, None) => {
                return Err(Mistake::new("", "a file needs [connect] (entry) or [listen] (exit)"));
            }
            (Some(_), Some(_)) => {
                return Err(Mistake::new("listen", "a file has either [connect] (entry) or [listen] (exit)"));
            }
        };
        let tenants = TenantsTable {
            tenant: self.tenant,
            folder: self.tenants,
            url: self.tenants_url,
            token_file: self.tenants_token_file,
            interval: self.tenants_interval,
            state: self.tenants_state,
        };
        let is_optional = tenants.has_source();
        let (tenants, files) = tenants.check(matches!(side, Side::Connect(_)), folder)?;
        let token = token(self.token, self.token_file, folder)?;
        if token.is_none() && !is_optional {
            return Err(Mistake::new("", "token or token_file is missing: both ends share a secret"));
        }
        let mut config = Config { token, tenants, ..Config::without_token(side) };
        config.arms = arm::check(self.arm, self.arm_seed, config.is_entry(), self.scheduler.as_deref())?;
        if let Some(scheduler) = self.scheduler {
            squall::scheduler(&scheduler).map_err(|error| Mistake::new("scheduler", error.to_string()))?;
            config.scheduler = scheduler;
        }
        config.congestion = self.congestion.unwrap_or(config.congestion);
        config.metrics = self.metrics.map(|Parsed(Address(address))| address);
        config.control = control(self.control, self.control_mode, folder)?;
        config.max_sessions = bounded("max_sessions", self.max_sessions, 1..=1024, config.max_sessions)?;
        if let Some((workers, load_balancer)) = scale {
            config.workers = bounded("listen.workers", workers, 1..=MAX_WORKERS, config.workers)?;
            let quic_lb = load_balancer.map(|table| table.check(folder)).transpose();
            config.quic_lb = quic_lb.map_err(|wrong| wrong.within("listen.load_balancer"))?;
        }
        config.log = self.log;
        for (index, flow) in self.flow.into_iter().enumerate() {
            config.flows.push(flow.check().map_err(|mistake| mistake.within(&format!("flow.{index}")))?);
        }
        let is_entry = config.is_entry();
        let tun = self.tun.map(|tun| tun.check(is_entry, folder)).transpose();
        config.tun = tun.map_err(|mistake| mistake.within("tun"))?;
        config.check_flows()?;
        let list = &config.tenants.list;
        config.find_clash(list).map_err(|clash| clash.locate(list.len(), &files))?;
        Ok(config)
    }
}

/// Returns the control socket, if one is given.
fn control(
    path: Option<PathBuf>,
    mode: Option<Parsed<SocketMode>>,
    folder: &Path,
) -> Result<Option<ControlConfig>, Mistake> {
    let Some(path) = path else {
        let missing = || Mistake::new("control_mode", "control is missing");
        return if mode.is_some() { Err(missing()) } else { Ok(None) };
    };
    if cfg!(not(unix)) {
        return Err(Mistake::new("control", "this system has no Unix sockets"));
    }
    let mode = mode.map_or_else(SocketMode::default, |Parsed(mode)| mode);
    Ok(Some(ControlConfig { path: folder.join(path), mode }))
}

/// `[connect]` as written in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConnectTable {
    to: Texts,
    pin: Option<Texts>,
    identity: Option<String>,
    ca: Option<PathBuf>,
    #[serde(default)]
    insecure: bool,
    #[serde(default)]
    interfaces: Vec<String>,
    #[serde(default)]
    metered: Vec<String>,
    #[serde(default)]
    paths: BTreeMap<String, PathTable>,
    quotas: Option<PathBuf>,
    #[serde(default)]
    signal: bool,
}

impl ConnectTable {
    fn check(self, folder: &Path) -> Result<ConnectConfig, Mistake> {
        let pins = self.pin.map(|pins| pins.parse("pin")).transpose()?;
        let trust = match (pins, self.ca) {
            (Some(_), Some(_)) => return Err(Mistake::new("ca", "pin is given too")),
            (Some(pins), None) => TrustConfig::pinned(pins),
            (None, Some(ca)) => TrustConfig::Ca(folder.join(ca)),
            (None, None) if self.insecure => TrustConfig::Insecure,
            (None, None) => TrustConfig::System,
        };
        let Self { identity, interfaces, metered, signal, .. } = self;
        let quotas = self.quotas.map(|file| folder.join(file));
        let checked = self.paths.into_iter().map(|(name, table)| {
            let path = table.check(&name)?;
            Ok((name, path))
        });
        let paths = checked.collect::<Result<_, Mistake>>()?;
        let to = self.to.parse("to")?;
        let connect = ConnectConfig { to, trust, identity, interfaces, metered, paths, quotas, signal };
        connect.check()?;
        Ok(connect)
    }
}

/// `[listen]` as written in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListenTable {
    address: Parsed<Address>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    state: Option<PathBuf>,
    workers: Option<usize>,
    load_balancer: Option<LoadBalancerTable>,
    redirect: Option<Texts>,
    drain_timeout: Option<Span>,
}

impl ListenTable {
    fn check(self, folder: &Path) -> Result<ListenConfig, Mistake> {
        let identity = match (self.certificate, self.key, self.state) {
            (Some(certificate), Some(key), None) => {
                IdentityConfig::Files { certificate: folder.join(certificate), key: folder.join(key) }
            }
            (None, None, Some(state)) => IdentityConfig::Kept(folder.join(state)),
            (None, None, None) => IdentityConfig::Fresh,
            (Some(_), None, None) => return Err(Mistake::new("certificate", "key is missing")),
            (None, Some(_), None) => return Err(Mistake::new("key", "certificate is missing")),
            (_, _, Some(_)) => return Err(Mistake::new("state", "certificate and key are given too")),
        };
        let redirect = self.redirect.map(|hosts| hosts.hosts("redirect", MAX_REDIRECTS)).transpose()?;
        let default = ListenConfig::DRAIN_TIMEOUT;
        let timeout = self.drain_timeout.map(Span::duration);
        let drain_timeout = bounded("drain_timeout", timeout, Duration::ZERO..=MAX_DRAIN_TIMEOUT, default)?;
        let Parsed(Address(address)) = self.address;
        Ok(ListenConfig { address, identity, redirect: redirect.unwrap_or_default(), drain_timeout })
    }
}
