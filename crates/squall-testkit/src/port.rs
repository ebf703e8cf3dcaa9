//! Reserved loopback ports for programs that do not accept port 0.

use std::net::{SocketAddr, UdpSocket};

use socket2::{Domain, Socket, Type};

/// First of the ports used, all below those that systems choose for port 0.
const FIRST: u16 = 10_000;
/// Number of the ports used.
const COUNT: u32 = 22_000;

/// Reserves a UDP port until this process ends: no other call returns it, in this or another
/// process, and no socket bound to port 0 gets it. TCP connections to it are refused.
///
/// # Panics
/// If all ports are in use.
pub fn reserve_port() -> u16 {
    let first = std::process::id().wrapping_mul(97);
    let ports = (0..COUNT).map(|n| FIRST + (first.wrapping_add(n) % COUNT) as u16);
    ports.into_iter().find(|port| is_reserved(*port)).expect("a port is free")
}

/// Reserves a port by a TCP socket that is bound and does not listen.
fn is_reserved(port: u16) -> bool {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let Ok(reservation) = Socket::new(Domain::IPV4, Type::STREAM, None) else { return false };
    let is_free = reservation.bind(&address.into()).is_ok() && UdpSocket::bind(("0.0.0.0", port)).is_ok();
    if is_free {
        // The reservation lasts until the process ends.
        std::mem::forget(reservation);
    }
    is_free
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_reserved_once_and_free_for_udp() {
        let ports = [(); 20].map(|()| reserve_port());
        let mut different = ports.to_vec();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), ports.len());
        for port in ports {
            let address = SocketAddr::from(([127, 0, 0, 1], port));
            assert!(UdpSocket::bind(address).is_ok());
            let refused = std::net::TcpStream::connect(address).expect_err("does not listen");
            assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        }
    }
}
