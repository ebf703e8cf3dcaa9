//! Receiver of frames.

use std::{collections::BTreeMap, io, net::UdpSocket, time::Duration};

use nix::sys::socket::{setsockopt, sockopt::RcvBufForce};
use squall_versus_stream as stream;

use crate::clock::now_us;

/// Size of the socket's buffer: a second of the fastest stream, or less if the system grants less.
const BUFFER: usize = 8 << 20;

/// A frame of which packets are missing.
struct Partial {
    /// `true` for each packet that has arrived.
    seen: Vec<bool>,
    missing: usize,
}

/// Receives packets for this time; returns the latency of each complete frame in microseconds, by
/// frame number.
///
/// # Errors
///
/// If no socket can be opened at the port.
pub(crate) fn watch(port: u16, time: Duration) -> io::Result<BTreeMap<u32, u64>> {
    let socket = UdpSocket::bind(("127.0.0.1", port))?;
    if setsockopt(&socket, RcvBufForce, &BUFFER).is_err() {
        socket2::SockRef::from(&socket).set_recv_buffer_size(BUFFER)?;
    }
    socket.set_read_timeout(Some(Duration::from_millis(50)))?;
    let end = now_us() + time.as_micros() as u64;
    let (mut partial, mut complete) = (BTreeMap::<u32, Partial>::new(), BTreeMap::new());
    let mut buffer = [0; 2_048];
    while now_us() < end {
        let Ok(length) = socket.recv(&mut buffer) else { continue };
        let now = now_us();
        let Some(stamp) = stream::read(&buffer[..length]) else { continue };
        if complete.contains_key(&stamp.frame) {
            continue;
        }
        let count = usize::from(stamp.count);
        let frame = partial
            .entry(stamp.frame)
            .or_insert_with(|| Partial { seen: vec![false; count], missing: count });
        match frame.seen.get_mut(usize::from(stamp.index)) {
            Some(seen) if !*seen => *seen = true,
            // A duplicate.
            _ => continue,
        }
        frame.missing -= 1;
        if frame.missing == 0 {
            partial.remove(&stamp.frame);
            complete.insert(stamp.frame, now.saturating_sub(stamp.taken_us));
        }
    }
    Ok(complete)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stream::{PACKET, Stamp, Stream};

    #[test]
    fn a_frame_is_there_with_its_last_packet_and_copies_do_not_count() {
        let stream = Stream { rate_bps: 8_000_000, fps: 30 };
        let port = squall_testkit::reserve_port();
        let sink = std::thread::spawn(move || watch(port, Duration::from_millis(400)).unwrap());
        std::thread::sleep(Duration::from_millis(100));
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let send = |frame, index| {
            let mut packet = [0; PACKET];
            stream.write(&mut packet, index, Stamp { frame, index, count: 2, taken_us: now_us() });
            socket.send_to(&packet, ("127.0.0.1", port)).unwrap();
        };
        for (frame, index) in [(0, 0), (0, 0), (1, 1), (0, 1), (1, 1), (1, 0), (2, 0)] {
            send(frame, index);
        }
        let frames = sink.join().unwrap();
        assert_eq!(frames.keys().copied().collect::<Vec<_>>(), [0, 1]);
        assert!(frames.values().all(|latency| *latency < 100_000), "{frames:?}");
    }
}
