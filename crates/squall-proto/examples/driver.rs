//! A complete driver of `squall-proto` on plain sockets: a server and a client on loopback, each on a thread of its own. The
//! client sends ten blocks, waits for their outcomes, and closes the session, which ends both.

use std::{
    error::Error,
    io::{self, ErrorKind},
    net::{SocketAddr, UdpSocket},
    thread,
    time::{Duration, Instant},
};

use squall_proto::{
    Block, BlockOptions, ClientTls, Config, Endpoint, Event, Interface, NetPath, ServerTls, Session, Target,
    fingerprint_of,
};

const BLOCKS: usize = 10;

/// The only interface of each side.
const LOCAL: Interface = Interface(0);

/// Drives an endpoint until a session has ended.
fn drive(
    mut endpoint: Endpoint,
    socket: &UdpSocket,
    mut on_event: impl FnMut(&mut Session, Event),
) -> io::Result<()> {
    let (mut packet, mut datagram, mut ended) = (Vec::new(), vec![0; 65_536], false);
    loop {
        while let Some((id, event)) = endpoint.poll() {
            ended |= matches!(event, Event::Closed(_));
            if let Some(session) = endpoint.session(id) {
                on_event(session, event);
            }
        }
        while let Some(transmit) = endpoint.poll_transmit(Instant::now(), 1, &mut packet) {
            // A packet that cannot leave is lost.
            let _ = socket.send_to(&packet[..transmit.size], transmit.path.remote);
            packet.clear();
        }
        if ended {
            return Ok(());
        }
        let wait = endpoint.poll_timeout().map(|due| due.saturating_duration_since(Instant::now()));
        socket.set_read_timeout(wait.map(|wait| wait.max(Duration::from_micros(1))))?;
        match socket.recv_from(&mut datagram) {
            Ok((len, remote)) => {
                let path = NetPath { local: LOCAL, remote };
                endpoint.handle(Instant::now(), path, None, datagram[..len].into());
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
        }
        endpoint.handle_timeout(Instant::now());
    }
}

fn serve(socket: &UdpSocket, tls: &ServerTls) -> io::Result<()> {
    let endpoint = Endpoint::new(Config::default(), Some(tls), None, Instant::now());
    drive(endpoint, socket, |_, event| {
        if let Event::Received(block) = event {
            println!("server: block {} of {} bytes", block.id.0, block.data.len());
        }
    })
}

fn send(socket: &UdpSocket, tls: ClientTls, server: SocketAddr) -> Result<(), Box<dyn Error>> {
    let mut endpoint = Endpoint::new(Config::default(), None, None, Instant::now());
    let interfaces = vec![vec![NetPath { local: LOCAL, remote: server }]];
    let target = Target { tls, server_name: "localhost".into(), interfaces, config: None };
    endpoint.connect(Instant::now(), target)?;
    let mut open = BLOCKS;
    drive(endpoint, socket, |session, event| match event {
        Event::Connected => {
            session.report_outcomes(true);
            for n in 1..=BLOCKS {
                let options = BlockOptions::new().deadline(Duration::from_secs(5));
                session
                    .send(Instant::now(), Block::with(vec![0; 1_000 * n], options))
                    .expect("there is room");
            }
        }
        Event::Ended { id, outcome } => {
            println!("client: block {}: {outcome:?}", id.0);
            open -= 1;
            if open == 0 {
                session.close(Instant::now(), 0, "done");
            }
        }
        _ => {}
    })?;
    Ok(())
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let (certificate, key) = squall_testkit::certificate("localhost");
    let client_tls = ClientTls::pinned(fingerprint_of(&certificate))?;
    let server_tls = ServerTls::new(vec![certificate], key)?;
    let (server, client) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
    let address = server.local_addr()?;
    let server = thread::spawn(move || serve(&server, &server_tls));
    send(&client, client_tls, address)?;
    server.join().expect("the server does not panic")?;
    Ok(())
}
