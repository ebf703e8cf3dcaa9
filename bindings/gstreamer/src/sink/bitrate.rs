//! The bitrate that the session can carry, for an encoder to follow. A thread of its own, because it calls the application
//! (`notify::estimated-bitrate`) and the elements upstream.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::Duration,
};

use gstreamer::glib;
use squall::Session;

use super::{SquallSink, imp::Upstream};

/// How often the forecast is read.
const PERIOD: Duration = Duration::from_millis(20);

/// A block is as large as can arrive within this time, in one frame: after the loss of a path, blocks that wait take their share.
const BURST: Duration = Duration::from_millis(100);

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
pub(crate) fn estimate(session: &Session, frame: Duration) -> Option<u64> {
    let safe = session.capacity().safe;
    let burst = session.deliverable(BURST, PROBABILITY) * 8;
    let burst = burst as f64 / frame.as_secs_f64().max(0.001);
    (safe > 0).then(|| safe.min(burst as u64))
}

/// Whether a change is worth a report.
pub(crate) fn differs(before: u32, now: u32) -> bool {
    let (before, now) = (f64::from(before), f64::from(now));
    now < before * DOWN || now > before * UP
}
