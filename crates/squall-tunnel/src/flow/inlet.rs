//! Reads the datagrams of a flow from its socket.

use std::{
    future::pending,
    io,
    net::SocketAddr,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use squall_observe::{
    clock::lock,
    journal::{Journal, Kind},
};
use squall_units::Span;
use tokio::time::sleep_until;

use super::{
    Flow,
    gather::Gatherer,
    live::{FlowSocket, Opened},
    socket::{Arrival, granted, receive},
};
use crate::config::End;

/// Maximum number of datagrams that are read before other tasks run.
const BATCH: usize = 64;

/// Maximum size of a datagram in bytes.
const MAX_DATAGRAM: usize = 65_536;

/// Reads datagrams until the task is aborted or the socket fails. A failed socket is opened again
/// by the next run.
pub(super) async fn run(
    flow: Arc<Flow>,
    socket: Arc<FlowSocket>,
    journal: Arc<Journal>,
) -> Result<(), String> {
    let mut config = flow.config.subscribe();
    let mut gatherer = Gatherer::new(&config.borrow_and_update().clone());
    let mut buffer = vec![0; MAX_DATAGRAM];
    let name = config.borrow().name.clone();
    let keep = socket.keep(&name, &flow.counters, &journal);
    let (mut sockets, mut keep) = (socket.subscribe(), std::pin::pin!(keep));
    loop {
        let opened = sockets.borrow_and_update().clone();
        let readable = async {
            match &opened {
                Some(opened) => opened.socket.readable().await.map(|()| opened),
                None => pending().await,
            }
        };
        let ends_at = gatherer.poll_timeout().and_then(|at| flow.clock.instant(at));
        let due = ends_at.unwrap_or_else(Instant::now).into();
        tokio::select! {
            biased;
            never = &mut keep => match never {},
            changed = config.changed() => {
                if changed.is_err() {
                    return Ok(());
                }
                gatherer.close(&mut |frame| flow.dispatch(frame));
                gatherer = Gatherer::new(&config.borrow_and_update().clone());
            }
            // The next round reads from the new socket.
            _ = sockets.changed() => {}
            ready = readable => {
                let read = ready.and_then(|opened| read_batch(&flow, opened, &journal, &mut gatherer, &mut buffer));
                if let Err(error) = read {
                    socket.close();
                    return Err(format!("its socket cannot be read: {error}"));
                }
            }
            () = sleep_until(due), if ends_at.is_some() => {
                gatherer.handle_timeout(flow.clock.now(), &mut |frame| flow.dispatch(frame));
            }
        }
    }
}

/// Reads the pending datagrams, and dispatches them together.
///
/// # Errors
/// If every read fails.
fn read_batch(
    flow: &Arc<Flow>,
    opened: &Opened,
    journal: &Journal,
    gatherer: &mut Gatherer,
    buffer: &mut [u8],
) -> io::Result<()> {
    let (before, mut failures) = ((gatherer.media(), gatherer.problem()), 0);
    for _ in 0..BATCH {
        match receive(&opened.socket, buffer) {
            Ok(Arrival { length, from, age, overflowed }) => {
                if let Some(lost) = flow.counters.overflowed(opened.overflowed(overflowed)) {
                    report_overflow(flow, journal, lost, granted(&opened.socket));
                }
                push(flow, gatherer, &buffer[..length], from, age);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            // An ICMP error for an earlier datagram: its target does not listen.
            Err(error) => {
                failures += 1;
                if failures == BATCH {
                    return Err(error);
                }
            }
        }
    }
    gatherer.flush(&mut |frame| flow.dispatch(frame));
    let (media, problem) = (gatherer.media(), gatherer.problem());
    if media != before.0 {
        flow.set_media(media);
        tracing::info!(flow = flow.config().name, media = media.name(), "the media of the flow is detected");
    }
    if problem != before.1
        && let Some(problem) = flow.set_problem(problem)
    {
        journal.warn(Kind::Flow, format!("flow '{}': {problem}", flow.config().name));
    }
    Ok(())
}

/// Reports the first datagrams lost on this machine. The status counts further ones.
fn report_overflow(flow: &Flow, journal: &Journal, lost: u64, buffer: usize) {
    let name = &flow.config().name;
    let datagrams = if lost == 1 { "datagram" } else { "datagrams" };
    let words = format!(
        "flow '{name}': {lost} {datagrams} lost on this machine, in the buffer of its socket of {} kB; a larger net.core.rmem_max \
         allows up to 4 MiB",
        buffer / 1_000
    );
    journal.warn(Kind::Flow, words);
}

/// Passes a datagram on, unless it waited too long in the socket, for instance while this process
/// was stopped.
fn push(flow: &Arc<Flow>, gatherer: &mut Gatherer, datagram: &[u8], from: SocketAddr, age: Duration) {
    #[cfg(test)]
    crate::trap(datagram, b"panic in the inlet");
    if !is_expected(flow, from) {
        return;
    }
    flow.enters(1);
    if age >= flow.config().latency_or_default() {
        flow.counters.stale.fetch_add(1, Relaxed);
        return;
    }
    gatherer.push(flow.clock.now() - Span::from(age), datagram, &mut |frame| flow.dispatch(frame));
}

/// `true` if a datagram belongs to the flow. At an `out` end it must come from the target, or, for
/// a group, from a permitted sender; at an `in` end from a permitted sender, if any are configured.
/// Others are counted.
fn is_expected(flow: &Flow, from: SocketAddr) -> bool {
    let config = flow.config();
    let is_permitted = |otherwise| config.from.map_or(otherwise, |source| source.contains(from.ip()));
    let is_expected = match config.end {
        End::Out(target) if target.ip().is_multicast() => is_permitted(false),
        End::Out(target) => from == target,
        End::In(_) => is_permitted(true),
        // Packets of a TUN device have no sender address.
        End::TunIn | End::TunOut => false,
    };
    if !is_expected {
        flow.counters.foreign.fetch_add(1, Relaxed);
    } else if config.is_in() {
        *lock(&flow.sender) = Some(from);
    }
    is_expected
}

#[cfg(test)]
mod tests {
    use super::{super::tests::out, *};
    use crate::flow::counters::FlowCounters;

    #[tokio::test]
    async fn a_target_replies_and_a_group_only_where_its_members_are_named() {
        let at = |address: &str| address.parse().expect("is an address");
        let member = "192.0.2.7:9";
        for (flow, from, is_taken) in [
            ("x=udp://192.0.2.7:9", member, true),
            ("x=udp://192.0.2.7:9", "192.0.2.7:8", false),
            ("x=udp://239.1.2.3:9", member, false),
            ("x=udp://239.1.2.3:9,from=192.0.2.0/24", member, true),
            ("x=udp://239.1.2.3:9,from=192.0.2.0/24", "198.51.100.7:9", false),
            ("x=udp://[ff02::9]:9", "[fe80::7]:9", false),
            ("x=udp://[ff02::9]:9,from=fe80::/10", "[fe80::7]:9", true),
        ] {
            let flow_end = out(flow);
            let mut gatherer = Gatherer::new(&flow_end.config());
            push(&flow_end, &mut gatherer, b"reply", at(from), Duration::ZERO);
            let FlowCounters { datagrams_in, foreign, .. } = &flow_end.counters;
            let counts = (datagrams_in.load(Relaxed), foreign.load(Relaxed));
            assert_eq!(counts, (is_taken.into(), (!is_taken).into()), "{flow} from {from}");
        }
    }
}
