//! Transports to compare.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::programs::Programs;

/// Maximum length of a transport's name in a file: names are used for folders too.
const MAX_NAME: usize = 64;

/// A way to carry the stream, identified by its name in tables and options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transport {
    name: Cow<'static, str>,
    pub(crate) carrier: Carrier,
}

/// Implementation that carries the stream, with its settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Carrier {
    /// Squall's tunnel with this scheduler and congestion control. STORM uses radios if there are
    /// any.
    Squall { scheduler: Cow<'static, str>, congestion: Cow<'static, str> },
    /// The multipath QUIC implementation under Squall, unmodified, with a stream for each frame: on
    /// all links, or on the first only.
    Noq { multipath: bool },
    /// No transport: plain datagrams on the first link only.
    Udp,
    /// The kernel's Multipath TCP with its default scheduler.
    Mptcp,
    /// SRT on the first link only, with a buffer of this many milliseconds.
    Srt { buffer_ms: u32 },
    /// SRT's group of this kind on all links.
    SrtGroup { kind: Cow<'static, str>, buffer_ms: u32 },
    /// RIST on all links.
    Rist { mode: RistMode, buffer_ms: u32 },
    /// TQUIC on all links with one of its schedulers and a stream for each frame.
    Tquic { scheduler: Cow<'static, str> },
    /// Programs of another project.
    Programs(Programs),
}

impl Carrier {
    const fn squall(scheduler: &'static str, congestion: &'static str) -> Self {
        Self::Squall { scheduler: Cow::Borrowed(scheduler), congestion: Cow::Borrowed(congestion) }
    }
}

/// RIST's use of several links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RistMode {
    /// Every packet on every link.
    Duplicate,
    /// Each packet on one link, alternately: equal weights.
    Balanced,
}

/// File of transports.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    transport: Vec<Entry>,
}

/// Entry of such a file: a name with commands.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    client: Vec<String>,
    server: Vec<String>,
    #[serde(default)]
    client_setup: Vec<Vec<String>>,
    #[serde(default)]
    server_setup: Vec<Vec<String>>,
}

impl Transport {
    /// All built-in transports, in the order of tables.
    pub const ALL: [Self; 20] = [
        // The defaults of the tunnel.
        Self::new("squall", Carrier::squall("squall", "steady")),
        Self::new("squall-minrtt", Carrier::squall("minrtt", "steady")),
        Self::new("squall-minrtt-cubic", Carrier::squall("minrtt", "cubic")),
        Self::new("squall-minrtt-salsify", Carrier::squall("minrtt", "salsify")),
        Self::new("squall-storm", Carrier::squall("storm", "steady")),
        Self::new("noq-multipath", Carrier::Noq { multipath: true }),
        Self::new("quic-single", Carrier::Noq { multipath: false }),
        Self::new("tquic-minrtt", Carrier::Tquic { scheduler: Cow::Borrowed("minrtt") }),
        Self::new("tquic-redundant", Carrier::Tquic { scheduler: Cow::Borrowed("redundant") }),
        Self::new("tquic-roundrobin", Carrier::Tquic { scheduler: Cow::Borrowed("roundrobin") }),
        Self::new("udp-single", Carrier::Udp),
        Self::new("mptcp", Carrier::Mptcp),
        Self::new("srt-120ms", Carrier::Srt { buffer_ms: 120 }),
        Self::new("srt-250ms", Carrier::Srt { buffer_ms: 250 }),
        Self::new("srt-broadcast", Carrier::SrtGroup { kind: Cow::Borrowed("broadcast"), buffer_ms: 250 }),
        Self::new("srt-backup", Carrier::SrtGroup { kind: Cow::Borrowed("backup"), buffer_ms: 250 }),
        Self::new("rist-duplicate-120ms", Carrier::Rist { mode: RistMode::Duplicate, buffer_ms: 120 }),
        Self::new("rist-duplicate-250ms", Carrier::Rist { mode: RistMode::Duplicate, buffer_ms: 250 }),
        Self::new("rist-balanced-120ms", Carrier::Rist { mode: RistMode::Balanced, buffer_ms: 120 }),
        Self::new("rist-balanced-250ms", Carrier::Rist { mode: RistMode::Balanced, buffer_ms: 250 }),
    ];

    const fn new(name: &'static str, carrier: Carrier) -> Self {
        Self { name: Cow::Borrowed(name), carrier }
    }

