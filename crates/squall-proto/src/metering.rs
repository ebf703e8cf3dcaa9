//! What paths cost, and what they may: which are metered, as this side and the peer declare it, and how
//! many bytes each may still carry.
//!
//! A budget is hard. What counts is UDP payload that this side sent on the path, from its first packet on,
//! whatever it was for. QUIC sends some of that unasked (acknowledgements, probes for loss and for the MTU,
//! keep-alives), so a part of every budget is kept from data, the reserve, and of that a last part is kept
//! from everything: when only it is left the path is closed, so that whatever a single poll of QUIC sends
//! stays within the budget. A path that is reopened between the same addresses continues where the last
//! one ended.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use crate::{NetPath, wire::PathInfo};

/// Paths of which the peer's declaration is kept: twice as many as a session has at a time.
const MAX_RECEIVED: usize = 16;

/// Largest packet that leaves: Ethernet's, for QUIC looks for no larger MTU by default.
pub(crate) const MAX_PACKET: u64 = 1500;

/// Most of a budget that is kept from data: eleven full packets, enough for hours of keep-alives, for the
/// acknowledgements under way when the data ended, and for the search for the MTU.
const MAX_RESERVE: u64 = 16_000;

/// Most of a budget that is kept from everything: two full packets and a close.
const MAX_LAST: u64 = 4_000;

/// Address pairs of closed paths whose bytes are remembered; a peer can have paths from many addresses.
const MAX_CLOSED: usize = 64;

/// What a budget leaves, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowance {
    /// For data.
    pub(crate) data: u64,
    /// Whether so little is left that the path must be closed.
    pub(crate) is_over: bool,
}

impl Allowance {
    /// What a budget of `limit` leaves after `sent`. Small budgets keep a smaller reserve: a quarter for all
    /// that is not data, of it half for the end.
    fn of(limit: u64, sent: u64) -> Self {
        let left = limit.saturating_sub(sent);
        Self {
            data: left.saturating_sub(MAX_RESERVE.min(limit / 4)),
            is_over: left < MAX_LAST.min(limit / 8).max(1),
        }
    }
}

/// What is known of the cost of paths.
#[derive(Debug, Default)]
pub(crate) struct Metering {
    /// What each metered path may carry, as the scheduler limits it.
    cap: Option<u64>,
    /// What each path of a local interface may carry, as the application limits it.
    budgets: BTreeMap<IpAddr, u64>,
    /// What closed paths with a budget have carried, by local and remote address.
    closed: BTreeMap<(IpAddr, IpAddr), u64>,
    /// Paths that the peer closed because its own budget for them was used up.
    refused: BTreeSet<(IpAddr, IpAddr)>,
    /// Local interfaces that cost money.
    here: BTreeSet<IpAddr>,
    /// What the peer declared last of a path, by number, with the sequence of that.
    received: BTreeMap<u32, (u64, bool)>,
    /// Sequence of the last PATH_INFO sent.
    sequence: u64,
}

impl Metering {
    /// Declares an interface; returns whether that is news.
    pub(crate) fn declare(&mut self, local: IpAddr, metered: bool) -> bool {
        self.refused.retain(|(own, _)| *own != local);
        if metered { self.here.insert(local) } else { self.here.remove(&local) }
    }

    /// Sets what each path of an interface may carry.
    pub(crate) fn set_budget(&mut self, local: IpAddr, budget: Option<u64>) {
        self.refused.retain(|(own, _)| *own != local);
        match budget {
            Some(bytes) => self.budgets.insert(local, bytes),
            None => self.budgets.remove(&local),
        };
    }

    pub(crate) fn set_cap(&mut self, cap: Option<u64>) {
        self.cap = cap;
    }

    /// Whether any path can have a budget.
    pub(crate) fn has_budgets(&self) -> bool {
        self.cap.is_some() || !self.budgets.is_empty()
    }

    /// What a path that has sent so much may still carry, if it has a budget. The smaller one holds.
    pub(crate) fn allowance(&self, net: NetPath, number: u32, sent: u64) -> Option<Allowance> {
        let before = self.closed.get(&ends(net)).copied();
        // A path between addresses that had a budget has one until the peer declares otherwise.
        let metered =
            self.is_metered(net.local, number) || before.is_some() && !self.received.contains_key(&number);
        let cap = self.cap.filter(|_| metered);
        let limit = [cap, self.budgets.get(&net.local).copied()].into_iter().flatten().min()?;
        Some(Allowance::of(limit, sent.saturating_add(before.unwrap_or(0))))
    }

