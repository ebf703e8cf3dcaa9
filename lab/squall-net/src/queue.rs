//! The queue in front of the serialiser: its limits and its drop policy.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize, Serializer};
use squall_units::{Size, Span, UnitError};

use crate::{
    codel::Codel,
    form::{TextOrTable, text_or_table},
    time::Nanos,
};

/// The queue of one direction of a link.
///
/// The packet being sent has left the queue and does not count against its limits. Default: drop-tail with
/// one and a half bandwidth-delay products (rate × twice the delay of this direction, by the average of a
/// rate that changes), but at least 30 kB; without a limit if the rate is unlimited.
///
/// In files: `"75kB"`, `"50packets"`, `"infinite"`, `"default"`, `"head:75kB"`, `"codel"`, `"codel:200kB"`, or
/// `{ bytes = "75kB", packets = 50, drop = "head", codel = { target = "5ms", interval = "100ms", ecn = true } }`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueConfig {
    /// Capacity of the queue.
    pub limit: Limit,
    /// End at which packets are dropped when the queue is full. Default: tail.
    pub drop: DropEnd,
    /// CoDel, which drops packets that wait too long. Default: none.
    pub codel: Option<CodelConfig>,
}

/// Capacity of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Limit {
    /// One and a half bandwidth-delay products, at least 30 kB.
    #[default]
    BandwidthDelay,
    /// No limit.
    Infinite,
    /// Limits on bytes and packets.
    At {
        /// Maximum of bytes; `None` means no limit.
        bytes: Option<Size>,
        /// Maximum of packets; `None` means no limit.
        packets: Option<u64>,
    },
}

/// The end of the queue at which packets are dropped when it is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DropEnd {
    /// A new packet that does not fit is dropped.
    #[default]
    Tail,
    /// The new packet enters and the oldest are dropped until the rest fits.
    Head,
}

/// Parameters of CoDel (RFC 8289 §4.2, §4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CodelConfig {
    /// Acceptable standing delay. Default 5 ms.
    pub target: Span,
    /// Time for which the delay may exceed the target before the first drop: a worst-case round
    /// trip. Default 100 ms.
    pub interval: Span,
    /// CoDel marks packets whose sender uses ECN, instead of dropping them (RFC 8289 §3). Default:
    /// no.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ecn: bool,
}

impl Default for CodelConfig {
    fn default() -> Self {
        Self { target: Span::from_millis(5), interval: Span::from_millis(100), ecn: false }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct QueueTable {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bytes: Option<Size>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    packets: Option<u64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    infinite: bool,
    #[serde(default)]
    drop: DropEnd,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    codel: Option<CodelConfig>,
}

text_or_table!(QueueConfig);

impl TextOrTable for QueueConfig {
    const EXPECTED: &'static str =
        "a queue such as \"75kB\", \"50packets\", \"infinite\", \"head:75kB\" or \"codel\", or a table";

    type Table = QueueTable;

    fn from_text(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (kind, limit) = text.split_once(':').unwrap_or(match text {
            "codel" => ("codel", "infinite"),
            text => ("tail", text),
        });
        let codel = (kind == "codel").then(CodelConfig::default);
        let drop = if kind == "head" { DropEnd::Head } else { DropEnd::Tail };
        if !["codel", "head", "tail"].contains(&kind) {
            return Err(format!("\"{kind}\" is not a kind of queue (tail, head or codel)"));
        }
        Ok(Self { limit: limit_from_text(limit)?, drop, codel })
    }

    fn from_table(table: QueueTable) -> Result<Self, String> {
        let QueueTable { bytes, packets, infinite, drop, codel } = table;
        let limit = match (infinite, bytes, packets) {
            (true, None, None) => Limit::Infinite,
            (true, ..) => return Err("a queue is either infinite or has a limit".to_owned()),
            (false, None, None) => Limit::BandwidthDelay,
            (false, bytes, packets) => Limit::At { bytes, packets },
        };
        Ok(Self { limit, drop, codel })
    }
}

/// Serialised as text if possible, otherwise as a table: the log of a link names its queue.
impl Serialize for QueueConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.to_text() {
            Some(text) => serializer.serialize_str(&text),
            None => self.to_table().serialize(serializer),
        }
    }
}

