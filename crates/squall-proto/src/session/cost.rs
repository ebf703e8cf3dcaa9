//! Declarations of both sides about paths: cost, role, rate limit, budget.

use std::time::Instant;

use squall_sched::{PathId, SchedEvent, Time};

use super::Session;
use crate::{
    CloseReason, Interface, NetPath, QuotaShare, RateLimit, Role, limiter::Limiter, path::Control,
    steering::Used, wire::PathInfo,
};

/// Close code of a path whose budget is used up, and of a session if it was the last.
const OVER_BUDGET: u32 = 3;

impl Session {
    /// Declares whether bytes of an interface cost money, for its present and future paths. The
    /// peer is notified, so that schedulers at both ends see it.
    pub fn set_metered(&mut self, now: Instant, local: Interface, metered: bool) {
        if self.metering.declare(local, metered) {
            self.announce_interface(self.time(now), local);
        }
    }

    /// Sets the role of the paths of an interface, present and future. The peer is notified, and
    /// applies it to its own packets; a peer without roles ignores it.
    pub fn set_role(&mut self, now: Instant, local: Interface, role: Role) {
        if self.metering.set_role(local, role) {
            self.announce_interface(self.time(now), local);
        }
    }

    /// Limits the rate of each side on each path of an interface, or removes the limit; a peer
    /// without such limits ignores it. All UDP payload counts; data waits, while other packets
    /// (acknowledgements, probes, control) leave at once and delay later data. Forecasts of the
    /// capacity respect it.
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

    /// Limits the bytes of UDP payload that this side may send on each path of an interface in this
    /// session; `None` removes the limit. The smaller of this and of
    /// [`Profile::metered_cap`](squall_sched::Profile::metered_cap) applies.
    ///
    /// A part of a budget is reserved, a quarter but at most 16 kB: for acknowledgements, probes,
    /// control and the close. Once data has used the rest, a packet takes the path only if no other
    /// is available. When the reserve is nearly used up too, the path is closed, and not opened
    /// again unless the budget grows. If no other path is left, the session ends with
    /// [`CloseReason::OverBudget`]. A budget below 20 kB may be exceeded by the packets that open
    /// the path.
    pub fn set_budget(&mut self, local: Interface, budget: Option<u64>) {
        self.metering.set_budget(local, budget);
        self.schedule();
    }

    /// Sets this session's share of the quota of an interface from now on, or removes the quota.
    /// Bytes of IP packets count, sent and received, on all paths of the interface. The last 16 kB
    /// are reserved from data. If the share is the last, the paths are closed, as by
    /// [`Self::set_budget`], when data has used the rest and was acknowledged, and at the latest
    /// with less than 4 kB. Packets of the peer in flight at that time still arrive, and are
    /// included in [`Self::usage`].
    pub fn set_quota(&mut self, now: Instant, local: Interface, share: Option<QuotaShare>) {
        self.measure_usage(local);
        if self.metering.set_quota(local, share) {
            self.announce_interface(self.time(now), local);
        }
        self.schedule();
    }

    /// Returns the bytes of IP packets, headers included, that this session has sent and received
    /// over an interface, without those from the peer that were lost.
    pub fn usage(&mut self, local: Interface) -> u64 {
        self.measure_usage(local);
        self.metering.used(local)
    }

    fn measure_usage(&mut self, local: Interface) {
        let ids = self.conn.paths.at_local(local);
        let bytes = ids.into_iter().map(|id| self.conn.carried(id)).sum();
        self.metering.set_usage(local, bytes);
    }

    /// Computes the remaining allowances of the budgets.
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

    /// Closes paths that are over budget, before anything more leaves; takes back data that the
    /// rest cannot pay for.
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
            // The rest of a quota is for packets in flight, and useless afterwards.
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

    /// Settles the budget of a closed path: its bytes count for the next one between the same
    /// addresses.
    pub(super) fn settle_budget(&mut self, number: u32, net: NetPath, used: Used, by_peer: Option<u64>) {
        self.metering.close(net, number, used.sent);
        self.metering.close_usage(net.local, used.carried);
        if by_peer == Some(OVER_BUDGET.into()) {
            self.metering.refuse(net);
        }
    }

    /// Announces a change of an interface to the peer and to its paths.
    fn announce_interface(&mut self, at: Time, local: Interface) {
        for id in self.conn.paths.at_local(local) {
            self.send_cost(id);
            self.refresh_cost(at, id);
        }
    }

    /// Sends the peer the properties of a path at this end.
    fn send_cost(&mut self, id: PathId) {
        self.send_item(Control::PathInfo(id));
        self.flush();
    }

    /// Announces the properties of a path that was opened, or is up, if there are any.
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

    /// Returns the announcement of a path, if it still exists.
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

    /// Applies cost and role of a path; schedulers are notified of a change.
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
            // Data that it may not carry any more takes another path.
            self.take_back_all(at, id);
        }
        self.outlook.look_again();
        self.outbox.queue.note(SchedEvent::PathChanged(id));
        self.schedule();
    }
}
