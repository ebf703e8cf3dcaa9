//! Paths that cost money: what each side declares, and what they may carry.

use std::{net::IpAddr, time::Instant};

use squall_sched::{PathId, SchedEvent};

use super::{Session, Stage};
use crate::{CloseReason, NetPath, path::Control, wire::PathInfo};

/// Code with which a path is closed whose budget is used up, and a session if it was the last.
const OVER_BUDGET: u32 = 3;

impl Session {
    /// Declares the bytes of an interface to cost money, or not, for its paths of now and later. The peer
    /// is notified, so that schedulers at both ends see it.
    pub fn set_metered(&mut self, local: IpAddr, metered: bool) {
        if !self.metering.declare(local, metered) {
            return;
        }
        for id in self.conn.paths.at_local(local) {
            self.send_cost(id);
            self.refresh_cost(id);
        }
    }

    /// Sets how many bytes of UDP payload this side may send on each path of an interface in this session,
    /// or lifts that. The smaller of this and of [`Scheduler::metered_cap`](squall_sched::Scheduler::metered_cap)
    /// holds.
    ///
    /// Of a budget a reserve is kept from data, a quarter but at most 16 kB: for acknowledgements, probes,
    /// control and the close. Once data has used the rest, nothing takes the path that can take another.
    /// When the reserve is nearly used as well the path is closed, and not opened again unless the budget
    /// grows. Without another path the session ends then, with [`CloseReason::OverBudget`]. A budget below
    /// 20 kB may be exceeded by what it takes to open the path.
    pub fn set_budget(&mut self, local: IpAddr, budget: Option<u64>) {
        self.metering.set_budget(local, budget);
        self.duties.schedule();
    }

    /// Computes what budgets leave.
    pub(super) fn refresh_allowances(&mut self) {
        self.metering.set_cap(self.scheduler.metered_cap());
        let limited = self.metering.has_budgets();
        let had_some = std::mem::replace(&mut self.has_allowances, limited);
        if !limited && !had_some {
            return;
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
        if !self.metering.has_budgets() || self.stage != Stage::Open {
            return;
        }
        for id in self.conn.paths.ids() {
            let path = &self.conn.paths[id];
            if path.life.is_spent() && !path.committed.is_empty() {
                self.take_back_all(id);
            }
        }
        let mut closed = false;
        for id in self.conn.paths.by_number().rev() {
            if !self.conn.paths[id].allowance.is_some_and(|allowance| allowance.is_over) {
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
            self.duties.flush();
            self.pump(self.micros(now));
        }
    }

    /// A path is gone: what it carried counts for the next between the same addresses.
    pub(super) fn settle_budget(&mut self, number: u32, net: NetPath, sent: u64, by_peer: Option<u64>) {
        self.metering.close(net, number, sent);
        if by_peer == Some(OVER_BUDGET.into()) {
            self.metering.refuse(net);
        }
    }

    /// Sends the peer what a path costs at this end.
    fn send_cost(&mut self, id: PathId) {
        self.queue_control(Control::PathInfo(id));
        self.duties.flush();
    }

    /// A path was opened, or came up: the peer is informed if it costs money.
    pub(super) fn announce_cost(&mut self, id: PathId) {
        if self.metering.is_declared(self.conn.paths[id].quic.net.local) {
            self.send_cost(id);
        }
        self.refresh_cost(id);
    }

    /// What to announce of a path now, if it is still there.
    pub(super) fn path_info(&mut self, id: PathId) -> Option<PathInfo> {
        let quic = &self.conn.paths.get(id)?.quic;
        Some(self.metering.announcement(quic.net.local, quic.number))
    }

    pub(super) fn on_path_info(&mut self, info: &PathInfo) {
        self.metering.receive(info);
        if let Some(id) = self.conn.paths.find(info.path) {
            self.refresh_cost(id);
        }
    }

    /// Enters what a path costs; schedulers learn of a change.
    fn refresh_cost(&mut self, id: PathId) {
        let path = &mut self.conn.paths[id];
        let metered = self.metering.is_metered(path.quic.net.local, path.quic.number);
        if std::mem::replace(&mut path.metered, metered) != metered {
            self.sched_events.push(SchedEvent::PathChanged(id));
            self.duties.schedule();
        }
    }
}
