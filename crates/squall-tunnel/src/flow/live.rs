//! Socket of a flow while the tunnel runs: opened once its interface and address exist, and opened
//! again when the interface changes.

use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use squall_observe::{
    clock::lock,
    journal::{Journal, Kind},
    wait::{POLL, Waiting, is_absent, problem},
};
use tokio::{net::UdpSocket, sync::watch, task::spawn_blocking, time::sleep};

use super::{
    counters::FlowCounters,
    place::{Place, Places},
    socket::{self, Purpose},
};
use crate::config::FlowConfig;

/// Silence after which a group is reported, and may move to the interface of the system's current
/// route.
const QUIET: Duration = Duration::from_secs(10);

/// Socket of a flow, which may not be open.
#[derive(Debug)]
pub(super) struct FlowSocket {
    purpose: Purpose,
    open: watch::Sender<Option<Arc<Opened>>>,
    /// Interface that the socket was opened for, and the time of opening.
    place: Mutex<Option<(Place, Instant)>>,
}

/// An open socket.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) socket: UdpSocket,
    /// Last reported number of dropped datagrams, modulo 2^32.
    overflowed: AtomicU32,
}

impl Opened {
    /// Returns the number of dropped datagrams since the last report. `count` is the socket's total
    /// of datagrams dropped for lack of room since it was opened, modulo 2^32. A kernel without
    /// such reports gives 0.
    pub(super) fn overflowed(&self, count: u32) -> u32 {
        if count == 0 { 0 } else { count.wrapping_sub(self.overflowed.swap(count, Relaxed)) }
    }
}

/// Reason why a socket is not open.
enum NotOpen {
    /// Temporary: opening is retried.
    Later(String),
    /// Permanent: the configuration must change.
    Never(io::Error),
}

impl FlowSocket {
    /// Creates the socket of a flow, and opens it now if its interface and address exist.
    pub(super) fn open(config: &FlowConfig, address: SocketAddr, journal: &Journal) -> io::Result<Self> {
        let (interface, ttl) = (config.interface.clone(), config.ttl);
        let purpose = Purpose { address, is_in: config.is_in(), interface, ttl };
        let socket = Self { purpose, open: watch::Sender::new(None), place: Mutex::default() };
        let places = socket.has_place().then(Places::list);
        match socket.open_at(places.as_ref(), &config.name, journal) {
            // The task of the flow reports the reason.
            Ok(()) | Err(NotOpen::Later(_)) => Ok(socket),
            Err(NotOpen::Never(error)) => Err(error),
        }
    }

    /// `true` if the socket belongs to an interface.
    fn has_place(&self) -> bool {
        self.purpose.is_group() && (self.purpose.is_in || self.purpose.interface.is_some())
    }

    /// Returns a receiver for the open socket and its replacements.
    pub(super) fn subscribe(&self) -> watch::Receiver<Option<Arc<Opened>>> {
        self.open.subscribe()
    }

    /// Closes the socket after a failure.
    pub(super) fn close(&self) {
        self.open.send_replace(None);
    }

    /// Sends a datagram. `None` if the socket is not open.
    pub(super) fn send(&self, datagram: &[u8], target: SocketAddr) -> Option<io::Result<usize>> {
        let open = self.open.borrow().clone();
        open.map(|open| open.socket.try_send_to(datagram, target))
    }

    /// Describes for messages why a datagram did not leave.
    pub(super) fn refusal(&self, target: SocketAddr, error: &io::Error) -> String {
        let hint = match (is_absent(error), self.purpose.is_group() && self.purpose.interface.is_none()) {
            (true, true) => "; no route leads to the group: set interface in the flow, or add a route",
            (true, false) if !self.purpose.is_group() => "; no route leads there",
            _ => "",
        };
        format!("datagrams do not leave for {target}: {}{hint}", problem(target, error))
    }

