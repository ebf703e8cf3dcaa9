//! What each side declares of paths: that they cost money, what they are used for; and what they may carry.

use std::time::Instant;

use squall_sched::{PathId, SchedEvent, Time};

use super::Session;
use crate::{
    CloseReason, Interface, NetPath, QuotaShare, RateLimit, Role, limiter::Limiter, path::Control,
    steering::Used, wire::PathInfo,
};

/// Code with which a path is closed whose budget is used up, and a session if it was the last.
const OVER_BUDGET: u32 = 3;

impl Session {
    /// Declares the bytes of an interface to cost money, or not, for its paths of now and later. The peer
    /// is notified, so that schedulers at both ends see it.
    pub fn set_metered(&mut self, now: Instant, local: Interface, metered: bool) {
        if self.metering.declare(local, metered) {
            self.announce_interface(self.time(now), local);
        }
    }

    /// Sets what the paths of an interface are used for, those of now and later. The peer is notified, and uses them
    /// accordingly for what it sends; a peer that has no roles ignores it.
    pub fn set_role(&mut self, now: Instant, local: Interface, role: Role) {
        if self.metering.set_role(local, role) {
            self.announce_interface(self.time(now), local);
        }
    }

    /// Bounds what each side sends on each path of an interface, or lifts the bound; a peer that has no such bounds
    /// ignores it. All UDP payload counts; data waits, and what is not data (acknowledgements, probes, control) leaves at
    /// once and is made up for. Forecasts of the capacity respect it.
    pub fn set_rate_limit(&mut self, now: Instant, local: Interface, limit: Option<RateLimit>) {
        if !self.metering.set_limit(local, limit) {
            return;
        }
        let at = self.time(now);
        for id in self.conn.paths.at_local(local) {
            self.send_cost(id);
            self.refresh_limit(at, id);
        }
        self.outlook.look_again();
        self.schedule();
    }

    /// Sets how many bytes of UDP payload this side may send on each path of an interface in this session,
    /// or lifts that. The smaller of this and of [`Profile::metered_cap`](squall_sched::Profile::metered_cap)
    /// holds.
    ///
    /// Of a budget a reserve is kept from data, a quarter but at most 16 kB: for acknowledgements, probes,
    /// control and the close. Once data has used the rest, nothing takes the path that can take another.
    /// When the reserve is nearly used as well the path is closed, and not opened again unless the budget
    /// grows. Without another path the session ends then, with [`CloseReason::OverBudget`]. A budget below
    /// 20 kB may be exceeded by what it takes to open the path.
    pub fn set_budget(&mut self, local: Interface, budget: Option<u64>) {
        self.metering.set_budget(local, budget);
        self.schedule();
    }

    /// Sets what this session has of the quota of an interface from now on, or lifts the quota. Bytes of IP packets count,
    /// sent and received, on all paths of the interface. The last 16 kB are kept from data. If the share is the last, the
    /// paths are closed, as by [`Self::set_budget`], when data has used the rest and was acknowledged, and at the latest with less than 4 kB. What the peer has under way then still arrives, and is in [`Self::usage`].
    pub fn set_quota(&mut self, now: Instant, local: Interface, share: Option<QuotaShare>) {
        self.measure_usage(local);
        if self.metering.set_quota(local, share) {
            self.announce_interface(self.time(now), local);
        }
        self.schedule();
    }

    /// Bytes of IP packets, headers included, that this session has sent and received over an interface: not those that the peer sent and
    /// that were lost on the way.
    pub fn usage(&mut self, local: Interface) -> u64 {
        self.measure_usage(local);
        self.metering.used(local)
    }

    fn measure_usage(&mut self, local: Interface) {
        let ids = self.conn.paths.at_local(local);
        let bytes = ids.into_iter().map(|id| self.conn.carried(id)).sum();
        self.metering.set_usage(local, bytes);
    }

    /// Computes what budgets leave.
    pub(super) fn refresh_allowances(&mut self) {
        self.metering.set_cap(self.outbox.queue.profile().metered_cap);
        let limited = self.metering.has_budgets();
        if !limited && self.conn.paths.iter().all(|path| path.allowance.is_none()) {
            return;
        }
        for local in self.metering.quota_locals() {
            self.measure_usage(local);
        }
        for id in self.conn.paths.ids() {
            let allowance = if limited {
                let sent = self.conn.sent_bytes(id);
                let quic = &self.conn.paths[id].quic;
                self.metering.allowance(quic.net, quic.number, sent)
            } else {
                None
            };
            self.conn.paths[id].set_allowance(allowance);
        }
    }

