//! Conditions of a link.

use squall_units::Ratio;

use super::levels::Levels;

/// Conditions that a radio imposes on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conditions {
    /// Share of the link's own rate.
    pub share: Ratio,
    /// Loss in addition to the link's own, after all retransmission at the link layer.
    pub loss: Ratio,
    /// No packets pass. The link's `outage` defines the effect on packets.
    pub outage: bool,
}

impl Conditions {
    /// No restriction.
    pub const FULL: Self = Self { share: Ratio::ONE, loss: Ratio::ZERO, outage: false };
    /// No service.
    pub const OUTAGE: Self = Self { share: Ratio::ZERO, loss: Ratio::ZERO, outage: true };
}

/// True conditions of the links of a path at one moment, without noise, for logs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Air {
    /// The levels that the link follows.
    pub levels: Levels,
    /// The resulting conditions; no restriction if the link has a measured rate.
    pub conditions: Conditions,
    /// Quality index of these levels (STORM Eq. 1, with its defaults).
    pub quality: Option<f64>,
}

pub(super) fn share_of(value: f64) -> Ratio {
    // A value within these bounds always has a ratio.
    Ratio::from_f64(value.clamp(0.0, 1.0)).unwrap_or(Ratio::ZERO)
}