    /// Opens the socket, or a new one in its place.
    fn open_at(&self, places: Option<&Places>, name: &str, journal: &Journal) -> Result<(), NotOpen> {
        let place = places.map(|places| places.find(&self.purpose)).transpose().map_err(NotOpen::Later)?;
        let address = self.purpose.address;
        let opened = socket::open(&self.purpose, place.as_ref().map(|place| place.index));
        let socket = opened.map_err(|error| match is_absent(&error) {
            true => NotOpen::Later(match &place {
                Some(place) => {
                    format!("the group {} cannot be joined on {}: {error}", address.ip(), place.name)
                }
                None => format!("{}: {}", address, problem(address, &error)),
            }),
            false => NotOpen::Never(error),
        })?;
        if let (Some(place), Some(places), true) = (&place, places, self.purpose.is_in) {
            journal.info(Kind::Flow, self.joined(place, places, name));
        }
        *lock(&self.place) = place.map(|place| (place, Instant::now()));
        self.open.send_replace(Some(Arc::new(Opened { socket, overflowed: AtomicU32::new(0) })));
        Ok(())
    }

    fn joined(&self, place: &Place, places: &Places, name: &str) -> String {
        let words = format!("flow '{name}': group {} joined on {}", self.purpose.address.ip(), place.name);
        if self.purpose.interface.is_some() {
            return words;
        }
        format!("{words}, to which the routes of the system lead{}", other(places, place))
    }

    /// Keeps the socket of a flow open and in its group. `counters` show whether datagrams arrive.
    pub(super) async fn keep(&self, name: &str, counters: &FlowCounters, journal: &Journal) -> Infallible {
        let (mut waiting, mut traffic) = (Waiting::default(), Traffic::new(counters));
        loop {
            if !self.has_place() {
                // Nothing to do until it fails. The sender lives as long as `self`, so the wait
                // cannot end early.
                let _ = self.open.subscribe().wait_for(Option::is_none).await;
            }
            let places = match self.has_place() {
                true => Some(spawn_blocking(Places::list).await.unwrap_or_else(|_| Places::list())),
                false => None,
            };
            match self.renew(places.as_ref(), name, journal, traffic.last(counters)) {
                Ok(()) => waiting = Waiting::default(),
                Err(reason) => {
                    let words = format!("flow '{name}': {reason}; the flow waits for it");
                    waiting.report(journal, Kind::Flow, words);
                }
            }
            if let Some(places) = &places {
                self.report_quiet(places, name, journal, &mut traffic);
            }
            sleep(POLL).await;
        }
    }

    /// Opens the socket if it is not open, or if its interface has changed. `arrived` is the time
    /// of the latest datagram.
    fn renew(
        &self,
        places: Option<&Places>,
        name: &str,
        journal: &Journal,
        arrived: Option<Instant>,
    ) -> Result<(), String> {
        if let (true, Some(places)) = (self.open.borrow().is_some(), places) {
            let found = places.find(&self.purpose);
            let mut current = lock(&self.place);
            if let Some((place, since)) = current.as_mut().filter(|(place, _)| places.has(place)) {
                let is_configured = self.purpose.interface.is_some();
                let is_busy = arrived.is_some_and(|at| at >= *since && at.elapsed() < QUIET);
                let stays = match &found {
                    Ok(now) if place.serves(now, &self.purpose) => true,
                    // Datagrams still arrive: a change of the route to the group is no reason to
                    // leave this interface.
                    Ok(now) => !is_configured && now.index != place.index && is_busy,
                    Err(_) => !is_configured,
                };
                if stays {
                    if let Ok(now) = found
                        && now.index == place.index
                    {
                        place.is_running = now.is_running;
                    }
                    return Ok(());
                }
            }
        }
        self.open_at(places, name, journal).map_err(|absence| match absence {
            NotOpen::Later(reason) => reason,
            NotOpen::Never(error) => {
                format!("{}: {}", self.purpose.address, problem(self.purpose.address, &error))
            }
        })
    }

