//! TUN device: IP packets through the tunnel. `docs/tun.md` describes every key.

use std::{
    fmt,
    net::IpAddr,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use serde::Deserialize;
use squall_units::Span;

use super::{
    flow::{End, FlowConfig, MAX_FLOWS, MAX_LATENCY, MAX_NAME, bounded, check_name},
    source::Source,
    text::{ConfigError, Mistake, Parsed, parse},
    token::{Token, token},
};

/// Maximum number of networks of a peer, and of rules.
const MAX_LIST: usize = 64;

/// Smallest MTU of IPv4 hosts (RFC 791).
const MIN_MTU: u16 = 576;
/// Smallest MTU of IPv6 links (RFC 8200, section 5).
const MIN_MTU_V6: u16 = 1280;

/// Largest MTU: a packet in the tunnel has two bytes before it, and is shorter than 65,535 bytes.
const MAX_MTU: u16 = 65_532;

/// Maximum length of the name of a Linux interface.
const MAX_DEVICE: usize = 15;

/// TUN device of one end of a tunnel.
#[derive(Clone, Debug, PartialEq)]
pub struct TunConfig {
    /// Name of the entry at the exit; unused at an exit. Default: `tun`.
    pub name: String,
    /// Name of the device. Default: `squall0`.
    pub device: String,
    /// Addresses of the device: at most one of IPv4, and one of IPv6.
    pub addresses: Vec<TunAddress>,
    /// Largest packet in bytes. Default: [`TunConfig::DEFAULT_MTU`].
    pub mtu: u16,
    /// Treatment of the packets of each traffic class, in the order of [`TrafficClass::ALL`].
    pub classes: [ClassConfig; TrafficClass::ALL.len()],
    /// Rules by port; the first that matches a packet selects its traffic class. Without a match,
    /// its DSCP does.
    pub rules: Vec<TunRule>,
    /// Entries that an exit accepts packets from, with their addresses.
    pub peers: Vec<TunPeer>,
    /// Networks that an entry routes packets to, in addition to its own addresses. Received packets
    /// for others are dropped.
    pub behind: Vec<Source>,
}

/// Address of a device, with the prefix length of its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunAddress {
    /// The address.
    pub ip: IpAddr,
    /// Prefix length in bits.
    pub prefix: u8,
}

/// An entry, as configured at an exit.
#[derive(Clone, Debug, PartialEq)]
pub struct TunPeer {
    /// Name that the entry presents.
    pub name: String,
    /// Networks that the entry owns. Packets to them go to this entry, and its packets with other
    /// sources are dropped.
    pub addresses: Vec<Source>,
    /// Token of this entry. With it, no other entry may present its name, and it may carry nothing
    /// else. Default: the token of the exit.
    pub token: Option<Token>,
}

/// Class of packets with the same treatment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrafficClass {
    /// Telephony and network control.
    Voice,
    /// Conferences, streams and signalling.
    Video,
    /// Everything else.
    Default,
    /// Less important than everything else.
    Background,
}

impl TrafficClass {
    /// All traffic classes.
    pub const ALL: [Self; 4] = [Self::Voice, Self::Video, Self::Default, Self::Background];

    /// Returns the name in configuration files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Voice => "voice",
            Self::Video => "video",
            Self::Default => "default",
            Self::Background => "background",
        }
    }

    /// Returns the traffic class of a DSCP: the access categories of RFC 8325, section 4.3, and LE
    /// (RFC 8622) as background.
    pub fn of_dscp(dscp: u8) -> Self {
        match dscp {
            // CS7, CS6, EF, VOICE-ADMIT.
            56 | 48 | 46 | 44 => Self::Voice,
            // CS5, AF4x, CS4, AF3x, CS3.
            40 | 34 | 36 | 38 | 32 | 26 | 28 | 30 | 24 => Self::Video,
            // CS1, LE.
            8 | 1 => Self::Background,
            _ => Self::Default,
        }
    }
}

/// Treatment of the packets of a traffic class. The keys have the meaning of those of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassConfig {
    /// Longest time from arrival at the tunnel to departure.
    pub latency: Duration,
    /// Priority, 0 (first) to 7.
    pub priority: u8,
    /// Repair lost packets.
    pub reliable: bool,
    /// Keep the order of packets that leave here.
    pub order: bool,
}

impl ClassConfig {
    const fn new(latency_ms: u64, priority: u8, order: bool) -> Self {
        Self { latency: Duration::from_millis(latency_ms), priority, reliable: true, order }
    }
}

/// Selects a traffic class by port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunRule {
    /// Source or destination ports.
    pub ports: RangeInclusive<u16>,
    /// Protocol number: 6 for TCP, 17 for UDP. Default: both.
    pub protocol: Option<u8>,
    /// Traffic class of matching packets.
    pub class: TrafficClass,
}

