//! Changes at given times: rate, delay, loss, outages.

use serde::Deserialize;
use squall_units::{Rate, Size, Span};

use crate::{
    ecn::EcnTreatment,
    error::EventError,
    loss::LossConfig,
    time::{NEVER, Nanos, nanos},
};

/// Something that happens to one direction of a link at a given time. An event may change several things.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkEvent {
    /// When, from the start of the run.
    pub at: Span,
    /// The rate from now on, also instead of a trace or series, which does not come back.
    pub rate: Option<Rate>,
    /// The propagation delay from now on. Without `over` a shorter delay does not let packets overtake those
    /// under way, unless the link's jitter reorders.
    pub delay: Option<Span>,
    /// Rate and delay do not jump but move evenly to their new values within this time (the rate in steps
    /// of a millisecond).
    pub over: Option<Span>,
    /// The loss from now on.
    pub loss: Option<LossConfig>,
    /// What happens to packets whose sender uses ECN from now on.
    pub ecn: Option<EcnTreatment>,
    /// The largest packet from now on, within the bounds of [`LinkConfig::mtu`](crate::LinkConfig::mtu). What is
    /// waiting or under way arrives.
    pub mtu: Option<Size>,
    /// An outage of this length begins. Outages may overlap; the link is back after the last.
    pub outage: Option<Span>,
}

/// What an outage does to packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutageMode {
    /// Packets pushed during the outage, and those waiting or under way when it begins, are dropped.
    #[default]
    Drop,
    /// Sending stops: packets under way still arrive, those waiting stay, and new ones join the queue
    /// while it has room.
    Hold,
}

/// One change, ready to be applied.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    Rate { to: Rate, over: Nanos },
    Delay { to: Span, over: Nanos },
    Loss(LossConfig),
    Ecn(EcnTreatment),
    Mtu(u32),
    OutageStart,
    OutageEnd,
}

/// Changes in the order of time; those at the same time in the order they are listed.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    /// Latest first.
    changes: Vec<(Nanos, Change)>,
}

impl Script {
    pub(crate) fn new(events: &[LinkEvent]) -> Result<Self, EventError> {
        let mut changes = Vec::new();
        for event in events {
            add(&mut changes, event)?;
        }
        changes.sort_by_key(|(at, _)| *at);
        // A stable sort, turned round as a whole: taking from the end gives back both orders.
        changes.reverse();
        Ok(Self { changes })
    }

    pub(crate) fn next(&self) -> Nanos {
        self.changes.last().map_or(NEVER, |(at, _)| *at)
    }

    pub(crate) fn pop(&mut self) -> Option<Change> {
        self.changes.pop().map(|(_, change)| change)
    }
}

fn add(changes: &mut Vec<(Nanos, Change)>, event: &LinkEvent) -> Result<(), EventError> {
    let LinkEvent { at, rate, delay, over, loss, ecn, mtu, outage } = event;
    let at = *at;
    let start = nanos(at.micros());
    let moves = rate.is_some() || delay.is_some() || loss.is_some();
    if !moves && ecn.is_none() && mtu.is_none() && outage.is_none() {
        return Err(EventError::Nothing { at });
    }
    if over.is_some() && rate.is_none() && delay.is_none() {
        return Err(EventError::Over { at });
    }
    let over = over.map_or(0, |over| nanos(over.micros()));
    if let Some(to) = *rate {
        changes.push((start, Change::Rate { to, over }));
    }
    if let Some(to) = *delay {
        changes.push((start, Change::Delay { to, over }));
    }
    if let Some(loss) = loss {
        if matches!(loss, LossConfig::Series(series) if series.unread().is_some()) {
            return Err(EventError::LossFile { at });
        }
        changes.push((start, Change::Loss(loss.clone())));
    }
    if let Some(ecn) = *ecn {
        changes.push((start, Change::Ecn(ecn)));
    }
    if let Some(mtu) = *mtu {
        let bytes = u16::try_from(mtu.bytes()).ok().filter(|bytes| *bytes > 0);
        changes.push((start, Change::Mtu(bytes.ok_or(EventError::Mtu { at, mtu })?.into())));
    }
    if let Some(outage) = outage.filter(|outage| outage.micros() > 0) {
        changes.push((start, Change::OutageStart));
        changes.push((start.saturating_add(nanos(outage.micros())), Change::OutageEnd));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_come_in_order_of_time_and_then_as_listed() {
        let at = Span::from_millis;
        let rate = |millis, bps| LinkEvent {
            at: at(millis),
            rate: Some(Rate::from_bps(bps)),
            ..LinkEvent::default()
        };
        let mut script = Script::new(&[rate(5, 1), rate(3, 2), rate(5, 3)]).unwrap();
        let mut rates = Vec::new();
        while let Some(Change::Rate { to, .. }) = script.pop() {
            rates.push(to.bps());
        }
        assert_eq!(rates, [2, 1, 3]);
    }

    #[test]
    fn senseless_events_are_refused() {
        let idle = LinkEvent { at: Span::from_millis(3), ..LinkEvent::default() };
        let over = LinkEvent {
            over: Some(Span::from_millis(1)),
            outage: Some(Span::from_millis(1)),
            ..idle.clone()
        };
        let error = |event: LinkEvent| Script::new(&[event]).unwrap_err().to_string();
        assert!(error(idle).starts_with("event at 3ms: it changes nothing"));
        assert_eq!(error(over), "event at 3ms: over needs a rate or a delay to move to");
    }
}
