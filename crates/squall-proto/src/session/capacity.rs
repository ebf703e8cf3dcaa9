//! Capacity of the session, by the rates of its paths and their use by the scheduler.

use std::time::{Duration, Instant};

use squall_sched::{PathId, PathSet, PathState, Sharing, Span, Time};

use super::Session;
use crate::{
    Capacity, Event, Limit, PathCapacity,
    capacity::link_rate,
    config::FOREVER,
    path::{Control, Path, one_way_delays},
};

/// Interval of updates of the rates. An encoder makes a frame each 8 to 40 ms.
const INTERVAL: Span = Span::from_millis(10);
/// Share of its rate above which a path is used up: a pacer leaves gaps, and frames do not fill
/// packets.
const USED_UP: f64 = 0.8;
/// Bytes of packets that make a mean.
const ENOUGH: f64 = 50_000.0;

impl Session {
    /// Returns the capacity of the session. It is updated each 10 ms while packets come and go, and
    /// whenever a path changes; calls in between use the history of the last update. All 0 before
    /// the session is up and when it is over. See [`Event::Capacity`].
    pub fn capacity(&mut self, now: Instant) -> Capacity {
        if !self.is_open() {
            return Capacity::default();
        }
        self.measure_packets();
        self.capacity_at(self.time(now))
    }

    /// Requests from the peer at most this rate of blocks, or no limit. The peer's [`Capacity`] is
    /// limited to it, for its encoder to follow; blocks beyond it still arrive.
    pub fn request_bitrate(&mut self, bits_per_second: Option<u64>) {
        if self.outlook.requested != bits_per_second {
            self.outlook.requested = bits_per_second;
            self.send_item(Control::Credit);
        }
    }

    /// Returns the bytes of blocks that can still be handed over to arrive within this time, with
    /// this probability (0 to 1), beside those that wait. Times above three seconds are as
    /// uncertain as three.
    pub fn deliverable(&mut self, now: Instant, within: Duration, probability: f64) -> u64 {
        if !self.is_open() {
            return 0;
        }
        self.measure_packets();
        let (at, within) = (self.time(now), Span::from(within.min(FOREVER)));
        let delays = one_way_delays(self.conn.paths.iter(), at);
        let carriers = self.carriers();
        let rates = self.conn.paths.iter().zip(delays).filter(|(path, _)| carriers.contains(path.id));
        let mut longest = Span::ZERO;
        let bytes = rates.map(|(path, owd)| {
            let time = within - owd;
            longest = longest.max(time);
            let bytes = self.to_come(at, path) * time.micros() as f64 / 8e6;
            path.allowance.map_or(bytes, |allowance| bytes.min(allowance.data as f64))
        });
        let bytes = self.add_up(bytes);
        let reached = self.outlook.forecast.reached(longest, probability.clamp(0.0, 1.0));
        let payload = (bytes * reached * self.outlook.payload_share) as u64;
        payload.saturating_sub(self.waiting_bytes())
    }

    /// Adds the rates to the history, when an update is due.
    pub(super) fn update_forecast(&mut self, at: Time) {
        if at < self.outlook.look_at || !self.is_open() {
            return;
        }
        self.outlook.look_at = at + INTERVAL;
        self.measure_packets();
        let mut is_known = false;
        for id in self.conn.paths.ids() {
            let rate = self.rate_in_use(&self.conn.paths[id]);
            let path = &mut self.conn.paths[id];
            // Without packets a rate is not observed, only remembered.
            let is_observed = path.stats.acked_packets != path.forecast_at;
            if is_observed || rate == 0 && path.forecast.latest() > 0 {
                path.forecast.observe(at, rate);
                path.forecast_at = path.stats.acked_packets;
                is_known = true;
            }
        }
        if is_known {
            let rates = self.carrying().map(|path| self.rate_in_use(path) as f64);
            let rate = self.add_up(rates) as u64;
            self.outlook.forecast.observe(at, rate);
        }
        let capacity = self.capacity_at(at);
        if self.outlook.changes.is_news(at, capacity.safe) {
            self.outlook.news = Some(Box::new(capacity));
        }
    }

    /// Takes the latest change of the capacity.
    pub(super) fn poll_capacity(&mut self) -> Option<Event> {
        self.outlook.news.take_if(|_| self.life.is_live()).map(Event::Capacity)
    }