    /// Reports, once per socket, that no datagrams arrive from a group.
    fn report_quiet(&self, places: &Places, name: &str, journal: &Journal, traffic: &mut Traffic) {
        let Some((place, since)) = lock(&self.place).clone().filter(|_| self.purpose.is_in) else { return };
        if since.elapsed() < QUIET
            || traffic.reported == Some(since)
            || traffic.at.is_some_and(|at| at >= since)
        {
            return;
        }
        traffic.reported = Some(since);
        let group = self.purpose.address;
        let words = format!("flow '{name}': nothing has come to the group {group} on {} for", place.name);
        let hint = match self.purpose.interface {
            Some(_) => "; is the source on this network, and the address right?".to_owned(),
            None => other(places, &place),
        };
        journal.warn(Kind::Flow, format!("{words} {} s{hint}", QUIET.as_secs()));
    }
}

/// Returns a hint that names other interfaces for the group, if there are any.
fn other(places: &Places, than: &Place) -> String {
    let names = places.names(Some(than));
    names.map_or_else(String::new, |names| format!("; interface in the flow names another: {names}"))
}

/// Arrivals of datagrams at a socket.
struct Traffic {
    count: u64,
    at: Option<Instant>,
    /// Opening time of the socket whose silence was reported.
    reported: Option<Instant>,
}

impl Traffic {
    fn new(counters: &FlowCounters) -> Self {
        Self { count: counters.arrivals(), at: None, reported: None }
    }

    /// Returns the time of the latest datagram, with a resolution of [`POLL`].
    fn last(&mut self, counters: &FlowCounters) -> Option<Instant> {
        let count = counters.arrivals();
        if count != self.count {
            (self.count, self.at) = (count, Some(Instant::now()));
        }
        self.at
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket as StdSocket;

    use super::{
        super::{Flow, Port, Registry},
        *,
    };
    use squall_observe::clock::Clock;

    /// Longer than any step takes.
    const PATIENCE: Duration = Duration::from_secs(20);

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_socket_that_fails_is_opened_again_beside_the_others() {
        let clock = Clock::start();
        let registry = Registry::new(clock, Arc::new(Journal::new(clock)), false, None);
        let addresses = [(); 2].map(|()| SocketAddr::from(([127, 0, 0, 1], squall_testkit::reserve_port())));
        let flow = |(name, address): (&str, &SocketAddr)| {
            FlowConfig::parse(&format!("{name}=udp://{address}"), true).expect("is right")
        };
        let flows: Vec<FlowConfig> = ["a", "b"].into_iter().zip(&addresses).map(flow).collect();
        registry.set(&flows, &|_| None).expect("are opened");
        let [a, b] = ["a", "b"].map(|name| registry.get(name).expect("is there"));
        let source = StdSocket::bind("127.0.0.1:0").expect("is bound");
        let opened = |flow: &Flow| match &flow.port {
            Port::Socket(socket) => (socket.clone(), socket.open.borrow().clone()),
            Port::Tun(_) => panic!("no device"),
        };
        let (_, before) = opened(&b);
        for _ in 0..3 {
            let (socket, count) = (opened(&a).0, a.counters.arrivals());
            socket.close();
            let begin = Instant::now();
            while a.counters.arrivals() == count {
                assert!(begin.elapsed() < PATIENCE, "never opened again");
                source.send_to(b"x", addresses[0]).expect("is sent");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        let after = opened(&b).1;
        assert!(before.zip(after).is_some_and(|(before, after)| Arc::ptr_eq(&before, &after)));
    }

    #[tokio::test]
    async fn datagrams_without_room_are_counted_over_sockets() {
        let socket = || UdpSocket::bind("127.0.0.1:0");
        let first = Opened { socket: socket().await.expect("is bound"), overflowed: AtomicU32::new(0) };
        assert_eq!([0, 5, 5, 7].map(|count| first.overflowed(count)), [0, 5, 0, 2]);
        let second = Opened { socket: socket().await.expect("is bound"), overflowed: AtomicU32::new(0) };
        assert_eq!([3, 0, u32::MAX, 1].map(|count| second.overflowed(count)), [3, 0, u32::MAX - 3, 2]);
    }
}
