//! Which paths cost money: what this side declares of its interfaces, and what the peer says of paths.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use crate::wire::PathInfo;

/// Paths of which the peer's word is kept: twice as many as a session has at a time.
const MAX_HEARD: usize = 16;

/// What is known of the cost of paths.
#[derive(Debug, Default)]
pub(crate) struct Metering {
    /// Local interfaces that cost money.
    here: BTreeSet<IpAddr>,
    /// What the peer said last of a path, by number, with the sequence of that.
    heard: BTreeMap<u32, (u64, bool)>,
    /// Sequence of the last PATH_INFO sent.
    sequence: u64,
}

impl Metering {
    /// Declares an interface; returns whether that is news.
    pub(crate) fn declare(&mut self, local: IpAddr, metered: bool) -> bool {
        if metered { self.here.insert(local) } else { self.here.remove(&local) }
    }

    /// Whether this side declares the interface to cost money.
    pub(crate) fn is_declared(&self, local: IpAddr) -> bool {
        self.here.contains(&local)
    }

    /// Whether either side says that the path costs money.
    pub(crate) fn is_metered(&self, local: IpAddr, number: u32) -> bool {
        self.is_declared(local) || self.heard.get(&number).is_some_and(|(_, metered)| *metered)
    }

    /// Takes in what the peer says; an older word changes nothing.
    pub(crate) fn hear(&mut self, info: &PathInfo) {
        let newest = self.heard.get(&info.path).is_none_or(|(sequence, _)| *sequence < info.sequence);
        if newest {
            self.heard.insert(info.path, (info.sequence, info.metered));
        }
        // Numbers only grow, so the lowest belongs to a path that is gone.
        while self.heard.len() > MAX_HEARD {
            self.heard.pop_first();
        }
    }

    /// What to tell the peer of a path now.
    pub(crate) fn tell(&mut self, local: IpAddr, number: u32) -> PathInfo {
        self.sequence += 1;
        PathInfo { path: number, metered: self.is_declared(local), sequence: self.sequence }
    }
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
        metering.hear(&info(0, true, 1));
        assert!(metering.declare(LOCAL, false));
        assert!(metering.is_metered(LOCAL, 0) && !metering.is_metered(LOCAL, 7));
    }

    #[test]
    fn what_is_told_is_numbered_and_of_now() {
        let mut metering = Metering::default();
        assert_eq!(metering.tell(LOCAL, 3), info(3, false, 1));
        metering.declare(LOCAL, true);
        assert_eq!(metering.tell(LOCAL, 3), info(3, true, 2));
    }

    #[test]
    fn a_flood_of_paths_is_forgotten() {
        let mut metering = Metering::default();
        for path in 0..100_000 {
            metering.hear(&info(path, true, 1));
        }
        assert_eq!(metering.heard.len(), MAX_HEARD);
        assert!(metering.is_metered(LOCAL, 99_999) && !metering.is_metered(LOCAL, 99_000));
    }

    proptest! {
        /// In whatever order the words arrive, the latest holds.
        #[test]
        fn the_newest_word_holds(words in prop::collection::vec((0..3u32, any::<bool>(), 0..50u64), 1..40)) {
            let mut metering = Metering::default();
            let mut model: BTreeMap<u32, (u64, bool)> = BTreeMap::new();
            for (path, metered, sequence) in words {
                metering.hear(&info(path, metered, sequence));
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