    fn capacity_at(&self, at: Time) -> Capacity {
        let carriers = self.carriers();
        let is_carrier = |id: PathId| carriers.contains(id);
        let share = self.outlook.payload_share;
        let paths: Vec<_> = self.conn.paths.iter().map(|path| self.path_capacity(at, path)).collect();
        let link = self.add_up(self.carrying().map(|path| self.rate_in_use(path) as f64));
        let ahead = self.add_up(self.carrying().map(|path| self.to_come(at, path)));
        let (now, forecast) = (link * share, &self.outlook.forecast);
        // If no path is in use, consider those that would be used if they could.
        let matters = |path: &&PathCapacity| is_carrier(path.id) || carriers.is_empty();
        let limit = Limit::of_session(paths.iter().filter(matters).map(|path| path.limit));
        let wanted = self.outlook.wanted.unwrap_or(u64::MAX);
        Capacity {
            now: (now as u64).min(wanted),
            safe: ((ahead * share * forecast.safe()).min(now) as u64).min(wanted),
            confidence: forecast.confidence(),
            link: link as u64,
            waiting: self.waiting_bytes(),
            limit: if wanted < now as u64 { Limit::Receiver } else { limit },
            paths,
        }
    }

    fn path_capacity(&self, at: Time, path: &Path) -> PathCapacity {
        let share = self.outlook.payload_share;
        let link = self.rate_in_use(path) as f64;
        PathCapacity {
            id: path.id,
            now: (link * share) as u64,
            safe: (self.to_come(at, path) * share * path.forecast.safe()) as u64,
            confidence: path.forecast.confidence(),
            link: link as u64,
            limit: self.limit(at, path),
        }
    }

    fn limit(&self, at: Time, path: &Path) -> Limit {
        let rate = self.rate_in_use(path);
        match path.life.state() {
            PathState::Deactivated => Limit::Radio,
            _ if path.life.is_spent() => Limit::Budget,
            _ if !path.life.is_in_use() => Limit::OutOfUse,
            _ if rate < link_rate(&self.config.congestion, path) => Limit::Budget,
            _ if !path.waits_for_window() => Limit::Budget,
            _ if path.life.factor() < 1.0 => Limit::Radio,
            _ if path.delivery.at_present(at) as f64 >= USED_UP * rate as f64 => Limit::Network,
            _ => Limit::Application,
        }
    }

    /// Returns the rate at which a path carries the session's data, in bits per second of UDP
    /// payload; over the next second at most the rest of its budget.
    fn rate_in_use(&self, path: &Path) -> u64 {
        let left = path.allowance.map_or(u64::MAX, |allowance| allowance.data.saturating_mul(8));
        if path.life.is_in_use() { link_rate(&self.config.congestion, path).min(left) } else { 0 }
    }

    /// Returns the part of that rate that can be relied on: less while a radio warns, and the
    /// longer nothing was sent.
    fn to_come(&self, at: Time, path: &Path) -> f64 {
        self.rate_in_use(path) as f64 * path.life.factor() * path.forecast.ageing(at)
    }

    /// Returns the paths that the scheduler would use.
    fn carriers(&self) -> PathSet {
        let role = self.role_in_life();
        let in_use = self.conn.paths.iter().filter(|path| path.life.is_in_use() && path.role == role);
        self.outbox.queue.profile().sharing.carriers(in_use.map(|path| (path.id, path.metered)))
    }

    fn carrying(&self) -> impl Iterator<Item = &Path> {
        let carriers = self.carriers();
        self.conn.paths.iter().filter(move |path| carriers.contains(path.id))
    }

    fn add_up(&self, of_paths: impl Iterator<Item = f64>) -> f64 {
        match self.outbox.queue.profile().sharing {
            Sharing::Best => of_paths.fold(0.0, f64::max),
            Sharing::Sum | Sharing::Free | Sharing::Only(_) | Sharing::Primary(_) => of_paths.sum(),
        }
    }

    /// Updates the share of packets that is data: the recent one, or that of a full packet with the
    /// longest headers.
    fn measure_packets(&mut self) {
        let (data, packets) = self.outlook.departed;
        self.outlook.payload_share = match packets > ENOUGH {
            true => data / packets,
            false => f64::from(self.chunk_size()) / self.packet_size().max(1) as f64,
        };
    }

    /// Returns the bytes that were handed over and have not left, on a path in use; copies count
    /// once.
    fn waiting_bytes(&self) -> u64 {
        let in_flight = self.carrying().map(|path| path.flight.bytes() as f64 * self.outlook.payload_share);
        let left = self.outbox.queued_bytes().saturating_sub(self.add_up(in_flight) as u64);
        left.max(self.outbox.queue.fresh_bytes())
    }
}
