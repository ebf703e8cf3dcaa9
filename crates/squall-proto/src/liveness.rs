//! Is the path alive? Judged by silence where an answer was due, never by the RTT, which stays at its
//! last good value when a path dies.
//!
//! A path falls under suspicion when packets are in flight and no acknowledgement came for as long as
//! two probe timeouts, or [`Config::silence`](crate::Config::silence) if that is sooner, after one was
//! due. It then carries probes only. The first probe that is acknowledged in reasonable time readmits
//! it, on probation: with half the window it had, for a round trip (the way of Careful Resume,
//! draft-ietf-tsvwg-careful-resume), then with all of it. If it falls silent again on probation, the
//! window it may resume with is halved.

use squall_sched::Micros;

/// The state of a path's health.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Liveness {
    state: State,
    /// When the last acknowledgement came.
    last_ack: Micros,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Trusted,
    Suspect {
        since: Micros,
        /// Window to come back with.
        window: u64,
        next_probe: Micros,
        probes: u32,
    },
    Probation {
        window: u64,
        until: Micros,
    },
}

/// Shortest silence that counts, so that a pause of the peer's machine does not.
const MIN_SILENCE: Micros = 50_000;
/// An acknowledgement later than this proves nothing about the present.
const STALE: Micros = 1_000_000;
/// Interval of probes in the first seconds of a suspicion; later ones come ever more rarely.
const PROBE_INTERVAL: Micros = 25_000;
const MAX_PROBE_INTERVAL: Micros = 500_000;
/// Probes at the shortest interval: five seconds.
const QUICK_PROBES: u32 = 200;
/// A path comes back with at least this window.
const MIN_WINDOW: u64 = 4 * 1200;

impl Liveness {
    pub(crate) fn is_suspect(&self) -> bool {
        matches!(self.state, State::Suspect { .. })
    }

    pub(crate) fn probe_timeouts(&self) -> u32 {
        match self.state {
            State::Suspect { probes, .. } => probes,
            _ => 0,
        }
    }

    /// When the path will be suspected, if nothing is heard until then. `oldest` is when the oldest
    /// packet in flight was sent.
    pub(crate) fn suspect_at(
        &self,
        oldest: Option<Micros>,
        srtt: Micros,
        probe_timeout: Micros,
        silence: Micros,
    ) -> Option<Micros> {
        if self.is_suspect() {
            return None;
        }
        let due = self.last_ack.max(oldest? + srtt);
        Some(due + (2 * probe_timeout).min(silence).max(MIN_SILENCE))
    }

    /// Since when the path is suspected.
    pub(crate) fn suspect_since(&self) -> Option<Micros> {
        match self.state {
            State::Suspect { since, .. } => Some(since),
            _ => None,
        }
    }

    /// When the last acknowledgement came; 0 for never.
    pub(crate) fn last_ack(&self) -> Micros {
        self.last_ack
    }

    /// How long nothing was heard, counted from when there was something to answer: a path that had nothing to
    /// carry was idle, not silent. `oldest` is when the oldest packet in flight was sent.
    pub(crate) fn silent_for(&self, now: Micros, oldest: Option<Micros>) -> Micros {
        now.saturating_sub(self.last_ack.max(oldest.unwrap_or(0)))
    }

    pub(crate) fn suspect(&mut self, now: Micros, window: u64) {
        let window = match self.state {
            State::Probation { window, .. } => window / 2,
            _ => window,
        };
        self.state =
            State::Suspect { since: now, window: window.max(MIN_WINDOW), next_probe: now, probes: 0 };
    }

    /// An acknowledgement came for a packet sent at `sent_at`. Returns how long the path was
    /// suspected, if this readmits it.
    pub(crate) fn on_ack(&mut self, now: Micros, sent_at: Micros, srtt: Micros) -> Option<Micros> {
        self.last_ack = now;
        match self.state {
            State::Suspect { since, window, .. } if now - sent_at <= STALE => {
                self.state = State::Probation { window, until: now + srtt };
                Some(now - since)
            }
            State::Probation { until, .. } if now >= until => {
                self.state = State::Trusted;
                None
            }
            _ => None,
        }
    }

    /// The window as far as it may be used.
    pub(crate) fn cap(&self, window: u64) -> u64 {
        match self.state {
            State::Probation { window: resumed, .. } => window.min((resumed / 2).max(MIN_WINDOW)),
            _ => window,
        }
    }

    /// When the next probe of a suspected path is due.
    pub(crate) fn probe_at(&self) -> Option<Micros> {
        match self.state {
            State::Suspect { next_probe, .. } => Some(next_probe),
            _ => None,
        }
    }

