//! How a quantity varies from message to message.

/// A distribution of whole numbers: bytes of a size, microseconds of a time.
///
/// What is drawn stays within the bounds of its quantity: what would lie beyond is brought to them. The mean is
/// that of what comes out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distribution {
    /// Always the same.
    Constant(u64),
    /// Any number from the first to the last, both included, as likely as any other.
    Uniform {
        /// The least.
        from: u64,
        /// The greatest.
        to: u64,
    },
    /// Exponential: times between independent events.
    Exponential {
        /// Mean.
        mean: u64,
    },
    /// Pareto: a few are far larger than most.
    Pareto {
        /// Mean.
        mean: u64,
        /// Tail index, above 1; the smaller, the heavier the tail. At 2 and below the variance is infinite but for
        /// the bounds.
        shape: f64,
    },
    /// Poisson: a count of independent events, in steps.
    Poisson {
        /// Mean, at least 10 steps.
        mean: u64,
        /// What each event adds.
        step: u64,
    },
}
