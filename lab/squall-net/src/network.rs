//! Several paths in virtual time: send packets, wait for the next timeout, poll arrivals.

mod radios;
mod stalls;

use squall_trace::Micros;
use squall_units::Size;

use crate::{
    config::{Direction, LinkConfig, PathConfig},
    damage::Damage,
    ecn::Ecn,
    error::ConfigError,
    link::{Delivery, Link, LinkState, PushOutcome},
    log::{LinkStats, Record},
    queue::{Limit, QueueConfig},
    radio::Radio,
    rate::RateConfig,
    script::LinkEvent,
};

/// A number of paths with two links each.
///
/// The caller's loop: [`send`](Self::send) packets, wait until
/// [`poll_timeout`](Self::poll_timeout), take arrivals with [`poll`](Self::poll) and changed ports
/// with [`poll_rebind`](Self::poll_rebind). Radio reports are available from
/// [`next_report`](Self::next_report) and [`poll_report`](Self::poll_report), or from
/// [`report`](Self::report). Times must not decrease. Simultaneous arrivals are returned in the
/// order of paths, upward before downward.
#[derive(Debug, Clone)]
pub struct Network<T> {
    names: Vec<String>,
    metered: Vec<bool>,
    /// Upward and downward link of each path, alternately.
    links: Vec<Route<T>>,
    /// Next event of each link; [`IDLE`] if the link is empty. First the paths' own links, then the
    /// shared ones.
    due: Vec<Micros>,
    /// Queues and serialisers that several paths share.
    trunks: Vec<Link<Shared<T>>>,
    /// Latest first.
    rebinds: Vec<(Micros, usize)>,
    /// By path.
    radios: Vec<Option<Radio>>,
}

/// One direction of a path.
#[derive(Debug, Clone)]
struct Route<T> {
    link: Link<Sent<T>>,
    /// Index of the shared queue and serialiser in front of the link.
    trunk: Option<usize>,
}

/// A packet in a shared queue, with the link that it is for.
#[derive(Debug, Clone)]
struct Shared<T> {
    link: usize,
    item: T,
}

/// A packet in a path's own link, with its history.
#[derive(Debug, Clone)]
struct Sent<T> {
    item: T,
    sent_at: Micros,
    queueing: Micros,
}

/// A packet at the end of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival<T> {
    /// Index of the path in the configuration.
    pub path: usize,
    /// Its direction.
    pub direction: Direction,
    /// The sent item.
    pub item: T,
    /// Its size in bytes, as sent.
    pub size: usize,
    /// Time of arrival.
    pub at: Micros,
    /// Time at which it was sent.
    pub sent_at: Micros,
    /// Total time in queues.
    pub queueing: Micros,
    /// ECN field at the end of the path.
    pub ecn: Ecn,
    /// Damage in transit, if any; see [`Damage::apply`].
    pub damage: Option<Damage>,
}

const IDLE: Micros = Micros::MAX;

impl<T: Clone> Network<T> {
    /// Creates a network of these paths at time 0. Files must have been [loaded](PathConfig::load).
    ///
    /// # Errors
    ///
    /// A path or field is invalid, a name is used twice, or a bottleneck does not exist.
    pub fn new(paths: &[PathConfig], seed: u64) -> Result<Self, ConfigError> {
        let names: Vec<String> = paths.iter().enumerate().map(|(index, path)| name(index, path)).collect();
        if let Some(index) = (1..names.len()).find(|&index| names[..index].contains(&names[index])) {
            return Err(ConfigError::Twice(names[index].clone()));
        }
        let owners = owners(paths, &names)?;
        let mut network = Self {
            metered: paths.iter().map(|path| path.metered).collect(),
            links: Vec::with_capacity(paths.len() * 2),
            due: Vec::new(),
            trunks: Vec::new(),
            rebinds: rebinds(paths),
            radios: Vec::with_capacity(paths.len()),
            names,
        };
        // Trunk of each (owner, direction) that has one.
        let mut trunks = vec![None; paths.len() * 2];
        for (index, path) in paths.iter().enumerate() {
            for direction in [Direction::Up, Direction::Down] {
                let problem = |problem| ConfigError::Path {
                    path: network.names[index].clone(),
                    problem: Box::new(problem),
                };
                let slot = slot(index, direction);
                let mut config = path.link(direction);
                let mut trunk = None;
                if let Some(owner) = owners[index] {
                    if owner == index {
                        let (shared, own) = split(config);
                        config = own;
                        network.trunks.push(Link::new(&shared, mix(seed, 1_000 + slot)).map_err(problem)?);
                        trunks[slot] = Some(network.trunks.len() - 1);
                    } else {
                        refuse_own_trunk(&config, &network.names[owner]).map_err(problem)?;
                    }
                    trunk = Some((owner, direction));
                }
                let link = Link::new(&config, mix(seed, slot)).map_err(problem)?;
                let trunk = trunk.map(|(owner, direction)| self::slot(owner, direction));
                network.links.push(Route { link, trunk });
            }
        }
        for route in &mut network.links {
            route.trunk = route.trunk.and_then(|slot| trunks[slot]);
        }
        network.due = vec![IDLE; network.links.len() + network.trunks.len()];
        network.equip(paths, seed)?;
        network.stall(paths, seed)?;
        Ok(network)
    }

