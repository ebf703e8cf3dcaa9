//! Ends that are suspended for a while: stopped processes, sleeping machines.

use std::{collections::BTreeMap, time::Duration};

use squall_lab::world::{Monotonic, Side};
use squall_proto::{Block, BlockOptions, CloseReason, Config, Event, Session};
use squall_trace::Micros;

use crate::stage::{Stage, TWO_PATHS};

const SECOND: Micros = 1_000_000;
const FRAME: Micros = 33_333;
const DEADLINE: Micros = 300_000;

/// A suspension and the ends that it affects.
#[derive(Clone, Copy, Debug)]
struct Case {
    paths: &'static [&'static str],
    sides: &'static [Side],
    clock: Monotonic,
    /// Duration of the suspension.
    time: Micros,
    /// Idle timeout of both sides.
    idle_timeout: Duration,
    /// Time from the last frame to the suspension.
    after: Micros,
}

/// Viewer at the server of a video from the client.
struct Viewer {
    stage: Stage,
    /// Submission time of each frame.
    frames: BTreeMap<u64, Micros>,
}

impl Viewer {
    fn new(case: &Case) -> Self {
        let (idle_timeout, path_idle_timeout) = (case.idle_timeout, case.idle_timeout);
        let config = Config::default().idle_timeout(idle_timeout).path_idle_timeout(path_idle_timeout);
        let stage = Stage::with(case.paths, 1, config.clone(), config);
        Self { stage, frames: BTreeMap::new() }
    }

    fn send(&mut self, side: Side, len: usize) {
        let (at, now) = (self.stage.world.now(), self.stage.world.instant_of(side));
        let block = Block::with(vec![1; len], BlockOptions::new().deadline(Duration::from_micros(DEADLINE)));
        if let Some(session) = self.stage.world.session(side)
            && let Ok(id) = session.send(now, block)
            && side == Side::Client
        {
            self.frames.insert(id.0, at);
        }
    }

    /// Films until `end`, and sends small blocks in the other direction.
    fn film(&mut self, end: Micros) {
        while self.stage.world.now() < end {
            self.send(Side::Client, 8_000);
            self.send(Side::Server, 200);
            self.stage.run_for(FRAME);
        }
    }

    /// Arrival times of the frames submitted from `from` on.
    fn arrivals(&self, from: Micros) -> Vec<(u64, Micros)> {
        let arrived = self.stage.events.iter().filter_map(|(at, side, event)| match event {
            Event::Received(block) if *side == Side::Server => Some((block.id.0, *at)),
            _ => None,
        });
        arrived.filter(|(id, _)| self.frames.get(id).is_some_and(|made| *made >= from)).collect()
    }
}

/// Runs for five seconds, then the suspension, then three more seconds.
fn run(case: &Case) {
    let mut viewer = Viewer::new(case);
    viewer.film(5 * SECOND);
    viewer.send(Side::Client, 8_000);
    viewer.stage.run_for(case.after);
    let resumed = viewer.stage.world.now() + case.time;
    case.sides.iter().for_each(|side| viewer.stage.world.suspend(*side, case.time, case.clock));
    if !case.sides.contains(&Side::Client) {
        viewer.film(resumed.min(7 * SECOND));
    }
    viewer.stage.run_until(resumed);
    viewer.film(resumed + SECOND);
    let client = viewer.stage.world.session(Side::Client);
    let paths = client.map_or(Vec::new(), Session::path_stats);
    viewer.film(resumed + 3 * SECOND);
    viewer.stage.run_for(DEADLINE);

    let ends: Vec<_> = viewer.stage.closings().into_iter().map(|(at, _, why)| (at, why)).collect();
    if case.sides.len() == 1 && case.time > case.idle_timeout.as_micros() as Micros {
        // The other side has ended the session, and reports that on the next packet.
        let [(_, CloseReason::TimedOut), (at, CloseReason::Transport(why))] = &ends[..] else {
            panic!("{case:?}: {ends:?}");
        };
        assert!(*at < resumed + SECOND && why.message == "reset by peer", "{case:?}: {ends:?}");
        return;
    }
    assert_eq!(ends, [], "{case:?}");
    let arrivals = viewer.arrivals(resumed);
    let first = arrivals[0].1 - resumed;
    let gap = arrivals.windows(2).map(|two| two[1].1 - two[0].1).max();
    let later = viewer.frames.values().filter(|made| **made > resumed + DEADLINE).count();
    let arrived = viewer.arrivals(resumed + DEADLINE).len();
    println!("{case:?}: first {first}, gap {gap:?}, {arrived} of {later} frames");
    assert!(first < 160_000 && gap.is_some_and(|gap| gap < 150_000), "{case:?}: {first}, {gap:?}");
    assert!(arrived + 1 >= later, "{case:?}: {arrived} of {later} frames");
    for (id, _, stats) in paths {
        let (rtt, delay) = (stats.srtt.as_millis(), stats.one_way_delay.as_millis());
        // Silences shorter than a second count as round trips.
        let longest = if case.time > SECOND { 120 } else { 400 };
        assert!(rtt < longest && delay < 80, "{case:?}: {id:?} has {rtt} ms, one way {delay} ms");
    }
    let late = viewer.arrivals(0).iter().filter(|(id, at)| *at > viewer.frames[id] + DEADLINE).count();
    // Frames in flight, or sent after waking up before the suspension was detected.
    assert!(late <= 6, "{case:?}: {late} frames are shown late");
}

/// Runs all cases of these sides.
fn grid(sides: &'static [Side]) {
    const LOSSY: &[&str] = &[
        "name='wifi'\nrate='20mbps'\ndelay='15ms'\nqueue='75kB'\nloss='2%'",
        "name='lte'\nrate='10mbps'\ndelay='40ms'\nqueue='100kB'\nloss='2%'",
    ];
    for clock in [Monotonic::Runs, Monotonic::Stops] {
        for (time, timeout) in [(1, 30), (5, 30), (29, 30), (60, 30), (60, 3600), (600, 30), (600, 3600)] {
            for paths in [TWO_PATHS, &TWO_PATHS[..1], LOSSY] {
                for after in [3_000, 20_000] {
                    let (time, idle_timeout) = (time * SECOND, Duration::from_secs(timeout));
                    run(&Case { paths, sides, clock, time, idle_timeout, after });
                }
            }
        }
    }
}

#[test]
fn both_ends_are_suspended_and_the_video_goes_on() {
    grid(&[Side::Client, Side::Server]);
}

#[test]
fn the_sender_is_suspended_and_the_video_goes_on() {
    grid(&[Side::Client]);
}

#[test]
fn the_receiver_is_suspended_and_the_video_goes_on() {
    grid(&[Side::Server]);
}