impl TunConfig {
    /// Default MTU: a packet fits in one QUIC packet over links with an MTU of 1,500 bytes, also
    /// over IPv6.
    pub const DEFAULT_MTU: u16 = 1300;

    /// Creates a device with these addresses, and defaults.
    pub fn new(addresses: Vec<TunAddress>) -> Self {
        Self {
            name: "tun".to_owned(),
            device: "squall0".to_owned(),
            addresses,
            mtu: Self::DEFAULT_MTU,
            classes: [
                ClassConfig::new(300, 0, false),
                ClassConfig::new(300, 1, false),
                ClassConfig::new(500, 4, true),
                ClassConfig::new(500, 7, true),
            ],
            rules: Vec::new(),
            peers: Vec::new(),
            behind: Vec::new(),
        }
    }

    /// Returns the treatment of a traffic class.
    pub fn class(&self, class: TrafficClass) -> &ClassConfig {
        &self.classes[class as usize]
    }

    /// Returns the entries whose packets this end accepts: at an exit without peers, a single entry
    /// that owns the networks of the device.
    pub(crate) fn owners(&self, is_entry: bool) -> Vec<TunPeer> {
        let everything = || ["0.0.0.0/0", "::/0"].iter().filter_map(|all| all.parse().ok()).collect();
        let networks = || self.addresses.iter().map(TunAddress::network).collect();
        let own = |addresses| vec![TunPeer { name: self.name.clone(), addresses, token: None }];
        match (is_entry, self.peers.is_empty()) {
            (true, _) => own(everything()),
            (false, true) => own(networks()),
            (false, false) => self.peers.clone(),
        }
    }

    /// Returns the flows that carry its packets: one for each traffic class and entry.
    pub(crate) fn flows(&self, is_entry: bool) -> Vec<FlowConfig> {
        let end = if is_entry { End::TunIn } else { End::TunOut };
        let flow = |peer: &str, class: TrafficClass| {
            let ClassConfig { latency, priority, reliable, order } = *self.class(class);
            let latency = Some(latency);
            FlowConfig { latency, priority, reliable, order, ..FlowConfig::new(flow_name(peer, class), end) }
        };
        let owners = self.owners(is_entry);
        owners.iter().flat_map(|peer| TrafficClass::ALL.map(|class| flow(&peer.name, class))).collect()
    }

    /// Parses `ADDR/PREFIX[,ADDR/PREFIX][,key=value,…]`, the form of the command-line option. The keys are `name`,
    /// `device` and `mtu` of a file.
    ///
    /// # Errors
    /// A description of the mistake.
    pub fn parse(text: &str) -> Result<Self, String> {
        let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let (pairs, addresses): (Vec<&str>, Vec<&str>) = text.split(',').partition(|part| part.contains('='));
        let addresses: Vec<String> = addresses.into_iter().map(quoted).collect();
        let mut table = format!("address = [{}]\n", addresses.join(", "));
        for (key, value) in pairs.iter().filter_map(|pair| pair.split_once('=')) {
            if !matches!(key, "name" | "device" | "mtu") {
                return Err(format!("unknown key '{key}'; there are name, device, mtu"));
            }
            let is_number = value.parse::<u64>().is_ok() && key == "mtu";
            table
                .push_str(&format!("{key} = {}\n", if is_number { value.to_owned() } else { quoted(value) }));
        }
        let read = parse::<TunTable>("", &table)
            .and_then(|read| read.check(true, Path::new("")).map_err(|mistake| mistake.locate("", &table)));
        read.map_err(|error| match error {
            ConfigError::Invalid { problem, .. } => problem,
            other => other.to_string(),
        })
    }
}

/// Returns the name of the flow that carries a traffic class of an entry.
pub(crate) fn flow_name(peer: &str, class: TrafficClass) -> String {
    format!("{peer}.{}", class.name())
}

impl TunAddress {
    /// Returns the network of the address.
    pub(crate) fn network(&self) -> Source {
        Source::new(self.ip, u32::from(self.prefix))
    }
}

impl FromStr for TunAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || format!("'{text}' is not ADDR/PREFIX, such as 10.98.0.2/24 or fd98::2/64");
        let (ip, prefix) = text.split_once('/').ok_or_else(wrong)?;
        let (ip, prefix): (IpAddr, u8) = match (ip.parse(), prefix.parse()) {
            (Ok(ip), Ok(prefix)) => (ip, prefix),
            _ => return Err(wrong()),
        };
        let most = if ip.is_ipv4() { 32 } else { 128 };
        if prefix > most {
            return Err(format!("'{text}': an address has {most} bits"));
        }
        if ip.is_unspecified() || ip.is_multicast() || ip.is_loopback() {
            return Err(format!("'{text}' cannot be the address of a device"));
        }
        Ok(Self { ip, prefix })
    }
}

