//! What radios say of paths, here and at the peer, and what follows from it.

use std::{net::IpAddr, time::Instant};

use squall_sched::Micros;
use squall_signal::{Alert, Reading};

use super::{Session, Stage};
use crate::{
    PathChange,
    path::{Control, Heard},
    wire::{Item, PathAlert},
};

impl Session {
    /// Takes in a reading of the radio behind a local interface. What changes for its paths takes effect
    /// here at once, and the peer is told by PATH_ALERT. Without [`Config::signal`](crate::Config::signal)
    /// nothing happens.
    ///
    /// The loss that the quality index goes by (STORM Eq. 2) is that of the packets this side sent on the
    /// interface's paths, feedback included; it knows of no other.
    pub fn on_signal(&mut self, now: Instant, local: IpAddr, reading: &Reading) {
        let Some(config) = self.config.signal else { return };
        let at = self.micros(now);
        let mut fates = (0, 0);
        for path in &self.paths {
            if self.conn.index_of(path.number).is_some_and(|index| self.conn.paths[index].net.local == local)
            {
                fates.0 += path.stats.acked_packets;
                fates.1 += path.stats.lost_packets;
            }
        }
        match self.radios.read(at, local, reading, fates, &config) {
            Ok(Some(alert)) => self.on_alert(at, local, &alert),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "the radio is not heeded"),
        }
        self.mind_radios(at);
    }

    /// The quality index of the radio behind a local interface, by its last reading.
    pub fn signal_quality(&self, local: IpAddr) -> Option<f64> {
        self.radios.quality(local)
    }

    /// A radio of ours says something new.
    fn on_alert(&mut self, at: Micros, local: IpAddr, alert: &Alert) {
        for index in 0..self.conn.paths.len() {
            let quic = &self.conn.paths[index];
            if quic.net.local == local {
                let number = quic.number;
                self.radios.tell(at, number, alert);
                self.heed(at, number, alert, false);
            }
        }
    }

    /// The peer's radio says something.
    pub(super) fn on_path_alert(&mut self, at: Micros, alert: &PathAlert) {
        // What a stranger says is kept until it is trusted: it is not said again.
        if self.config.signal.is_some() && self.radios.hear(alert) && self.trusted {
            self.heed(at, alert.path, &alert.alert(), true);
        }
    }

    /// A path came up: what is known of the radios at its ends holds for it too.
    pub(super) fn introduce_signal(&mut self, at: Micros, number: u32) {
        let Some(index) = self.conn.index_of(number) else { return };
        if let Some(alert) = self.radios.alert_of(self.conn.paths[index].net.local) {
            self.radios.tell(at, number, &alert);
            self.heed(at, number, &alert, false);
        }
        self.heed_peer(at, number);
        self.mind_radios(at);
    }

    /// Lets the use of a path follow from what the peer's radio said last, if the peer is trusted.
    pub(super) fn heed_peer(&mut self, at: Micros, number: u32) {
        if let Some(alert) = self.radios.heard(number).filter(|_| self.trusted) {
            self.heed(at, number, &alert, true);
        }
    }

    /// Lets a path's use follow from an alert.
    fn heed(&mut self, at: Micros, number: u32, alert: &Alert, by_peer: bool) {
        // A path that is not up yet learns of it when it is.
        let Some(position) = self.paths.iter().position(|p| p.number == number && p.up) else { return };
        let path = &mut self.paths[position];
        let was_out = path.is_out();
        let side = if by_peer { &mut path.alerts.there } else { &mut path.alerts.here };
        let factor = self.config.signal.map_or(1.0, |config| config.factor(alert));
        *side = Some(Heard { kind: alert.kind, factor });
        let (id, out) = (path.id, path.is_out());
        if out != was_out {
            if out {
                self.uncommit(position);
            } else {
                // The radio may be ahead of the link on the way up, too: what carries data is proof of
                // delivery, which takes a round trip.
                path.liveness.doubt(at, path.window);
            }
            self.settle_trust(position);
        }
        let told = PathAlert::new(number, alert, 0);
        self.path_event(id, PathChange::Signal { kind: alert.kind, quality: told.quality, by_peer });
    }

    /// Enters whether a path is trusted by transport and radio: what noq may send on it of its own, and
    /// whether its losses are to count as congestion.
    pub(super) fn settle_trust(&mut self, position: usize) {
        let path = &self.paths[position];
        let trusted = !path.liveness.is_suspect() && !path.is_out();
        let forgive = if trusted { path.flight.next_packet() } else { u64::MAX };
        if let Some(index) = self.conn.index_of(path.number) {
            // Loss on a dead path is no congestion: the controller is to find its window as it was.
            self.conn.paths[index].ledger.book().forgive_below = forgive;
            self.conn.set_backup(index, !trusted);
            self.duties.flush();
        }
    }

    /// Ends the alerts of silent radios, and has alerts sent that are due, on every path that is alive.
    pub(super) fn mind_radios(&mut self, at: Micros) {
        while let Some((local, alert)) = self.radios.silent(at) {
            self.on_alert(at, local, &alert);
        }
        if self.stage != Stage::Open {
            return;
        }
        let alive = |p: &&crate::path::Path| p.up && !Self::is_suspect(p);
        let rtt = self.paths.iter().filter(alive).map(|p| p.rtt.smoothed).min().unwrap_or(0);
        while let Some(alert) = self.radios.due(at, rtt) {
            // A path that recovers has yet to prove it, and may well be the quickest. And when all are silent
            // one of them may yet come back.
            let none = !self.paths.iter().any(|p| alive(&p));
            let over: Vec<u32> = self
                .paths
                .iter()
                .filter(|p| alive(p) || p.up && (none || p.number == alert.path))
                .map(|p| p.number)
                .collect();
            let control = Control::Alert { path: alert.path, sequence: alert.sequence };
            self.urgent.retain(
                |(_, waiting)| !matches!(waiting, Control::Alert { path, .. } if *path == alert.path),
            );
            self.urgent.extend(over.into_iter().map(|number| (number, control)));
            self.duties.flush();
        }
    }

    /// The next alert to leave, with the path it is to leave on.
    pub(super) fn next_urgent(&mut self) -> Option<(usize, Control, Item<'static>)> {
        while let Some((number, control)) = self.urgent.pop_front() {
            let Control::Alert { path, sequence } = control else { continue };
            if let Some(index) = self.conn.index_of(number)
                && let Some(alert) = self.radios.pending(path, sequence)
            {
                return Some((index, control, Item::PathAlert(alert)));
            }
        }
        None
    }
}
