//! `T`, the allowed queueing delay.

use std::cell::Cell;

use squall_units::Span;

use super::units::{ByteRate, Delay};

/// Rate at which the target is as configured. It falls slowly as the rate grows: at high rates the
/// same delay is many more packets than a scheduler or a burst needs.
const REFERENCE: ByteRate = ByteRate::new(1.25e6);
/// Exponent of that fall: 1 Mbps has 38 ms, 100 Mbps 24. Exponents of 0.25 and 0.5 cost frames on
/// recorded networks.
const EXPONENT: f64 = 0.1;

/// The target of a burst.
#[derive(Debug, Default)]
pub(super) struct Target {
    at_reference: Delay,
    /// The last rate and its factor, since the window is read several times at each.
    last: Cell<Option<(ByteRate, f64)>>,
}

impl Target {
    pub(super) fn new(at_reference: Span) -> Self {
        Self { at_reference: at_reference.into(), last: Cell::default() }
    }

    /// Returns the target where the rate is unknown, or does not matter.
    pub(super) fn at_reference(&self) -> Delay {
        self.at_reference
    }

    pub(super) fn at(&self, rate: ByteRate) -> Delay {
        let known = self.last.get().filter(|(last, _)| *last == rate);
        let (_, factor) = known.unwrap_or_else(|| (rate, (REFERENCE / rate).powf(EXPONENT)));
        self.last.set(Some((rate, factor)));
        self.at_reference * factor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_falls_slowly_with_the_rate() {
        let target = Target::new(Span::from_millis(30));
        let ms = [1.0, 10.0, 100.0, 10.0].map(|mbps| target.at(ByteRate::new(mbps / 8e-6)).micros() / 1e3);
        assert_eq!(ms.map(f64::round), [38.0, 30.0, 24.0, 30.0]);
    }
}
