//! Guarantee of `docs/liveness.md` over a grid of conditions: one path of two or three fails while
//! messages are sent at an interval. A message submitted later than 300 ms after the failure
//! arrives as if the failed path did not exist, and the healthy paths are never suspected.
//!
//! `SQUALL_GRID=all` runs every cell; otherwise the suite runs a part of them, spread over all
//! axes. A failing cell prints its name; `SQUALL_GRID=NAME` runs it alone.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use squall_lab::world::{Side, World};
use squall_net::PathConfig;
use squall_proto::{Block, BlockOptions, Config, Event, PathChange, sched::PathId};
use squall_trace::Micros;

const PATHS: [(&str, Micros); 3] = [
    ("name='wifi'\nrate='25mbps'\ndelay='15ms'\nqueue='150kB'", 15_000),
    ("name='lte'\nrate='15mbps'\ndelay='35ms'\nqueue='150kB'", 35_000),
    ("name='sat'\nrate='10mbps'\ndelay='60ms'\nqueue='150kB'", 60_000),
];

/// Intervals between messages in milliseconds.
const INTERVALS: [u64; 28] = [
    1, 2, 5, 10, 20, 33, 50, 70, 100, 130, 150, 180, 200, 220, 230, 250, 270, 299, 301, 330, 400, 500, 700,
    1000, 1500, 2000, 3000, 5000,
];

const SETTLED: Micros = 1_000_000;
const FAILURE: Micros = 3_017_000;
/// Time after the failure from which messages are covered by the guarantee.
const GRACE: Micros = 300_000;
/// Tolerance added to the delay of the healthy path.
const SLACK: Micros = 50_000;
const SIZE: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Traffic {
    Up,
    Down,
    Both,
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    scheduler: &'static str,
    interval: Micros,
    paths: usize,
    dead: usize,
    direction: &'static str,
    traffic: Traffic,
}

/// Result of a cell.
#[derive(Debug, Default)]
struct Report {
    covered: usize,
    lost: usize,
    late: usize,
    /// Largest delay in excess of the slowest healthy path, among the messages covered.
    excess: Micros,
    suspicions: usize,
}

impl Report {
    fn holds(&self) -> bool {
        self.lost + self.late + self.suspicions == 0
    }
}

impl Cell {
    fn name(&self) -> String {
        let Self { scheduler, interval, paths, dead, direction, traffic } = self;
        format!("{scheduler}/{}ms/{paths}/{dead}/{direction}/{traffic:?}", interval / 1000).to_lowercase()
    }

    fn outage(&self) -> Micros {
        (5 * self.interval / 2).max(2_000_000)
    }

    /// Delay of the slowest path that was healthy at a time.
    fn healthy_delay(&self, at: Micros) -> Micros {
        let over = at > FAILURE + self.outage();
        let healthy = (0..self.paths).filter(|i| over || *i != self.dead).map(|i| PATHS[i].1);
        healthy.max().unwrap_or(0)
    }

    fn world(&self) -> World {
        let paths: Vec<PathConfig> = (0..self.paths)
            .map(|i| {
                let mut text = PATHS[i].0.to_owned();
                if i == self.dead {
                    let outage = self.outage() / 1000;
                    let direction = match self.direction {
                        "both" => String::new(),
                        one => format!(", direction='{one}'"),
                    };
                    text +=
                        &format!("\nevents=[{{at='{}ms', outage='{outage}ms'{direction}}}]", FAILURE / 1000);
                }
                toml::from_str(&text).expect("path")
            })
            .collect();
        let name = self.scheduler;
        let config = Config::default()
            .scheduler(Arc::new(move || squall_papers::registry().build(name).expect("scheduler")));
        World::new(&paths, config.clone(), config, 7).expect("world")
    }

    fn run(&self, verbose: bool) -> Report {
        let mut world = self.world();
        assert!(world.connect(SETTLED), "{}: not connected", self.name());
        let mut run = Run { cell: self, verbose, report: Report::default(), sent: Vec::new() };
        let end = FAILURE + self.outage() + (2 * self.interval).max(1_500_000);
        let mut at = SETTLED;
        while at < end {
            world.run_until(at, |world, side, event| run.on_event(world, side, &event));
            for side in [Side::Client, Side::Server] {
                if self.traffic == Traffic::Both || (self.traffic == Traffic::Up) == (side == Side::Client) {
                    run.send(&mut world, side);
                }
            }
            at += self.interval;
        }
        world.run_until(end + 2_000_000, |world, side, event| run.on_event(world, side, &event));
        assert!(run.report.covered > 0, "{}: nothing was sent", self.name());
        run.report.lost = run.sent.iter().filter(|sent| sent.is_covered() && !sent.arrived).count();
        run.report
    }
}

