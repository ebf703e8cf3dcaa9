//! Common part of both ends: an endpoint, its sockets, and the loop that drives it.

use std::{
    io,
    net::SocketAddr,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use tokio::{net::UdpSocket, sync::mpsc};
use tquic::{Config, Endpoint, PacketInfo, PacketSendHandler, TlsConfig, TransportHandler};

/// Protocol name (ALPN) of both ends.
pub(crate) const PROTOCOL: &[u8] = b"versus";

/// Maximum number of paths: connection ids that an end stores for the other.
const PATHS: u64 = 8;

/// Maximum number of frames in flight.
const STREAMS: u64 = 1_000;

/// Maximum number of packets queued between all sockets and the endpoint; the rest waits in the
/// sockets.
const PACKETS: usize = 256;

/// Size of a socket's buffer in bytes; less if the system grants less.
const BUFFER: usize = 1 << 20;

/// Maximum size of a datagram.
const DATAGRAM: usize = 1 << 16;

/// Time for which the loop waits if the endpoint has no timer.
const IDLE: Duration = Duration::from_secs(1);

/// A packet with its source, destination and time.
type Received = (Vec<u8>, PacketInfo);

/// A running endpoint.
pub(crate) struct Relay {
    pub(crate) endpoint: Endpoint,
    received: mpsc::Receiver<Received>,
}

/// Returns TQUIC's defaults, except for several paths with this scheduler, and as many streams as
/// the other carriers have.
pub(crate) fn config(scheduler: &str, tls: TlsConfig) -> anyhow::Result<Config> {
    let mut config = Config::new()?;
    config.enable_multipath(true);
    config.set_multipath_algorithm(scheduler.parse().with_context(|| format!("scheduler {scheduler:?}"))?);
    config.set_active_connection_id_limit(PATHS);
    config.set_initial_max_streams_uni(STREAMS);
    config.set_tls_config(tls);
    Ok(config)
}

impl Relay {
    /// Creates an endpoint with a socket at each of these addresses; returns the bound addresses
    /// too.
    pub(crate) async fn new(
        config: Config,
        is_server: bool,
        handler: Box<dyn TransportHandler>,
        addresses: &[SocketAddr],
    ) -> anyhow::Result<(Self, Vec<SocketAddr>)> {
        let (give, received) = mpsc::channel(PACKETS);
        let (mut sockets, mut locals) = (Vec::new(), Vec::new());
        for address in addresses {
            let socket = UdpSocket::bind(address).await.with_context(|| address.to_string())?;
            socket2::SockRef::from(&socket).set_recv_buffer_size(BUFFER)?;
            let (local, socket) = (socket.local_addr()?, Arc::new(socket));
            tokio::spawn(read(Arc::clone(&socket), local, give.clone()));
            sockets.push((local, socket));
            locals.push(local);
        }
        let endpoint = Endpoint::new(Box::new(config), is_server, handler, Rc::new(Sockets(sockets)));
        Ok((Self { endpoint, received }, locals))
    }

    /// Waits for packets, a timer or the caller's future, and processes them.
    pub(crate) async fn step<T>(&mut self, other: impl Future<Output = T>) -> anyhow::Result<Option<T>> {
        self.endpoint.process_connections()?;
        let timeout = self.endpoint.timeout().unwrap_or(IDLE);
        let mut happened = None;
        tokio::select! {
            packet = self.received.recv() => {
                let mut next = packet;
                while let Some((mut bytes, info)) = next {
                    // An invalid QUIC packet has no effect.
                    let _ = self.endpoint.recv(&mut bytes, &info);
                    next = self.received.try_recv().ok();
                }
            }
            other = other => happened = Some(other),
            () = tokio::time::sleep(timeout) => {}
        }
        self.endpoint.on_timeout(Instant::now());
        Ok(happened)
    }
}

/// Reads a socket until the relay ends.
async fn read(socket: Arc<UdpSocket>, local: SocketAddr, give: mpsc::Sender<Received>) {
    let mut buffer = vec![0; DATAGRAM];
    loop {
        // An error is about an earlier datagram, for which no socket was open.
        let Ok((length, remote)) = socket.recv_from(&mut buffer).await else { continue };
        let info = PacketInfo { src: remote, dst: local, time: Instant::now() };
        if give.send((buffer[..length].to_vec(), info)).await.is_err() {
            return;
        }
    }
}

/// Sockets by local address, through which packets leave.
struct Sockets(Vec<(SocketAddr, Arc<UdpSocket>)>);

impl PacketSendHandler for Sockets {
    fn on_packets_send(&self, packets: &[(Vec<u8>, PacketInfo)]) -> tquic::Result<usize> {
        for (sent, (bytes, info)) in packets.iter().enumerate() {
            let Some((_, socket)) = self.0.iter().find(|(local, _)| *local == info.src) else { continue };
            match socket.try_send_to(bytes, info.dst) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(sent),
                // A packet that the system refuses is lost.
                Ok(_) | Err(_) => {}
            }
        }
        Ok(packets.len())
    }
}
