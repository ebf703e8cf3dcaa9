//! Counters of a session and its paths.

use squall_sched::PathId;

use super::Session;
use crate::{NetPath, PathStats, SessionStats, path::one_way_delays};

impl Session {
    /// Returns the counters of the session.
    pub fn stats(&self) -> SessionStats {
        let (outcomes_dropped, path_events_dropped) = self.notices.dropped();
        SessionStats {
            outcomes_dropped,
            path_events_dropped,
            queued_bytes: self.outbox.queued_bytes(),
            open_blocks: self.outbox.open_blocks(),
            held_bytes: self.inbox.held_bytes(),
            duplicates: self.inbox.duplicate_bytes(),
            blocks_rebuilt: self.inbox.rebuilt_blocks(),
            ..self.stats.clone()
        }
    }

    /// Returns addresses and counters of every open path; for a session that is over, those at its
    /// end.
    pub fn path_stats(&mut self) -> Vec<(PathId, NetPath, PathStats)> {
        if let Some(paths) = self.life.last_paths() {
            return paths.clone();
        }
        let delays: Vec<_> = one_way_delays(self.conn.paths.iter(), self.views.at()).collect();
        let open = self.conn.paths.ids().zip(delays);
        open.map(|(id, owd)| {
            let counters = self.conn.counters(id).unwrap_or_default();
            let path = &self.conn.paths[id];
            let net = path.quic.net;
            let ledger = path.quic.ledger.lock();
            let stats = PathStats {
                number: path.quic.number,
                state: path.life.state(),
                metered: path.metered,
                role: path.role,
                rate_limit: path.limiter.map(|limiter| limiter.bits_per_second()),
                signal_factor: path.life.factor(),
                signal_quality: self.radios.quality(net.local),
                budget: path.allowance.map(|allowance| allowance.data),
                srtt: path.rtt.smoothed.into(),
                min_rtt: path.rtt.min.into(),
                rtt_deviation: path.rtt.deviation.into(),
                one_way_delay: owd.into(),
                window: path.effective_window(),
                capacity: path.capacity,
                in_flight: path.in_flight(),
                delivery_rate: path.delivery.bits_per_second(),
                loss: path.loss.ratio(),
                sent_bytes: counters.udp_tx.bytes,
                sent_packets: counters.udp_tx.datagrams,
                received_bytes: counters.udp_rx.bytes,
                received_packets: counters.udp_rx.datagrams,
                congestion_events: ledger.congestion_events,
                spurious_events: ledger.spurious_events,
                predictions: path.predictions.stats(),
                ..path.stats.clone()
            };
            (id, net, stats)
        })
        .collect()
    }
}