impl fmt::Display for TunAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.prefix)
    }
}

/// `[tun]` as written in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TunTable {
    name: Option<String>,
    device: Option<String>,
    address: Vec<Parsed<TunAddress>>,
    mtu: Option<u16>,
    #[serde(default)]
    class: ClassTables,
    #[serde(default)]
    rule: Vec<RuleTable>,
    #[serde(default)]
    peer: Vec<PeerTable>,
    #[serde(default)]
    behind: Vec<Parsed<Source>>,
}

/// `[tun.class.…]` as written in the file.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ClassTables {
    voice: ClassTable,
    video: ClassTable,
    default: ClassTable,
    background: ClassTable,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ClassTable {
    latency: Option<Span>,
    priority: Option<u8>,
    reliable: Option<bool>,
    order: Option<bool>,
}

/// `[[tun.rule]]` as written in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleTable {
    port: Parsed<Ports>,
    protocol: Option<Protocol>,
    class: TrafficClass,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Protocol {
    Tcp = 6,
    Udp = 17,
}

/// `[[tun.peer]]` as written in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PeerTable {
    name: String,
    address: Vec<Parsed<Source>>,
    token: Option<String>,
    token_file: Option<PathBuf>,
}

/// `PORT` or `FIRST-LAST`.
struct Ports(RangeInclusive<u16>);

impl FromStr for Ports {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (first.parse::<u16>(), last.parse::<u16>()) {
            (Ok(first), Ok(last)) if first <= last => Ok(Self(first..=last)),
            _ => Err(format!("'{text}' is not PORT or FIRST-LAST, such as 5004 or 5000-5010")),
        }
    }
}

impl TunTable {
    /// Checks the table. `is_entry` is `true` if this end is, or may be, an entry.
    pub(super) fn check(self, is_entry: bool, folder: &Path) -> Result<TunConfig, Mistake> {
        let addresses: Vec<TunAddress> = self.address.into_iter().map(|Parsed(address)| address).collect();
        let of_v6 = addresses.iter().filter(|address| address.ip.is_ipv6()).count();
        if addresses.is_empty() || of_v6 > 1 || addresses.len() - of_v6 > 1 {
            return Err(Mistake::new("address", "a device has one address of IPv4, or one of IPv6, or both"));
        }
        let default = TunConfig::new(addresses);
        let device = self.device.unwrap_or(default.device);
        let is_device = (1..=MAX_DEVICE).contains(&device.len())
            && device.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
        if !is_device || matches!(device.as_str(), "." | "..") {
            let form = format!("1 to {MAX_DEVICE} letters, digits, '-', '_' or '.'");
            return Err(Mistake::new("device", format!("'{device}' is not the name of a device: {form}")));
        }
        let least = if of_v6 > 0 { MIN_MTU_V6 } else { MIN_MTU };
        let mtu = bounded("mtu", self.mtu, least..=MAX_MTU, default.mtu)?;
        let name = self.name.unwrap_or(default.name);
        check_peer_name(&name).map_err(|problem| Mistake::new("name", problem))?;
        if is_entry && !self.peer.is_empty() {
            return Err(Mistake::new("peer", "unknown key 'peer' at this end: it belongs to the exit"));
        }
        if !is_entry && !self.behind.is_empty() {
            return Err(Mistake::new(
                "behind",
                "it belongs to an entry; an exit has the addresses of its peers",
            ));
        }
        if self.behind.len() > MAX_LIST {
            return Err(Mistake::new("behind", format!("more than {MAX_LIST} networks")));
        }
        if self.rule.len() > MAX_LIST {
            return Err(Mistake::new(format!("rule.{MAX_LIST}"), format!("more than {MAX_LIST} rules")));
        }
        let rule = |rule: RuleTable| {
            let RuleTable { port: Parsed(Ports(ports)), protocol, class } = rule;
            TunRule { ports, protocol: protocol.map(|protocol| protocol as u8), class }
        };
        let ClassTables { voice, video, default: plain, background } = self.class;
        let mut classes = default.classes;
        for ((class, table), config) in
            TrafficClass::ALL.into_iter().zip([voice, video, plain, background]).zip(&mut classes)
        {
            table.apply(config).map_err(|mistake| mistake.within(&format!("class.{}", class.name())))?;
        }
        Ok(TunConfig {
            name,
            device,
            mtu,
            classes,
            rules: self.rule.into_iter().map(rule).collect(),
            peers: peers(self.peer, folder)?,
            behind: self.behind.into_iter().map(|Parsed(source)| source).collect(),
            ..default
        })
    }
}

