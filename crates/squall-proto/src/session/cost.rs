//! Paths that cost money: what the peer is told of them, and what it tells.

use std::net::IpAddr;

use squall_sched::SchedEvent;

use super::Session;
use crate::{path::Control, wire::PathInfo};

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

    /// Has the peer told what a path costs at this end.
    fn tell_cost(&mut self, number: u32) {
        self.queue_control(Control::PathInfo(number));
        self.flush_due = true;
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
            self.sched_due = true;
        }
    }
}
