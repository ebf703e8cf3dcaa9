//! The two ends of a measurement over sockets, in one process or in two.

use std::{
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use clap::{Args, ValueEnum};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use squall::{Config, Connect, Endpoint, Identity, Trust};
use squall_terminal::output;

/// Time for which a client waits for the server's file and for paths.
const PATIENCE: Duration = Duration::from_secs(5);

/// Most paths that the server accepts over plain QUIC.
const MAX_PATHS: u32 = 8;

/// Transport and addresses.
#[derive(Args, Clone, Debug)]
pub(super) struct Ends {
    /// Transport
    #[arg(long, value_enum, default_value_t = Transport::Squall)]
    pub(super) transport: Transport,
    /// Be only the server, at this address
    #[arg(long, value_name = "ADDR", conflicts_with = "to")]
    pub(super) listen: Option<SocketAddr>,
    /// Be only the client of this server
    #[arg(long, value_name = "ADDR")]
    pub(super) to: Option<SocketAddr>,
    /// Local addresses of the paths
    #[arg(long, env = "SQUALL_CLIENT", value_name = "ADDR,...", value_delimiter = ',', default_values_t = [IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2])])]
    pub(super) over: Vec<IpAddr>,
    /// Certificate and key of a server in another process, which creates the file; both read it
    #[arg(long, value_name = "FILE", default_value = "bench.pem")]
    pub(super) identity: PathBuf,
}

/// A transport for blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Transport {
    /// The library with its defaults
    Squall,
    /// The library with the scheduler minRTT
    Minrtt,
    /// The QUIC library under it, with its defaults: a stream for each block
    Noq,
}

/// A server that waits for its client.
pub(super) enum Server {
    Squall(Endpoint),
    Noq(noq::Endpoint),
}

/// A connected client.
pub(super) enum Client {
    Squall(squall::Session),
    Noq(noq::Connection),
}

impl Ends {
    /// Returns the file of the server's identity: one in `folder` if both ends are here.
    pub(super) fn file(&self, folder: &Path) -> PathBuf {
        let both = self.listen.is_none() && self.to.is_none();
        if both { folder.join("identity.pem") } else { self.identity.clone() }
    }

    /// Starts the server. Must be called within its runtime. Returns the address at which it listens.
    pub(super) fn serve(&self, file: &Path) -> anyhow::Result<(Server, SocketAddr)> {
        let identity = Identity::load_or_create(file, "bench")?;
        let at = self.listen.unwrap_or_else(|| ([127, 0, 0, 1], 0).into());
        if self.transport == Transport::Noq {
            let key = PrivateKeyDer::from_pem_file(file)?;
            let mut config = noq::ServerConfig::with_single_cert(identity.chain().to_vec(), key)?;
            config.transport_config(Arc::new(plain(MAX_PATHS)));
            let endpoint = noq::Endpoint::server(config, at)?;
            let at = endpoint.local_addr()?;
            return Ok((Server::Noq(endpoint), at));
        }
        let endpoint = Endpoint::listen(at, &identity.server_tls()?, Config::default())?;
        let at = endpoint.local_addrs()[0];
        Ok((Server::Squall(endpoint), at))
    }

    /// Connects to a server, whose file may not exist yet.
    pub(super) async fn connect(&self, file: &Path, to: SocketAddr) -> anyhow::Result<Client> {
        let start = Instant::now();
        while !file.exists() {
            ensure!(start.elapsed() < PATIENCE, "{} does not exist", file.display());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let identity = Identity::load(file)?;
        if self.transport == Transport::Noq {
            return Ok(Client::Noq(self.connect_plain(identity.chain(), to).await?));
        }
        let config = Config::default();
        let config = match self.transport {
            Transport::Minrtt => config.scheduler(squall::scheduler("minrtt")?),
            _ => config,
        };
        let request = Connect::to(to)
            .trust(Trust::Pinned(identity.fingerprint()))
            .over(self.over.iter().copied())
            .config(config);
        Ok(Client::Squall(squall::connect(request).await?))
    }

    /// Connects over plain QUIC, and begins to open a path from each address.
    async fn connect_plain(
        &self,
        chain: &[CertificateDer<'static>],
        to: SocketAddr,
    ) -> anyhow::Result<noq::Connection> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(chain.first().context("no certificate")?.clone())?;
        let mut config = noq::ClientConfig::with_root_certificates(Arc::new(roots))?;
        config.transport_config(Arc::new(plain(self.over.len() as u32)));
        let endpoint = noq::Endpoint::client(([0, 0, 0, 0], 0).into())?;
        let connection = endpoint.connect_with(config, to, "bench")?.await?;
        // Data does not wait for the other paths, as it does not over Squall.
        for local in self.over.iter().skip(1) {
            tokio::spawn(open_path(connection.clone(), noq::FourTuple::new(to, Some(*local))));
        }
        Ok(connection)
    }
}

/// Opens a path of plain QUIC as soon as the server has issued connection ids for it.
async fn open_path(connection: noq::Connection, path: noq::FourTuple) {
    let start = Instant::now();
    while let Err(error) = connection.open_path_ensure(path, noq::PathStatus::Available).await {
        if start.elapsed() > PATIENCE {
            output::on_stderr(&format!("error: a path over {path}: {error}\n"));
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Settings of plain QUIC: the defaults, with streams in the order of their opening, as one late
/// frame would delay all others otherwise.
fn plain(paths: u32) -> noq::TransportConfig {
    let mut transport = noq::TransportConfig::default();
    transport.send_fairness(false).max_concurrent_uni_streams(1_000_u32.into());
    if paths > 1 {
        transport.max_concurrent_multipath_paths(paths);
    }
    transport
}

#[cfg(test)]
impl Ends {
    /// Creates two ends in this process, over two paths.
    pub(super) fn here(transport: Transport) -> Self {
        let over = [[127, 0, 0, 1], [127, 0, 0, 2]].map(IpAddr::from).to_vec();
        Self { transport, listen: None, to: None, over, identity: PathBuf::new() }
    }
}