impl ClassTable {
    fn apply(self, config: &mut ClassConfig) -> Result<(), Mistake> {
        let least = Duration::from_millis(1);
        config.latency =
            bounded("latency", self.latency.map(Span::duration), least..=MAX_LATENCY, config.latency)?;
        config.priority = bounded("priority", self.priority, 0..=7, config.priority)?;
        config.reliable = self.reliable.unwrap_or(config.reliable);
        config.order = self.order.unwrap_or(config.order);
        Ok(())
    }
}

fn peers(tables: Vec<PeerTable>, folder: &Path) -> Result<Vec<TunPeer>, Mistake> {
    let mut peers: Vec<TunPeer> = Vec::new();
    for (index, table) in tables.into_iter().enumerate() {
        let at = |key: &str, problem: String| Mistake::new(format!("peer.{index}.{key}"), problem);
        check_peer_name(&table.name).map_err(|problem| at("name", problem))?;
        if peers.iter().any(|other| other.name == table.name) {
            return Err(at("name", format!("there is a peer '{}' already", table.name)));
        }
        if !(1..=MAX_LIST).contains(&table.address.len()) {
            return Err(at("address", format!("a peer has 1 to {MAX_LIST} networks")));
        }
        let addresses: Vec<Source> = table.address.into_iter().map(|Parsed(source)| source).collect();
        let twice = peers.iter().find(|other| addresses.iter().any(|one| other.addresses.contains(one)));
        if let Some(other) = twice {
            return Err(at("address", format!("'{}' has one of these networks already", other.name)));
        }
        let token = token(table.token, table.token_file, folder)
            .map_err(|mistake| mistake.within(&format!("peer.{index}")))?;
        if token.is_some() && peers.iter().any(|other| other.token == token) {
            return Err(at("name", "another peer has the same token".to_owned()));
        }
        peers.push(TunPeer { name: table.name, addresses, token });
    }
    if peers.len() * TrafficClass::ALL.len() > MAX_FLOWS {
        return Err(Mistake::new("peer", format!("more than {} peers", MAX_FLOWS / TrafficClass::ALL.len())));
    }
    Ok(peers)
}

/// Checks a name, which must leave room for that of a traffic class.
fn check_peer_name(name: &str) -> Result<(), String> {
    check_name(name, "a flow name", MAX_NAME)?;
    if name.len() > 48 { Err(format!("'{name}' has more than 48 bytes")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_points_have_the_classes_of_rfc_8325() {
        let of = |class: TrafficClass| {
            (0..64).filter(|dscp| TrafficClass::of_dscp(*dscp) == class).collect::<Vec<u8>>()
        };
        assert_eq!(of(TrafficClass::Voice), [44, 46, 48, 56]);
        assert_eq!(of(TrafficClass::Video), [24, 26, 28, 30, 32, 34, 36, 38, 40]);
        assert_eq!(of(TrafficClass::Background), [1, 8]);
    }

    #[test]
    fn the_option_gives_the_device_of_a_file() {
        let tun =
            TunConfig::parse("10.98.0.2/24,fd98::2/64,name=car1,device=sq9,mtu=1300").expect("is right");
        assert_eq!((tun.name.as_str(), tun.device.as_str(), tun.mtu), ("car1", "sq9", 1300));
        assert_eq!(
            tun.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["10.98.0.2/24", "fd98::2/64"]
        );
        let names: Vec<_> = tun.flows(true).into_iter().map(|flow| flow.name).collect();
        assert_eq!(names, ["car1.voice", "car1.video", "car1.default", "car1.background"]);
        for (text, expected) in [
            ("10.98.0.2", "'10.98.0.2' is not ADDR/PREFIX"),
            ("10.98.0.2/33", "an address has 32 bits"),
            ("127.0.0.1/8", "cannot be the address of a device"),
            ("10.98.0.2/24,10.99.0.2/24", "one address of IPv4"),
            ("10.98.0.2/24,mtu=500", "500 is not between 576"),
            ("10.98.0.2/24,fd98::2/64,mtu=1000", "1000 is not between 1280"),
            ("10.98.0.2/24,device=a/b", "'a/b' is not the name of a device"),
            ("10.98.0.2/24,name=a b", "'a b' is not a flow name"),
            ("10.98.0.2/24,peer=x", "unknown key 'peer'"),
            ("", "'' is not ADDR/PREFIX"),
        ] {
            let error = TunConfig::parse(text).expect_err(text);
            assert!(error.contains(expected) && !error.contains('\n'), "{text}: {error}");
        }
    }
}
