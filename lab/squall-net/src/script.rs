//! Changes at given times: rate, delay, loss, outages.

use serde::Deserialize;
use squall_units::{Rate, Size, Span};

use crate::{
    ecn::EcnTreatment,
    error::EventError,
    loss::LossConfig,
    time::{NEVER, Nanos, nanos},
};

/// An event of one direction of a link at a given time. One event may change several things.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkEvent {
    /// Time from the start of the run.
    pub at: Span,
    /// New rate. It replaces a trace or series permanently.
    pub rate: Option<Rate>,
    /// New propagation delay. Without `over`, a shorter delay does not let packets overtake those
    /// in flight, unless the link's jitter reorders.
    pub delay: Option<Span>,
    /// Duration over which rate and delay move linearly to their new values (the rate in steps of a
    /// millisecond).
    pub over: Option<Span>,
    /// New loss.
    pub loss: Option<LossConfig>,
    /// New treatment of packets whose sender uses ECN.
    pub ecn: Option<EcnTreatment>,
    /// New MTU, within the bounds of [`LinkConfig::mtu`](crate::LinkConfig::mtu). Packets that are
    /// waiting or in flight still arrive.
    pub mtu: Option<Size>,
    /// Length of an outage that begins now. Outages may overlap; the link is back after the last.
    pub outage: Option<Span>,
}

/// Effect of an outage on packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutageMode {
    /// Packets pushed during the outage, and those waiting or in flight when it begins, are
    /// dropped.
    #[default]
    Drop,
    /// Sending stops: packets in flight still arrive, those waiting stay, and new ones join the
    /// queue while it has room.
    Hold,
}

/// One change.
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

/// Changes in order of time; simultaneous ones in the order of the configuration.
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
        // A stable sort, reversed as a whole: popping from the end restores both orders.
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
