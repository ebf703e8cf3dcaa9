//! Effects of radio reports, of this side and of the peer, on paths.

use std::time::Instant;

use squall_sched::{PathId, Time};
use squall_signal::{Alert, AlertKind, Reading};

use super::Session;
use crate::{
    Interface, PathChange,
    path::{Control, Fates, Path, RadioState},
    wire::{Item, PathAlert, PathLoss},
};

impl Session {
    /// Processes a reading of the radio behind a local interface. Changes of its paths take effect
    /// here at once, and the peer is notified by PATH_ALERT. Without
    /// [`Config::signal`](crate::Config::signal) nothing happens.
    ///
    /// The loss in the quality index (STORM Eq. 2) is that of all packets on the interface's paths:
    /// of those that this side sent, feedback included, and of the peer's, which it reports by
    /// PATH_LOSS on paths with a radio.
    pub fn on_signal(&mut self, now: Instant, local: Interface, reading: &Reading) {
        let Some(config) = self.config.signal else { return };
        let at = self.time(now);
        let paths = self.conn.paths.iter().filter(|path| path.quic.net.local == local);
        let fates = paths.fold(Fates::default(), |sum, path| sum.and(path.losses.total()));
        match self.radios.read(at, local, reading, fates, &config) {
            Ok(Some(alert)) => self.on_alert(at, local, &alert),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "the readings of the radio are not used"),
        }
        self.send_alerts(at);
    }

    /// Returns the quality index of the radio behind a local interface, by its last reading.
    pub fn signal_quality(&self, local: Interface) -> Option<f64> {
        self.radios.quality(local)
    }

    /// Applies a change that a radio of this side reports.
    fn on_alert(&mut self, at: Time, local: Interface, alert: &Alert) {
        for id in self.conn.paths.at_local(local) {
            self.radios.announce(at, self.conn.paths[id].quic.number, alert);
            self.apply_alert(at, id, alert, false);
        }
    }

    /// Applies a report of the peer's radio.
    pub(super) fn on_path_alert(&mut self, at: Time, alert: &PathAlert) {
        // The report of an untrusted peer is kept until it is trusted, because it is not repeated.
        if self.config.signal.is_some()
            && self.radios.receive(alert)
            && self.peer.is_trusted()
            && let Some(id) = self.conn.paths.find(alert.path)
        {
            self.apply_alert(at, id, &alert.alert(), true);
        }
    }

    /// Applies the reports of the radios at both ends to a path that came up.
    pub(super) fn announce_signal(&mut self, at: Time, id: PathId) {
        let quic = &self.conn.paths[id].quic;
        if let Some(alert) = self.radios.alert_of(quic.net.local) {
            self.radios.announce(at, quic.number, &alert);
            self.apply_alert(at, id, &alert, false);
        }
        self.apply_peer_alert(at, id);
        self.send_alerts(at);
    }

    /// Applies the latest report of the peer's radio about a path, if the peer is trusted.
    pub(super) fn apply_peer_alert(&mut self, at: Time, id: PathId) {
        let number = self.conn.paths[id].quic.number;
        if let Some(alert) = self.radios.received(number).filter(|_| self.peer.is_trusted()) {
            self.apply_alert(at, id, &alert, true);
        }
    }

    /// Adapts the use of a path to an alert.
    fn apply_alert(&mut self, at: Time, id: PathId, alert: &Alert, by_peer: bool) {
        let path = &mut self.conn.paths[id];
        // A path that is not up yet gets the alert when it is.
        if !path.life.is_up() {
            return;
        }
        path.losses.wanted |= by_peer;
        let was_well = path.life.radio(by_peer).is_none_or(|kind| kind == AlertKind::Recovery);
        let factor = self.config.signal.map_or(1.0, |config| config.factor(alert));
        let radio = RadioState { kind: alert.kind, factor };
        let change = path.life.on_radio(at, by_peer, radio, path.window);
        let quality = PathAlert::new(path.quic.number, alert, 0).quality;
        self.carry_out(at, id, change);
        // The first report of a healthy radio is no change.
        if !was_well || alert.kind != AlertKind::Recovery {
            self.path_event(id, PathChange::Signal { kind: alert.kind, quality, by_peer });
        }
    }

    /// Processes the peer's report on the fates of its packets. Reports of an untrusted peer are
    /// dropped: later ones repeat the counts.
    pub(super) fn on_path_loss(&mut self, loss: &PathLoss) {
        if self.peer.is_trusted()
            && let Some(id) = self.conn.paths.find(loss.path)
        {
            self.conn.paths[id].losses.on_report(Fates { acked: loss.acked, lost: loss.lost });
        }
    }

    /// Returns the time at which the peer's next report on the fates of its packets is due, on
    /// paths where it has a radio.
    pub(super) fn losses_due(&self) -> Option<Time> {
        self.conn.paths.iter().filter_map(|path| path.losses.due_at()).min()
    }

    /// Appends the due reports on the fates of the peer's packets.
    pub(super) fn write_losses(&mut self, at: Time, datagram: &mut Vec<u8>) {
        let due = |path: &&mut Path| path.losses.due_at().is_some_and(|due| due <= at);
        for path in self.conn.paths.iter_mut().filter(due) {
            let Fates { acked, lost } = path.losses.report(at);
            Item::PathLoss(PathLoss { path: path.quic.number, acked, lost }).encode(datagram);
        }
    }

    /// Ends the alerts of silent radios, and sends due alerts on every path that is alive.
    pub(super) fn send_alerts(&mut self, at: Time) {
        while let Some((local, alert)) = self.radios.silent(at) {
            self.on_alert(at, local, &alert);
        }
        if !self.is_open() {
            return;
        }
        let paths = &self.conn.paths;
        let alive = |path: &&Path| path.life.is_up() && !path.life.is_suspect();
        let rtt = paths.iter().filter(alive).map(|path| path.rtt.smoothed).min().unwrap_or_default();
        // A path that recovers is not in use before it has delivered, and may be the quickest. If
        // all are silent, any of them may return.
        let none = !paths.iter().any(|path| alive(&path));
        while let Some(alert) = self.radios.due(at, rtt) {
            let over = paths
                .iter()
                .filter(|path| alive(path) || path.life.is_up() && (none || path.quic.number == alert.path));
            let control = Control::Alert { path: alert.path, sequence: alert.sequence };
            self.queues.alert(control, over.map(|path| path.id));
            self.duties.flush();
        }
    }

    /// Returns the next alert to leave, with its path.
    pub(super) fn next_urgent(&mut self) -> Option<(PathId, Control, Item<'static>)> {
        while let Some((id, control)) = self.queues.pop_alert() {
            if let Control::Alert { path, sequence } = control
                && let Some(alert) = self.radios.pending(path, sequence)
            {
                return Some((id, control, Item::PathAlert(alert)));
            }
        }
        None
    }
}
