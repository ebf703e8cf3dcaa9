//! The congestion controller of a session's paths: a name, and a factory.

use std::{borrow::Cow, fmt, sync::Arc};

use squall_sched::Span;

use super::{Controller, Group, Steady, SteadyConfig};

/// A path that needs a controller.
#[derive(Clone, Copy, Debug)]
pub struct NewPath<'a> {
    /// Largest packet at first, in bytes.
    pub mtu: u64,
    /// Time since the first path of the session was opened.
    pub age: Span,
    /// Paths of the session that share bottlenecks.
    pub group: &'a Group,
}

/// Evidence on which the window of a controller rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Losses: the window is no measure of the path's rate. Arrivals are predicted by the rate of
    /// flights of packets.
    Losses,
    /// Times of arrival: window over [`ControllerFactory::window_time`] is the rate of the path.
    Arrivals,
    /// Times of arrival as in [`Self::Arrivals`], and [`Controller::capacity`] is the rate of the
    /// path as soon as it is measured.
    Capacity,
}

/// Creates the controllers of a session's paths.
pub trait ControllerFactory: Send + Sync {
    /// Creates the controller of one path.
    fn build(&self, path: &NewPath<'_>) -> Box<dyn Controller>;

    /// Returns the evidence on which the windows rest. Default: losses.
    fn evidence(&self) -> Evidence {
        Evidence::Losses
    }

    /// Returns the time in which a full window leaves on a path with these round trips. Default:
    /// the smoothed one.
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

/// Congestion controller of every path of a session. Controllers are equal if their names are.
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
    /// CUBIC that responds to a loss only where packets queue, or more than a tenth of them is
    /// lost; for media over radio. See `docs/congestion.md`.
    pub const CUBIC_TOLERANT: Self = Self::of_library("cubic-tolerant", Kind::CubicTolerant);
    /// NewReno (RFC 9002 §7).
    pub const NEW_RENO: Self = Self::of_library("newreno", Kind::NewReno);
    /// BBR version 3. Not the default: when the application limits the rate it does not pace
    /// (n0-computer/noq#800).
    pub const BBR3: Self = Self::of_library("bbr3", Kind::Bbr3);

    const fn of_library(name: &'static str, kind: Kind) -> Self {
        Self { name: Cow::Borrowed(name), kind }
    }

    /// Creates a control whose controllers `factory` creates.
    pub fn new(name: impl Into<Cow<'static, str>>, factory: impl ControllerFactory + 'static) -> Self {
        Self { name: name.into(), kind: Kind::Own(Arc::new(factory)) }
    }

    /// Returns the name in the registry.
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

/// Returns Steady.
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
