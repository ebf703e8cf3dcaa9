//! The answer of a rule.

use crate::{Assignment, Time};

/// An assignment to send now, or the time to call the rule again.
pub(super) enum Next {
    Send(Assignment),
    Wait(Option<Time>),
}
