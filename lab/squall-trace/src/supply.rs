//! Bytes that a link carried up to any moment.

use std::ops::Range;

use crate::{Event, Micros, OUTAGE, OUTAGE_BPS, PACKET, Quantity, Row};

/// Millionths of a bit in a packet: a rate in bits per second carries a whole number of these in a
/// microsecond.
pub(crate) const PACKET_MICROBITS: u128 = PACKET as u128 * 8 * 1_000_000;

/// Behaviour of the link in a `gap`: a time for which the recording has no row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Gaps {
    /// It continued at the rate of the previous row.
    #[default]
    Hold,
    /// It delivered nothing, from one usual step after the previous row until the next row.
    Stall,
}

/// Data carried by a link: at a rate that changes in steps, or at delivery opportunities.
#[derive(Debug, Clone, PartialEq)]
pub struct Supply {
    kind: Kind,
    end: Micros,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    /// By time, the first at 0; never empty.
    Steps(Vec<Step>),
    /// By time, in milliseconds.
    Opportunities(Vec<u64>),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Step {
    pub(crate) at: Micros,
    pub(crate) bps: u64,
    /// Millionths of a bit that the link carried until `at`.
    pub(crate) before: u128,
}

impl Supply {
    /// Creates the supply of a link with a rate of these rows; `None` if no row has it.
    ///
    /// A rate is valid from its row until the next row that has one, the first also before its row.
    /// If the sender paused (`app_idle`) and there is no rate, it is interpolated linearly between
    /// the rates around the pause.
    pub(crate) fn of_rows(
        rows: &[Row],
        end: Micros,
        step: Micros,
        rate: Quantity,
        gaps: Gaps,
    ) -> Option<Self> {
        let mut known = Vec::new();
        let mut idle = Vec::new();
        let mut before: Option<&Row> = None;
        for row in rows {
            let rate = row[rate].map(bps);
            let stalled = gaps == Gaps::Stall && row.events.contains(&Event::Gap);
            if let Some(silent) = before.map(|before| before.at + step).filter(|at| stalled && *at < row.at) {
                let last = known.last().map(|&(_, rate)| rate);
                known.push((silent, 0));
                known.extend(last.filter(|_| rate.is_none()).map(|rate| (row.at, rate)));
            }
            match rate {
                Some(rate) => known.push((row.at, rate)),
                None if row.events.contains(&Event::Idle) => idle.push(row.at),
                None => {}
            }
            before = Some(row);
        }
        if known.is_empty() {
            return None;
        }
        let between: Vec<(Micros, u64)> = idle.into_iter().map(|at| (at, between(&known, at))).collect();
        known.extend(between);
        known.sort_by_key(|&(at, _)| at);
        known[0].0 = 0;
        Some(Self { kind: Kind::Steps(summed(&known)), end })
    }

    /// Creates the supply of a link with these opportunities, in milliseconds.
    pub(crate) fn of_opportunities(millis: Vec<u64>, end: Micros) -> Self {
        Self { kind: Kind::Opportunities(millis), end }
    }

    /// Returns the length of the recording, in microseconds.
    pub fn end(&self) -> Micros {
        self.end
    }

    /// Returns the average bits per second over a non-empty time range in microseconds.
    pub fn mean_bps(&self, time: Range<Micros>) -> f64 {
        let bits = self.microbits_until(time.end) - self.microbits_until(time.start);
        bits as f64 / (time.end - time.start) as f64
    }

    /// Returns the periods longer than [`OUTAGE`] in which one packet takes longer than that:
    /// without an opportunity, or with a rate below [`OUTAGE_BPS`].
    pub fn outages(&self) -> Vec<Range<Micros>> {
        let mut all: Vec<Range<Micros>> = Vec::new();
        match &self.kind {
            Kind::Steps(steps) => {
                for (step, until) in steps.iter().zip(self.ends(steps)) {
                    match all.last_mut() {
                        _ if step.bps >= OUTAGE_BPS || until <= step.at => {}
                        Some(last) if last.end == step.at => last.end = until,
                        _ => all.push(step.at..until),
                    }
                }
            }
            Kind::Opportunities(millis) => {
                let times = millis.iter().map(|millis| millis * 1_000).chain([self.end]);
                let mut before = 0;
                for at in times {
                    all.push(before..at.max(before));
                    before = at;
                }
            }
        }
        all.retain(|outage| outage.end - outage.start > OUTAGE);
        all
    }

    /// Returns the millionths of a bit that the link carried from 0 until `at`. An opportunity at
    /// time 0 counts from the first moment after that.
    pub(crate) fn microbits_until(&self, at: Micros) -> u128 {
        if at == 0 {
            return 0;
        }
        let at = at.min(self.end);
        match &self.kind {
            Kind::Steps(steps) => {
                // The first step is at 0.
                let step = steps[steps.partition_point(|step| step.at <= at) - 1];
                step.before + u128::from(step.bps) * u128::from(at - step.at)
            }
            Kind::Opportunities(millis) => {
                let count = millis.partition_point(|millis| millis * 1_000 <= at);
                count as u128 * PACKET_MICROBITS
            }
        }
    }

