//! A flow: what comes in or goes out where, and how it is carried.

use std::{fmt, net::SocketAddr, str::FromStr, time::Duration};

use squall_units::{Size, Span};

use super::{
    fault::Fault,
    section::{Placed, Section, choose},
    source::Source,
};
use crate::media::Media;

/// Longest name of a flow in bytes.
pub const MAX_NAME: usize = 64;

/// Largest frame that can be asked for in bytes; larger ones are carried in parts.
const MAX_FRAME: u64 = 8 << 20;

/// Longest latency.
pub const MAX_LATENCY: Duration = Duration::from_secs(60);

/// Longest gap.
const MAX_GAP: Duration = Duration::from_secs(1);

/// When a flow's datagrams leave at the far end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Playout {
    /// As soon as everything before has left. The default.
    #[default]
    Soon,
    /// With a constant delay, the latency, after they came in.
    Steady,
}

/// The playouts by name.
pub(crate) const PLAYOUTS: &[(&str, Playout)] = &[("soon", Playout::Soon), ("steady", Playout::Steady)];

/// Which end of a flow is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Datagrams come in on this address of this machine.
    In(SocketAddr),
    /// Datagrams go out to this address.
    Out(SocketAddr),
}

/// One end of a flow. The other end, on the other machine, has the same name.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowConfig {
    /// Its name, at most [`MAX_NAME`] bytes.
    pub name: String,
    /// Which end is here.
    pub end: End,
    /// Who may send to an `in` end; datagrams of others are dropped and counted. Default: anyone who can reach it.
    pub from: Option<Source>,
    /// What comes in. Default: [`Media::Udp`].
    pub media: Media,
    /// From coming in to going out at most; later data is given up. Default: 300 ms; at an `out` end without it,
    /// the latency of the other end.
    pub latency: Option<Duration>,
    /// Priority of what matters most in it, 0 (first) to 7; disposable frames come two later. Default: 2.
    pub priority: u8,
    /// Whether lost bytes of plain datagrams are sent again; frames go by their class. Default: yes.
    pub reliable: bool,
    /// When its datagrams leave here. Default: [`Playout::Soon`].
    pub playout: Playout,
    /// Whether datagrams leave here, replies at an `in` end, in the order in which they came in. Default: yes.
    pub order: bool,
    /// Frames above this many bytes are carried in parts. Default: 4 MB.
    pub max_frame: usize,
    /// A frame ends when nothing more of it comes for this long, or for half the latency if that is less. Default:
    /// 20 ms.
    pub gap: Duration,
    /// Blocks on their way at a time; more are dropped. Default: 4096.
    pub max_pending: usize,
}

impl FlowConfig {
    /// Latency of a flow that comes in here.
    pub const DEFAULT_LATENCY: Duration = Duration::from_millis(300);

    /// A flow with defaults.
    pub fn new(name: impl Into<String>, end: End) -> Self {
        Self {
            name: name.into(),
            end,
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
        }
    }

    /// Whether datagrams come in here.
    pub fn is_in(&self) -> bool {
        matches!(self.end, End::In(_))
    }

    /// The latency, or its default.
    pub fn latency_or_default(&self) -> Duration {
        self.latency.unwrap_or(Self::DEFAULT_LATENCY)
    }

