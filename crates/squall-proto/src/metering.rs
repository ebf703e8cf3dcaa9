//! Costs and limits of paths: metered paths and roles, as this side and the peer declare them, and
//! the bytes that each path may carry.
//!
//! A budget is a hard limit. It counts UDP payload that this side sent on the path, from its first
//! packet on, for any purpose. QUIC sends some of that by itself (acknowledgements, probes for loss
//! and for the MTU, keep-alives), so a part of every budget is reserved from data, and the last
//! part of that reserve from everything: when only it is left the path is closed, so that the
//! packets of a single poll of QUIC stay within the budget. A path that is reopened between the
//! same addresses continues where the last one ended.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use crate::{Interface, NetPath, RateLimit, Role, limiter::MAX_PACKET, wire::PathInfo};

/// Number of paths whose declaration by the peer is kept: twice the number of concurrent paths of a
/// session.
const MAX_RECEIVED: usize = 16;

/// Largest part of a budget that is reserved from data: eleven full packets, enough for hours of
/// keep-alives, for the acknowledgements in flight when the data ended, and for the search for the
/// MTU.
const MAX_RESERVE: u64 = 16_000;

/// Largest part of a budget that is reserved from everything: two full packets and a close.
const MAX_LAST: u64 = 4_000;

/// Number of closed paths, by interface and address, whose bytes are remembered; a peer can have
/// paths from many addresses.
const MAX_CLOSED: usize = 64;

/// Rest of a budget, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowance {
    /// Bytes for data.
    pub(crate) data: u64,
    /// So little is left that the path must be closed.
    pub(crate) is_over: bool,
}

impl Allowance {
    /// Returns the rest of a budget of `limit` after `sent`. Small budgets have a smaller reserve:
    /// a quarter for everything but data, half of it for the end.
    fn of(limit: u64, sent: u64) -> Self {
        let left = limit.saturating_sub(sent);
        Self {
            data: left.saturating_sub(MAX_RESERVE.min(limit / 4)),
            is_over: left < MAX_LAST.min(limit / 8).max(1),
        }
    }
}

/// A session's share of the quota of an interface; see
/// [`Session::set_quota`](crate::Session::set_quota).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaShare {
    /// Bytes of IP packets that this session may still send and receive over the interface.
    pub left: u64,
    /// The interface is ahead of its pace: its paths are [backup](Role::Backup) paths meanwhile.
    pub is_held: bool,
    /// No further share follows in this period.
    pub is_last: bool,
}

/// A share, with the usage at the time when it was granted.
#[derive(Clone, Copy, Debug)]
struct Share {
    share: QuotaShare,
    used_before: u64,
}

/// State of the costs and limits of paths.
#[derive(Debug, Default)]
pub(crate) struct Metering {
    /// Bytes that each metered path may carry, as limited by the scheduler.
    cap: Option<u64>,
    /// Bytes that the paths of each local interface may send and receive together.
    quotas: BTreeMap<Interface, Share>,
    /// Bytes of IP packets sent and received over local interfaces that have, or had, a quota.
    usage: BTreeMap<Interface, u64>,
    /// The part of the usage on closed paths.
    closed_usage: BTreeMap<Interface, u64>,
    /// Bytes that each path of a local interface may carry, as limited by the application.
    budgets: BTreeMap<Interface, u64>,
    /// Bytes carried by closed paths with a budget, by interface and remote address.
    closed: BTreeMap<(Interface, IpAddr), u64>,
    /// Paths that the peer closed because its own budget for them was used up.
    refused: BTreeSet<(Interface, IpAddr)>,
    /// Local interfaces that cost money.
    here: BTreeSet<Interface>,
    /// Roles of the paths over local interfaces; the others are primary paths.
    roles: BTreeMap<Interface, Role>,
    /// Rate limits of both sides on paths over local interfaces.
    limits: BTreeMap<Interface, RateLimit>,
    /// Latest declaration of the peer about a path, by number.
    received: BTreeMap<u32, PathInfo>,
    /// Sequence number of the last PATH_INFO sent.
    sequence: u64,
}

impl Metering {
    /// Declares an interface; returns `true` if that is a change.
    pub(crate) fn declare(&mut self, local: Interface, metered: bool) -> bool {
        self.refused.retain(|(own, _)| *own != local);
        if metered { self.here.insert(local) } else { self.here.remove(&local) }
    }

