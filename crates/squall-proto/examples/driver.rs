//! A complete driver of `squall-proto` on plain sockets: a server and a client on loopback, each on a thread of its own. The
//! client sends ten blocks, waits for their outcomes, and closes the session, which ends both.

use std::{
    error::Error,
    io,
    net::{SocketAddr, UdpSocket},
    thread,
    time::{Duration, Instant},
};

use squall_proto::{
    Block, BlockOptions, ClientTls, Config, Endpoint, Event, Interface, NetPath, ServerTls, SessionId,
    Target, Transmit,
    drive::{self, Datagram, Io, Unreachable},
    fingerprint_of,
};

const BLOCKS: usize = 10;

/// The only interface of each side.
const INTERFACE: Interface = Interface(0);

/// An endpoint, its socket, and the datagram that ended the last wait.
struct Driver {
    endpoint: Endpoint,
    socket: UdpSocket,
    arrived: Option<Datagram>,
}

impl Io for Driver {
    fn endpoint(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn receive(&mut self) -> Option<Datagram> {
        self.arrived.take()
    }

    fn max_packets(&self) -> usize {
        1
    }

    fn send(&mut self, transmit: &Transmit, data: &[u8]) -> Result<(), Unreachable> {
        self.socket.send_to(data, transmit.path.remote).map(drop).map_err(|_| Unreachable)
    }
}

impl Driver {
    fn new(socket: UdpSocket, tls: Option<&ServerTls>) -> Self {
        Self { endpoint: Endpoint::new(Config::default(), tls, None, Instant::now()), socket, arrived: None }
    }

    /// Drives the endpoint until a session has ended. `on_event` may call the session.
    fn run(&mut self, mut on_event: impl FnMut(&mut Endpoint, SessionId, &Event)) -> io::Result<()> {
        let (mut buf, mut ended) = (Vec::new(), false);
        loop {
            drive::take_in(self);
            while let Some(id) = self.endpoint.poll_ready() {
                while let Some(event) = self.endpoint.poll_event(id) {
                    on_event(&mut self.endpoint, id, &event);
                    ended |= matches!(event, Event::Closed(_));
                }
            }
            while drive::send_out(self, 16, &mut buf) {}
            if ended {
                return Ok(());
            }
            self.wait()?;
        }
    }

    /// Waits for a datagram, or until the endpoint has something to do.
    fn wait(&mut self) -> io::Result<()> {
        let due = self.endpoint.poll_timeout();
        let left = due.map(|due| due.saturating_duration_since(Instant::now()).max(Duration::from_micros(1)));
        self.socket.set_read_timeout(left)?;
        let mut data = vec![0; 65_536];
        match self.socket.recv_from(&mut data) {
            Ok((len, remote)) => {
                let path = NetPath { local: INTERFACE, remote };
                self.arrived = Some(Datagram { path, ecn: None, data: data[..len].into() });
                Ok(())
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

fn serve(socket: UdpSocket, tls: &ServerTls) -> io::Result<()> {
    Driver::new(socket, Some(tls)).run(|_, _, event| match event {
        Event::Received(block) => println!("server: block {} of {} bytes", block.id.0, block.data.len()),
        Event::Closed(reason) => println!("server: {reason}"),
        _ => {}
    })
}

fn send(socket: UdpSocket, tls: ClientTls, server: SocketAddr) -> Result<(), Box<dyn Error>> {
    let path = NetPath { local: INTERFACE, remote: server };
    let mut driver = Driver::new(socket, None);
    let target = Target { tls, server_name: "localhost".into(), interfaces: vec![vec![path]], config: None };
    driver.endpoint.connect(Instant::now(), target)?;
    let mut open = BLOCKS;
    driver.run(|endpoint, id, event| {
        let (now, Some(session)) = (Instant::now(), endpoint.session(id)) else { return };
        match event {
            Event::Connected => {
                session.report_outcomes(true);
                for n in 0..BLOCKS {
                    let options = BlockOptions::new().deadline(Duration::from_secs(5));
                    session.send(now, Block::with(vec![0; 1_000 * (n + 1)], options)).expect("there is room");
                }
            }
            Event::Ended { id, outcome } => {
                println!("client: block {}: {outcome:?}", id.0);
                open -= 1;
                if open == 0 {
                    session.close(now, 0, "done");
                }
            }
            _ => {}
        }
    })?;
    Ok(())
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let (certificate, key) = squall_testkit::certificate("localhost");
    let client_tls = ClientTls::pinned(fingerprint_of(&certificate))?;
    let server_tls = ServerTls::new(vec![certificate], key)?;
    let (server, client) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
    let address = server.local_addr()?;
    let server = thread::spawn(move || serve(server, &server_tls));
    send(client, client_tls, address)?;
    server.join().expect("the server does not panic")?;
    Ok(())
}
