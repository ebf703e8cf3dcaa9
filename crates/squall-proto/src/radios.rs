//! The radios behind this side's interfaces: their reports, the alerts announced to the peer, and
//! the peer's alerts.

use std::collections::BTreeMap;

use squall_sched::{Span, Time};
use squall_signal::{Alert, AlertKind, Reading, Watermark, WatermarkConfig, WatermarkError};

use crate::{Interface, path::Fates, wire::PathAlert};

/// Number of paths whose announcement by the peer is kept: twice the number of concurrent paths of
/// a session.
const MAX_RECEIVED: usize = 16;

/// Largest number of interfaces whose radio is watched; the application names them. A modem that is
/// attached again may have another address each time, so the one that was read the longest ago is
/// dropped.
const MAX_WATCHED: usize = 32;

/// Smallest number of packets with a fate for a meaningful loss: out of 50 one that is lost by
/// chance costs the index two hundredths, out of ten it would cost a tenth.
const ENOUGH_PACKETS: u64 = 50;

/// Longest window of losses; one with too few packets after this time is begun again.
const LONGEST_WINDOW: Span = Span::from_secs(1);

/// Time after which an alert that is not acknowledged is repeated, or slightly more than a round
/// trip. It doubles with each repetition.
const FIRST_REPEAT: Span = Span::from_millis(50);
/// Longest time between two repetitions of an alert.
const LAST_REPEAT: Span = Span::from_secs(1);

/// State of the radios.
#[derive(Debug, Default)]
pub(crate) struct Radios {
    watched: Vec<Watched>,
    announced: Vec<Announced>,
    /// Latest alert of the peer about a path, by number, with its sequence number.
    received: BTreeMap<u32, (u64, Alert)>,
    /// Sequence number of the last alert.
    sequence: u64,
}

#[derive(Debug)]
struct Watched {
    local: Interface,
    watermark: Watermark,
    /// Latest report of the radio.
    alert: Option<Alert>,
    /// Fates of the packets on its paths when the window of losses began.
    fates: Fates,
    /// Start of the window of losses.
    window: Time,
    /// Time of the last reading.
    read_at: Time,
}

impl Watched {
    /// Returns the share of packets lost in a window that is full now.
    fn loss(&mut self, now: Time, fates: Fates) -> Option<f64> {
        let new = fates.since(self.fates);
        let full = new.known() >= ENOUGH_PACKETS;
        if full || now >= self.window + LONGEST_WINDOW {
            (self.fates, self.window) = (fates, now);
        }
        full.then(|| new.lost as f64 / new.known() as f64)
    }
}

/// An alert that was announced to the peer.
#[derive(Debug)]
struct Announced {
    alert: PathAlert,
    acked: bool,
    repeat_at: Time,
    interval: Span,
}

impl Announced {
    fn is(&self, path: u32, sequence: u64) -> bool {
        self.alert.path == path && self.alert.sequence == sequence
    }
}

impl Radios {
    /// Processes a reading of the radio behind an interface, with the fates of the packets on its
    /// paths. Returns the change. The first reading is one even without an alert: it makes the peer
    /// report its losses.
    pub(crate) fn read(
        &mut self,
        now: Time,
        local: Interface,
        reading: &Reading,
        fates: Fates,
        config: &WatermarkConfig,
    ) -> Result<Option<Alert>, WatermarkError> {
        let known = self.watched.iter().position(|radio| radio.local == local);
        let index = match known {
            Some(index) => index,
            None => self.watch(now, local, fates, Watermark::new(*config)?),
        };
        let radio = &mut self.watched[index];
        radio.read_at = now;
        let loss = radio.loss(now, fates);
        let change = radio.watermark.update(now, reading, loss);
        let first = radio.watermark.quality().filter(|_| radio.alert.is_none());
        let well = first.map(|quality| Alert { kind: AlertKind::Recovery, quality, gap: 0.0 });
        let alert = change.or(well);
        radio.alert = alert.or(radio.alert);
        Ok(alert)
    }

    fn watch(&mut self, now: Time, local: Interface, fates: Fates, watermark: Watermark) -> usize {
        if self.watched.len() >= MAX_WATCHED
            && let Some(oldest) = (0..self.watched.len()).min_by_key(|i| self.watched[*i].read_at)
        {
            self.watched.remove(oldest);
        }
        self.watched.push(Watched { local, watermark, alert: None, fates, window: now, read_at: now });
        self.watched.len() - 1
    }

