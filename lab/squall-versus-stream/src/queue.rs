//! Frames between a socket and a connection.

use std::{
    io,
    net::UdpSocket,
    sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
};

use nix::sys::socket::{setsockopt, sockopt::RcvBufForce};

use crate::{SINK_PORT, SOURCE_PORT, stream};

/// Maximum number of queued frames. Frames that the links cannot carry are dropped here instead of
/// being queued indefinitely.
const FRAMES: usize = 150;

/// Size of the socket's buffer: several frames, or less if the system grants less.
const BUFFER: usize = 4 << 20;

/// Packets of a frame, each after its length (two bytes, big-endian).
pub type Frame = Vec<u8>;

/// Reads the source's packets frame by frame, in a thread of its own: a frame is passed on when its
/// last packet has arrived. At most 150 frames are queued; later ones are dropped.
///
/// # Errors
///
/// If the source's port cannot be bound, or the thread cannot be started.
pub fn frames() -> io::Result<Receiver<Frame>> {
    let socket = UdpSocket::bind(("127.0.0.1", SOURCE_PORT))?;
    if setsockopt(&socket, RcvBufForce, &BUFFER).is_err() {
        socket2::SockRef::from(&socket).set_recv_buffer_size(BUFFER)?;
    }
    let (give, take) = sync_channel(FRAMES);
    std::thread::Builder::new().name("frames".to_owned()).spawn(move || gather(&socket, &give))?;
    Ok(take)
}

fn gather(socket: &UdpSocket, give: &SyncSender<Frame>) {
    let (mut frame, mut buffer) = (Frame::new(), [0; 2_048]);
    while let Ok(length) = socket.recv(&mut buffer) {
        let packet = &buffer[..length];
        frame.extend((length as u16).to_be_bytes());
        frame.extend(packet);
        if stream::read(packet).is_some_and(|stamp| stamp.index + 1 == stamp.count)
            && let Err(TrySendError::Disconnected(_)) = give.try_send(std::mem::take(&mut frame))
        {
            return;
        }
        frame.truncate(if frame.len() > BUFFER { 0 } else { frame.len() });
    }
}

/// Splits a stream of bytes into packets and sends them to the sink.
#[derive(Debug)]
pub struct Scatter {
    socket: UdpSocket,
    rest: Vec<u8>,
}

impl Scatter {
    /// Creates one without pending bytes.
    ///
    /// # Errors
    ///
    /// If no socket can be opened.
    pub fn new() -> io::Result<Self> {
        let socket = UdpSocket::bind(("127.0.0.1", 0))?;
        socket.connect(("127.0.0.1", SINK_PORT))?;
        Ok(Self { socket, rest: Vec::new() })
    }

    /// Takes more bytes and sends all complete packets.
    pub fn take(&mut self, bytes: &[u8]) {
        self.rest.extend(bytes);
        let mut at = 0;
        while let Some(length) = self.rest.get(at..at + 2) {
            let end = at + 2 + usize::from(u16::from_be_bytes([length[0], length[1]]));
            let Some(packet) = self.rest.get(at + 2..end) else { break };
            // A sink that has ended needs no more packets.
            let _ = self.socket.send(packet);
            at = end;
        }
        self.rest.drain(..at);
    }
}
