//! The state of one link over time.

use squall_trace::{Micros, mahimahi};

use super::volume::Volume;
use crate::link::{Link, Outlook, Service};

/// Bytes of packets in a mahimahi opportunity, less the TUN header of a full-size packet.
const OPPORTUNITY: u64 = mahimahi::OPPORTUNITY - mahimahi::TUN_HEADER;

/// The future of one link.
#[derive(Debug, Clone)]
pub(crate) struct Forecast {
    /// Contiguous from time 0; bursts (stages without length) lie in between.
    pub(super) stages: Vec<Stage>,
    pub(super) drops: bool,
    pub(super) delays_first: bool,
    /// The link's MTU, which no change can exceed.
    pub(super) mtu: u32,
}

/// The service of a link over an interval, or at one moment for a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stage {
    pub(super) from: Micros,
    pub(super) to: Micros,
    pub(super) volume: Volume,
    /// Minimum delay.
    pub(super) delay: Micros,
    pub(super) is_up: bool,
}

impl Forecast {
    /// Runs an empty link until `until` and records its stages.
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

    /// Adds the next stage, or extends the last one if nothing has changed.
    fn add(&mut self, stage: Stage) {
        match self.stages.last_mut() {
            Some(last) if *last == (Stage { from: last.from, to: stage.from, ..stage }) => last.to = stage.to,
            _ => self.stages.push(stage),
        }
    }
}

/// The opportunities at `now` for a packet that already waits. `None` if an outage or a change of
/// the rate falls on the same time, because the link applies these first.
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
