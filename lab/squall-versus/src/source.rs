//! Sender of frames.

use std::{io, net::UdpSocket, time::Duration};

use squall_versus_stream::{PACKET, Stamp, Stream};

use crate::clock::now_us;

/// Time over which the packets of a frame are sent, as by an encoder: the receiving socket has a
/// finite buffer.
const SPREAD_US: u64 = 5_000;

/// Packets sent at a time.
const BURST: u16 = 8;

/// Sends frames with these numbers of packets; returns the time of the first one.
///
/// # Errors
///
/// If no socket can be opened.
pub(crate) fn play(stream: Stream, frames: &[u16], to: (&str, u16)) -> io::Result<u64> {
    let socket = UdpSocket::bind(("127.0.0.1", 0))?;
    socket.connect(to)?;
    let start = now_us();
    let (mut packet, mut sequence) = ([0x5a; PACKET], 0);
    for (number, &count) in (0..).zip(frames) {
        let due = start + u64::from(number) * stream.interval_us();
        wait_until(due);
        let taken_us = now_us();
        for index in 0..count {
            if index.is_multiple_of(BURST) {
                wait_until(due + SPREAD_US * u64::from(index) / u64::from(count));
            }
            stream.write(&mut packet, sequence, Stamp { frame: number, index, count, taken_us });
            sequence = sequence.wrapping_add(1);
            // A packet is lost if the carrier is not yet or no longer running.
            let _ = socket.send(&packet);
        }
    }
    Ok(start)
}

fn wait_until(due: u64) {
    let rest = due.saturating_sub(now_us());
    if rest > 0 {
        std::thread::sleep(Duration::from_micros(rest));
    }
}