struct Sent {
    at: Micros,
    arrived: bool,
}

impl Sent {
    fn is_covered(&self) -> bool {
        self.at > FAILURE + GRACE
    }
}

struct Run<'a> {
    cell: &'a Cell,
    /// Every event is printed.
    verbose: bool,
    report: Report,
    sent: Vec<Sent>,
}

impl Run<'_> {
    fn send(&mut self, world: &mut World, side: Side) {
        let mut data = vec![0; SIZE];
        data[..8].copy_from_slice(&(self.sent.len() as u64).to_le_bytes());
        self.sent.push(Sent { at: world.now(), arrived: false });
        let now = world.instant();
        let block = Block::with(data, BlockOptions::new().deadline(Duration::from_millis(300)));
        world.session(side).expect("session").send(now, block).expect("room");
        self.report.covered += usize::from(self.sent.last().is_some_and(Sent::is_covered));
    }

    fn on_event(&mut self, world: &World, side: Side, event: &Event) {
        if self.verbose && matches!(event, Event::Path(..)) {
            println!("{} {side:?} {event:?}", world.now());
        }
        match event {
            Event::Received(block) => {
                let index = u64::from_le_bytes(block.data[..8].try_into().expect("eight bytes"));
                let sent = &mut self.sent[index as usize];
                sent.arrived = true;
                if sent.is_covered() {
                    let excess = (world.now() - sent.at).saturating_sub(self.cell.healthy_delay(sent.at));
                    self.report.excess = self.report.excess.max(excess);
                    self.report.late += usize::from(excess > SLACK);
                    if self.verbose && excess > SLACK {
                        println!("{} {side:?} late: sent {}, over {:?}", world.now(), sent.at, block.over);
                    }
                }
            }
            Event::Path(PathId(id), PathChange::Suspected { .. }) if usize::from(*id) != self.cell.dead => {
                self.report.suspicions += 1;
            }
            _ => {}
        }
    }
}

fn grid() -> Vec<Cell> {
    let registry = squall_papers::registry();
    let schedulers: Vec<&'static str> = registry.entries().map(|e| e.name).filter(|n| *n != "sp").collect();
    let mut cells = Vec::new();
    for scheduler in schedulers {
        for interval in INTERVALS {
            for (paths, dead) in [(2, 0), (2, 1), (3, 0), (3, 1), (3, 2)] {
                for direction in ["up", "down", "both"] {
                    for traffic in [Traffic::Up, Traffic::Down, Traffic::Both] {
                        let interval = interval * 1000;
                        cells.push(Cell { scheduler, interval, paths, dead, direction, traffic });
                    }
                }
            }
        }
    }
    cells
}

/// Selects the cells to run: by default, one in 47 of the intervals below 20 ms, whose runs take
/// longest, and one in seven of the rest.
fn chosen() -> Vec<Cell> {
    let all = grid();
    match std::env::var("SQUALL_GRID").as_deref() {
        Ok("all") => all,
        Ok(name) => all.into_iter().filter(|cell| cell.name().contains(name)).collect(),
        Err(_) => {
            let taken = |(i, cell): &(usize, Cell)| i % if cell.interval < 20_000 { 47 } else { 7 } == 0;
            all.into_iter().enumerate().filter(taken).map(|(_, cell)| cell).collect()
        }
    }
}

#[test]
fn a_failed_path_costs_nothing_300_ms_later_and_takes_no_healthy_path_along() {
    let cells = chosen();
    let reports = Mutex::new(Vec::new());
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some(cell) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let report = cell.run(cells.len() == 1);
                    reports.lock().unwrap().push((*cell, report));
                }
            });
        }
    });
    let reports = reports.into_inner().unwrap();
    let covered: usize = reports.iter().map(|(_, report)| report.covered).sum();
    let slowest = reports.iter().max_by_key(|(_, report)| report.excess).expect("cells");
    let failed: Vec<String> = reports
        .iter()
        .filter(|(_, report)| !report.holds())
        .map(|(cell, report)| format!("{}: {report:?}", cell.name()))
        .collect();
    println!("{} cells, {covered} messages, {} failures", reports.len(), failed.len());
    println!("slowest: {} {:?}", slowest.0.name(), slowest.1);
    assert!(failed.is_empty(), "{} of {} cells:\n{}", failed.len(), reports.len(), failed.join("\n"));
}