    /// Sends a packet of `size` bytes (IP size) into a path, from a sender that does not use ECN.
    /// The outcome is that of the first queue.
    ///
    /// # Panics
    ///
    /// If there is no such path.
    pub fn send(
        &mut self,
        now: Micros,
        path: usize,
        direction: Direction,
        size: usize,
        item: T,
    ) -> PushOutcome {
        self.send_marked(now, path, direction, size, Ecn::NotCapable, item)
    }

    /// Sends a packet with this ECN field; otherwise as [`send`](Self::send).
    ///
    /// # Panics
    ///
    /// If there is no such path.
    pub fn send_marked(
        &mut self,
        now: Micros,
        path: usize,
        direction: Direction,
        size: usize,
        ecn: Ecn,
        item: T,
    ) -> PushOutcome {
        let link = slot(path, direction);
        if let Some(trunk) = self.links[link].trunk {
            return self.send_shared(now, link, trunk, size, ecn, item);
        }
        let route = &mut self.links[link];
        let outcome = route.link.push_marked(now, size, ecn, Sent { item, sent_at: now, queueing: 0 });
        self.due[link] = route.link.poll_timeout().unwrap_or(IDLE);
        outcome
    }

    fn send_shared(
        &mut self,
        now: Micros,
        link: usize,
        trunk: usize,
        size: usize,
        ecn: Ecn,
        item: T,
    ) -> PushOutcome {
        self.settle(trunk, now);
        let own = &mut self.links[link].link;
        // A path that is down takes no packets from the shared queue.
        let refused = own.refuses(now, size, ecn);
        self.due[link] = own.poll_timeout().unwrap_or(IDLE);
        if refused {
            return own.push_marked(now, size, ecn, Sent { item, sent_at: now, queueing: 0 });
        }
        let outcome = self.trunks[trunk].push_marked(now, size, ecn, Shared { link, item });
        self.due[self.links.len() + trunk] = self.trunks[trunk].poll_timeout().unwrap_or(IDLE);
        outcome
    }

    /// Returns the time of the next call of [`poll`](Self::poll) or
    /// [`poll_rebind`](Self::poll_rebind); `None` if no packet is in a link and no rebinding is
    /// left. The call may still return nothing; then request a new timeout.
    pub fn poll_timeout(&self) -> Option<Micros> {
        let rebind = self.rebinds.last().map_or(IDLE, |(at, _)| *at);
        let next = self.due.iter().copied().fold(rebind, Micros::min);
        (next != IDLE).then_some(next)
    }

    /// Returns the next packet that has arrived by `now`, in order of arrival.
    pub fn poll(&mut self, now: Micros) -> Option<Arrival<T>> {
        loop {
            let (next, at) = self.earliest()?;
            if at > now {
                return None;
            }
            // Advance only up to its own due time, so that no link runs ahead of the others.
            if let Some(trunk) = next.checked_sub(self.links.len()) {
                self.forward(trunk, at);
                continue;
            }
            let route = &mut self.links[next];
            let delivery = route.link.poll(at);
            self.due[next] = route.link.poll_timeout().unwrap_or(IDLE);
            if let Some(delivery) = delivery {
                return Some(arrival(next, delivery));
            }
        }
    }

