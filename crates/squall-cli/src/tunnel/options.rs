//! Configuration of a tunnel, from command-line options or a file.

use std::{
    fmt::Write as _,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use clap::Args;
use squall::{Quota, RateLimit};
use squall_terminal::error::usage;
use squall_tunnel::{
    Config, FlowConfig,
    config::{End, ExitAddress, IdentityConfig, ListenConfig, PathConfig, Side, TunConfig},
};
use squall_units::{Rate, Size};

use crate::{
    arguments::{ConnectArgs, PathArgs, parse_address},
    token::{self, TokenArgs},
};

/// Options of `squall tunnel`.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Configuration file, instead of options
    #[arg(conflicts_with_all = ["listen", "to", "token", "token_file", "flows_in", "flows_out", "pin", "ca",
        "insecure", "interface", "metered", "signal", "state", "scheduler", "congestion", "metrics", "tun"])]
    config: Option<PathBuf>,
    /// Exit: address to listen on
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_address, conflicts_with_all = ["to", "pin", "ca", "insecure", "interface", "metered",
        "signal"])]
    listen: Option<SocketAddr>,
    /// File for the certificate, created if it does not exist [default: a new certificate on every start]
    #[arg(long, value_name = "FILE", requires = "listen")]
    state: Option<PathBuf>,
    /// Entry: address of the exit; repeatable, also srv:NAME for SRV records. One of them is in use
    #[arg(long, value_name = "HOST:PORT")]
    to: Vec<ExitAddress>,
    #[command(flatten)]
    connect: ConnectArgs,
    #[command(flatten)]
    token: TokenArgs,
    /// Flow that enters here: NAME=udp://ADDR:PORT[,media=…,latency=…,…]
    #[arg(long = "in", value_name = "FLOW", value_parser = |text: &str| FlowConfig::parse(text, true))]
    flows_in: Vec<FlowConfig>,
    /// Flow that leaves here: NAME=udp://ADDR:PORT[,playout=…,…]
    #[arg(long = "out", value_name = "FLOW", value_parser = |text: &str| FlowConfig::parse(text, false))]
    flows_out: Vec<FlowConfig>,
    /// TUN device for IP packets: ADDR/PREFIX[,ADDR/PREFIX][,mtu=…,device=…,name=…]
    #[arg(long, value_name = "DEVICE", value_parser = TunConfig::parse)]
    tun: Option<TunConfig>,
    /// Interface or local address whose bytes cost money; repeatable
    #[arg(long, value_name = "NAME|ADDR")]
    metered: Vec<String>,
    #[command(flatten)]
    paths: PathArgs,
    /// Address for metrics and status, such as 127.0.0.1:9464
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_address)]
    metrics: Option<SocketAddr>,
    /// Print the capacity of the session, a line per change: BIT/S LIMIT SESSION
    #[arg(long)]
    bitrate: bool,
}

/// Configuration to run.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) config: Config,
    /// File of the configuration, for reloads.
    pub(super) file: Option<PathBuf>,
    /// The token is new, and has to be printed.
    pub(super) is_new_token: bool,
    /// Capacity changes of sessions are printed.
    pub(super) prints_bitrate: bool,
}

impl Options {
    /// Returns the configuration of these options.
    pub(super) fn plan(&self) -> anyhow::Result<Plan> {
        if let Some(file) = &self.config {
            let (config, file) = (load(file)?, Some(file.clone()));
            return Ok(Plan { config, file, is_new_token: false, prints_bitrate: self.bitrate });
        }
        let side = match (&self.listen, &self.to[..]) {
            (Some(address), _) => {
                let identity = self.state.clone().map_or(IdentityConfig::Fresh, IdentityConfig::Kept);
                Side::Listen(ListenConfig::new(*address, identity))
            }
            (None, to @ [_, ..]) => Side::Connect(self.connect.config(to, &self.metered)?),
            (None, []) => {
                return Err(usage("a configuration file, --listen ADDR:PORT or --to HOST:PORT is required"));
            }
        };
        let token = self.token.token()?;
        let is_new_token = token.is_none();
        let token = match (token, &side) {
            (Some(token), _) => token,
            (None, Side::Listen(_)) => token::make()?,
            (None, Side::Connect(_)) => {
                return Err(usage("--token or --token-file is required: the token of the exit"));
            }
        };
        let mut config = Config::new(side, token);
        config.scheduler.clone_from(&self.paths.scheduler);
        config.congestion = self.paths.congestion.clone();
        config.metrics = self.metrics;
        config.flows = self.flows_in.iter().chain(&self.flows_out).cloned().collect();
        config.tun.clone_from(&self.tun);
        config.check_flows().map_err(|mistake| usage(mistake.problem))?;
        if config.flows.is_empty() && config.tun.is_none() {
            return Err(usage(
                "no flow is given: use --in NAME=udp://ADDR:PORT, --out NAME=udp://ADDR:PORT or --tun ADDR/PREFIX",
            ));
        }
        Ok(Plan { config, file: None, is_new_token, prints_bitrate: self.bitrate })
    }
}

