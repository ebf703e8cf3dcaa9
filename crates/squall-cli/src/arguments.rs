//! Arguments shared by several commands.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;
use squall::{CongestionControl, Fingerprint, sched::DEFAULT_SCHEDULER};
use squall_terminal::error::usage;
use squall_tunnel::config::{ConnectConfig, ExitAddress, Mistake, TrustConfig};

/// Options of the connection to the other end.
#[derive(Args, Clone, Debug)]
pub(crate) struct ConnectArgs {
    /// Fingerprint of the other end's certificate, as that end prints it; repeated, one for each exit of a tunnel
    #[arg(long, value_name = "FINGERPRINT", conflicts_with_all = ["ca", "insecure"])]
    pin: Vec<Fingerprint>,
    /// PEM file with trusted authorities, instead of those of the system
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    ca: Option<PathBuf>,
    /// Accept any certificate: for tests
    #[arg(long)]
    insecure: bool,
    /// Interface or local address to use; repeatable [default: all]
    #[arg(long, value_name = "NAME|ADDR")]
    interface: Vec<String>,
    /// Follow the radios of the interfaces, Wi-Fi and modems; see docs/signal.md
    #[arg(long)]
    signal: bool,
}

impl ConnectArgs {
    /// Returns these options as a configuration, with the addresses of the other end and the
    /// metered interfaces.
    pub(crate) fn config(&self, to: &[ExitAddress], metered: &[String]) -> anyhow::Result<ConnectConfig> {
        let trust = match &self.ca {
            Some(file) => TrustConfig::Ca(file.clone()),
            None if !self.pin.is_empty() => TrustConfig::pinned(self.pin.clone()),
            None if self.insecure => TrustConfig::Insecure,
            None => TrustConfig::System,
        };
        let connect = ConnectConfig {
            interfaces: self.interface.clone(),
            metered: metered.to_vec(),
            signal: self.signal,
            ..ConnectConfig::new(to.to_vec(), trust)
        };
        let at_option = |at: Mistake| usage(format!("--{}: {}", at.path.trim_end_matches('s'), at.problem));
        connect.check().map_err(at_option)?;
        Ok(connect)
    }
}

/// Distribution of data over the paths.
#[derive(Args, Clone, Debug)]
pub(crate) struct PathArgs {
    /// Scheduler, with options, such as augur or minrtt(cap=250MB); see docs/schedulers.md
    #[arg(long, value_name = "NAME", default_value = DEFAULT_SCHEDULER, value_parser = parse_scheduler)]
    pub(crate) scheduler: String,
    #[arg(long, value_name = "NAME", default_value = "steady", value_parser = squall::congestion_control, help = format!(
        "Congestion control of all paths: {}", squall::controllers().names()
    ))]
    pub(crate) congestion: CongestionControl,
}

/// Checks that a description of a scheduler can be built.
fn parse_scheduler(text: &str) -> Result<String, String> {
    squall::scheduler(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// Parses an address and a port.
pub(crate) fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "expected ADDR:PORT, such as 127.0.0.1:9464".to_owned())
}

/// Parses a host and a port.
pub(crate) fn parse_host(text: &str) -> Result<String, String> {
    let port = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
    match port {
        Some((host, 1..)) if is_host(host) => Ok(text.to_owned()),
        _ => Err("expected HOST:PORT, such as media.example.org:4433 or [2001:db8::7]:4433".to_owned()),
    }
}

/// `true` for a name or an address; IPv6 addresses need brackets, as they contain colons.
fn is_host(text: &str) -> bool {
    let bracketed = text.starts_with('[') && text.ends_with(']');
    !text.is_empty() && (bracketed || !text.contains(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_ports() {
        assert!(["127.0.0.1:0", "[::1]:9464"].iter().all(|address| parse_address(address).is_ok()));
        for wrong in ["4433", ":4433", "0.0.0.0:80000", "localhost", "localhost:9464"] {
            assert!(parse_address(wrong).expect_err(wrong).contains("ADDR:PORT"));
        }
    }

    #[test]
    fn hosts_have_ports() {
        assert!(["a:1", "127.0.0.1:4433", "[::1]:65535"].iter().all(|host| parse_host(host).is_ok()));
        assert!(["a", ":1", "a:0", "a:65536", "::1", ""].iter().all(|host| parse_host(host).is_err()));
    }
}
