//! One scheduler with the blocks on the paths, in virtual time.

use std::{
    ops::Range,
    sync::{Arc, OnceLock},
};

use squall_net::{Direction, PathConfig};
use squall_proto::{
    Block, BlockFate, Config, Event, Session,
    sched::{BlockId, Registry, Scheduler, schedulers::round_robin::RoundRobin},
};
use squall_units::Micros;

use super::{
    PictureError,
    bars::{Bar, Port},
    rehearsal::Rehearsed,
    scene::{self, BLOCKS, LANES},
};
use crate::{
    contender::Contender,
    world::{Side, World},
};

/// What a scheduler did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Play {
    /// Its name, with options and suffix, as it was asked for.
    pub(super) scheduler: String,
    /// What it does, in a line.
    pub(super) summary: String,
    /// The packets on each path.
    pub(super) lanes: [Vec<Bar>; LANES.len()],
    /// What became of each block.
    pub(super) outcomes: [Outcome; BLOCKS.len()],
}

/// What became of a block; times in microseconds from the handing over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The receiver had all of it.
    Arrived(Micros),
    /// Its deadline passed.
    Expired(Micros),
    /// The scheduler gave it up.
    Cancelled(Micros),
    /// It is unreliable, and the sender learned that bytes of it were lost.
    Lost(Micros),
}

/// Everything random in the session.
const SEED: u64 = 1;

/// Connected, and both paths up.
const CONNECTED: Micros = 1_000_000;

/// Time for the last block of its past to end.
const SETTLE: Micros = 500_000;

/// Time in which another scheduler fills both paths, in which it sends little, and of silence.
const FILL: Micros = 1_500_000;
const TRICKLE: Micros = 1_000_000;
const REST: Micros = 300_000;

/// When all of that is.
const FILLING: Range<Micros> = {
    let start = CONNECTED + scene::PAST_LENGTH + SETTLE;
    start..start + FILL + TRICKLE + REST
};

/// Time after the handing over by which every block has ended.
const END: Micros = 1_000_000;

/// Plays the scene with a scheduler.
///
/// # Errors
/// If there is no such scheduler, or its session did not come up.
pub(super) fn play(label: &str, registry: &Arc<Registry>) -> Result<Play, PictureError> {
    let mut stage = Stage::connected(label, registry)?;
    stage.past();
    stage.fill();
    let start = stage.world.now();
    stage.enter(&scene::lossy_paths());
    for path in 0..LANES.len() {
        stage.world.network.keep_records(path, Direction::Up, true);
    }
    stage.begin();
    let ids = BLOCKS.each_ref().map(|given| stage.send(given.block()));
    stage.run_for(END);
    let outcomes = ids.map(|id| stage.outcome(id, start));
    let lanes = stage.bars(start, ids[0]);
    Ok(Play { scheduler: label.to_owned(), summary: summary(label, registry), lanes, outcomes })
}

fn summary(label: &str, registry: &Registry) -> String {
    let contender = Contender::of(label);
    let entry = registry.entries().find(|entry| entry.name == contender.name());
    let summary = entry.map_or("", |entry| entry.summary);
    let suffix = if contender.all_reliable { "; every block reliably" } else { "" };
    format!("{summary}{suffix}")
}

/// A world, and what its sides were told.
struct Stage {
    world: World,
    events: Vec<(Micros, Side, Event)>,
    /// See [`Rehearsed::spent`].
    spent: Arc<OnceLock<u64>>,
}

impl Stage {
    fn connected(label: &str, registry: &Arc<Registry>) -> Result<Self, PictureError> {
        let contender = Contender::of(label);
        let make = contender.factory(registry)?;
        let spent = Arc::new(OnceLock::new());
        let told = spent.clone();
        let scheduler = move || {
            let (scheduler, stand_in, spent) = (make(), RoundRobin::default(), told.clone());
            Box::new(Rehearsed { scheduler, stand_in, filling: FILLING, spent }) as Box<dyn Scheduler>
        };
        let config = Config {
            scheduler: Arc::new(scheduler),
            all_reliable: contender.all_reliable,
            ..Config::default()
        };
        let world = World::new(&scene::calm_paths(), config, Config::default(), SEED)?;
        let mut stage = Self { world, events: Vec::new(), spent };
        stage.run_for(CONNECTED / 2);
        for (path, lane) in LANES.iter().enumerate() {
            stage.world.set_metered(path, lane.metered);
        }
        stage.run_for(CONNECTED / 2);
        Ok(stage)
    }

