//! Who is compared.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use serde::{Deserialize, Serialize};

/// A way to carry the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Transport {
    /// Squall's tunnel with minRTT, and Steady: its defaults.
    SquallMinrtt,
    /// The same with plain CUBIC.
    SquallMinrttCubic,
    /// The same with Salsify's congestion control.
    SquallMinrttSalsify,
    /// Squall's tunnel with STORM, which uses the radios where there are some.
    SquallStorm,
    /// The multipath QUIC under Squall as it is, a stream for each frame.
    NoqMultipath,
    /// The same on the first link alone.
    QuicSingle,
    /// Nothing: plain datagrams on the first link alone.
    UdpSingle,
    /// Multipath TCP of the kernel, with its default scheduler.
    Mptcp,
    /// SRT on the first link alone, with a buffer of 120 ms.
    Srt120,
    /// SRT on the first link alone, with a buffer of 250 ms.
    Srt250,
    /// SRT's broadcast group.
    SrtBroadcast,
    /// SRT's backup group.
    SrtBackup,
    /// RIST with every packet on every link, with a buffer of 120 ms.
    RistDuplicate120,
    /// RIST with every packet on every link, with a buffer of 250 ms.
    RistDuplicate250,
    /// RIST with packets on the links in turn, with a buffer of 120 ms.
    RistBalanced120,
    /// RIST with packets on the links in turn, with a buffer of 250 ms.
    RistBalanced250,
}

impl From<Transport> for String {
    fn from(transport: Transport) -> Self {
        transport.name().to_owned()
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
    pub const ALL: [Self; 16] = [
        Self::SquallMinrtt,
        Self::SquallMinrttCubic,
        Self::SquallMinrttSalsify,
        Self::SquallStorm,
        Self::NoqMultipath,
        Self::QuicSingle,
        Self::UdpSingle,
        Self::Mptcp,
        Self::Srt120,
        Self::Srt250,
        Self::SrtBroadcast,
        Self::SrtBackup,
        Self::RistDuplicate120,
        Self::RistDuplicate250,
        Self::RistBalanced120,
        Self::RistBalanced250,
    ];

    /// Its name in tables and options.
    pub fn name(self) -> &'static str {
        match self {
            Self::SquallMinrtt => "squall-minrtt",
            Self::SquallMinrttCubic => "squall-minrtt-cubic",
            Self::SquallMinrttSalsify => "squall-minrtt-salsify",
            Self::SquallStorm => "squall-storm",
            Self::NoqMultipath => "noq-multipath",
            Self::QuicSingle => "quic-single",
            Self::UdpSingle => "udp-single",
            Self::Mptcp => "mptcp",
            Self::Srt120 => "srt-120ms",
            Self::Srt250 => "srt-250ms",
            Self::SrtBroadcast => "srt-broadcast",
            Self::SrtBackup => "srt-backup",
            Self::RistDuplicate120 => "rist-duplicate-120ms",
            Self::RistDuplicate250 => "rist-duplicate-250ms",
            Self::RistBalanced120 => "rist-balanced-120ms",
            Self::RistBalanced250 => "rist-balanced-250ms",
        }
    }

    /// The one with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|transport| transport.name() == name)
    }

    /// What is missing to run it; `None` if nothing is.
    pub fn missing(self) -> Option<String> {
        match self {
            Self::SquallMinrtt
            | Self::SquallMinrttCubic
            | Self::SquallMinrttSalsify
            | Self::SquallStorm
            | Self::NoqMultipath
            | Self::QuicSingle
            | Self::UdpSingle => None,
            Self::Mptcp => {
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
            Self::Srt120 | Self::Srt250 => needs("srt-live-transmit", "srt-tools"),
            Self::SrtBroadcast | Self::SrtBackup => needs("srt-live-transmit", "srt-tools")
                .or_else(|| (!takes_groups()).then(|| NO_GROUPS.to_owned())),
            Self::RistDuplicate120
            | Self::RistDuplicate250
            | Self::RistBalanced120
            | Self::RistBalanced250 => needs("ristsender", "rist-tools"),
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