    /// Closes what is over budget, before anything more leaves; takes back what the rest cannot pay for.
    pub(super) fn enforce_budgets(&mut self, now: Instant) {
        self.refresh_allowances();
        if !self.metering.has_budgets() || !self.is_open() {
            return;
        }
        for id in self.conn.paths.ids() {
            let path = &self.conn.paths[id];
            if path.life.is_spent() && !path.committed.is_empty() {
                self.take_back_all(self.time(now), id);
            }
        }
        let mut closed = false;
        for id in self.conn.paths.by_number().rev() {
            let path = &self.conn.paths[id];
            // The rest of a quota is for what is under way, and useless afterwards.
            let is_done = path.life.is_spent() && path.in_flight() == 0;
            let is_done = is_done && self.metering.is_last(path.quic.net.local);
            if !is_done && !path.allowance.is_some_and(|allowance| allowance.is_over) {
                continue;
            }
            if self.conn.close_path(id, now, OVER_BUDGET).is_err() {
                let reason = CloseReason::OverBudget;
                self.conn.close(now, OVER_BUDGET, reason.to_string().into_bytes().into());
                self.end(now, reason);
                return;
            }
            closed = true;
        }
        if closed {
            self.flush();
            self.pump(self.time(now));
        }
    }

    /// A path is gone: what it carried counts for the next between the same addresses.
    pub(super) fn settle_budget(&mut self, number: u32, net: NetPath, used: Used, by_peer: Option<u64>) {
        self.metering.close(net, number, used.sent);
        self.metering.close_usage(net.local, used.carried);
        if by_peer == Some(OVER_BUDGET.into()) {
            self.metering.refuse(net);
        }
    }

    /// Something about an interface is news, for the peer and for its paths.
    fn announce_interface(&mut self, at: Time, local: Interface) {
        for id in self.conn.paths.at_local(local) {
            self.send_cost(id);
            self.refresh_cost(at, id);
        }
    }

    /// Sends the peer what a path costs at this end.
    fn send_cost(&mut self, id: PathId) {
        self.send_item(Control::PathInfo(id));
        self.flush();
    }

    /// A path was opened, or came up: the peer is informed if there is something about it.
    pub(super) fn announce_cost(&mut self, at: Time, id: PathId) {
        if self.metering.is_notable(self.conn.paths[id].quic.net.local) {
            self.send_cost(id);
        }
        self.refresh_cost(at, id);
        self.refresh_limit(at, id);
    }

    /// Gives a path the bucket of its interface, if it does not have it.
    fn refresh_limit(&mut self, at: Time, id: PathId) {
        let sent = self.conn.sent_bytes(id);
        let path = &mut self.conn.paths[id];
        let limit = self.metering.limit(path.quic.net.local, path.quic.number);
        path.limiter = limit.map(|limit| match path.limiter {
            Some(limiter) if limiter.is_of(limit) => limiter,
            _ => Limiter::new(at, limit, sent),
        });
    }

    /// What to announce of a path now, if it is still there.
    pub(super) fn path_info(&mut self, id: PathId) -> Option<PathInfo> {
        let quic = &self.conn.paths.get(id)?.quic;
        Some(self.metering.announcement(quic.net.local, quic.number))
    }

    pub(super) fn on_path_info(&mut self, at: Time, info: &PathInfo) {
        self.metering.receive(info);
        if let Some(id) = self.conn.paths.find(info.path) {
            self.refresh_cost(at, id);
            self.refresh_limit(at, id);
        }
    }

    /// Enters what a path costs and what it is used for; schedulers learn of a change.
    fn refresh_cost(&mut self, at: Time, id: PathId) {
        let path = &mut self.conn.paths[id];
        let (local, number) = (path.quic.net.local, path.quic.number);
        let metered = self.metering.is_metered(local, number);
        let role = self.metering.role(local, number);
        let before = (std::mem::replace(&mut path.metered, metered), std::mem::replace(&mut path.role, role));
        if before == (metered, role) {
            return;
        }
        if before.1 < role {
            // What it was given and may not carry any more goes elsewhere.
            self.take_back_all(at, id);
        }
        self.outlook.look_again();
        self.outbox.queue.note(SchedEvent::PathChanged(id));
        self.schedule();
    }
}
