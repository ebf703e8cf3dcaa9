//! Adaptation of the watermarks to observed losses (STORM §3.2.3).

use crate::{Marks, SignalState, Span, WatermarkError};

/// Steps and limits of the marks. The paper gives the two loss levels, that the step of Warning is
/// the smaller one, and the directions; the steps, the time and the bounds are ours.
///
/// - More than `burst` lost below Good although the path was not taken out: Outage did not prevent
///   it, and rises.
/// - More than `weak` lost while the path was under a warning: Warning came too late, and rises.
/// - Used under a warning for `calm` without a burst: Outage may be too careful, and falls.
///
/// A strong signal is no evidence about marks far below it: a burst above Good has causes other
/// than the radio. Without alert and loss both marks return to their initial values, by the small
/// step each `calm`; the paper has no way back, but the cause of a drift may be gone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adaptation {
    /// Step of Outage. Default 0.02.
    pub step: f64,
    /// Step of Warning. Default 0.01.
    pub small_step: f64,
    /// Share lost in a window above which it is a burst. Default 0.5.
    pub burst: f64,
    /// Share lost under a warning above which Warning rises. Default 0.1.
    pub weak: f64,
    /// Time under a warning without a burst before Outage falls, and time without alert and loss
    /// before both marks return by a step. Default 5 s.
    pub calm: Span,
    /// Largest distance of a mark from its initial value, up or down. Default 0.09.
    pub reach: f64,
}

impl Default for Adaptation {
    fn default() -> Self {
        Self { step: 0.02, small_step: 0.01, burst: 0.5, weak: 0.1, calm: Span::from_secs(5), reach: 0.09 }
    }
}

/// Smallest distance of the marks from each other, and from 0.
const APART: f64 = 0.02;

impl Adaptation {
    /// Moves the marks by the `loss` of a window of length `since` at this index. `start` holds the
    /// initial marks; `calm` accumulates quiet time over calls.
    #[allow(clippy::too_many_arguments, reason = "one call, of which each is a number of its own")]
    pub(crate) fn adapt(
        &self,
        marks: &mut Marks,
        start: &Marks,
        state: SignalState,
        quality: f64,
        loss: f64,
        since: Span,
        calm: &mut Span,
    ) {
        // Hardly anything is sent on a path that is out, so its loss has no meaning.
        if state == SignalState::Out {
            *calm = Span::ZERO;
            return;
        }
        let warned = state == SignalState::Warned;
        if loss > self.burst {
            marks.outage += if quality < marks.good { self.step } else { 0.0 };
            *calm = Span::ZERO;
        } else if warned || loss <= self.weak {
            *calm += since;
        }
        if *calm >= self.calm {
            *calm = Span::ZERO;
            if warned {
                marks.outage -= self.step;
            } else {
                let back =
                    |mark: f64, began: f64| mark + (began - mark).clamp(-self.small_step, self.small_step);
                marks.outage = back(marks.outage, start.outage);
                marks.warning = back(marks.warning, start.warning);
            }
        }
        if warned && loss > self.weak {
            marks.warning += self.small_step;
        }
        let bound = |mark: f64, began: f64, low: f64, high: f64| {
            mark.max((began - self.reach).max(low)).min((began + self.reach).min(high))
        };
        marks.warning = bound(marks.warning, start.warning, 2.0 * APART, marks.good - APART);
        marks.outage = bound(marks.outage, start.outage, APART, marks.warning - APART);
    }

    pub(crate) fn check(&self, marks: &Marks) -> Result<(), WatermarkError> {
        let wrong = |text| Err(WatermarkError::Adaptation(text));
        let share = |value: f64| value > 0.0 && value <= 1.0;
        if !share(self.step) || !share(self.small_step) || !(0.0..1.0).contains(&self.reach) {
            return wrong("steps must be above 0 and at most 1, the reach 0 or more and below 1");
        }
        if !share(self.burst) || !share(self.weak) {
            return wrong("burst and weak are shares above 0 and at most 1");
        }
        if self.calm.is_zero() {
            return wrong("calm must be longer than 0");
        }
        let Marks { good, warning, outage } = *marks;
        if outage < APART || warning - outage < APART || good - warning < APART {
            return wrong("marks that move must start at least 0.02 apart, and above 0");
        }
        Ok(())
    }
}
