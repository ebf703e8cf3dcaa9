//! The transports that are compared.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A way to carry the stream, by its name in tables and options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transport {
    name: &'static str,
    pub(crate) carrier: Carrier,
}

/// What carries the stream, with its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// Squall's tunnel with this scheduler and congestion control. STORM uses the radios where there are some.
    Squall { scheduler: &'static str, congestion: &'static str },
    /// The multipath QUIC under Squall as it is, a stream for each frame: on all links, or on the first alone.
    Noq { multipath: bool },
    /// Nothing: plain datagrams on the first link alone.
    Udp,
    /// Multipath TCP of the kernel, with its default scheduler.
    Mptcp,
    /// SRT on the first link alone, with a buffer of this many milliseconds.
    Srt { buffer_ms: u32 },
    /// SRT's group of this kind on all links.
    SrtGroup { kind: &'static str, buffer_ms: u32 },
    /// RIST on all links.
    Rist { mode: RistMode, buffer_ms: u32 },
}

/// What RIST does with several links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RistMode {
    /// Every packet on every link.
    Duplicate,
    /// Each packet on one of them, in turn: equal weights.
    Balanced,
}

impl Serialize for Transport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

impl<'de> Deserialize<'de> for Transport {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.try_into().map_err(de::Error::custom)
    }
}

impl TryFrom<String> for Transport {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        Self::named(&name).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            format!("no transport is called {name:?}; there are {known}")
        })
    }
}

impl Transport {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 17] = [
        // The defaults of the tunnel.
        Self::new("squall", Carrier::Squall { scheduler: "squall", congestion: "steady" }),
        Self::new("squall-minrtt", Carrier::Squall { scheduler: "minrtt", congestion: "steady" }),
        Self::new("squall-minrtt-cubic", Carrier::Squall { scheduler: "minrtt", congestion: "cubic" }),
        Self::new("squall-minrtt-salsify", Carrier::Squall { scheduler: "minrtt", congestion: "salsify" }),
        Self::new("squall-storm", Carrier::Squall { scheduler: "storm", congestion: "steady" }),
        Self::new("noq-multipath", Carrier::Noq { multipath: true }),
        Self::new("quic-single", Carrier::Noq { multipath: false }),
        Self::new("udp-single", Carrier::Udp),
        Self::new("mptcp", Carrier::Mptcp),
        Self::new("srt-120ms", Carrier::Srt { buffer_ms: 120 }),
        Self::new("srt-250ms", Carrier::Srt { buffer_ms: 250 }),
        Self::new("srt-broadcast", Carrier::SrtGroup { kind: "broadcast", buffer_ms: 250 }),
        Self::new("srt-backup", Carrier::SrtGroup { kind: "backup", buffer_ms: 250 }),
        Self::new("rist-duplicate-120ms", Carrier::Rist { mode: RistMode::Duplicate, buffer_ms: 120 }),
        Self::new("rist-duplicate-250ms", Carrier::Rist { mode: RistMode::Duplicate, buffer_ms: 250 }),
        Self::new("rist-balanced-120ms", Carrier::Rist { mode: RistMode::Balanced, buffer_ms: 120 }),
        Self::new("rist-balanced-250ms", Carrier::Rist { mode: RistMode::Balanced, buffer_ms: 250 }),
    ];

    const fn new(name: &'static str, carrier: Carrier) -> Self {
        Self { name, carrier }
    }

    /// Its name in tables and options.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// The one with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|transport| transport.name() == name)
    }

    /// What is missing to run it; `None` if nothing is.
    pub fn missing(self) -> Option<String> {
        match self.carrier {
            Carrier::Squall { .. } | Carrier::Noq { .. } | Carrier::Udp => None,
            Carrier::Mptcp => {
                let socket = socket2::Socket::new(
                    socket2::Domain::IPV4,
                    socket2::Type::STREAM,
                    Some(socket2::Protocol::MPTCP),
                );
                match socket {
                    Err(error) => Some(format!("this kernel has no Multipath TCP ({error})")),
                    Ok(_) => needs("ip", "iproute2"),
                }
            }
            Carrier::Srt { .. } => needs("srt-live-transmit", "srt-tools"),
            Carrier::SrtGroup { .. } => needs("srt-live-transmit", "srt-tools")
                .or_else(|| (!takes_groups()).then(|| NO_GROUPS.to_owned())),
            Carrier::Rist { .. } => needs("ristsender", "rist-tools"),
        }
    }
}

/// What is to be installed if there is no such program.
fn needs(program: &str, package: &str) -> Option<String> {
    let found = Command::new(program)
        .arg("--help")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    found.is_err().then(|| format!("{program} is not installed: apt-get install {package}"))
}

const NO_GROUPS: &str =
    "the installed srt-live-transmit does not support groups (libsrt is built without bonding)";

/// Whether SRT's tool supports groups: it ends at once if it does not.
fn takes_groups() -> bool {
    let group = "srt:////group?type=broadcast&nodes=127.0.0.1:9,127.0.0.2:9";
    let tool = Command::new("srt-live-transmit")
        .args(["udp://127.0.0.1:9", group])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut tool) = tool else { return false };
    std::thread::sleep(Duration::from_millis(500));
    let works = matches!(tool.try_wait(), Ok(None));
    let _ = tool.kill();
    let _ = tool.wait();
    works
}
