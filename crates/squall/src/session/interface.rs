//! Settings of an interface in a session.

use std::{sync::Arc, time::Instant};

use squall_proto::{Interface, RateLimit, Role};

use super::reference::SessionRef;

/// An interface that a session runs over, from [`Session::interface`](crate::Session::interface). A setting holds while the session lasts and the
/// interface keeps its address, even if it disappears and comes back.
#[derive(Clone, Debug)]
pub struct InterfaceHandle {
    session: Arc<SessionRef>,
    interfaces: Vec<Interface>,
}

impl InterfaceHandle {
    pub(super) fn new(session: Arc<SessionRef>, interfaces: Vec<Interface>) -> Self {
        Self { session, interfaces }
    }

    /// Declares its bytes to cost money or not. The setting is announced to the peer: schedulers at both ends see it, and
    /// may spare the interface or put a cap on it (`minrtt(cap=250MB)`).
    pub fn set_metered(&self, metered: bool) {
        let now = Instant::now();
        self.change(|session, interface| session.set_metered(now, interface, metered));
    }

    /// Sets the use of its paths. The peer is notified and uses them accordingly.
    pub fn set_role(&self, role: Role) {
        let now = Instant::now();
        self.change(|session, interface| session.set_role(now, interface, role));
    }

    /// Bounds what each side sends on each of its paths; `None` lifts that. Data waits, and what is not data leaves at once
    /// and is made up for. [`Session::capacity`](crate::Session::capacity) respects it.
    pub fn set_rate_limit(&self, limit: Option<RateLimit>) {
        let now = Instant::now();
        self.change(|session, interface| session.set_rate_limit(now, interface, limit));
    }

    /// Sets how many bytes of UDP payload this side may send over it in this session; `None` lifts that. A reserve, a
    /// quarter but at most 16 kB, is kept from data for what QUIC itself has to send; when that is nearly used too the
    /// path is closed, or, if it is the only one, the session with
    /// [`CloseReason::OverBudget`](crate::CloseReason::OverBudget). The smaller of this and of the scheduler's cap holds.
    pub fn set_budget(&self, budget: Option<u64>) {
        self.change(|session, interface| session.set_budget(interface, budget));
    }

    fn change(&self, change: impl Fn(&mut squall_proto::Session, Interface)) {
        self.session
            .change(|session| self.interfaces.iter().for_each(|interface| change(session, *interface)));
    }
}