    /// A path is gone that had sent so much.
    pub(crate) fn close(&mut self, net: NetPath, number: u32, sent: u64) {
        if self.allowance(net, number, 0).is_some() {
            *self.closed.entry(ends(net)).or_default() += sent;
        }
        if self.closed.len() > MAX_CLOSED
            && let Some(least) = self.closed.iter().min_by_key(|(_, sent)| **sent).map(|(ends, _)| *ends)
        {
            self.closed.remove(&least);
        }
    }

    /// The peer closed a path because its budget for it was used up.
    pub(crate) fn refuse(&mut self, net: NetPath) {
        if self.refused.len() < MAX_CLOSED {
            self.refused.insert(ends(net));
        }
    }

    /// Whether a path between these addresses is not worth opening: a budget for it is used up.
    pub(crate) fn is_barred(&self, net: NetPath) -> bool {
        let allowance = self.allowance(net, u32::MAX, 0);
        self.refused.contains(&ends(net)) || allowance.is_some_and(|allowance| allowance.data < OPENING)
    }

    /// Whether this side declares the interface to cost money.
    pub(crate) fn is_declared(&self, local: IpAddr) -> bool {
        self.here.contains(&local)
    }

    /// Whether either side declares that the path costs money.
    pub(crate) fn is_metered(&self, local: IpAddr, number: u32) -> bool {
        self.is_declared(local) || self.received.get(&number).is_some_and(|(_, metered)| *metered)
    }

    /// Takes in what the peer declares; an older declaration changes nothing.
    pub(crate) fn receive(&mut self, info: &PathInfo) {
        let newest = self.received.get(&info.path).is_none_or(|(sequence, _)| *sequence < info.sequence);
        if newest {
            self.received.insert(info.path, (info.sequence, info.metered));
        }
        // Numbers only grow, so the lowest belongs to a path that is gone.
        while self.received.len() > MAX_RECEIVED {
            self.received.pop_first();
        }
    }

    /// What to declare to the peer of a path now.
    pub(crate) fn announcement(&mut self, local: IpAddr, number: u32) -> PathInfo {
        self.sequence += 1;
        PathInfo { path: number, metered: self.is_declared(local), sequence: self.sequence }
    }
}

/// What opening a path may take: challenges and answers, and the search for the MTU.
const OPENING: u64 = 8 * MAX_PACKET;

