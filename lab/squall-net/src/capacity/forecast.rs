//! What one link does over time.

use squall_trace::{Micros, mahimahi};

use super::volume::Volume;
use crate::link::{Link, Outlook, Service};

/// What a mahimahi opportunity carries of packets, without the TUN header of a packet of full size.
const OPPORTUNITY: u64 = mahimahi::OPPORTUNITY - mahimahi::TUN_HEADER;

/// The future of one link.
#[derive(Debug, Clone)]
pub(crate) struct Forecast {
    /// Without gaps from time 0 on; moments lie between.
    pub(super) stages: Vec<Stage>,
    pub(super) drops: bool,
    pub(super) delays_first: bool,
    /// The largest packet that it takes at any time.
    pub(super) mtu: u32,
}

/// What a link does from one time to another, or at one moment if it is a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stage {
    pub(super) from: Micros,
    pub(super) to: Micros,
    pub(super) volume: Volume,
    /// The least delay.
    pub(super) delay: Micros,
    pub(super) is_up: bool,
}

impl Forecast {
    /// Runs an empty link until then.
    pub(crate) fn of<T: Clone>(mut link: Link<T>, until: Micros) -> Self {
        let mut forecast = Self {
            stages: Vec::new(),
            drops: link.drops_in_outages(),
            delays_first: link.delays_first(),
            mtu: link.mtu(),
        };
        let (mut now, mut before) = (0, None);
        while now < until {
            let outlook = link.outlook(now);
            forecast.stages.extend(before.and_then(|before| burst(now, before, outlook)));
            let volume = match outlook.service {
                Service::Rate(None) => Volume::Unlimited,
                Service::Rate(Some(bps)) => Volume::Rate(bps),
                Service::Opportunities { .. } => Volume::Rate(0),
            };
            forecast.mtu = forecast.mtu.max(link.mtu());
            let Outlook { delay, is_up, until: change, .. } = outlook;
            forecast.add(Stage { from: now, to: change.min(until), volume, delay, is_up });
            (now, before) = (change, Some(outlook));
        }
        forecast
    }

    /// Adds what comes next, or makes the last longer if it is the same.
    fn add(&mut self, stage: Stage) {
        match self.stages.last_mut() {
            Some(last) if *last == (Stage { from: last.from, to: stage.from, ..stage }) => last.to = stage.to,
            _ => self.stages.push(stage),
        }
    }
}

/// The opportunities at `now`, as a packet sees them that has waited: not if an outage or a change of the
/// rate comes at the same time, which the link puts first.
fn burst(now: Micros, before: Outlook, outlook: Outlook) -> Option<Stage> {
    let Service::Opportunities { at, count } = before.service else { return None };
    let stays = matches!(outlook.service, Service::Opportunities { .. });
    (at == now && before.is_up && outlook.is_up && stays).then_some(Stage {
        from: now,
        to: now,
        volume: Volume::Burst(count * OPPORTUNITY),
        delay: outlook.delay,
        is_up: true,
    })
}
