//! Estimated bitrate of the session, for an encoder to follow. It runs in its own thread, because
//! it calls the application (`notify::estimated-bitrate`) and the elements upstream.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::Duration,
};

use gstreamer::{self as gst, glib};
use squall::Session;

use super::{SquallSink, imp::Upstream};
use crate::LOG;

/// Interval at which the forecast is read.
const PERIOD: Duration = Duration::from_millis(20);

/// Divisor of the latency within which a picture must be able to arrive: after the loss of a path,
/// queued blocks need part of the latency.
const PART: u32 = 2;

const PROBABILITY: f64 = 0.9;

/// Ratio below which a decrease is reported.
const DOWN: f64 = 0.97;
/// Ratio above which an increase is reported.
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

/// Returns the bitrate in bits per second with frames of this length; `None` while the session has
/// no measurements.
pub(crate) fn estimate(session: &Session, frame: Duration, latency: Duration) -> Option<u64> {
    let capacity = session.capacity();
    let burst = session.deliverable(latency / PART, PROBABILITY) * 8;
    let burst = (burst as f64 / frame.as_secs_f64().max(0.001)) as u64;
    gst::trace!(LOG, "{capacity:?}, {burst} bit/s for a frame");
    (capacity.safe > 0).then(|| capacity.safe.min(burst))
}

/// `true` if a change must be reported.
pub(crate) fn differs(before: u32, now: u32) -> bool {
    let (before, now) = (f64::from(before), f64::from(now));
    now < before * DOWN || now > before * UP
}
