//! The answer of a rule.

use crate::{Assignment, Time};

/// What leaves now, or when to look again.
pub(super) enum Next {
    Send(Assignment),
    Wait(Option<Time>),
}