    /// There is reason to believe that a path that was not used is back: it is asked at once, and used when
    /// it answers.
    pub(crate) fn doubt(&mut self, now: Micros, window: u64) {
        match &mut self.state {
            State::Suspect { next_probe, probes, .. } => (*next_probe, *probes) = (now, 0),
            _ => self.suspect(now, window),
        }
    }

    pub(crate) fn on_probe(&mut self, now: Micros) {
        if let State::Suspect { next_probe, probes, .. } = &mut self.state {
            *probes += 1;
            let doublings = probes.saturating_sub(QUICK_PROBES).div_ceil(20).min(5);
            *next_probe = now + (PROBE_INTERVAL << doublings).min(MAX_PROBE_INTERVAL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SRTT: Micros = 30_000;
    const PTO: Micros = 60_000;
    const SILENCE: Micros = 200_000;

    #[test]
    fn silence_counts_from_when_an_answer_was_due() {
        let mut liveness = Liveness::default();
        liveness.on_ack(1_000_000, 970_000, SRTT);
        assert_eq!(liveness.suspect_at(None, SRTT, PTO, SILENCE), None, "nothing in flight");
        // Sent just now: due after a round trip, then two probe timeouts.
        assert_eq!(liveness.suspect_at(Some(1_000_000), SRTT, PTO, SILENCE), Some(1_150_000));
        // Sent long ago, but other packets were acknowledged since.
        assert_eq!(liveness.suspect_at(Some(500_000), SRTT, PTO, SILENCE), Some(1_120_000));
        // Long probe timeouts are cut short, short ones are not taken literally.
        assert_eq!(liveness.suspect_at(Some(500_000), SRTT, 500_000, SILENCE), Some(1_200_000));
        assert_eq!(liveness.suspect_at(Some(500_000), SRTT, 1_000, SILENCE), Some(1_050_000));
        assert_eq!(liveness.silent_for(1_120_000, Some(500_000)), 120_000);
        assert_eq!(liveness.silent_for(3_120_000, Some(3_000_000)), 120_000, "it was idle before");
    }

    #[test]
    fn a_recent_packet_readmits_and_a_stale_one_does_not() {
        let mut liveness = Liveness::default();
        liveness.suspect(1_000_000, 100_000);
        assert!(liveness.is_suspect());
        assert_eq!(liveness.on_ack(4_000_000, 900_000, SRTT), None, "three seconds late");
        assert!(liveness.is_suspect());
        assert_eq!(liveness.on_ack(4_000_000, 3_950_000, SRTT), Some(3_000_000));
        assert!(!liveness.is_suspect());
    }

    #[test]
    fn probation_halves_the_window_for_a_round_trip() {
        let mut liveness = Liveness::default();
        liveness.suspect(0, 100_000);
        liveness.on_ack(500_000, 480_000, SRTT);
        assert_eq!(liveness.cap(100_000), 50_000);
        assert_eq!(liveness.cap(20_000), 20_000, "never above the controller's own");
        liveness.on_ack(520_000, 490_000, SRTT);
        assert_eq!(liveness.cap(100_000), 50_000);
        liveness.on_ack(530_000, 500_000, SRTT);
        assert_eq!(liveness.cap(100_000), 100_000);
    }

    #[test]
    fn a_path_that_flaps_comes_back_ever_smaller() {
        let mut liveness = Liveness::default();
        let mut caps = Vec::new();
        for i in 0..6u64 {
            liveness.suspect(i * 1_000_000, 80_000);
            liveness.on_ack(i * 1_000_000 + 500_000, i * 1_000_000 + 480_000, SRTT);
            caps.push(liveness.cap(80_000));
        }
        assert_eq!(caps, [40_000, 20_000, 10_000, 5_000, 4_800, 4_800]);
    }

    #[test]
    fn probes_become_rarer() {
        let mut liveness = Liveness::default();
        liveness.suspect(0, 100_000);
        let mut at = vec![liveness.probe_at().unwrap()];
        while *at.last().unwrap() < 60_000_000 {
            liveness.on_probe(*at.last().unwrap());
            at.push(liveness.probe_at().unwrap());
        }
        assert_eq!(at[1] - at[0], 25_000);
        assert!(at[..200].last().unwrap() < &5_000_000);
        assert_eq!(at[at.len() - 1] - at[at.len() - 2], 500_000);
        assert!(at.len() < 500, "{} probes in a minute", at.len());
    }
}
