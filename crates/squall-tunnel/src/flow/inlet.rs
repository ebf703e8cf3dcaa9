//! Takes in a flow's datagrams.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, PoisonError, atomic::Ordering::Relaxed},
    time::Duration,
};

use tokio::time::sleep_until;

use super::{
    Flow,
    receive::{Arrival, receive},
};
use crate::{
    config::End,
    gather::{Gatherer, micros},
};

/// Datagrams taken in at a time before others have their turn.
const BATCH: usize = 64;

/// Largest datagram.
const MAX_DATAGRAM: usize = 65_536;

/// Runs until it is aborted, or the socket cannot be read.
pub(super) async fn run(flow: Arc<Flow>) -> Result<(), String> {
    let mut config = flow.config.subscribe();
    let mut gatherer = Gatherer::new(&config.borrow_and_update().clone());
    let mut buffer = vec![0; MAX_DATAGRAM];
    loop {
        let ends_at = gatherer.poll_timeout().and_then(|at| flow.clock.instant(at));
        let due = ends_at.unwrap_or_else(std::time::Instant::now).into();
        tokio::select! {
            biased;
            changed = config.changed() => {
                if changed.is_err() {
                    return Ok(());
                }
                gatherer.close(&mut |parcel| flow.dispatch(parcel));
                gatherer = Gatherer::new(&config.borrow_and_update().clone());
            }
            ready = flow.socket.readable() => {
                ready.map_err(|error| format!("its socket cannot be read: {error}"))?;
                take_in(&flow, &mut gatherer, &mut buffer);
            }
            () = sleep_until(due), if ends_at.is_some() => {
                gatherer.handle_timeout(flow.clock.now(), &mut |parcel| flow.dispatch(parcel));
            }
        }
    }
}

/// Takes in what is there, and hands it over together.
fn take_in(flow: &Arc<Flow>, gatherer: &mut Gatherer, buffer: &mut [u8]) {
    let before = gatherer.media();
    for _ in 0..BATCH {
        match receive(&flow.socket, buffer) {
            Ok(Arrival { length, from, age }) => take(flow, gatherer, &buffer[..length], from, age),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            // Told of a datagram that was sent before: nobody listens there.
            Err(_) => {}
        }
    }
    gatherer.flush(&mut |parcel| flow.dispatch(parcel));
    let media = gatherer.media();
    if media != before {
        flow.note_media(media);
        tracing::info!(flow = flow.config().name, media = media.name(), "what the flow carries is clear now");
    }
}

/// Takes in a datagram that has waited for its age in the socket, while this process did not run for instance.
fn take(flow: &Arc<Flow>, gatherer: &mut Gatherer, datagram: &[u8], from: SocketAddr, age: Duration) {
    #[cfg(test)]
    crate::supervise::trap(datagram, b"panic in the inlet");
    if !is_expected(flow, from) {
        return;
    }
    flow.tally.datagrams_in.fetch_add(1, Relaxed);
    if age >= flow.config().latency_or_default() {
        flow.tally.stale.fetch_add(1, Relaxed);
        return;
    }
    // What waits for less than a turn of the runtime is as good as fresh; the order of stamps stays that of arrival.
    let stamp = flow.clock.now().saturating_sub(micros(age));
    gatherer.push(stamp, datagram, &mut |parcel| flow.dispatch(parcel));
}

/// Whether a datagram is the flow's: at an `out` end only what its target sends back, at an `in` end what comes from
/// the source that is set.
fn is_expected(flow: &Flow, from: SocketAddr) -> bool {
    let config = flow.config();
    match config.end {
        End::Out(target) => from == target || target.ip().is_multicast(),
        End::In(_) if config.from.is_some_and(|source| !source.contains(from.ip())) => {
            flow.tally.foreign.fetch_add(1, Relaxed);
            false
        }
        End::In(_) => {
            *flow.sender.lock().unwrap_or_else(PoisonError::into_inner) = Some(from);
            true
        }
    }
}
