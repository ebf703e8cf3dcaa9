//! The congestion controller that a session uses on its paths: a name, and what makes it.

use std::{borrow::Cow, fmt, sync::Arc};

use squall_sched::Span;

use super::{Controller, Group, Steady, SteadyConfig};

/// A path that needs a controller.
#[derive(Clone, Copy, Debug)]
pub struct NewPath<'a> {
    /// Largest packet at first, in bytes.
    pub mtu: u64,
    /// Time since the first path of the session was made.
    pub age: Span,
    /// The paths of the session that share bottlenecks.
    pub group: &'a Group,
}

/// Evidence that the window of a controller rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Losses: the window does not say what the path carries. Arrivals are predicted by the rate of flights of packets.
    Losses,
    /// Times of arrival: window over [`ControllerFactory::window_time`] is the rate of the path.
    Arrivals,
    /// The same, and [`Controller::capacity`] is the rate of the path as soon as it is measured.
    Capacity,
}

/// Makes the controllers of a session's paths.
pub trait ControllerFactory: Send + Sync {
    /// Makes the controller of one path.
    fn build(&self, path: &NewPath<'_>) -> Box<dyn Controller>;

    /// Evidence that the windows rest on. Default: losses.
    fn evidence(&self) -> Evidence {
        Evidence::Losses
    }

    /// Time in which a full window leaves on a path with these round trips. Default: the smoothed one.
    fn window_time(&self, _smallest_rtt: Span, smoothed_rtt: Span) -> Span {
        smoothed_rtt
    }
}

impl ControllerFactory for SteadyConfig {
    fn build(&self, path: &NewPath<'_>) -> Box<dyn Controller> {
        Box::new(Steady::new(*self, path.mtu, path.group, path.age))
    }

    fn evidence(&self) -> Evidence {
        Evidence::Capacity
    }
}

/// Congestion controller of every path of a session. Two of one name are equal.
#[derive(Clone)]
pub struct CongestionControl {
    name: Cow<'static, str>,
    kind: Kind,
}

/// The QUIC library's controllers, and those of [`ControllerFactory`].
#[derive(Clone)]
pub(crate) enum Kind {
    Cubic,
    CubicTolerant,
    NewReno,
    Bbr3,
    Own(Arc<dyn ControllerFactory>),
}

impl CongestionControl {
    /// CUBIC (RFC 9438).
    pub const CUBIC: Self = Self::of_library("cubic", Kind::Cubic);
    /// CUBIC that takes a loss for congestion only where packets queue, or more than a tenth of them is lost; for
    /// media over radio. See `docs/congestion.md`.
    pub const CUBIC_TOLERANT: Self = Self::of_library("cubic-tolerant", Kind::CubicTolerant);
    /// NewReno (RFC 9002 §7).
    pub const NEW_RENO: Self = Self::of_library("newreno", Kind::NewReno);
    /// BBR version 3. Not the default: when the application limits the rate it does not pace
    /// (n0-computer/noq#800).
    pub const BBR3: Self = Self::of_library("bbr3", Kind::Bbr3);

    const fn of_library(name: &'static str, kind: Kind) -> Self {
        Self { name: Cow::Borrowed(name), kind }
    }

    /// The controllers that `factory` makes.
    pub fn new(name: impl Into<Cow<'static, str>>, factory: impl ControllerFactory + 'static) -> Self {
        Self { name: name.into(), kind: Kind::Own(Arc::new(factory)) }
    }

    /// The name that it is picked by.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.kind
    }

    pub(crate) fn evidence(&self) -> Evidence {
        match &self.kind {
            Kind::Own(factory) => factory.evidence(),
            _ => Evidence::Losses,
        }
    }
}

/// Steady.
impl Default for CongestionControl {
    fn default() -> Self {
        Self::new("steady", SteadyConfig::default())
    }
}

impl PartialEq for CongestionControl {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for CongestionControl {}

impl fmt::Debug for CongestionControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Display for CongestionControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name)
    }
}