    /// Sets the role of the paths of an interface; returns `true` if that is a change.
    pub(crate) fn set_role(&mut self, local: Interface, role: Role) -> bool {
        let before = match role {
            Role::Primary => self.roles.remove(&local),
            _ => self.roles.insert(local, role),
        };
        before.unwrap_or_default() != role
    }

    /// Sets the rate limit of both sides over an interface; returns `true` if that is a change.
    pub(crate) fn set_limit(&mut self, local: Interface, limit: Option<RateLimit>) -> bool {
        let before = match limit {
            Some(limit) => self.limits.insert(local, limit),
            None => self.limits.remove(&local),
        };
        before != limit
    }

    /// Returns the rate limit of this side on a path: the lower of both sides' declarations.
    pub(crate) fn limit(&self, local: Interface, number: u32) -> Option<RateLimit> {
        let peers = self.received.get(&number).and_then(|info| info.limit);
        self.limits.get(&local).copied().into_iter().chain(peers).min_by_key(|limit| limit.bits_per_second)
    }

    /// Returns this side's role of the paths of an interface.
    fn own_role(&self, local: Interface) -> Role {
        let is_held = self.quotas.get(&local).is_some_and(|quota| quota.share.is_held);
        let role = self.roles.get(&local).copied().unwrap_or_default();
        if is_held { role.max(Role::Backup) } else { role }
    }

    /// Returns the role of a path: the later one of both sides' declarations.
    pub(crate) fn role(&self, local: Interface, number: u32) -> Role {
        self.own_role(local).max(self.received.get(&number).map_or(Role::Primary, |info| info.role))
    }

    /// Sets the budget of each path of an interface.
    pub(crate) fn set_budget(&mut self, local: Interface, budget: Option<u64>) {
        self.refused.retain(|(own, _)| *own != local);
        match budget {
            Some(bytes) => self.budgets.insert(local, bytes),
            None => self.budgets.remove(&local),
        };
    }

    /// Sets a session's share of the quota of an interface; returns `true` if that changes the
    /// role.
    pub(crate) fn set_quota(&mut self, local: Interface, share: Option<QuotaShare>) -> bool {
        let before = self.own_role(local);
        let is_left = |share: &QuotaShare| share.left > MAX_RESERVE;
        if share.as_ref().is_none_or(is_left) {
            self.refused.retain(|(own, _)| *own != local);
        }
        let used_before = self.used(local);
        match share {
            Some(share) => self.quotas.insert(local, Share { share, used_before }),
            None => self.quotas.remove(&local),
        };
        before != self.own_role(local)
    }

    /// Returns the bytes sent and received over an interface since the session began.
    pub(crate) fn used(&self, local: Interface) -> u64 {
        let of = |map: &BTreeMap<Interface, u64>| map.get(&local).copied().unwrap_or(0);
        of(&self.usage) + of(&self.closed_usage)
    }

    /// Records the usage of the open paths of an interface.
    pub(crate) fn set_usage(&mut self, local: Interface, bytes: u64) {
        self.usage.insert(local, bytes);
    }

    /// Records the usage of a closed path.
    pub(crate) fn close_usage(&mut self, local: Interface, bytes: u64) {
        *self.closed_usage.entry(local).or_default() += bytes;
    }

    /// Returns the interfaces with a quota.
    pub(crate) fn quota_locals(&self) -> Vec<Interface> {
        self.quotas.keys().copied().collect()
    }

    pub(crate) fn has_quotas(&self) -> bool {
        !self.quotas.is_empty()
    }

    /// Returns `true` if the interface has a quota whose last share this is.
    pub(crate) fn is_last(&self, local: Interface) -> bool {
        self.quotas.get(&local).is_some_and(|quota| quota.share.is_last)
    }

    /// Returns the rest of the quota of an interface.
    fn quota_allowance(&self, local: Interface) -> Option<Allowance> {
        let Share { share, used_before } = self.quotas.get(&local)?;
        let left = share.left.saturating_sub(self.used(local).saturating_sub(*used_before));
        Some(Allowance { data: left.saturating_sub(MAX_RESERVE), is_over: share.is_last && left < MAX_LAST })
    }

    pub(crate) fn set_cap(&mut self, cap: Option<u64>) {
        self.cap = cap;
    }

    /// Returns `true` if any path can have a budget.
    pub(crate) fn has_budgets(&self) -> bool {
        self.cap.is_some() || !self.budgets.is_empty() || self.has_quotas()
    }

