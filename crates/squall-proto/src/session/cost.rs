//! Paths that cost money: what the peer is told of them, what it tells, and what they may carry.

use std::{net::IpAddr, time::Instant};

use squall_sched::SchedEvent;

use super::{Session, Stage};
use crate::{CloseReason, NetPath, path::Control, wire::PathInfo};

/// Code with which a path is closed whose budget is used up, and a session if it was the last.
const OVER_BUDGET: u32 = 3;

impl Session {
    /// Declares the bytes of an interface to cost money, or not, for its paths of now and later. The peer
    /// is told, so that schedulers at both ends see it.
    pub fn set_metered(&mut self, local: IpAddr, metered: bool) {
        if !self.metering.declare(local, metered) {
            return;
        }
        for index in 0..self.conn.paths.len() {
            let quic = &self.conn.paths[index];
            if quic.net.local == local {
                let number = quic.number;
                self.tell_cost(number);
                self.refresh_cost(number);
            }
        }
    }

    /// Sets how many bytes of UDP payload this side may send on each path of an interface in this session,
    /// or lifts that. The smaller of this and of [`Scheduler::metered_cap`](squall_sched::Scheduler::metered_cap)
    /// holds.
    ///
    /// Of a budget a reserve is kept from data, a quarter but at most 16 kB: for acknowledgements, probes,
    /// control and the farewell. Once data has used the rest, nothing takes the path that can take another.
    /// When the reserve is nearly used as well the path is closed, and not opened again unless the budget
    /// grows. Without another path the session ends then, with [`CloseReason::OverBudget`]. A budget below
    /// 20 kB may be exceeded by what it takes to open the path.
    pub fn set_budget(&mut self, local: IpAddr, budget: Option<u64>) {
        self.metering.set_budget(local, budget);
        self.duties.schedule();
    }

    /// Reckons anew what budgets leave.
    pub(super) fn refresh_allowances(&mut self) {
        self.metering.set_cap(self.scheduler.metered_cap());
        let limited = self.metering.has_budgets();
        for path in &mut self.paths {
            let index = self.conn.index_of(path.number).filter(|_| limited);
            path.allowance = index.and_then(|index| {
                let sent = self.conn.sent_bytes(index);
                self.metering.allowance(self.conn.paths[index].net, path.number, sent)
            });
        }
    }

    /// Closes what is over budget, before anything more leaves; takes back what the rest cannot pay for.
    pub(super) fn mind_budgets(&mut self, now: Instant) {
        self.refresh_allowances();
        if !self.metering.has_budgets() || self.stage != Stage::Open {
            return;
        }
        for position in 0..self.paths.len() {
            if self.paths[position].is_spent() && !self.paths[position].committed.is_empty() {
                self.uncommit(position);
            }
        }
        let mut closed = false;
        for index in (0..self.conn.paths.len()).rev() {
            let (net, number) = (self.conn.paths[index].net, self.conn.paths[index].number);
            let sent = self.conn.sent_bytes(index);
            if !self.metering.allowance(net, number, sent).is_some_and(|allowance| allowance.is_over) {
                continue;
            }
            if self.conn.close_path(index, now, OVER_BUDGET).is_err() {
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

    /// A path is gone: what it carried counts on for the next between the same addresses.
    pub(super) fn settle_path(&mut self, number: u32, net: Option<NetPath>, sent: u64, by_peer: Option<u64>) {
        let Some(net) = net else { return };
        self.metering.close(net, number, sent);
        if by_peer == Some(OVER_BUDGET.into()) {
            self.metering.refuse(net);
        }
    }

    /// Has the peer told what a path costs at this end.
    fn tell_cost(&mut self, number: u32) {
        self.queue_control(Control::PathInfo(number));
        self.duties.flush();
    }

    /// A path was opened, or came up: if it costs money the peer is to know.
    pub(super) fn introduce(&mut self, number: u32) {
        let net = self.conn.index_of(number).map(|index| self.conn.paths[index].net);
        if net.is_some_and(|net| self.metering.is_declared(net.local)) {
            self.tell_cost(number);
        }
        self.refresh_cost(number);
    }

    /// What to tell of a path now, if it is still there.
    pub(super) fn path_info(&mut self, number: u32) -> Option<PathInfo> {
        let index = self.conn.index_of(number)?;
        Some(self.metering.tell(self.conn.paths[index].net.local, number))
    }

    pub(super) fn on_path_info(&mut self, info: &PathInfo) {
        self.metering.hear(info);
        self.refresh_cost(info.path);
    }

    /// Enters what a path costs; schedulers learn of a change.
    fn refresh_cost(&mut self, number: u32) {
        let Some(index) = self.conn.index_of(number) else { return };
        let metered = self.metering.is_metered(self.conn.paths[index].net.local, number);
        let Some(path) = self.paths.iter_mut().find(|p| p.number == number) else { return };
        if std::mem::replace(&mut path.metered, metered) != metered {
            self.sched_events.push(SchedEvent::PathChanged(path.id));
            self.duties.schedule();
        }
    }
}