    /// Ends the alert of a radio that has been silent for too long.
    pub(crate) fn silent(&mut self, now: Time) -> Option<(Interface, Alert)> {
        self.watched.iter_mut().find_map(|radio| {
            let alert = radio.watermark.on_time(now)?;
            radio.alert = Some(alert);
            Some((radio.local, alert))
        })
    }

    /// Returns the last alert of the radio behind an interface.
    pub(crate) fn alert_of(&self, local: Interface) -> Option<Alert> {
        self.watched.iter().find(|radio| radio.local == local)?.alert
    }

    /// Returns the quality index of the radio behind an interface.
    pub(crate) fn quality(&self, local: Interface) -> Option<f64> {
        self.watched.iter().find(|radio| radio.local == local)?.watermark.quality()
    }

    /// Announces an alert of a path to the peer, in place of an earlier one.
    pub(crate) fn announce(&mut self, now: Time, path: u32, alert: &Alert) {
        self.sequence += 1;
        let alert = PathAlert::new(path, alert, self.sequence);
        self.announced.retain(|sent| sent.alert.path != path);
        self.announced.push(Announced { alert, acked: false, repeat_at: now, interval: FIRST_REPEAT });
    }

    /// Returns the next alert to be sent or repeated, on all paths. `rtt` is the best path's round
    /// trip.
    pub(crate) fn due(&mut self, now: Time, rtt: Span) -> Option<PathAlert> {
        let sent = self.announced.iter_mut().find(|sent| !sent.acked && sent.repeat_at <= now)?;
        sent.interval = sent.interval.max(rtt + rtt / 4).min(LAST_REPEAT);
        sent.repeat_at = now + sent.interval;
        sent.interval = sent.interval * 2;
        Some(sent.alert)
    }

    /// Returns an alert that the peer does not have, if no later one has replaced it.
    pub(crate) fn pending(&self, path: u32, sequence: u64) -> Option<PathAlert> {
        let is_it = |sent: &&Announced| sent.is(path, sequence) && !sent.acked;
        self.announced.iter().find(is_it).map(|sent| sent.alert)
    }

    /// Records that the peer has an alert.
    pub(crate) fn on_acked(&mut self, path: u32, sequence: u64) {
        if let Some(sent) = self.announced.iter_mut().find(|sent| sent.is(path, sequence)) {
            sent.acked = true;
        }
    }

    /// Repeats an alert at once whose packet was lost.
    pub(crate) fn on_lost(&mut self, now: Time, path: u32, sequence: u64) {
        if let Some(sent) = self.announced.iter_mut().find(|sent| sent.is(path, sequence)) {
            sent.repeat_at = sent.repeat_at.min(now);
        }
    }

    /// Forgets a closed path and its announcement.
    pub(crate) fn forget(&mut self, path: u32) {
        self.announced.retain(|sent| sent.alert.path != path);
    }

    /// Processes an alert of the peer; returns `true` if it is new.
    pub(crate) fn receive(&mut self, alert: &PathAlert) -> bool {
        let newest = self.received.get(&alert.path).is_none_or(|(sequence, _)| *sequence < alert.sequence);
        if newest {
            self.received.insert(alert.path, (alert.sequence, alert.alert()));
        }
        // Numbers only grow, so the lowest belongs to a closed path.
        while self.received.len() > MAX_RECEIVED {
            self.received.pop_first();
        }
        newest
    }

    /// Returns the peer's latest alert for a path.
    pub(crate) fn received(&self, path: u32) -> Option<Alert> {
        self.received.get(&path).map(|(_, alert)| *alert)
    }

    /// Returns when the next action is due.
    pub(crate) fn timeout(&self) -> Option<Time> {
        let repeats = self.announced.iter().filter(|sent| !sent.acked).map(|sent| sent.repeat_at);
        let silences = self.watched.iter().filter_map(|radio| radio.watermark.timeout());
        repeats.chain(silences).min()
    }
}

#[cfg(test)]
mod tests {
    use squall_units::short::{at_us, us};

    use super::*;

    const OUT: Alert = Alert { kind: AlertKind::Outage, quality: 0.1, gap: 0.22 };
    const BACK: Alert = Alert { kind: AlertKind::Recovery, quality: 0.5, gap: 0.0 };