    /// Returns the allowance of a path that has sent this much, if it has a budget. The smallest
    /// one applies.
    pub(crate) fn allowance(&self, net: NetPath, number: u32, sent: u64) -> Option<Allowance> {
        let before = self.closed.get(&ends(net)).copied();
        // A path between addresses that had a budget has one until the peer declares otherwise.
        let metered =
            self.is_metered(net.local, number) || before.is_some() && !self.received.contains_key(&number);
        let cap = self.cap.filter(|_| metered);
        let limit = [cap, self.budgets.get(&net.local).copied()].into_iter().flatten().min();
        let of_limit = limit.map(|limit| Allowance::of(limit, sent.saturating_add(before.unwrap_or(0))));
        [of_limit, self.quota_allowance(net.local)].into_iter().flatten().min_by_key(|a| (!a.is_over, a.data))
    }

    /// Records a closed path and the bytes that it had sent.
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

    /// Records that the peer closed a path because its budget for it was used up.
    pub(crate) fn refuse(&mut self, net: NetPath) {
        if self.refused.len() < MAX_CLOSED {
            self.refused.insert(ends(net));
        }
    }

    /// Returns `true` if a path between these addresses is not worth opening, because a budget for
    /// it is used up.
    pub(crate) fn is_barred(&self, net: NetPath) -> bool {
        let allowance = self.allowance(net, u32::MAX, 0);
        self.refused.contains(&ends(net)) || allowance.is_some_and(|allowance| allowance.data < OPENING)
    }

    /// Returns `true` if there is anything to declare to the peer about the interface.
    pub(crate) fn is_notable(&self, local: Interface) -> bool {
        self.is_declared(local) || self.own_role(local) != Role::Primary || self.limits.contains_key(&local)
    }

    /// Returns `true` if this side declares that the interface costs money.
    fn is_declared(&self, local: Interface) -> bool {
        self.here.contains(&local)
    }

    /// Returns `true` if either side declares that the path costs money.
    pub(crate) fn is_metered(&self, local: Interface, number: u32) -> bool {
        self.is_declared(local) || self.received.get(&number).is_some_and(|info| info.metered)
    }

    /// Processes a declaration of the peer; an older one changes nothing.
    pub(crate) fn receive(&mut self, info: &PathInfo) {
        let newest = self.received.get(&info.path).is_none_or(|latest| latest.sequence < info.sequence);
        if newest {
            self.received.insert(info.path, *info);
        }
        // Numbers only grow, so the lowest belongs to a closed path.
        while self.received.len() > MAX_RECEIVED {
            self.received.pop_first();
        }
    }

    /// Returns the declaration to the peer about a path.
    pub(crate) fn announcement(&mut self, local: Interface, number: u32) -> PathInfo {
        self.sequence += 1;
        PathInfo {
            path: number,
            metered: self.is_declared(local),
            role: self.own_role(local),
            limit: self.limits.get(&local).copied(),
            sequence: self.sequence,
        }
    }
}

/// Bytes that opening a path may use: challenges and answers, and the search for the MTU.
const OPENING: u64 = 8 * MAX_PACKET;

/// Smallest share that opens a path.
pub(crate) const MIN_SHARE: u64 = MAX_RESERVE + OPENING;

/// Identity of a path over its lives: the port changes with every rebinding.
fn ends(net: NetPath) -> (Interface, IpAddr) {
    (net.local, net.remote.ip())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LOCAL: Interface = Interface(1);

    fn info(path: u32, metered: bool, sequence: u64) -> PathInfo {
        PathInfo { path, metered, role: Role::Primary, limit: None, sequence }
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
    fn the_later_role_of_both_sides_holds() {
        let mut metering = Metering::default();
        assert!(
            metering.set_role(LOCAL, Role::Backup) && !metering.set_role(LOCAL, Role::Backup),
            "news once"
        );
        assert!(metering.is_notable(LOCAL));
        metering.receive(&PathInfo { role: Role::Repair, ..info(1, false, 2) });
        assert_eq!([0, 1].map(|number| metering.role(LOCAL, number)), [Role::Backup, Role::Repair]);
        assert_eq!(metering.announcement(LOCAL, 0).role, Role::Backup, "only what this side says");
        metering.receive(&info(1, false, 3));
        assert!(metering.set_role(LOCAL, Role::Primary) && !metering.is_notable(LOCAL));
        assert_eq!([0, 1].map(|number| metering.role(LOCAL, number)), [Role::Primary; 2]);
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
        /// Whatever the order of arrival, the newest declaration applies.
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
