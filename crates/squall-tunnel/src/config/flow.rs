//! Flows: where datagrams enter or leave, and how they are carried.

use std::{fmt, net::SocketAddr, ops::RangeInclusive, str::FromStr, time::Duration};

use serde::Deserialize;
use squall::PathHint;
use squall_units::{Size, Span};

use super::{
    source::Source,
    text::{ConfigError, Mistake, Parsed, parse},
};
use crate::media::Media;

/// Maximum length of a flow name in bytes.
pub const MAX_NAME: usize = 64;

/// Maximum number of flows of one end.
pub const MAX_FLOWS: usize = 64;

/// Maximum latency.
pub const MAX_LATENCY: Duration = Duration::from_secs(60);

/// Maximum latency of the other end that an end waits for, unless its own is longer.
pub(crate) const MAX_THEIR_LATENCY: Duration = Duration::from_secs(10);

/// Departure of datagrams at the far end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Playout {
    /// Once all earlier datagrams have left.
    #[default]
    Soon,
    /// After a constant delay, the latency, from their arrival at the tunnel.
    Steady,
}

/// End of a flow on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Datagrams enter the tunnel at this local address.
    In(SocketAddr),
    /// Datagrams leave the tunnel for this address.
    Out(SocketAddr),
    /// The TUN device of an entry.
    TunIn,
    /// The TUN device of an exit.
    TunOut,
}

/// One end of a flow. The other end, on the other machine, has the same name.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowConfig {
    /// Name, at most [`MAX_NAME`] bytes; `TENANT/NAME` for a flow of a tenant at an exit.
    pub name: String,
    /// End on this machine.
    pub end: End,
    /// Interface of a multicast group: where the group is joined, or where datagrams leave for it.
    /// Default: by the routes of the system.
    pub interface: Option<String>,
    /// Time to live (hop limit in IPv6) of datagrams for a multicast group, 1 to 255. Default: 1,
    /// the local network.
    pub ttl: u8,
    /// Permitted senders; other datagrams are dropped and counted. Default: all at an `in` end,
    /// none at an `out` end, which can have senders only if it is a multicast group.
    pub from: Option<Source>,
    /// Media format at an `in` end. Default: [`Media::Udp`].
    pub media: Media,
    /// Longest time from arrival at the tunnel to departure; later data is dropped. Default: 300 ms; at an `out` end
    /// the latency of the other end, up to 10 s.
    pub latency: Option<Duration>,
    /// Priority of the most important blocks, 0 (first) to 7; disposable frames have this priority
    /// plus 2. Default: 2.
    pub priority: u8,
    /// Retransmit lost plain datagrams. Frames are treated according to their class. Default:
    /// `true`.
    pub reliable: bool,
    /// Departure of datagrams here. Default: [`Playout::Soon`].
    pub playout: Playout,
    /// Keep the order of datagrams that leave here (replies, at an `in` end). Default: `true`.
    pub order: bool,
    /// Largest frame in bytes that is carried in one block; larger frames take several. Default: 4
    /// MB.
    pub max_frame: usize,
    /// Time without a datagram after which a frame ends; half the latency if that is less. Default:
    /// 20 ms.
    pub gap: Duration,
    /// Maximum number of blocks in transit; further ones are dropped. Default: 4096.
    pub max_pending: usize,
    /// Path that blocks of this end prefer, avoid, or use exclusively. Default: none.
    pub hint: Option<PathHint>,
}

impl FlowConfig {
    /// Default latency of a flow that enters here.
    pub const DEFAULT_LATENCY: Duration = Duration::from_millis(300);

    /// Creates a flow with defaults.
    pub fn new(name: impl Into<String>, end: End) -> Self {
        Self {
            name: name.into(),
            end,
            interface: None,
            ttl: 1,
            from: None,
            media: Media::Udp,
            latency: None,
            priority: 2,
            reliable: true,
            playout: Playout::Soon,
            order: true,
            max_frame: 4_000_000,
            gap: Duration::from_millis(20),
            max_pending: 4096,
            hint: None,
        }
    }

    /// `true` if datagrams enter here. Packets of a TUN device travel in both directions; they
    /// enter at the entry.
    pub fn is_in(&self) -> bool {
        matches!(self.end, End::In(_) | End::TunIn)
    }

    /// `true` if datagrams leave here for a multicast group.
    fn is_to_group(&self) -> bool {
        matches!(self.end, End::Out(target) if target.ip().is_multicast())
    }

    /// `true` if both flows can share one socket.
    pub(crate) fn has_socket_of(&self, other: &Self) -> bool {
        self.end == other.end && self.interface == other.interface && self.ttl == other.ttl
    }

    /// `true` if both addresses cannot be bound at the same time. Groups share a port, even one
    /// group on several interfaces.
    fn clashes(&self, other: &Self) -> bool {
        let (End::In(one), End::In(another)) = (self.end, other.end) else { return false };
        match (one.ip().is_multicast(), another.ip().is_multicast()) {
            (true, true) => {
                let apart = self.interface.is_some() && other.interface.is_some();
                one == another && !(apart && self.interface != other.interface)
            }
            _ => overlap(one, another),
        }
    }