    #[test]
    fn an_alert_is_repeated_ever_more_rarely_until_it_is_acknowledged() {
        let mut radios = Radios::default();
        radios.announce(at_us(0), 3, &OUT);
        let sent: Vec<u64> = (0..5_000_000)
            .step_by(1_000)
            .filter(|now| radios.due(at_us(*now), us(20_000)).is_some())
            .collect();
        assert_eq!(sent[..6], [0, 50_000, 150_000, 350_000, 750_000, 1_550_000]);
        assert!(sent[6..].windows(2).all(|pair| pair[1] - pair[0] == 1_000_000), "{sent:?}");
        radios.on_acked(3, 1);
        assert_eq!((radios.due(at_us(9_000_000), us(20_000)), radios.timeout()), (None, None));
        radios.on_lost(at_us(9_000_000), 3, 1);
        assert_eq!(radios.due(at_us(9_000_000), us(20_000)), None, "another copy arrived");
    }

    #[test]
    fn a_later_alert_takes_the_place_of_an_earlier_one() {
        let mut radios = Radios::default();
        radios.announce(at_us(0), 3, &OUT);
        radios.announce(at_us(10), 3, &BACK);
        let due = radios.due(at_us(10), us(0)).expect("there is news");
        assert_eq!((due.kind, due.sequence), (AlertKind::Recovery, 2));
        assert_eq!(radios.due(at_us(10), us(0)), None);
        assert_eq!(radios.pending(3, 1), None);
        radios.on_acked(3, 1);
        assert!(radios.pending(3, 2).is_some(), "the old one's acknowledgement is not that of the new one");
        radios.forget(3);
        assert_eq!(radios.timeout(), None);
    }

    #[test]
    fn the_newest_alert_of_the_peer_holds_and_few_are_kept() {
        let mut radios = Radios::default();
        let alert = |path, sequence, alert| PathAlert::new(path, &alert, sequence);
        assert!(radios.receive(&alert(1, 5, BACK)));
        assert!(!radios.receive(&alert(1, 4, OUT)));
        assert_eq!(radios.received(1).map(|a| a.kind), Some(AlertKind::Recovery));
        for path in 2..100 {
            radios.receive(&alert(path, u64::from(path), OUT));
        }
        assert_eq!((radios.received.len(), radios.received(1)), (MAX_RECEIVED, None));
        assert!(radios.received(99).is_some());
    }

    /// Reads a radio with an index of 0.33, which a loss of a tenth more lowers below the Warning
    /// mark.
    fn read(radios: &mut Radios, now: u64, last: u8, (acked, lost): (u64, u64)) -> Option<AlertKind> {
        let local = Interface(last.into());
        let (reading, fates) = (Reading::wifi(at_us(now), -74.9), Fates { acked, lost });
        let alert = radios.read(at_us(now), local, &reading, fates, &WatermarkConfig::default());
        alert.unwrap().map(|alert| alert.kind)
    }

    #[test]
    fn losses_count_in_windows_with_enough_packets() {
        let mut radios = Radios::default();
        let mut read = |now, fates| read(&mut radios, now, 1, fates);
        assert_eq!(read(0, (100, 0)), Some(AlertKind::Recovery), "the peer learns of the radio");
        assert_eq!(read(100_000, (200, 0)), None);
        assert_eq!(read(200_000, (240, 9)), None, "49 packets");
        // Together with the earlier ones, 18 of 69.
        assert_eq!(read(300_000, (251, 18)), Some(AlertKind::Warning));
    }

    #[test]
    fn a_window_that_does_not_fill_is_begun_again() {
        let mut radios = Radios::default();
        let mut read = |now, fates| read(&mut radios, now, 1, fates);
        read(0, (100, 0));
        read(100_000, (200, 0));
        assert_eq!(read(1_100_000, (210, 20)), None, "too slow");
        assert_eq!(read(1_200_000, (230, 20)), None, "those are not counted");
        assert_eq!(read(1_300_000, (260, 20)), None, "none of 50");
    }

    #[test]
    fn a_new_radio_takes_the_place_of_the_one_read_the_longest_ago() {
        let mut radios = Radios::default();
        for last in 0..=MAX_WATCHED as u8 {
            read(&mut radios, last.into(), last, (0, 0));
            read(&mut radios, last.into(), 0, (0, 0));
        }
        let known = |last| radios.quality(Interface(last)).is_some();
        assert_eq!(radios.watched.len(), MAX_WATCHED);
        assert!(known(0) && !known(1) && known(2) && known(MAX_WATCHED as u32));
    }
}
