//! Losses of the medium, which a tolerant controller of noq does not respond to.

use std::time::Instant;

use squall_sched::{Span, Time};

use crate::congestion::Origin;

/// Decides which losses of a path reach its controller; see [`Origin`].
#[derive(Clone, Debug)]
pub(super) struct Tolerance {
    /// Origin of times.
    epoch: Instant,
    origin: Origin,
    /// The last loss was passed to the controller; only then is its revocation passed on too.
    passed_on: bool,
}

impl Tolerance {
    pub(super) fn new(epoch: Instant) -> Self {
        Self { epoch, origin: Origin::default(), passed_on: false }
    }

    pub(super) fn on_ack(&mut self, now: Instant, sent: Instant) {
        let since = |earlier: Instant| Span::from(now.saturating_duration_since(earlier));
        self.origin.on_ack(Time::EPOCH + since(self.epoch), since(sent));
    }

    pub(super) fn on_packet_lost(&mut self) {
        self.origin.on_loss();
    }

    /// Returns `true` if a congestion event is passed to the controller.
    pub(super) fn passes_on(&mut self, persistent: bool, is_ecn: bool) -> bool {
        self.passed_on = persistent || is_ecn || self.origin.is_congestion();
        self.passed_on
    }

    /// Returns `true` if the revocation of the last congestion event is passed on. Otherwise the
    /// controller would revert its last reduction, which answered a real loss.
    pub(super) fn passes_on_revocation(&self) -> bool {
        self.passed_on
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use noq_proto::congestion::{Controller as _, ControllerFactory, CubicConfig};
    use squall_units::short::{at_ms, at_us, ms};

    use super::*;
    use crate::steering::controller::{Ledger, SteeringController};

    /// Creates CUBIC in slow start, and a path without a queue.
    fn tolerant() -> (SteeringController, Instant) {
        let now = Instant::now();
        let cubic = Arc::new(CubicConfig::default()).build(now, 1_200);
        let mut controller = SteeringController::new(cubic, Ledger::default(), Some(Tolerance::new(now)));
        on_ack(&mut controller, at_us(0), ms(30));
        (controller, now)
    }

    /// Processes one acknowledgement, after a round trip.
    fn on_ack(controller: &mut SteeringController, at: Time, rtt: Span) {
        controller.governor().tolerance.as_mut().expect("is tolerant").origin.on_ack(at, rtt);
    }

    /// Acknowledges two packets that no router has marked: from now on, marks count.
    fn pass_unmarked(controller: &SteeringController, now: Instant) {
        let mut ledger = controller.ledger().lock();
        for _ in 0..2 {
            ledger.marks.on_ack(now, Duration::ZERO, Duration::ZERO, 0);
            ledger.marks.on_end_acks();
        }
    }

    fn window(controller: &SteeringController) -> u64 {
        controller.ledger().lock().window
    }

    fn lose(controller: &mut SteeringController, now: Instant, persistent: bool, is_ecn: bool) -> bool {
        let before = window(controller);
        controller.on_packet_lost(1_200, 7, now);
        controller.on_congestion_event(now, now, persistent, is_ecn, 1_200, 7);
        window(controller) < before
    }

    #[test]
    fn only_congestion_closes_the_window() {
        let (mut tolerant, now) = tolerant();
        assert!(!lose(&mut tolerant, now, false, false));
        on_ack(&mut tolerant, at_ms(200), ms(60));
        assert!(lose(&mut tolerant, now, false, false), "packets wait");
    }

    #[test]
    fn marks_and_persistent_congestion_always_do() {
        for (persistent, is_ecn) in [(true, false), (false, true)] {
            let (mut tolerant, now) = tolerant();
            pass_unmarked(&tolerant, now);
            assert!(lose(&mut tolerant, now, persistent, is_ecn));
        }
    }

    #[test]
    fn a_tolerated_loss_that_was_none_takes_nothing_back() {
        let (mut tolerant, now) = tolerant();
        on_ack(&mut tolerant, at_ms(200), ms(60));
        assert!(lose(&mut tolerant, now, false, false));
        let reduced = window(&tolerant);
        on_ack(&mut tolerant, at_ms(400), ms(30));
        assert!(!lose(&mut tolerant, now + Duration::from_secs(1), false, false));
        tolerant.on_spurious_congestion_event();
        assert_eq!(window(&tolerant), reduced);
    }
}