    /// Returns the latency, or its default.
    pub fn latency_or_default(&self) -> Duration {
        self.latency.unwrap_or(Self::DEFAULT_LATENCY)
    }

    /// Returns the tenant that the flow belongs to.
    pub fn tenant(&self) -> Option<&str> {
        self.name.split_once('/').map(|(tenant, _)| tenant)
    }

    /// Returns the name at the other end, which is without the tenant.
    pub(crate) fn name_of_peer(&self) -> &str {
        self.name.split_once('/').map_or(&self.name, |(_, name)| name)
    }

    /// Parses `NAME=udp://ADDR:PORT,key=value,…`, the form of command-line options. The keys are
    /// those of a file.
    ///
    /// # Errors
    /// A description of the mistake.
    pub fn parse(text: &str, is_in: bool) -> Result<Self, String> {
        let (name, rest) =
            text.split_once('=').ok_or("expected NAME=udp://ADDR:PORT, such as cam=udp://127.0.0.1:5000")?;
        let mut parts = rest.split(',');
        let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let end = if is_in { "in" } else { "out" };
        let address = parts.next().unwrap_or_default();
        let mut table = format!("name = {}\n{end} = {}\n", quoted(name), quoted(address));
        for part in parts {
            let (key, value) = part.split_once('=').ok_or_else(|| format!("'{part}': expected key=value"))?;
            let is_bare = value.parse::<u64>().is_ok() || matches!(value, "true" | "false");
            table.push_str(&format!("{key} = {}\n", if is_bare { value.to_owned() } else { quoted(value) }));
        }
        let read = parse::<FlowTable>("", &table)
            .and_then(|table_read| table_read.check().map_err(|mistake| mistake.locate("", &table)));
        read.map_err(|error| match error {
            ConfigError::Invalid { problem, .. } => problem,
            other => other.to_string(),
        })
    }
}

/// Checks that these flows, at most `most`, can coexist.
///
/// # Errors
/// The index of the flow at fault and a description, if two flows have one name, if the address of
/// one includes that of another, or if there are too many.
pub fn check_flows(flows: &[FlowConfig], most: usize) -> Result<(), (usize, String)> {
    for (index, flow) in flows.iter().enumerate() {
        let before = &flows[..index];
        if before.iter().any(|other| other.name == flow.name) {
            return Err((index, format!("there is a flow '{}' already", flow.name)));
        }
        if let Some(other) = before.iter().find(|other| other.clashes(flow)) {
            let problem = format!("flow '{}' enters at the address of '{}'", flow.name, other.name);
            let problem = match (flow.end, other.end) {
                (End::In(one), End::In(other)) if one != other => {
                    format!("{problem}: {one} and {other} are one port of this machine")
                }
                _ => problem,
            };
            return Err((index, problem));
        }
        if index == most {
            return Err((index, format!("more than {most} flows")));
        }
    }
    Ok(())
}

/// `true` if the system refuses the second of two UDP sockets at these addresses. A socket at
/// `[::]` also receives IPv4.
pub(crate) fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let includes = |all: SocketAddr, one: SocketAddr| {
        all.ip().is_unspecified() && (all.is_ipv6() || one.ip().to_canonical().is_ipv4())
    };
    let scope = |address: SocketAddr| match address {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(address) => address.scope_id(),
    };
    let is_same = one.ip().to_canonical() == other.ip().to_canonical() && scope(one) == scope(other);
    let is_port = one.port() == other.port() && one.port() != 0;
    is_port && (is_same || includes(one, other) || includes(other, one))
}

/// `[[flow]]` as written in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FlowTable {
    name: String,
    r#in: Option<Parsed<Address>>,
    out: Option<Parsed<Address>>,
    interface: Option<String>,
    ttl: Option<u8>,
    from: Option<Parsed<Source>>,
    media: Option<Media>,
    latency: Option<Span>,
    priority: Option<u8>,
    reliable: Option<bool>,
    playout: Option<Playout>,
    order: Option<bool>,
    max_frame: Option<Size>,
    gap: Option<Span>,
    max_pending: Option<usize>,
    prefer: Option<String>,
    avoid: Option<String>,
    only: Option<String>,
}