    fn earliest(&self) -> Option<(usize, Micros)> {
        let (mut next, mut earliest) = (0, *self.due.first()?);
        for (index, &at) in self.due.iter().enumerate().skip(1) {
            if at < earliest {
                (next, earliest) = (index, at);
            }
        }
        (earliest != IDLE).then_some((next, earliest))
    }

    /// Forwards all packets that leave a shared serialiser by `now`, each at its own time.
    fn settle(&mut self, trunk: usize, now: Micros) {
        loop {
            let at = self.due[self.links.len() + trunk];
            if at > now || at == IDLE {
                return;
            }
            self.forward(trunk, at);
        }
    }

    /// Forwards the packets that have left a shared serialiser to their links.
    fn forward(&mut self, trunk: usize, at: Micros) {
        while let Some(delivery) = self.trunks[trunk].poll(at) {
            let Delivery { item: Shared { link, item }, size, sent_at, queueing, ecn, .. } = delivery;
            let own = &mut self.links[link].link;
            // Packets that the link drops (in an outage that began meanwhile) are in its
            // statistics.
            let _ = own.push_marked(at, size, ecn, Sent { item, sent_at, queueing });
            self.due[link] = own.poll_timeout().unwrap_or(IDLE);
        }
        self.due[self.links.len() + trunk] = self.trunks[trunk].poll_timeout().unwrap_or(IDLE);
    }

    /// Returns the shared serialisers, and the links of one direction in the order of paths, each
    /// with the index of its serialiser.
    pub(crate) fn into_links(
        self,
        direction: Direction,
    ) -> (Vec<Link<impl Clone>>, impl Iterator<Item = (Link<impl Clone>, Option<usize>)>) {
        let links = self.links.into_iter().skip(slot(0, direction)).step_by(2);
        (self.trunks, links.map(|Route { link, trunk }| (link, trunk)))
    }

    /// Returns the next path whose client has got a new source port by `now`.
    pub fn poll_rebind(&mut self, now: Micros) -> Option<usize> {
        let path = self.rebinds.last().filter(|(at, _)| *at <= now)?.1;
        self.rebinds.pop();
        Some(path)
    }

    /// Returns the number of paths.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns `true` if there is no path.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns the name of a path; `path0`, `path1`, ... if the configuration has none.
    pub fn name(&self, path: usize) -> &str {
        &self.names[path]
    }

    /// Returns `true` if traffic on the path costs money.
    pub fn metered(&self, path: usize) -> bool {
        self.metered[path]
    }

    /// Returns the counters of one direction of a path. With a shared bottleneck they begin after
    /// it; drops at the bottleneck are in [`bottleneck_stats`](Self::bottleneck_stats).
    pub fn stats(&self, path: usize, direction: Direction) -> LinkStats {
        self.links[slot(path, direction)].link.stats()
    }

    /// Returns the counters of the shared queue and serialiser of a path, over all paths that share
    /// it; `None` if the path has its own.
    pub fn bottleneck_stats(&self, path: usize, direction: Direction) -> Option<LinkStats> {
        let trunk = self.links[slot(path, direction)].trunk?;
        Some(self.trunks[trunk].stats())
    }

    /// Returns the state of one direction at `now`. Rate and queue are those of a shared
    /// bottleneck.
    pub fn state(&mut self, now: Micros, path: usize, direction: Direction) -> LinkState {
        let link = slot(path, direction);
        let trunk = self.links[link].trunk;
        if let Some(trunk) = trunk {
            self.settle(trunk, now);
        }
        let own = self.links[link].link.state(now);
        self.due[link] = self.links[link].link.poll_timeout().unwrap_or(IDLE);
        match trunk {
            None => own,
            Some(trunk) => {
                // Nothing is due there before `now`: it has just been settled.
                let shared = self.trunks[trunk].state(now);
                LinkState { delay: own.delay, flying: own.flying, outage: own.outage, ..shared }
            }
        }
    }

    /// Starts or ends recording every packet on one direction's own link.
    pub fn keep_records(&mut self, path: usize, direction: Direction, keep: bool) {
        self.links[slot(path, direction)].link.keep_records(keep);
    }

