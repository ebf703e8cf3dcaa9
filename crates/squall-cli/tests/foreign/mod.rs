//! A server of another protocol: plain QUIC with the protocol name `h3`, until it is dropped.

use std::{
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use noq_proto::{
    DatagramEvent, Endpoint, EndpointConfig, FourTuple, ServerConfig, crypto::rustls::QuicServerConfig,
};
use rustls::{crypto::ring, pki_types::PrivateKeyDer};

pub(crate) struct Server {
    pub(crate) addr: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
        socket.set_read_timeout(Some(Duration::from_millis(20))).expect("is no zero");
        let addr = socket.local_addr().expect("is bound");
        let stop = Arc::new(AtomicBool::new(false));
        let until = stop.clone();
        let thread = std::thread::spawn(move || serve(&socket, &until));
        Self { addr, stop, thread: Some(thread) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

/// Answers every handshake, which ends it: no client of these tests speaks `h3`.
fn serve(socket: &UdpSocket, stop: &AtomicBool) {
    let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), Some(Arc::new(config())), true);
    let mut packet = [0; 2048];
    while !stop.load(Ordering::Relaxed) {
        let Ok((len, from)) = socket.recv_from(&mut packet) else { continue };
        let (now, mut buf) = (Instant::now(), Vec::new());
        let event = endpoint.handle(now, FourTuple::new(from, None), None, packet[..len].into(), &mut buf);
        let out = match event {
            Some(DatagramEvent::NewConnection(incoming)) => {
                endpoint.accept(incoming, now, &mut buf, None).err().and_then(|error| error.response)
            }
            Some(DatagramEvent::Response(out)) => Some(out),
            _ => None,
        };
        if let Some(out) = out {
            // Losses are for the client to mend.
            let _ = socket.send_to(&buf[..out.size], out.destination);
        }
    }
}

fn config() -> ServerConfig {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("is made");
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("is supported")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("is valid");
    tls.alpn_protocols = vec![b"h3".to_vec()];
    ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).expect("is TLS 1.3")))
}
