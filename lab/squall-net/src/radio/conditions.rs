//! Conditions of a link.

use squall_units::Ratio;

use super::levels::Levels;

/// What a link is left with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conditions {
    /// The share of the link's own rate.
    pub share: Ratio,
    /// Packets lost beyond those that the link itself loses, after all retransmission at the link layer.
    pub loss: Ratio,
    /// Nothing passes. What that does to packets, the link's `outage` says.
    pub outage: bool,
}

impl Conditions {
    /// The whole link.
    pub const FULL: Self = Self { share: Ratio::ONE, loss: Ratio::ZERO, outage: false };
    /// Nothing.
    pub const OUTAGE: Self = Self { share: Ratio::ZERO, loss: Ratio::ZERO, outage: true };
}

/// What the link of a path follows at one moment, for logs: the truth, without noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Air {
    /// The levels that the link follows.
    pub levels: Levels,
    /// What it makes of them; everything if a measured rate stands for it.
    pub conditions: Conditions,
    /// The quality index of these levels (STORM Eq. 1, with its defaults).
    pub quality: Option<f64>,
}

pub(super) fn share_of(value: f64) -> Ratio {
    // Within bounds there is a ratio.
    Ratio::from_f64(value.clamp(0.0, 1.0)).unwrap_or(Ratio::ZERO)
}
