//! Capacity of a serialiser that several paths share.

use squall_trace::Micros;

use super::{
    forecast::{Forecast, Stage},
    stretch::{bytes, spells},
    volume::{Stretch, Volume},
};

/// The shortest path from the serialiser to the receiver during an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Way {
    from: Micros,
    to: Micros,
    lag: Micros,
}

/// Returns the capacity of the trunk in order of time. Each packet takes the shortest path at its
/// time.
///
/// While no path is up the trunk's service is lost, except one packet of at most `mtu` that ends
/// when a path is up again.
pub(super) fn stretches<'a>(
    trunk: &Forecast,
    paths: impl Iterator<Item = &'a Forecast>,
    mtu: u32,
) -> Vec<Stretch> {
    let ways = best(&paths.map(ways).collect::<Vec<_>>());
    let (mut stretches, mut wasted) = (Vec::new(), 0u64);
    for (stage, lag) in trunk.stages.iter().flat_map(|stage| cut(*stage, &ways)) {
        let Some(lag) = lag else {
            wasted = wasted.saturating_add(volume(&stage));
            continue;
        };
        let rest = Volume::Burst(std::mem::take(&mut wasted).min(mtu.into()));
        if rest != Volume::Burst(0) {
            stretches.push(Stretch { from: stage.from, to: stage.from, volume: rest, lag });
        }
        let Stage { from, to, volume, .. } = stage;
        match volume {
            Volume::Rate(0) => {}
            Volume::Burst(_) => {
                let before = from.saturating_sub(1);
                let lag = lag.saturating_add(from - before);
                stretches.push(Stretch { from: before, to: before, volume, lag });
            }
            _ => stretches.push(Stretch { from, to, volume, lag }),
        }
    }
    // A burst is entered before its time, also where a remainder continues from it.
    stretches.sort_by_key(|stretch| stretch.from);
    stretches
}

fn volume(stage: &Stage) -> u64 {
    match stage.volume {
        Volume::Unlimited => u64::MAX,
        Volume::Rate(bps) => bytes(bps, stage.to - stage.from),
        Volume::Burst(bytes) => bytes,
    }
}

/// Returns the intervals in which a path takes packets from the trunk, with their delay.
fn ways(path: &Forecast) -> Vec<Way> {
    if path.drops {
        let alive = spells(path).flat_map(|spell| spell.before_delay());
        return alive.map(|Stretch { from, to, lag, .. }| Way { from, to, lag }).collect();
    }
    let way = |stage: &Stage| {
        // A packet that is held back leaves with the first one after the outage; behind a delay
        // possibly slightly earlier.
        let lag = if stage.is_up || path.delays_first { stage.delay } else { Micros::MAX };
        Way { from: stage.from, to: stage.to, lag }
    };
    path.stages.iter().map(way).collect()
}

/// Returns the shortest delay of all paths over time; a gap where no path is up.
fn best(paths: &[Vec<Way>]) -> Vec<Way> {
    let mut cuts: Vec<Micros> = paths.iter().flatten().flat_map(|way| [way.from, way.to]).collect();
    cuts.sort_unstable();
    cuts.dedup();
    let mut next = vec![0; paths.len()];
    let mut ways = Vec::new();
    for pair in cuts.windows(2) {
        let mut least = None;
        for (path, next) in paths.iter().zip(&mut next) {
            while path.get(*next).is_some_and(|way| way.to <= pair[0]) {
                *next += 1;
            }
            let lag = path.get(*next).filter(|way| way.from <= pair[0]).map(|way| way.lag);
            least = least.into_iter().chain(lag).min();
        }
        ways.extend(least.map(|lag| Way { from: pair[0], to: pair[1], lag }));
    }
    ways
}

/// Divides a stage at the ends of the ways; `None` for pieces without a way.
fn cut(stage: Stage, ways: &[Way]) -> Vec<(Stage, Option<Micros>)> {
    let first = ways.partition_point(|way| way.to <= stage.from);
    if stage.from == stage.to {
        let way = ways.get(first).filter(|way| way.from <= stage.from);
        return vec![(stage, way.map(|way| way.lag))];
    }
    let (mut pieces, mut now) = (Vec::new(), stage.from);
    for way in ways[first..].iter().take_while(|way| way.from < stage.to) {
        if now < way.from {
            pieces.push((Stage { from: now, to: way.from, ..stage }, None));
        }
        let (from, to) = (way.from.max(now), way.to.min(stage.to));
        pieces.push((Stage { from, to, ..stage }, Some(way.lag)));
        now = to;
    }
    if now < stage.to {
        pieces.push((Stage { from: now, ..stage }, None));
    }
    pieces
}