    /// Returns the rate at a time, in bits per second; `None` for a list of opportunities.
    pub(crate) fn rate_at(&self, at: Micros) -> Option<u64> {
        let Kind::Steps(steps) = &self.kind else { return None };
        Some(steps[steps.partition_point(|step| step.at <= at).max(1) - 1].bps)
    }

    /// Returns the steps with their ends; none for a list of opportunities.
    pub(crate) fn steps(&self) -> impl Iterator<Item = (Step, Micros)> {
        let steps: &[Step] = match &self.kind {
            Kind::Steps(steps) => steps,
            Kind::Opportunities(_) => &[],
        };
        steps.iter().copied().zip(self.ends(steps)).filter(|(step, until)| step.at < *until)
    }

    fn ends(&self, steps: &[Step]) -> impl Iterator<Item = Micros> {
        steps.iter().skip(1).map(|next| next.at).chain([self.end])
    }
}

/// Converts a rate in Mbit/s, which a table bounds, to whole bits per second.
fn bps(mbps: f64) -> u64 {
    (mbps * 1e6).round() as u64
}

/// Interpolates the rate at a time linearly between two known ones; outside, returns that of the
/// nearest.
fn between(known: &[(Micros, u64)], at: Micros) -> u64 {
    let next = known.partition_point(|&(known, _)| known <= at);
    match (next.checked_sub(1).map(|last| known[last]), known.get(next)) {
        (Some((from, low)), Some(&(to, high))) => {
            let share = (at - from) as f64 / (to - from) as f64;
            (low as f64 + (high as f64 - low as f64) * share).round() as u64
        }
        (Some((_, rate)), None) => rate,
        (None, after) => after.map_or(0, |&(_, rate)| rate),
    }
}

fn summed(steps: &[(Micros, u64)]) -> Vec<Step> {
    let mut sum = 0;
    let mut last: Option<(Micros, u64)> = None;
    let step = |&(at, bps): &(Micros, u64)| {
        sum += last.map_or(0, |(from, bps)| u128::from(bps) * u128::from(at - from));
        last = Some((at, bps));
        Step { at, bps, before: sum }
    };
    steps.iter().map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Micros = 1_000_000;

    fn row(second: u64, down: Option<f64>, events: &[Event]) -> Row {
        Row { events: events.to_vec(), ..Row::new(second * SECOND).with(Quantity::Down, down) }
    }

    fn means(rows: &[Row], seconds: u64, gaps: Gaps) -> Vec<f64> {
        let all = Supply::of_rows(rows, seconds * SECOND, SECOND, Quantity::Down, gaps).unwrap();
        (0..seconds).map(|second| all.mean_bps(second * SECOND..(second + 1) * SECOND) / 1e6).collect()
    }

    #[test]
    fn a_rate_holds_until_the_next() {
        let rows = [row(1, Some(3.0), &[]), row(2, None, &[]), row(3, Some(0.5), &[])];
        assert_eq!(means(&rows, 5, Gaps::Hold), [3.0, 3.0, 3.0, 0.5, 0.5]);
        assert_eq!(Supply::of_rows(&rows, SECOND, SECOND, Quantity::Up, Gaps::Hold), None);
    }

    #[test]
    fn a_pause_of_the_sender_is_a_straight_line() {
        let idle = [Event::Idle];
        let rows = [row(0, None, &idle), row(1, Some(4.0), &[]), row(2, None, &idle), row(3, None, &idle)];
        assert_eq!(means(&rows, 5, Gaps::Hold), [4.0; 5]);
        let more = [&rows[..], &[row(4, Some(10.0), &[])]].concat();
        assert_eq!(means(&more, 5, Gaps::Hold), [4.0, 4.0, 6.0, 8.0, 10.0]);
    }

    #[test]
    fn a_gap_holds_or_stalls() {
        let rows = [row(0, Some(4.0), &[]), row(4, Some(2.0), &[Event::Gap]), row(8, None, &[Event::Gap])];
        assert_eq!(means(&rows, 9, Gaps::Hold), [4.0, 4.0, 4.0, 4.0, 2.0, 2.0, 2.0, 2.0, 2.0]);
        assert_eq!(means(&rows, 9, Gaps::Stall), [4.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 2.0]);
    }

    #[test]
    fn outages_are_what_keeps_a_packet_for_long() {
        let rows = [
            row(0, Some(1.0), &[]),
            row(1, Some(0.059), &[]),
            row(2, Some(0.0), &[]),
            row(4, Some(0.06), &[]),
        ];
        let steps = Supply::of_rows(&rows, 5 * SECOND, SECOND, Quantity::Down, Gaps::Hold).unwrap();
        let outages = steps.outages();
        assert_eq!((outages.len(), outages[0].start, outages[0].end), (1, SECOND, 4 * SECOND));
        let list = Supply::of_opportunities(vec![201, 400, 601, 700], SECOND);
        assert_eq!(list.outages(), [0..201_000, 400_000..601_000, 700_000..SECOND]);
    }

    #[test]
    fn opportunities_count_in_the_time_that_they_end() {
        let list = Supply::of_opportunities(vec![0, 10, 20], 20_000);
        assert_eq!(list.mean_bps(0..10_000), 2_400_000.0);
        assert_eq!(list.mean_bps(10_000..20_000), 1_200_000.0);
        assert_eq!(list.rate_at(0), None);
    }
}