/// Reads a configuration file.
pub(super) fn load(file: &Path) -> anyhow::Result<Config> {
    Config::load(file).map_err(usage)
}

/// Summarises a configuration.
pub(super) fn describe(config: &Config) -> String {
    let mut text = match &config.side {
        Side::Connect(connect) => {
            let exits: Vec<String> = connect.to.iter().map(ToString::to_string).collect();
            format!("entry: connects to {}", exits.join(", "))
        }
        Side::Listen(listen) => format!("exit: listens on {}", listen.address),
    };
    // Writing to a string cannot fail.
    let _ = writeln!(text, ", scheduler {}, congestion {}", config.scheduler, config.congestion);
    if config.workers > 1 {
        let _ = writeln!(text, "workers {}", config.workers);
    }
    if let Some(server) = &config.quic_lb {
        let key = if server.format().is_encrypted() { "encrypted" } else { "plain" };
        let _ = writeln!(text, "load balancer: server {}, {key}", server.id());
    }
    if let Side::Connect(connect) = &config.side {
        for (name, path) in &connect.paths {
            let _ = writeln!(text, "path {name}: {}", path_words(path));
        }
    }
    for flow in &config.flows {
        let more = match flow.end {
            End::In(_) => format!(", {}", flow.media.name()),
            End::Out(_) | End::TunIn | End::TunOut => String::new(),
        };
        let over = flow.interface.as_ref().map_or_else(String::new, |name| format!(" over {name}"));
        let latency = flow.latency_or_default().as_millis();
        let _ = writeln!(
            text,
            "flow {}: {}{over}{more}, {latency} ms, priority {}",
            flow.name, flow.end, flow.priority
        );
    }
    for tenant in &config.tenants.list {
        let flows: Vec<String> =
            tenant.flows.iter().map(|flow| format!("{} {}", flow.name, flow.end)).collect();
        let flows = if flows.is_empty() { "no flow".to_owned() } else { flows.join(", ") };
        let _ = writeln!(text, "tenant {}: {flows}", tenant.name);
    }
    if let Some(url) = &config.tenants.url {
        let _ = writeln!(text, "tenants of {}, every {} s", url.shown(), url.interval.as_secs());
    }
    if let Some(tun) = &config.tun {
        let addresses: Vec<String> = tun.addresses.iter().map(ToString::to_string).collect();
        let _ = writeln!(text, "device {}: {}, MTU {}", tun.device, addresses.join(", "), tun.mtu);
        for peer in &tun.peers {
            let networks: Vec<String> = peer.addresses.iter().map(ToString::to_string).collect();
            let token = if peer.token.is_some() { ", with its own token" } else { "" };
            let _ = writeln!(text, "peer {}: {}{token}", peer.name, networks.join(", "));
        }
    }
    text
}

/// Describes role and limits of the paths of an interface.
fn path_words(path: &PathConfig) -> String {
    let limit = path.rate_limit.map(|RateLimit { bits_per_second, burst }| {
        format!("rate_limit {}, rate_burst {}", Rate::from_bps(bits_per_second), Size::from_bytes(burst))
    });
    let quota =
        path.quota.map(|Quota { bytes, period }| format!("quota {} per {period}", Size::from_bytes(bytes)));
    let words = [Some(path.role.to_string()), limit, quota].into_iter().flatten();
    words.collect::<Vec<_>>().join(", ")
}