/// What identifies a path over its lives: the port changes with every rebinding.
fn ends(net: NetPath) -> (IpAddr, IpAddr) {
    (net.local, net.remote.ip())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LOCAL: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn info(path: u32, metered: bool, sequence: u64) -> PathInfo {
        PathInfo { path, metered, sequence }
    }

    #[test]
    fn either_side_is_believed() {
        let mut metering = Metering::default();
        assert!(!metering.is_metered(LOCAL, 0));
        assert!(metering.declare(LOCAL, true) && !metering.declare(LOCAL, true), "news once");
        assert!(metering.is_metered(LOCAL, 0) && metering.is_metered(LOCAL, 7));
        metering.receive(&info(0, true, 1));
        assert!(metering.declare(LOCAL, false));
        assert!(metering.is_metered(LOCAL, 0) && !metering.is_metered(LOCAL, 7));
    }

    #[test]
    fn declarations_are_numbered_and_current() {
        let mut metering = Metering::default();
        assert_eq!(metering.announcement(LOCAL, 3), info(3, false, 1));
        metering.declare(LOCAL, true);
        assert_eq!(metering.announcement(LOCAL, 3), info(3, true, 2));
    }

    #[test]
    fn a_flood_of_paths_is_forgotten() {
        let mut metering = Metering::default();
        for path in 0..100_000 {
            metering.receive(&info(path, true, 1));
        }
        assert_eq!(metering.received.len(), MAX_RECEIVED);
        assert!(metering.is_metered(LOCAL, 99_999) && !metering.is_metered(LOCAL, 99_000));
    }

    fn net(last: u8) -> NetPath {
        NetPath { local: LOCAL, remote: ([10, 0, 0, last], 443).into() }
    }

    #[test]
    fn a_budget_keeps_a_reserve_from_data_and_a_last_part_from_everything() {
        let of = |limit, sent| {
            let Allowance { data, is_over } = Allowance::of(limit, sent);
            (data, is_over)
        };
        assert_eq!(of(1_000_000, 0), (984_000, false));
        assert_eq!(of(1_000_000, 984_000), (0, false));
        assert_eq!((of(1_000_000, 996_000), of(1_000_000, 996_001)), ((0, false), (0, true)));
        assert_eq!(
            (of(20_000, 0), of(20_000, 17_500), of(20_000, 17_501)),
            ((15_000, false), (0, false), (0, true))
        );
        assert_eq!((of(0, 0), of(1_000, u64::MAX)), ((0, true), (0, true)));
    }

    #[test]
    fn the_smaller_of_cap_and_budget_holds_and_the_cap_only_where_metered() {
        let mut metering = Metering::default();
        let data = |metering: &Metering| metering.allowance(net(1), 0, 0).map(|a| a.data);
        metering.set_cap(Some(1_000_000));
        assert_eq!(data(&metering), None);
        metering.declare(LOCAL, true);
        assert_eq!(data(&metering), Some(984_000));
        metering.set_budget(LOCAL, Some(100_000));
        assert_eq!(data(&metering), Some(84_000));
        metering.set_cap(None);
        metering.declare(LOCAL, false);
        assert_eq!(data(&metering), Some(84_000));
        metering.set_budget(LOCAL, None);
        assert_eq!((data(&metering), metering.has_budgets()), (None, false));
    }

    #[test]
    fn what_a_closed_path_carried_counts_for_the_next_between_the_same_addresses() {
        let mut metering = Metering::default();
        metering.set_cap(Some(1_000_000));
        metering.receive(&info(0, true, 1));
        metering.close(net(1), 0, 600_000);
        let data = |metering: &Metering, to, number| metering.allowance(net(to), number, 0).map(|a| a.data);
        assert_eq!(data(&metering, 1, 1), Some(384_000), "metered until the peer declares otherwise");
        assert_eq!(data(&metering, 2, 1), None);
        metering.receive(&info(1, false, 2));
        assert_eq!(data(&metering, 1, 1), None);
        assert!(!metering.is_barred(net(1)));
        metering.close(net(1), 0, 380_000);
        assert!(metering.is_barred(net(1)));
        metering.refuse(net(2));
        assert!(metering.is_barred(net(2)));
        metering.set_budget(LOCAL, None);
        assert!(!metering.is_barred(net(2)), "something about its cost changed");
    }

    #[test]
    fn closed_paths_without_end_are_forgotten() {
        let mut metering = Metering::default();
        metering.set_budget(LOCAL, Some(1_000_000));
        for last in 0..=255 {
            metering.close(net(last), 0, 1_000 + u64::from(last));
        }
        assert_eq!(metering.closed.len(), MAX_CLOSED);
        (0..=255).for_each(|last| metering.refuse(net(last)));
        assert_eq!(metering.refused.len(), MAX_CLOSED);
        assert!(metering.is_barred(net(0)) && !metering.is_barred(net(255)), "the latest is tried again");
    }

    proptest! {
        /// In whatever order the declarations arrive, the latest holds.
        #[test]
        fn the_newest_declaration_holds(declarations in prop::collection::vec((0..3u32, any::<bool>(), 0..50u64), 1..40)) {
            let mut metering = Metering::default();
            let mut model: BTreeMap<u32, (u64, bool)> = BTreeMap::new();
            for (path, metered, sequence) in declarations {
                metering.receive(&info(path, metered, sequence));
                let entry = model.entry(path).or_insert((sequence, metered));
                if sequence > entry.0 {
                    *entry = (sequence, metered);
                }
                for path in 0..3 {
                    let expected = model.get(&path).is_some_and(|(_, metered)| *metered);
                    prop_assert_eq!(metering.is_metered(LOCAL, path), expected);
                }
            }
        }
    }
}
