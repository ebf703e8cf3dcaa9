//! A world with an application at both ends, for scenarios.

#![allow(dead_code, reason = "every test file uses a part of it")]

use std::sync::Arc;

use squall_lab::world::{Side, World};
use squall_net::PathConfig;
use squall_proto::{
    Block, CloseReason, Config, Event, Missed, Outcome, PathChange, PathStats, Received,
    sched::{BlockId, PathId, schedulers::minrtt::MinRtt},
};
use squall_trace::Micros;

/// 20 Mbps with 15 ms, and 10 Mbps with 40 ms.
pub(crate) const TWO_PATHS: &[&str; 2] = &[
    "name='wifi'\nrate='20mbps'\ndelay='15ms'\nqueue='75kB'",
    "name='lte'\nrate='10mbps'\ndelay='40ms'\nqueue='100kB'",
];

/// A simple scheduler, for the behaviour of the session itself.
pub(crate) fn plain() -> Config {
    Config::default().scheduler(Arc::new(|| Box::new(MinRtt)))
}

/// A world and all its events.
pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) events: Vec<(Micros, Side, Event)>,
}

impl Stage {
    /// Connects both sides over both paths.
    pub(crate) fn connected(paths: &[&str], seed: u64) -> Self {
        Self::with(paths, seed, Config::default(), Config::default())
    }

    /// Like [`Self::connected`], with [`plain`] schedulers.
    pub(crate) fn plain(paths: &[&str], seed: u64) -> Self {
        Self::with(paths, seed, plain(), plain())
    }

    pub(crate) fn unconnected(paths: &[&str], seed: u64, client: Config, server: Config) -> Self {
        println!("seed {seed}");
        let paths: Vec<PathConfig> = paths.iter().map(|p| toml::from_str(p).expect("path")).collect();
        let world = World::new(&paths, client, server, seed).expect("world");
        Self { world, events: Vec::new() }
    }

    pub(crate) fn with(paths: &[&str], seed: u64, client: Config, server: Config) -> Self {
        let mut stage = Self::unconnected(paths, seed, client, server);
        stage.run_until(1_000_000);
        assert!(stage.world.is_connected());
        stage
    }

    pub(crate) fn run_for(&mut self, time: Micros) {
        self.run_until(self.world.now() + time);
    }

    pub(crate) fn run_until(&mut self, end: Micros) {
        let events = &mut self.events;
        self.world.run_until(end, |world, side, event| events.push((world.now(), side, event)));
    }

    pub(crate) fn send(&mut self, side: Side, block: Block) -> BlockId {
        let now = self.world.instant();
        self.world.session(side).expect("session").send(now, block).expect("room")
    }

    pub(crate) fn received(&self, side: Side) -> impl Iterator<Item = &Received> {
        self.events.iter().filter_map(move |(_, s, event)| match event {
            Event::Received(block) if *s == side => Some(block),
            _ => None,
        })
    }

    pub(crate) fn outcomes(&self, side: Side) -> Vec<(BlockId, Outcome)> {
        let own = self.events.iter().filter(|(_, s, _)| *s == side);
        own.filter_map(|(_, _, event)| match event {
            Event::Ended { id, outcome } => Some((*id, outcome.clone())),
            _ => None,
        })
        .collect()
    }

    pub(crate) fn missed(&self, side: Side) -> Vec<(BlockId, Missed)> {
        let own = self.events.iter().filter(|(_, s, _)| *s == side);
        own.filter_map(|(_, _, event)| match event {
            Event::Missed { id, why, .. } => Some((*id, *why)),
            _ => None,
        })
        .collect()
    }

    pub(crate) fn path_changes(&self, side: Side, path: PathId) -> Vec<(Micros, PathChange)> {
        let own = self.events.iter().filter(|(_, s, _)| *s == side);
        own.filter_map(|(at, _, event)| match event {
            Event::Path(id, change) if *id == path => Some((*at, change.clone())),
            _ => None,
        })
        .collect()
    }

    pub(crate) fn closings(&self) -> Vec<(Micros, Side, CloseReason)> {
        let all = self.events.iter();
        all.filter_map(|(at, side, event)| match event {
            Event::Closed(reason) => Some((*at, *side, reason.clone())),
            _ => None,
        })
        .collect()
    }

    pub(crate) fn path_stats(&mut self, side: Side) -> Vec<PathStats> {
        let all = self.world.session(side).expect("session").path_stats();
        all.into_iter().map(|(_, _, stats)| stats).collect()
    }

    /// Keeps a side's queue full until `end` with reliable blocks of 32 kB. Returns the rate at
    /// which the other side received data on each of two paths, in bits per second, in windows of
    /// the given length from time 0 on.
    pub(crate) fn saturate(&mut self, side: Side, end: Micros, window: Micros) -> Vec<[f64; 2]> {
        let other = if side == Side::Server { Side::Client } else { Side::Server };
        let mut rates = vec![[0.0; 2]; (self.world.now() / window) as usize];
        let mut before = [0; 2];
        while self.world.now() < end {
            let session = self.world.session(side).expect("session");
            let missing = 2_000_000u64.saturating_sub(session.queued_bytes()) / 32_000;
            for _ in 0..missing {
                self.send(side, Block::new(vec![7; 32_000]));
            }
            self.run_for(window);
            let mut bytes = [0; 2];
            for (id, _, stats) in self.world.session(other).expect("session").path_stats() {
                if id <= PathId(1) {
                    bytes[usize::from(id.0)] = stats.data_received;
                }
            }
            let rate = |i: usize| (bytes[i].saturating_sub(before[i])) as f64 * 8e6 / window as f64;
            rates.push([rate(0), rate(1)]);
            before = bytes;
        }
        rates
    }
}
