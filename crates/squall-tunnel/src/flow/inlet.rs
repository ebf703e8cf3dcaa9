//! Takes in a flow's datagrams.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, PoisonError, atomic::Ordering::Relaxed},
};

use tokio::time::sleep_until;

use super::Flow;
use crate::{config::End, gather::Gatherer};

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

/// Takes in what is there.
fn take_in(flow: &Arc<Flow>, gatherer: &mut Gatherer, buffer: &mut [u8]) {
    let before = gatherer.media();
    for _ in 0..BATCH {
        match flow.socket.try_recv_from(buffer) {
            Ok((length, from)) if is_expected(flow, from) => {
                #[cfg(test)]
                crate::supervise::trap(&buffer[..length], b"panic in the inlet");
                flow.tally.datagrams_in.fetch_add(1, Relaxed);
                gatherer.push(flow.clock.now(), &buffer[..length], &mut |parcel| flow.dispatch(parcel));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            // Told of a datagram that was sent before: nobody listens there.
            Err(_) => {}
        }
    }
    let media = gatherer.media();
    if media != before {
        flow.note_media(media);
        tracing::info!(flow = flow.config().name, media = media.name(), "what the flow carries is clear now");
    }
}

/// Whether a datagram is the flow's: at an `out` end only what its target sends back.
fn is_expected(flow: &Flow, from: SocketAddr) -> bool {
    match flow.config().end {
        End::Out(target) => from == target || target.ip().is_multicast(),
        End::In(_) => {
            *flow.sender.lock().unwrap_or_else(PoisonError::into_inner) = Some(from);
            true
        }
    }
}
