//! The bitrate that the session can carry, for an encoder to follow. A thread of its own, because it calls the application
//! (`notify::estimated-bitrate`) and the elements upstream.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::Duration,
};

use gstreamer::{self as gst, glib};
use squall::Session;

use super::{SquallSink, imp::Upstream};
use crate::LOG;

/// How often the forecast is read.
const PERIOD: Duration = Duration::from_millis(20);

/// A picture is at most as large as can arrive within this part of the latency: after the loss of a path, blocks that wait take
/// their share.
const PART: u32 = 2;

const PROBABILITY: f64 = 0.9;

/// Changes below these are not reported: down, up.
const DOWN: f64 = 0.97;
const UP: f64 = 1.03;

/// Runs until the sink is stopped.
pub(crate) fn follow(sink: &glib::WeakRef<SquallSink>, commands: &Receiver<Upstream>) {
    loop {
        let command = commands.recv_timeout(PERIOD);
        let Some(sink) = sink.upgrade() else { return };
        match command {
            Ok(Upstream::Key) => sink.request_key(),
            Err(RecvTimeoutError::Timeout) => sink.report_bitrate(),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// The bitrate in bits per second with frames this long; `None` while the session has measured nothing.
pub(crate) fn estimate(session: &Session, frame: Duration, latency: Duration) -> Option<u64> {
    let capacity = session.capacity();
    let burst = session.deliverable(latency / PART, PROBABILITY) * 8;
    let burst = (burst as f64 / frame.as_secs_f64().max(0.001)) as u64;
    gst::trace!(LOG, "{capacity:?}, {burst} bit/s for a frame");
    (capacity.safe > 0).then(|| capacity.safe.min(burst))
}

/// Whether a change is worth a report.
pub(crate) fn differs(before: u32, now: u32) -> bool {
    let (before, now) = (f64::from(before), f64::from(now));
    now < before * DOWN || now > before * UP
}
