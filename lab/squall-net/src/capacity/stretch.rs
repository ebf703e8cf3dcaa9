//! Capacity of a link with its own serialiser.

use squall_trace::Micros;

use super::{
    forecast::{Forecast, Stage},
    reach::Reach,
    volume::{Stretch, Volume},
};

/// If the delay before the serialiser has grown, the serialiser works off data sent earlier for a
/// while. That interval is divided into pieces of this length.
const PIECE: Micros = 1_000;

/// Returns the capacity of the link in order of time.
pub(super) fn stretches(link: &Forecast) -> Vec<Stretch> {
    spells(link)
        .flat_map(|spell| if link.delays_first { behind(spell.stages) } else { spell.before_delay() })
        .collect()
}

/// An interval that packets in flight survive: without outages, if outages drop packets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spell<'a> {
    stages: &'a [Stage],
    /// Begin of the outage that ends it.
    end: Option<Micros>,
}

pub(super) fn spells(link: &Forecast) -> impl Iterator<Item = Spell<'_>> {
    let end = link.stages.last().map(|stage| stage.to);
    let spells = link.stages.chunk_by(|one, next| !link.drops || (one.is_up && next.is_up));
    spells.filter(|stages| !link.drops || stages[0].is_up).map(move |stages| Spell {
        stages,
        end: stages.last().map(|stage| stage.to).filter(|to| link.drops && Some(*to) != end),
    })
}

impl Spell<'_> {
    /// Serialiser first, then the delay. Packets in flight when the spell ends are lost.
    pub(super) fn before_delay(&self) -> Vec<Stretch> {
        let up = self.stages.iter().filter(|stage| stage.is_up && stage.volume != Volume::Rate(0));
        let mut stretches: Vec<Stretch> = up.map(departing).collect();
        if let Some(end) = self.end {
            let kept = stretches.iter().rposition(|stretch| stretch.from.saturating_add(stretch.lag) < end);
            stretches.truncate(kept.map_or(0, |kept| kept + 1));
            if let Some(last) = stretches.last_mut() {
                last.to = last.to.min(end - last.lag);
            }
        }
        stretches
    }
}

fn departing(stage: &Stage) -> Stretch {
    let Stage { from, to, volume, delay, .. } = *stage;
    match volume {
        // A packet pushed at the very time of an opportunity cannot use it.
        Volume::Burst(_) => {
            let before = from.saturating_sub(1);
            Stretch { from: before, to: before, volume, lag: delay + from - before }
        }
        _ => Stretch { from, to, volume, lag: delay },
    }
}

/// Delay first: the service at a given time is for data that was sent early enough to be there.
fn behind(stages: &[Stage]) -> Vec<Stretch> {
    let lines: Vec<Stretch> = stages
        .iter()
        .filter(|stage| stage.from < stage.to)
        .map(|stage| Stretch { from: stage.from, to: stage.to, volume: Volume::Unlimited, lag: stage.delay })
        .collect();
    let reach = Reach::of(&lines);
    let mut stretches = Vec::new();
    for stage in stages.iter().filter(|stage| stage.is_up) {
        match stage.volume {
            Volume::Rate(0) => {}
            Volume::Burst(_) => {
                let handed = stage.from.checked_sub(1).and_then(|before| reach.latest(before));
                stretches.extend(handed.map(|at| Stretch {
                    from: at,
                    to: at,
                    volume: stage.volume,
                    lag: stage.from - at,
                }));
            }
            volume => served(volume, stage.from, stage.to, &reach, &mut stretches),
        }
    }
    stretches
}

/// Adds the service from `now` to `end`, attributed to the sending times of the data.
fn served(volume: Volume, mut now: Micros, end: Micros, reach: &Reach, stretches: &mut Vec<Stretch>) {
    while now < end {
        let Some(last) = reach.last(now) else {
            match reach.first() {
                Some(first) => now = first,
                None => return,
            }
            continue;
        };
        let handed = now - last.lag;
        if handed < last.to {
            let until = end.min(last.to + last.lag).min(last.until);
            stretches.push(Stretch { from: handed, to: until - last.lag, volume, lag: last.lag });
            now = until;
            continue;
        }
        // No data arrives now: the data being served was sent before the delay grew.
        let rest = end.min(last.until);
        let (until, volume) = match volume {
            Volume::Rate(bps) => {
                let until = rest.min(now + PIECE);
                (until, Volume::Burst(bytes(bps, until - now)))
            }
            volume => (rest, volume),
        };
        stretches.push(Stretch { from: last.to, to: last.to, volume, lag: now - last.to });
        now = until;
    }
}

/// Bytes at a rate within this time, rounded up.
pub(super) fn bytes(bps: u64, micros: Micros) -> u64 {
    u64::try_from((u128::from(bps) * u128::from(micros)).div_ceil(8_000_000)).unwrap_or(u64::MAX)
}