impl QueueConfig {
    fn to_text(self) -> Option<String> {
        let kind = match (self.drop, self.codel) {
            (DropEnd::Tail, None) => "",
            (DropEnd::Head, None) => "head:",
            (DropEnd::Tail, Some(codel)) if codel == CodelConfig::default() => "codel:",
            _ => return None,
        };
        let limit = match self.limit {
            Limit::BandwidthDelay => "default".to_owned(),
            Limit::Infinite => "infinite".to_owned(),
            Limit::At { bytes: Some(bytes), packets: None } => bytes.to_string(),
            Limit::At { bytes: None, packets: Some(packets) } => format!("{packets}packets"),
            Limit::At { .. } => return None,
        };
        Some(format!("{kind}{limit}"))
    }

    fn to_table(self) -> QueueTable {
        let (bytes, packets) = match self.limit {
            Limit::At { bytes, packets } => (bytes, packets),
            Limit::BandwidthDelay | Limit::Infinite => (None, None),
        };
        let infinite = self.limit == Limit::Infinite;
        QueueTable { bytes, packets, infinite, drop: self.drop, codel: self.codel }
    }
}

fn limit_from_text(text: &str) -> Result<Limit, String> {
    match text.trim() {
        "infinite" => return Ok(Limit::Infinite),
        "default" => return Ok(Limit::BandwidthDelay),
        _ => {}
    }
    if let Some(number) = text.trim().strip_suffix("packets") {
        let packets = number.trim().parse().map_err(|_| format!("\"{text}\" is not a number of packets"))?;
        return Ok(Limit::At { bytes: None, packets: Some(packets) });
    }
    let bytes = text.parse().map_err(|error: UnitError| error.to_string())?;
    Ok(Limit::At { bytes: Some(bytes), packets: None })
}

/// Properties of a packet that a queue needs.
pub(crate) trait Queued {
    /// Bytes that it occupies in the queue.
    fn bytes(&self) -> u64;
    /// Time at which it entered.
    fn entered(&self) -> Nanos;
    /// Marks it with CE; returns `false` if its sender does not use ECN.
    fn mark(&mut self) -> bool;
}

/// Packets waiting for the serialiser.
#[derive(Debug, Clone)]
pub(crate) struct Queue<P> {
    packets: VecDeque<P>,
    bytes: u64,
    max_bytes: u64,
    max_packets: u64,
    drop: DropEnd,
    codel: Option<Codel>,
}

impl<P: Queued> Queue<P> {
    /// Creates a queue. `default_bytes` is the limit for [`Limit::BandwidthDelay`].
    pub(crate) fn new(config: QueueConfig, default_bytes: u64) -> Self {
        let (max_bytes, max_packets) = match config.limit {
            Limit::BandwidthDelay => (default_bytes, u64::MAX),
            Limit::Infinite => (u64::MAX, u64::MAX),
            Limit::At { bytes, packets } => {
                (bytes.map_or(u64::MAX, Size::bytes), packets.unwrap_or(u64::MAX))
            }
        };
        let codel = config.codel.map(Codel::new);
        Self { packets: VecDeque::new(), bytes: 0, max_bytes, max_packets, drop: config.drop, codel }
    }

    /// Appends a packet, then passes the packets that exceed the limit to `dropped`.
    pub(crate) fn push(&mut self, packet: P, mut dropped: impl FnMut(P)) {
        if self.drop == DropEnd::Tail && !self.holds(self.bytes + packet.bytes(), self.len() + 1) {
            return dropped(packet);
        }
        self.bytes += packet.bytes();
        self.packets.push_back(packet);
        while !self.holds(self.bytes, self.len()) {
            self.take().map(&mut dropped);
        }
    }

    /// Takes the next packet to send; `dropped` receives the packets that CoDel drops.
    pub(crate) fn pop(&mut self, now: Nanos, dropped: impl FnMut(P)) -> Option<P> {
        let Some(mut codel) = self.codel.take() else { return self.take() };
        let next = codel.dequeue(
            now,
            || {
                let packet = self.take()?;
                let entered = packet.entered();
                Some((packet, entered, self.bytes))
            },
            P::mark,
            dropped,
        );
        self.codel = Some(codel);
        next
    }

    /// Takes the oldest packet, bypassing CoDel.
    pub(crate) fn take(&mut self) -> Option<P> {
        let packet = self.packets.pop_front()?;
        self.bytes -= packet.bytes();
        Some(packet)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &P> {
        self.packets.iter()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn len(&self) -> u64 {
        self.packets.len() as u64
    }

    fn holds(&self, bytes: u64, packets: u64) -> bool {
        bytes <= self.max_bytes && packets <= self.max_packets
    }
}