    /// Takes the records of one direction since the last call.
    pub fn drain_records(&mut self, path: usize, direction: Direction) -> Vec<Record> {
        self.links[slot(path, direction)].link.drain_records()
    }
}

fn slot(path: usize, direction: Direction) -> usize {
    path * 2 + usize::from(direction == Direction::Down)
}

fn name(index: usize, path: &PathConfig) -> String {
    if path.name.is_empty() { format!("path{index}") } else { path.name.clone() }
}

/// Derives a seed for each link; the multiplier (the golden ratio in 64 bits) keeps neighbouring
/// seeds apart.
fn mix(seed: u64, slot: usize) -> u64 {
    seed.wrapping_add((slot as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn arrival<T>(link: usize, delivery: Delivery<Sent<T>>) -> Arrival<T> {
    let Delivery {
        item: Sent { item, sent_at, queueing }, size, arrived_at, queueing: own, ecn, damage, ..
    } = delivery;
    let direction = if link.is_multiple_of(2) { Direction::Up } else { Direction::Down };
    let queueing = queueing + own;
    Arrival { path: link / 2, direction, item, size, at: arrived_at, sent_at, queueing, ecn, damage }
}

fn rebinds(paths: &[PathConfig]) -> Vec<(Micros, usize)> {
    let mut rebinds: Vec<(Micros, usize)> = paths
        .iter()
        .enumerate()
        .flat_map(|(index, path)| path.rebinds().into_iter().map(move |at| (at.micros(), index)))
        .collect();
    rebinds.sort_unstable_by(|one, other| other.cmp(one));
    rebinds
}

/// Returns for each path the path whose shared queue and serialiser it uses; the owner of a shared
/// one is listed too.
fn owners(paths: &[PathConfig], names: &[String]) -> Result<Vec<Option<usize>>, ConfigError> {
    let mut owners = vec![None; paths.len()];
    for (index, path) in paths.iter().enumerate() {
        let Some(bottleneck) = &path.bottleneck else { continue };
        let owner = names
            .iter()
            .position(|name| name == bottleneck)
            .filter(|&owner| owner != index && paths[owner].bottleneck.is_none())
            .ok_or_else(|| ConfigError::Bottleneck(bottleneck.clone()))?;
        owners[index] = Some(owner);
        owners[owner] = Some(owner);
    }
    Ok(owners)
}

/// Splits a link into its shared part (queue, serialiser and changes of the rate) and its own.
fn split(config: LinkConfig) -> (LinkConfig, LinkConfig) {
    let (mut shared, mut own) = (LinkConfig::default(), config.clone());
    // The size of the queue of the undivided link.
    let queue = match config.queue.limit {
        Limit::BandwidthDelay => {
            let bytes = Some(Size::from_bytes(config.default_queue_bytes()));
            QueueConfig { limit: Limit::At { bytes, packets: None }, ..config.queue }
        }
        _ => config.queue,
    };
    (shared.rate, shared.queue, shared.mtu) = (config.rate, queue, config.mtu);
    (own.rate, own.queue) = (RateConfig::Unlimited, QueueConfig::default());
    shared.events = config.events.clone();
    for event in &mut shared.events {
        (event.delay, event.loss, event.ecn) = (None, None, None);
        (event.mtu, event.outage) = (None, None);
    }
    shared.events.retain(|event| event.rate.is_some());
    for event in &mut own.events {
        event.rate = None;
        event.over = event.over.filter(|_| event.delay.is_some());
    }
    let is_own = |event: &LinkEvent| {
        let moves = event.delay.is_some() || event.loss.is_some();
        moves || event.ecn.is_some() || event.mtu.is_some() || event.outage.is_some()
    };
    own.events.retain(is_own);
    (shared, own)
}

fn refuse_own_trunk(config: &LinkConfig, owner: &str) -> Result<(), ConfigError> {
    let rate_events = config.events.iter().any(|event| event.rate.is_some());
    let plain = config.rate == RateConfig::Unlimited
        && config.queue == QueueConfig::default()
        && !config.delay_first
        && !rate_events;
    if plain { Ok(()) } else { Err(ConfigError::Shared(owner.to_owned())) }
}