    /// Returns its name in tables and options.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the transport with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|transport| transport.name() == name)
    }

    /// Parses the transports of a file, whose names must be unique.
    ///
    /// # Errors
    ///
    /// One line with the position in the text.
    pub fn of_file(text: &str) -> Result<Vec<Self>, String> {
        let file: File = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
            format!("{line}: {}", error.message().replace('\n', ", "))
        })?;
        let mut transports: Vec<Self> = Vec::new();
        for Entry { name, client, server, client_setup, server_setup } in file.transport {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_plain) {
                return Err(format!(
                    " transport {name:?}: a name has 1 to {MAX_NAME} letters, digits, '-', '_' or '.'"
                ));
            }
            if Self::named(&name).is_some() || transports.iter().any(|other| other.name == name) {
                return Err(format!(" transport {name:?}: there is one of this name already"));
            }
            let carrier = Carrier::Programs(Programs { client, server, client_setup, server_setup });
            transports.push(Self { name: name.into(), carrier });
        }
        if transports.is_empty() { Err(" no [[transport]] is in it".to_owned()) } else { Ok(transports) }
    }

    /// Checks that it can run over this number of links.
    ///
    /// # Errors
    ///
    /// If its commands name other links.
    pub fn check(&self, links: usize) -> Result<(), String> {
        match &self.carrier {
            Carrier::Programs(programs) => {
                programs.check(links).map_err(|error| format!("transport {:?}: {error:#}", self.name))
            }
            _ => Ok(()),
        }
    }

    /// Returns the missing requirement to run it; `None` if there is none.
    pub fn missing(&self) -> Option<String> {
        match &self.carrier {
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
            Carrier::Tquic { .. } => {
                let is_built = std::env::current_exe().is_ok_and(|lab| tquic_relay(&lab).is_file());
                (!is_built).then(|| "its relay is not built: make tquic".to_owned())
            }
            Carrier::Programs(programs) => programs
                .needed()
                .into_iter()
                .find(|program| !is_installed(program))
                .map(|program| format!("{program} is not installed")),
        }
    }
}

/// Returns the path of the relay over TQUIC, beside the laboratory's program.
pub(crate) fn tquic_relay(lab: &Path) -> PathBuf {
    lab.with_file_name("squall-versus-tquic")
}

/// Returns a message with the package to install, if a program is missing.
fn needs(program: &str, package: &str) -> Option<String> {
    (!is_installed(program)).then(|| format!("{program} is not installed: apt-get install {package}"))
}

/// `true` if the system finds a program.
fn is_installed(program: &str) -> bool {
    let is_file = |folder: PathBuf| folder.join(program).is_file();
    program.contains('/') && Path::new(program).is_file()
        || std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(is_file))
}

const NO_GROUPS: &str =
    "the installed srt-live-transmit does not support groups (libsrt is built without bonding)";

/// `true` if SRT's tool supports groups; otherwise it ends at once.
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

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "[[transport]]\nname = 'cat'\nclient = ['cat', '{source}']\nserver = ['cat']\n";

    #[test]
    fn a_file_adds_programs() {
        let file = format!("{ONE}client_setup = [['ip', 'link', 'show', '{{client2}}']]\n");
        let [cat] = &Transport::of_file(&file).expect("is valid")[..] else { panic!("one") };
        assert_eq!(cat.name(), "cat");
        assert_eq!(cat.check(2), Ok(()));
        let error = cat.check(1).expect_err("there is no second link");
        assert!(error.contains("transport \"cat\"") && error.contains("{client2}"), "{error}");
        let missing = format!("{ONE}server_setup = [['/no/such/program']]\n");
        let [cat] = &Transport::of_file(&missing).expect("is valid")[..] else { panic!("one") };
        assert_eq!(cat.missing().as_deref(), Some("/no/such/program is not installed"));
        let words = serde_json::to_string(cat).expect("is text");
        assert_eq!(&serde_json::from_str::<Transport>(&words).expect("is one"), cat);
    }

    #[test]
    fn mistakes_in_it_have_a_line() {
        for (file, error) in [
            ("", "no [[transport]]"),
            (&ONE.replace("client", "cleint"), "3: unknown field `cleint`"),
            (&ONE.replace("['cat']", "'cat'"), "4: "),
            (&ONE.replace("'cat'\n", "'a cat'\n"), "transport \"a cat\": a name"),
            (&ONE.replace("'cat'\n", "'mptcp'\n"), "transport \"mptcp\": there is one"),
            (&[ONE, ONE].concat(), "transport \"cat\": there is one"),
        ] {
            let said = Transport::of_file(file).expect_err("is none");
            assert!(said.contains(error) && !said.contains('\n'), "{said}");
        }
    }
}
