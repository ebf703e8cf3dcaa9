//! What a tunnel is told by flags, or by a file.

use std::{
    fmt::Write as _,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use clap::Args;
use squall::{CongestionControl, Fingerprint};
use squall_terminal::error::usage;
use squall_tunnel::{
    Config, FlowConfig,
    config::{ConnectConfig, End, IdentityConfig, ListenConfig, Side, TrustConfig, check_flows},
};

use crate::{
    arguments::{parse_host, parse_scheduler},
    token::{self, TokenArgs},
};

/// What is given on the command line.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Read everything from this file instead of flags
    #[arg(conflicts_with_all = ["listen", "to", "token", "token_file", "flows_in", "flows_out", "pin", "ca",
        "insecure", "interface", "metered", "signal", "state", "scheduler", "congestion", "metrics"])]
    config: Option<PathBuf>,
    /// Be called: listen on this address
    #[arg(long, value_name = "ADDR:PORT", conflicts_with_all = ["to", "pin", "ca", "insecure", "interface", "metered",
        "signal"])]
    listen: Option<SocketAddr>,
    /// Keep the certificate in this file, which is made when it is not there; new on every start if not given
    #[arg(long, value_name = "FILE", requires = "listen")]
    state: Option<PathBuf>,
    /// Call the other end
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_host)]
    to: Option<String>,
    /// Trust the certificate of this fingerprint, which the other end shows
    #[arg(long, value_name = "FINGERPRINT", conflicts_with_all = ["ca", "insecure"])]
    pin: Option<Fingerprint>,
    /// Trust the authorities of this PEM file instead of the system's
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    ca: Option<PathBuf>,
    /// Trust anyone: for tests
    #[arg(long)]
    insecure: bool,
    #[command(flatten)]
    token: TokenArgs,
    /// A flow that comes in here: NAME=udp://ADDR:PORT[,media=…,latency=…,…]
    #[arg(long = "in", value_name = "FLOW", value_parser = |text: &str| FlowConfig::parse(text, true))]
    flows_in: Vec<FlowConfig>,
    /// A flow that goes out here: NAME=udp://ADDR:PORT[,playout=…,…]
    #[arg(long = "out", value_name = "FLOW", value_parser = |text: &str| FlowConfig::parse(text, false))]
    flows_out: Vec<FlowConfig>,
    /// Use this interface, or this local address; may be given several times. All if not given
    #[arg(long, value_name = "NAME|ADDR")]
    interface: Vec<String>,
    /// The bytes of this interface, or local address, cost money; may be given several times
    #[arg(long, value_name = "NAME|ADDR")]
    metered: Vec<String>,
    /// Go by the radios of the interfaces: Wi-Fi and modems; docs/signal.md says how
    #[arg(long)]
    signal: bool,
    /// Who decides what goes where; see `squall-lab schedulers`
    #[arg(long, value_name = "NAME", default_value = "minrtt", value_parser = parse_scheduler)]
    scheduler: String,
    #[arg(long, value_name = "NAME", default_value = "steady", help = format!(
        "Congestion control of all paths: {}", CongestionControl::names()
    ))]
    congestion: CongestionControl,
    /// Serve metrics and status here, such as 127.0.0.1:9464
    #[arg(long, value_name = "ADDR:PORT")]
    metrics: Option<SocketAddr>,
    /// Print what the session can carry, a line per change: BIT/S LIMIT SESSION
    #[arg(long)]
    bitrate: bool,
}

/// What is to be run.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) config: Config,
    /// Where it can be read again.
    pub(super) file: Option<PathBuf>,
    /// The secret was made here, so somebody has to be told.
    pub(super) made_token: bool,
    /// What sessions can carry is printed.
    pub(super) prints_bitrate: bool,
}

impl Options {
    /// A configuration that can be used.
    pub(super) fn plan(&self) -> anyhow::Result<Plan> {
        if let Some(file) = &self.config {
            let (config, file) = (load(file)?, Some(file.clone()));
            return Ok(Plan { config, file, made_token: false, prints_bitrate: self.bitrate });
        }
        let side = match (&self.listen, &self.to) {
            (Some(address), _) => Side::Listen(ListenConfig {
                address: *address,
                identity: self.state.clone().map_or(IdentityConfig::Fresh, IdentityConfig::Kept),
            }),
            (None, Some(to)) => Side::Connect(self.connect(to)?),
            (None, None) => {
                return Err(usage("give a configuration file, --listen ADDR:PORT or --to HOST:PORT"));
            }
        };
        let token = self.token.token()?;
        let made_token = token.is_none();
        let token = match (token, &side) {
            (Some(token), _) => token,
            (None, Side::Listen(_)) => token::make()?,
            (None, Side::Connect(_)) => {
                return Err(usage("--token or --token-file: the one the other end has"));
            }
        };
        let mut config = Config::new(side, token);
        config.scheduler.clone_from(&self.scheduler);
        config.congestion = self.congestion;
        config.metrics = self.metrics;
        config.flows = self.flows()?;
        Ok(Plan { config, file: None, made_token, prints_bitrate: self.bitrate })
    }

    fn connect(&self, to: &str) -> anyhow::Result<ConnectConfig> {
        let trust = match (self.pin, &self.ca) {
            (Some(pin), _) => TrustConfig::Pin(pin),
            (None, Some(file)) => TrustConfig::Ca(file.clone()),
            (None, None) if self.insecure => TrustConfig::Insecure,
            (None, None) => TrustConfig::System,
        };
        let connect = ConnectConfig {
            to: to.to_owned(),
            trust,
            interfaces: self.interface.clone(),
            metered: self.metered.clone(),
            signal: self.signal,
        };
        connect
            .check()
            .map_err(|(key, problem)| usage(format!("--{}: {problem}", key.trim_end_matches('s'))))?;
        Ok(connect)
    }

    fn flows(&self) -> anyhow::Result<Vec<FlowConfig>> {
        let flows: Vec<FlowConfig> = self.flows_in.iter().chain(&self.flows_out).cloned().collect();
        check_flows(&flows).map_err(|(_, problem)| usage(problem))?;
        if flows.is_empty() {
            return Err(usage("no flow is given: --in NAME=udp://ADDR:PORT or --out NAME=udp://ADDR:PORT"));
        }
        Ok(flows)
    }
}

/// Reads a file.
pub(super) fn load(file: &Path) -> anyhow::Result<Config> {
    Config::load(file).map_err(usage)
}

/// What a configuration asks for, for people.
pub(super) fn describe(config: &Config) -> String {
    let mut text = match &config.side {
        Side::Connect(connect) => format!("entry: connects to {}", connect.to),
        Side::Listen(listen) => format!("exit: listens on {}", listen.address),
    };
    // Writing into a text does not fail.
    let _ = writeln!(text, ", scheduler {}, congestion {}", config.scheduler, config.congestion);
    for flow in &config.flows {
        let more = match flow.end {
            End::In(_) => format!(", {}", flow.media.name()),
            End::Out(_) => String::new(),
        };
        let latency = flow.latency_or_default().as_millis();
        let _ = writeln!(
            text,
            "flow {}: {}{more}, {latency} ms, priority {}",
            flow.name, flow.end, flow.priority
        );
    }
    text
}
