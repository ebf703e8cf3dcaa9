//! Settings of an interface in a session.

use std::{sync::Arc, time::Instant};

use squall_proto::{Interface, RateLimit, Role};

use super::reference::SessionRef;

/// An interface that a session runs over, from [`Session::interface`](crate::Session::interface). A
/// setting holds until the session ends, as long as the interface keeps its address, even if the
/// interface disappears and comes back.
#[derive(Clone, Debug)]
pub struct InterfaceHandle {
    session: Arc<SessionRef>,
    interfaces: Vec<Interface>,
}

impl InterfaceHandle {
    pub(super) fn new(session: Arc<SessionRef>, interfaces: Vec<Interface>) -> Self {
        Self { session, interfaces }
    }

    /// Sets whether its bytes cost money. The setting is announced to the peer: schedulers at both
    /// ends see it, and may spare the interface or cap it (`minrtt(cap=250MB)`).
    pub fn set_metered(&self, metered: bool) {
        let now = Instant::now();
        self.change(|session, interface| session.set_metered(now, interface, metered));
    }

    /// Sets the role of its paths. The peer is notified and follows it.
    pub fn set_role(&self, role: Role) {
        let now = Instant::now();
        self.change(|session, interface| session.set_role(now, interface, role));
    }

    /// Limits the rate that each side sends on each of its paths; `None` lifts the limit. Data
    /// waits; other packets leave at once, and data waits longer in exchange.
    /// [`Session::capacity`](crate::Session::capacity) respects the limit.
    pub fn set_rate_limit(&self, limit: Option<RateLimit>) {
        let now = Instant::now();
        self.change(|session, interface| session.set_rate_limit(now, interface, limit));
    }

    /// Limits the bytes of UDP payload that this side may send over it in this session; `None`
    /// lifts the limit. A reserve for QUIC's own packets, a quarter but at most 16 kB, is kept from
    /// data. When the reserve is nearly used too, the path is closed, or, if it is the only one,
    /// the session ends with [`CloseReason::OverBudget`](crate::CloseReason::OverBudget). The
    /// smaller of this budget and the scheduler's cap applies.
    pub fn set_budget(&self, budget: Option<u64>) {
        self.change(|session, interface| session.set_budget(interface, budget));
    }

    fn change(&self, change: impl Fn(&mut squall_proto::Session, Interface)) {
        self.session
            .change(|session| self.interfaces.iter().for_each(|interface| change(session, *interface)));
    }
}
