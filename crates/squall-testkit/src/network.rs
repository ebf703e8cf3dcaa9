//! Network in front of a server on loopback, whose paths can fail.

use std::{
    collections::{HashMap, HashSet},
    net::{IpAddr, SocketAddr, UdpSocket},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Interval at which threads check for the end of the network.
const CHECK: Duration = Duration::from_millis(20);

/// Forwards UDP datagrams to a server, and answers back. Datagrams of clients whose address has
/// failed are dropped in both directions.
#[derive(Debug)]
pub struct Network {
    port: u16,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    is_gone: bool,
    failed: HashSet<IpAddr>,
    is_over: bool,
}

fn read<T>(state: &Mutex<State>, read: impl FnOnce(&mut State) -> T) -> T {
    read(&mut state.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Calls `each` for every datagram until the network ends.
fn forward(socket: &UdpSocket, state: &Mutex<State>, mut each: impl FnMut(&[u8], SocketAddr)) {
    let mut buffer = vec![0; 65_536];
    while !read(state, |state| state.is_over) {
        if let Ok((length, from)) = socket.recv_from(&mut buffer) {
            each(&buffer[..length], from);
        }
    }
}

fn bind() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("is bound");
    socket.set_read_timeout(Some(CHECK)).expect("is set");
    socket
}

impl Network {
    /// Creates a network in front of this server.
    pub fn before(server: SocketAddr) -> Self {
        let front = bind();
        let port = front.local_addr().expect("is bound").port();
        let state = Arc::new(Mutex::new(State::default()));
        let network = Self { port, state: state.clone() };
        std::thread::spawn(move || {
            // Each client has its own socket towards the server.
            let mut behind: HashMap<SocketAddr, UdpSocket> = HashMap::new();
            forward(&front, &state, |datagram, from| {
                let back = behind.entry(from).or_insert_with(|| {
                    let socket = bind();
                    let (reader, front) = (socket.try_clone().expect("is"), front.try_clone().expect("is"));
                    let state = state.clone();
                    std::thread::spawn(move || {
                        forward(&reader, &state, |datagram, _| {
                            if read(&state, |state| state.passes(from)) {
                                let _ = front.send_to(datagram, from);
                            }
                        });
                    });
                    socket
                });
                if read(&state, |state| state.passes(from)) {
                    let _ = back.send_to(datagram, server);
                }
            });
        });
        network
    }

    /// Returns the address at which clients reach the server.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Starts or stops dropping all datagrams; those of [`Self::fail`] are dropped in any case.
    pub fn set_gone(&self, is_gone: bool) {
        read(&self.state, |state| state.is_gone = is_gone);
    }

    /// Drops the datagrams of a client's address from now on.
    pub fn fail(&self, address: impl Into<IpAddr>) {
        read(&self.state, |state| state.failed.insert(address.into()));
    }
}

impl State {
    fn passes(&self, client: SocketAddr) -> bool {
        !self.is_gone && !self.failed.contains(&client.ip())
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        read(&self.state, |state| state.is_over = true);
    }
}