    /// What the scheduler has seen before, if it learns.
    fn past(&mut self) {
        self.enter(&scene::past_paths());
        let end = self.world.now() + scene::PAST_LENGTH;
        while self.world.now() < end {
            self.send(scene::past_block());
            self.run_for(scene::PAST_INTERVAL);
        }
        self.run_for(SETTLE);
    }

    /// Both paths are filled until their windows have grown to what they bear. Then a trickle that does
    /// not queue brings the round-trip times back to those of empty links.
    fn fill(&mut self) {
        let end = self.world.now() + FILL;
        while self.world.now() < end {
            while self.client().queued_bytes() < 400_000 {
                self.send(Block::new(vec![0; 20_000]));
            }
            self.run_for(20_000);
        }
        let end = end + TRICKLE;
        while self.world.now() < end {
            if self.client().is_idle() {
                self.send(Block::new(vec![0; 5_000]));
            }
            self.run_for(20_000);
        }
        self.run_for(REST);
    }

    /// From here on it counts.
    fn begin(&mut self) {
        self.events.clear();
        let paths = self.client().path_stats();
        let metered = paths.iter().filter(|(_, _, stats)| stats.metered);
        let spent = metered.map(|(_, _, stats)| stats.sent_bytes).max().unwrap_or(0);
        self.spent.set(spent).expect("a picture begins once");
        self.client().keep_log(true);
    }

    fn enter(&mut self, paths: &[PathConfig]) {
        self.world.enter(paths, SEED).expect("the paths are well described");
    }

    fn client(&mut self) -> &mut Session {
        self.world.session(Side::Client).expect("the client has a session from the start")
    }

    fn send(&mut self, block: Block) -> BlockId {
        let now = self.world.instant();
        self.client().send(now, block).expect("the queue has room")
    }

    fn run_for(&mut self, time: Micros) {
        let events = &mut self.events;
        let end = self.world.now() + time;
        self.world.run_until(end, |world, side, event| events.push((world.now(), side, event)));
    }

    fn outcome(&self, id: BlockId, start: Micros) -> Outcome {
        let arrived = self.events.iter().find_map(|(_, _, event)| match event {
            Event::Received(block) if block.id == id => Some(self.world.micros(block.whole_at)),
            _ => None,
        });
        if let Some(at) = arrived {
            return Outcome::Arrived(at - start);
        }
        let fate = self.events.iter().find_map(|(at, _, event)| match event {
            Event::Finished { id: ended, fate } if *ended == id => Some((at - start, fate)),
            _ => None,
        });
        match fate {
            Some((at, BlockFate::Lost { .. })) => Outcome::Lost(at),
            Some((at, BlockFate::Expired { .. })) => Outcome::Expired(at),
            Some((at, _)) => Outcome::Cancelled(at),
            None => unreachable!("every block has a deadline before the end"),
        }
    }

    fn bars(&mut self, start: Micros, first: BlockId) -> [Vec<Bar>; LANES.len()] {
        let paths = self.client().path_stats();
        let decisions = self.client().take_decisions();
        let packets = self.client().take_packets();
        let mut lanes = [const { Vec::new() }; LANES.len()];
        for (_, net, stats) in paths {
            let Some(path) = self.world.path_of(Side::Client, net) else { continue };
            let port = Port {
                packets: packets.iter().filter(|packet| packet.path == stats.number).collect(),
                records: self.world.network.drain_records(path, Direction::Up),
                start,
            };
            lanes[path] = port.bars(&decisions, first);
        }
        lanes
    }
}