impl FlowTable {
    pub(super) fn check(self) -> Result<FlowConfig, Mistake> {
        check_name(&self.name, "a flow name", MAX_NAME).map_err(|problem| Mistake::new("name", problem))?;
        let end = match (self.r#in, self.out) {
            (Some(Parsed(Address(address))), None) => End::In(address),
            (None, Some(Parsed(Address(address)))) => End::Out(address),
            (None, None) => return Err(Mistake::new("in", "a flow needs in or out")),
            (Some(_), Some(_)) => {
                return Err(Mistake::new("out", "a flow has either in or out on one machine"));
            }
        };
        let default = FlowConfig::new(self.name, end);
        let other_end = if default.is_in() {
            [("playout", self.playout.is_some()); 4]
        } else {
            let (max_frame, gap) = (self.max_frame.is_some(), self.gap.is_some());
            [
                ("from", self.from.is_some() && !default.is_to_group()),
                ("media", self.media.is_some()),
                ("max_frame", max_frame),
                ("gap", gap),
            ]
        };
        if let Some((key, _)) = other_end.iter().find(|(_, is_set)| *is_set) {
            let end = if default.is_in() { "out" } else { "in" };
            return Err(Mistake::new(
                *key,
                format!("unknown key '{key}' at this end: it belongs to the {end} end"),
            ));
        }
        let is_group = matches!(default.end, End::In(at) | End::Out(at) if at.ip().is_multicast());
        match (&self.interface, self.ttl) {
            (Some(name), _) if name.is_empty() => {
                return Err(Mistake::new("interface", "the name is empty"));
            }
            (Some(_), _) if !is_group => {
                return Err(Mistake::new("interface", "only a flow with a multicast address has one"));
            }
            (_, Some(_)) if !default.is_to_group() => {
                return Err(Mistake::new("ttl", "only a flow that leaves for a multicast address has one"));
            }
            _ => {}
        }
        let latency = self.latency.map(Span::duration);
        let (max_frame, gap) =
            (self.max_frame.map(|size| size.bytes() as usize), self.gap.map(Span::duration));
        Ok(FlowConfig {
            interface: self.interface,
            ttl: bounded("ttl", self.ttl, 1..=255, default.ttl)?,
            from: self.from.map(|Parsed(source)| source),
            media: self.media.unwrap_or(default.media),
            latency: latency
                .map(|latency| {
                    bounded("latency", Some(latency), Duration::from_micros(1)..=MAX_LATENCY, latency)
                })
                .transpose()?,
            priority: bounded("priority", self.priority, 0..=7, default.priority)?,
            reliable: self.reliable.unwrap_or(default.reliable),
            playout: self.playout.unwrap_or(default.playout),
            order: self.order.unwrap_or(default.order),
            max_frame: bounded("max_frame", max_frame, 65_536..=8 << 20, default.max_frame)?,
            gap: bounded("gap", gap, Duration::ZERO..=Duration::from_secs(1), default.gap)?,
            max_pending: bounded("max_pending", self.max_pending, 1..=65_536, default.max_pending)?,
            hint: hint(self.prefer, self.avoid, self.only)?,
            ..default
        })
    }
}

fn hint(
    prefer: Option<String>,
    avoid: Option<String>,
    only: Option<String>,
) -> Result<Option<PathHint>, Mistake> {
    match (prefer, avoid, only) {
        (None, None, None) => Ok(None),
        (Some(path), None, None) => Ok(Some(PathHint::prefer(path))),
        (None, Some(path), None) => Ok(Some(PathHint::avoid(path))),
        (None, None, Some(path)) => Ok(Some(PathHint::only(path))),
        (_, Some(_), _) => Err(Mistake::new("avoid", "a flow has one of prefer, avoid and only")),
        _ => Err(Mistake::new("only", "a flow has one of prefer, avoid and only")),
    }
}

/// Returns the value, checked against its bounds, or the default if there is none.
pub(super) fn bounded<T: PartialOrd + fmt::Debug>(
    key: &str,
    value: Option<T>,
    bounds: RangeInclusive<T>,
    default: T,
) -> Result<T, Mistake> {
    match value {
        Some(value) if !bounds.contains(&value) => {
            let (least, most) = bounds.into_inner();
            Err(Mistake::new(key, format!("{value:?} is not between {least:?} and {most:?}")))
        }
        value => Ok(value.unwrap_or(default)),
    }
}

pub(super) fn check_name(name: &str, what: &str, most: usize) -> Result<(), String> {
    let fits = (1..=most).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    let wrong = || format!("'{name}' is not {what}: 1 to {most} letters, digits, '-', '_' or '.'");
    if fits { Ok(()) } else { Err(wrong()) }
}

/// `udp://ADDR:PORT`.
struct Address(SocketAddr);

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let address = text.strip_prefix("udp://").and_then(|address| address.parse::<SocketAddr>().ok());
        match address {
            Some(address) if address.port() == 0 => Err(format!("'{text}' has no port")),
            Some(address) => Ok(Self(address)),
            None => {
                let form = "expected udp://ADDR:PORT, such as udp://127.0.0.1:5000";
                Err(format!("'{text}' is not an address: {form}"))
            }
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::In(address) => write!(f, "in udp://{address}"),
            Self::Out(address) => write!(f, "out udp://{address}"),
            Self::TunIn => f.write_str("in by the TUN device"),
            Self::TunOut => f.write_str("out by the TUN device"),
        }
    }
}
