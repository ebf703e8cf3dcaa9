//! Assignment of the roles of primary path and backups.

use std::str::FromStr;

use squall_sched::{MAX_PATHS, PathId, PathSet, PathView, Span};

/// A path selected by an option, or `None` to derive it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Choice(pub(super) Option<PathId>);

impl FromStr for Choice {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "auto" {
            return Ok(Self(None));
        }
        match text.parse::<u8>() {
            Ok(id) if usize::from(id) < MAX_PATHS => Ok(Self(Some(PathId(id)))),
            _ => Err("must be auto or a path id from 0 to 7"),
        }
    }
}

/// Roles of the paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Roles {
    /// May be absent for the moment.
    pub(super) primary: PathId,
    /// Open paths, never the primary.
    pub(super) backups: PathSet,
}

impl Roles {
    /// Assigns the roles among `paths`; `None` while there is no path. `former` are the previous
    /// roles, with `true` if their primary path is to keep its role although it is gone.
    pub(super) fn of(
        paths: &[PathView],
        primary: Choice,
        backup: Choice,
        former: Option<(Self, bool)>,
    ) -> Option<Self> {
        let open = |id: PathId| paths.iter().any(|p| p.id == id);
        let rest = || paths.iter().filter(|p| Some(p.id) != backup.0);
        let unmetered = |id: PathId| rest().any(|p| p.id == id && !p.metered);
        // The model of the primary path is valid again when the path returns. It therefore keeps
        // its role for a while, and also as long as only metered paths could replace it; its
        // successor then keeps the role in the same way.
        let kept = former.filter(|(roles, keeps)| unmetered(roles.primary) || *keeps && !open(roles.primary));
        let primary = (primary.0.filter(|id| open(*id)))
            .or_else(|| kept.map(|(roles, _)| roles.primary))
            .or_else(|| rest().find(|p| !p.metered).map(|p| p.id))
            .or_else(|| former.map(|(roles, _)| roles.primary))
            .or_else(|| rest().next().or(paths.first()).map(|p| p.id))?;
        let others = || paths.iter().filter(|p| p.id != primary);
        let all = |paths: &mut dyn Iterator<Item = &PathView>| paths.map(|p| p.id).collect::<PathSet>();
        let backups = match backup.0 {
            Some(id) => all(&mut others().filter(|p| p.id == id)),
            // Data should not cost money only because the primary path is gone for a moment.
            None if !open(primary) && others().any(|p| !p.metered) => {
                all(&mut others().filter(|p| !p.metered))
            }
            None if others().any(|p| p.metered) => all(&mut others().filter(|p| p.metered)),
            None => all(&mut others()),
        };
        // An unused path is better than none.
        let carries = |p: &PathView| (p.id == primary || backups.contains(p.id)) && p.is_open();
        let backups = if paths.iter().any(carries) { backups } else { all(&mut others()) };
        Some(Self { primary, backups })
    }

    /// Restricts the backups to those in `set`.
    pub(super) fn only(self, set: PathSet) -> Self {
        Self { backups: self.backups.intersection(set), ..self }
    }

    /// Returns the backups among `paths`.
    pub(super) fn backups<'a>(&self, paths: &'a [PathView]) -> impl Iterator<Item = &'a PathView> + use<'a> {
        let set = self.backups;
        paths.iter().filter(move |p| set.contains(p.id))
    }

    /// Returns the backup with room and the shortest round trip.
    pub(super) fn best_with_room<'a>(&self, paths: &'a [PathView]) -> Option<&'a PathView> {
        self.backups(paths).filter(|p| p.has_room()).min_by_key(|p| (p.srtt, p.id))
    }

    /// Returns the open backup with the shortest round trip, with or without room.
    pub(super) fn nearest_backup(&self, paths: &[PathView]) -> Option<PathId> {
        self.backups(paths).filter(|p| p.is_open()).min_by_key(|p| (p.srtt, p.id)).map(|p| p.id)
    }

    /// Returns the shortest latest round trip of an open backup, even if its window is full.
    pub(super) fn backup_rtt(&self, paths: &[PathView]) -> Option<Span> {
        self.backups(paths).filter(|p| p.is_open()).map(|p| p.latest_rtt).min()
    }

    /// Returns the time until `bytes` given to the backups now are acknowledged: their shortest
    /// round trip, plus the time to send these bytes and those ahead of them at the bandwidth of
    /// all backups; `None` if they can carry nothing.
    pub(super) fn brings_in(&self, paths: &[PathView], bytes: u32) -> Option<Span> {
        let open = || self.backups(paths).filter(|p| p.is_open());
        let ahead = open().map(|p| u128::from(p.waiting)).sum::<u128>() + u128::from(bytes);
        let sending = (ahead * 8_000_000).checked_div(open().map(|p| u128::from(p.bandwidth)).sum())?;
        Some(self.backup_rtt(paths)? + Span::from_micros(u64::try_from(sending).ok()?))
    }
}

#[cfg(test)]
mod tests {

    use squall_units::short::{ms, us};

    use super::*;

    fn paths(metered: &[(u8, bool)]) -> Vec<PathView> {
        let path = |(id, metered): &(u8, bool)| PathView {
            metered: *metered,
            ..PathView::example(*id, us(10_000 * (10 - u64::from(*id))), 10_000)
        };
        metered.iter().map(path).collect()
    }

