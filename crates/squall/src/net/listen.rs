//! Sockets of several workers on the same addresses.
//!
//! On Linux each worker has its own socket on every listening address (`SO_REUSEPORT`, socket(7)),
//! and a BPF program in the kernel delivers each packet to the worker that its connection id names:
//! [`worker_of`](squall_proto::worker_of). A session therefore stays with its worker when the
//! addresses of its peer change. A few packets still reach another worker, for instance if the
//! network card has merged packets of two sessions of one peer; workers hand them over to each
//! other.

#[cfg(target_os = "linux")]
use std::sync::Arc;
use std::{io, net::SocketAddr};

use super::{socket::Binding, sockets::Sockets};

/// Binds a socket for each worker to an address; returns the bound address.
///
/// The first socket is bound exclusively. An address in use by another process is then refused,
/// even if that process shares its own address, as a second instance of the same program does.
#[cfg(target_os = "linux")]
pub(crate) fn bind(workers: &mut [Sockets], addr: SocketAddr) -> io::Result<SocketAddr> {
    let Some((first, others)) = workers.split_first_mut() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let local = first.listen(addr, Binding::Address)?;
    if others.is_empty() {
        return Ok(local);
    }
    let mut bound = vec![first.last_for_others()?];
    for worker in others {
        worker.listen(local, Binding::Shared)?;
        bound.push(worker.last_for_others()?);
    }
    steering::attach(&bound)?;
    // The kernel numbers the sockets in the order of binding, and renumbers them when one is
    // closed. All therefore stay open until the last worker has ended.
    let bound = Arc::new(bound);
    workers.iter_mut().for_each(|worker| worker.keep(bound.clone()));
    Ok(local)
}

/// Binds the socket of the only worker to an address.
#[cfg(not(target_os = "linux"))]
pub(crate) fn bind(workers: &mut [Sockets], addr: SocketAddr) -> io::Result<SocketAddr> {
    match workers {
        [only] => only.listen(addr, Binding::Address),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

#[cfg(target_os = "linux")]
mod steering {
    //! The BPF program that distributes packets to workers.

    use std::{io, os::fd::OwnedFd};

    use nix::{
        libc::{
            BPF_A, BPF_ABS, BPF_ALU, BPF_AND, BPF_B, BPF_JA, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_MOD,
            BPF_RET, sock_filter, sock_fprog,
        },
        sys::socket::{setsockopt, sockopt::AttachReusePortCbpf},
    };
    use squall_proto::{LONG_ID_AT, MAX_WORKERS, SHORT_ID_AT};

    /// Attaches the program to the sockets of an address, one for each worker.
    pub(super) fn attach(sockets: &[OwnedFd]) -> io::Result<()> {
        let mut program = program(sockets.len());
        let program = sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        // The program applies to all sockets of the group.
        setsockopt(&sockets[0], AttachReusePortCbpf, &program)?;
        Ok(())
    }

    /// Builds [`worker_of`](squall_proto::worker_of) in classic BPF; the result is the index of the
    /// socket. Offsets begin at the UDP payload; a load beyond the end of the packet ends the
    /// program with 0.
    fn program(workers: usize) -> [sock_filter; 8] {
        let load = |at| instruction(BPF_LD | BPF_B | BPF_ABS, 0, 0, at);
        [
            load(0),
            instruction(BPF_JMP | BPF_JSET | BPF_K, 0, 2, 0x80),
            load(LONG_ID_AT),
            instruction(BPF_JMP | BPF_JA, 0, 0, 1),
            load(SHORT_ID_AT),
            instruction(BPF_ALU | BPF_AND | BPF_K, 0, 0, MAX_WORKERS - 1),
            instruction(BPF_ALU | BPF_MOD | BPF_K, 0, 0, workers),
            instruction(BPF_RET | BPF_A, 0, 0, 0),
        ]
    }

    fn instruction(code: u32, jt: u8, jf: u8, k: usize) -> sock_filter {
        sock_filter { code: code as u16, jt, jf, k: k as u32 }
    }
}
