//! Where frames come from.

use std::{io, net::UdpSocket, time::Duration};

use crate::{
    clock::now_us,
    stream::{PACKET, Stamp, Stream},
};

/// An encoder's packets leave it over so long a time, for whoever reads them has a buffer like any socket's.
const SPREAD_US: u64 = 5_000;

/// Packets at a time.
const BURST: u16 = 8;

/// Hands over frames for so long; how many there were.
///
/// # Errors
///
/// If there is no socket to send from.
pub(crate) fn play(stream: Stream, to: (&str, u16), time: Duration) -> io::Result<u32> {
    let socket = UdpSocket::bind(("127.0.0.1", 0))?;
    socket.connect(to)?;
    let frames = time.as_micros() as u64 / stream.interval_us();
    let start = now_us();
    let mut packet = [0x5a; PACKET];
    for number in 0..frames {
        let due = start + number * stream.interval_us();
        wait_until(due);
        let (taken_us, count) = (now_us(), stream.packets());
        for index in 0..count {
            if index.is_multiple_of(BURST) {
                wait_until(due + SPREAD_US * u64::from(index) / u64::from(count));
            }
            stream.write(&mut packet, Stamp { frame: number as u32, index, count, taken_us });
            // A carrier that is not there yet, or not any more, loses it.
            let _ = socket.send(&packet);
        }
    }
    Ok(frames as u32)
}

fn wait_until(due: u64) {
    let rest = due.saturating_sub(now_us());
    if rest > 0 {
        std::thread::sleep(Duration::from_micros(rest));
    }
}