    /// Reads `NAME=udp://ADDR:PORT,key=value,…`, as flags give it. The keys are those of a file.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn parse(text: &str, is_in: bool) -> Result<Self, String> {
        let (name, rest) =
            text.split_once('=').ok_or("expected NAME=udp://ADDR:PORT, such as cam=udp://127.0.0.1:5000")?;
        check_name(name)?;
        let mut parts = rest.split(',');
        let address: Address = parts.next().unwrap_or_default().parse()?;
        let mut toml = String::new();
        for part in parts {
            let (key, value) = part.split_once('=').ok_or_else(|| format!("'{part}': expected key=value"))?;
            let bare = value.parse::<u64>().is_ok() || matches!(value, "true" | "false");
            let value =
                if bare { value.to_owned() } else { toml::Value::String(value.to_owned()).to_string() };
            toml.push_str(&format!("{key} = {value}\n"));
        }
        let table = toml::de::DeTable::parse(&toml).map_err(|error| error.message().to_owned())?;
        let mut section = Section::new(format!("flow {name}"), 0, table.get_ref());
        let end = if is_in { End::In(address.0) } else { End::Out(address.0) };
        let mut flow = Self::new(name, end);
        flow.read(&mut section).and_then(|()| section.finish()).map_err(Fault::words)?;
        Ok(flow)
    }

    pub(super) fn of(mut section: Section<'_, '_>) -> Result<(Self, Placed<String>), Fault> {
        let name = section.text("name")?.ok_or_else(|| section.fault("name is missing"))?;
        check_name(&name.value).map_err(|problem| Fault::new(name.at, problem))?;
        let ends = (section.parse::<Address>("in")?, section.parse::<Address>("out")?);
        let end = match ends {
            (Some(address), None) => End::In(address.value.0),
            (None, Some(address)) => End::Out(address.value.0),
            (None, None) => {
                return Err(section.fault(format!("flow '{}' has neither in nor out", name.value)));
            }
            (Some(_), Some(other)) => {
                let words = format!("flow '{}' has both in and out; one end of it is elsewhere", name.value);
                return Err(Fault::new(other.at, words));
            }
        };
        let mut flow = Self::new(name.value.clone(), end);
        flow.read(&mut section)?;
        section.finish()?;
        Ok((flow, name))
    }

    /// Everything but the name and the address.
    fn read(&mut self, section: &mut Section<'_, '_>) -> Result<(), Fault> {
        if let Some(latency) = section.parse::<Span>("latency")? {
            if latency.value.micros() == 0 || latency.value.duration() > MAX_LATENCY {
                return Err(Fault::new(latency.at, format!("latency: more than 0, at most {MAX_LATENCY:?}")));
            }
            self.latency = Some(latency.value.duration());
        }
        self.priority = section.number("priority", 0, 7)?.map_or(self.priority, |n| n as u8);
        self.reliable = section.flag("reliable")?.unwrap_or(self.reliable);
        self.order = section.flag("order")?.unwrap_or(self.order);
        self.max_pending = section.number("max_pending", 1, 65_536)?.map_or(self.max_pending, |n| n as usize);
        if self.is_in() {
            self.from = section.parse("from")?.map(|placed| placed.value);
            self.media = section.choice("media", Media::ALL)?.unwrap_or(self.media);
            if let Some(size) = section.parse::<Size>("max_frame")? {
                if !(65_536..=MAX_FRAME).contains(&size.value.bytes()) {
                    let words = format!("max_frame: between 65536 and {MAX_FRAME} bytes");
                    return Err(Fault::new(size.at, words));
                }
                self.max_frame = size.value.bytes() as usize;
            }
            if let Some(gap) = section.parse::<Span>("gap")? {
                if gap.value.duration() > MAX_GAP {
                    return Err(Fault::new(gap.at, format!("gap: at most {MAX_GAP:?}")));
                }
                self.gap = gap.value.duration();
            }
        } else {
            self.playout = section.choice("playout", PLAYOUTS)?.unwrap_or(self.playout);
        }
        Ok(())
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let fits = (1..=MAX_NAME).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    if fits {
        Ok(())
    } else {
        Err(format!("'{name}' is no name for a flow: 1 to {MAX_NAME} letters, digits, '-', '_' or '.'"))
    }
}

/// `udp://ADDR:PORT`.
struct Address(SocketAddr);

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
        choose("scheme", scheme, &[("udp", ())]).map_err(|_| wrong_address(text))?;
        let address: SocketAddr = text["udp://".len()..].parse().map_err(|_| wrong_address(text))?;
        if address.port() == 0 {
            return Err(format!("'{text}' has no port"));
        }
        Ok(Self(address))
    }
}

fn wrong_address(text: &str) -> String {
    format!("'{text}' is no address: expected udp://ADDR:PORT, such as udp://127.0.0.1:5000")
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::In(address) => write!(f, "in udp://{address}"),
            Self::Out(address) => write!(f, "out udp://{address}"),
        }
    }
}