    fn roles(
        metered: &[(u8, bool)],
        primary: &str,
        backup: &str,
        former: Option<(Roles, bool)>,
    ) -> Option<(u8, Vec<u8>)> {
        let choice = |text: &str| text.parse().expect("a choice");
        Roles::of(&paths(metered), choice(primary), choice(backup), former)
            .map(|r| (r.primary.0, r.backups.iter().map(|path| path.0).collect()))
    }

    #[test]
    fn the_first_unmetered_path_is_primary_and_the_metered_ones_back_it_up() {
        assert_eq!(
            roles(&[(0, true), (1, false), (2, false), (3, true)], "auto", "auto", None),
            Some((1, vec![0, 3]))
        );
        assert_eq!(roles(&[(0, false), (1, false), (2, false)], "auto", "auto", None), Some((0, vec![1, 2])));
        assert_eq!(roles(&[(0, true), (1, true)], "auto", "auto", None), Some((0, vec![1])));
        assert_eq!(roles(&[(3, false)], "auto", "auto", None), Some((3, vec![])));
        assert_eq!(roles(&[], "auto", "auto", None), None);
    }

    #[test]
    fn options_name_them() {
        let three = [(0, false), (1, false), (2, true)];
        assert_eq!(roles(&three, "1", "auto", None), Some((1, vec![2])));
        assert_eq!(roles(&three, "auto", "1", None), Some((0, vec![1])));
        assert_eq!(
            roles(&three, "auto", "0", None),
            Some((1, vec![0])),
            "the named backup is not the primary"
        );
        assert_eq!(roles(&three, "7", "auto", None), Some((0, vec![2])), "no such path");
        assert_eq!(roles(&three, "auto", "7", None), Some((0, vec![])));
        assert_eq!(roles(&[(4, false)], "auto", "4", None), Some((4, vec![])), "better than nothing");
    }

    #[test]
    fn a_primary_that_is_gone_keeps_its_part_for_a_while_and_for_good_if_only_metered_ones_follow() {
        let first = Roles { primary: PathId(0), backups: PathId(1).into() };
        for keeps in [true, false] {
            assert_eq!(roles(&[(1, true)], "auto", "auto", Some((first, keeps))), Some((0, vec![1])));
        }
        let others = [(1, true), (2, false)];
        assert_eq!(
            roles(&others, "auto", "auto", Some((first, true))),
            Some((0, vec![2])),
            "which costs nothing"
        );
        assert_eq!(roles(&others, "auto", "auto", Some((first, false))), Some((2, vec![1])));
    }

    #[test]
    fn the_one_that_followed_keeps_the_part_when_the_first_comes_back() {
        let second = Some((Roles { primary: PathId(2), backups: PathId(1).into() }, true));
        let all = |metered| [(0, false), (1, true), (2, metered)];
        assert_eq!(roles(&all(false), "auto", "auto", second), Some((2, vec![1])));
        assert_eq!(
            roles(&all(false), "0", "auto", second),
            Some((0, vec![1])),
            "unless an option names another"
        );
        assert_eq!(roles(&all(false), "auto", "2", second), Some((0, vec![2])), "or it is the named backup");
        assert_eq!(roles(&all(true), "auto", "auto", second), Some((0, vec![1, 2])), "or it costs money now");
    }

    #[test]
    fn choices_are_checked() {
        for bad in ["8", "-1", "", "wifi"] {
            assert_eq!(bad.parse::<Choice>(), Err("must be auto or a path id from 0 to 7"), "{bad}");
        }
    }

    #[test]
    fn a_backup_must_be_usable_and_within_its_budget() {
        let mut all = paths(&[(0, false), (1, true), (2, true)]);
        let roles = Roles::of(&all, Choice(None), Choice(None), None).expect("there are paths");
        assert_eq!(roles.best_with_room(&all).map(|p| p.id.0), Some(2));
        all[2].in_flight = all[2].window;
        assert_eq!(roles.best_with_room(&all).map(|p| p.id.0), Some(1));
        assert_eq!(roles.backup_rtt(&all), Some(ms(80)), "a window opens again");
        all[2].budget = Some(1199);
        assert_eq!(roles.backup_rtt(&all), Some(ms(90)));
        all[1].usable = false;
        assert_eq!((roles.backup_rtt(&all), roles.best_with_room(&all).is_some()), (None, false));
    }

    #[test]
    fn what_waits_and_the_bandwidth_of_all_backups_count() {
        let mut all = paths(&[(0, false), (1, true), (2, true)]);
        let roles = Roles::of(&all, Choice(None), Choice(None), None).expect("there are paths");
        (all[1].bandwidth, all[2].bandwidth) = (1_000_000, 3_000_000);
        assert_eq!(roles.brings_in(&all, 5_000), Some(us(80_000 + 10_000)));
        (all[1].waiting, all[2].waiting) = (2_000, 1_000);
        assert_eq!(roles.brings_in(&all, 5_000), Some(us(80_000 + 16_000)));
        all[2].usable = false;
        assert_eq!(roles.brings_in(&all, 5_000), Some(us(90_000 + 56_000)));
        all[1].bandwidth = 0;
        assert_eq!(roles.brings_in(&all, 5_000), None);
    }
}
