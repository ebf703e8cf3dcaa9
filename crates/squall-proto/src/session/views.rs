//! The paths in the view of schedulers, and the blocks that each may carry.

use std::borrow::Cow;

use squall_sched::{PathId, PathSet, PathView, Time, WorkKind};

use crate::Role;

/// Views of the paths that are up. Between renewals only commits to the paths change them.
#[derive(Debug, Default)]
pub(super) struct Views {
    /// Time of the renewal.
    at: Time,
    views: Vec<PathView>,
    /// Usable paths, whatever their role.
    usable: PathSet,
    by_role: Allowed,
}

/// Paths that blocks may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Allowed {
    /// Paths for any data. The scheduler sees them as usable.
    pub(super) all: PathSet,
    /// Additional paths for repairs, parity and copies. Schedulers do not see them as usable.
    pub(super) repairs: PathSet,
}

impl Allowed {
    pub(super) fn of(self, kind: WorkKind) -> PathSet {
        if kind == WorkKind::Fresh { self.all } else { self.all.union(self.repairs) }
    }
}

impl Views {
    pub(super) fn renew(&mut self, at: Time, paths: impl Iterator<Item = (PathView, Role)>) {
        self.at = at;
        self.views.clear();
        let mut roles = Vec::new();
        for (view, role) in paths {
            roles.push(role);
            self.views.push(view);
        }
        let usable = || self.views.iter().zip(&roles).filter(|(view, _)| view.usable);
        let set = |is_meant: &dyn Fn(Role) -> bool| {
            usable().filter(|(_, role)| is_meant(**role)).map(|(view, _)| view.id).collect()
        };
        // New data takes the first role that has an open path.
        let open = usable().filter(|(view, _)| view.is_open());
        let in_use = open.map(|(_, role)| *role).min().unwrap_or_default();
        let by_role = Allowed {
            all: set(&|role| role <= in_use),
            repairs: set(&|role| role > in_use && role == Role::Repair),
        };
        (self.usable, self.by_role) = (set(&|_| true), by_role);
    }

    /// Keeps the views as renewed: nothing was decided, and nothing has to be.
    pub(super) fn skip(&mut self, at: Time) {
        self.at = at;
    }

    pub(super) fn at(&self) -> Time {
        self.at
    }

    pub(super) fn usable(&self) -> PathSet {
        self.usable
    }

    /// Returns the paths that may carry blocks without a hint.
    pub(super) fn by_role(&self) -> Allowed {
        self.by_role
    }

    pub(super) fn within(&self, set: PathSet) -> impl Iterator<Item = &PathView> {
        self.views.iter().filter(move |view| set.contains(view.id))
    }

    /// Returns all views, with the paths of this set as the usable ones.
    pub(super) fn seen(&self, set: PathSet) -> Cow<'_, [PathView]> {
        if set == self.usable {
            return Cow::Borrowed(&self.views);
        }
        let seen = |view: &PathView| PathView { usable: set.contains(view.id), ..view.clone() };
        Cow::Owned(self.views.iter().map(seen).collect())
    }

    /// Returns the view of a path that is in the set and has room.
    pub(super) fn with_room(&self, path: PathId, set: PathSet) -> Option<&PathView> {
        self.within(set).find(|view| view.id == path && view.has_room())
    }

    /// Records bytes that were committed to a path.
    pub(super) fn commit(&mut self, path: PathId, bytes: u64) {
        if let Some(view) = self.views.iter_mut().find(|view| view.id == path) {
            view.in_flight += bytes;
            view.budget = view.budget.map(|left| left.saturating_sub(bytes));
            view.waiting += bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use squall_units::short::{at_us, ms};

    use super::*;

    const ROLES: [Role; 4] = [Role::Primary, Role::Backup, Role::Repair, Role::Repair];

    /// Creates views of four paths, of which these are usable.
    fn views(usable: [bool; 4]) -> Views {
        let mut views = Views::default();
        let view = |id: usize| PathView { usable: usable[id], ..PathView::example(id as u8, ms(10), 5_000) };
        views.renew(at_us(7), (0..4).map(|id| (view(id), ROLES[id])));
        views
    }

    fn set(ids: &[u8]) -> PathSet {
        ids.iter().copied().map(PathId).collect()
    }

    #[test]
    fn first_transmissions_take_the_first_role_that_is_usable() {
        let allowed = |usable| views(usable).by_role();
        assert_eq!(allowed([true; 4]), Allowed { all: set(&[0]), repairs: set(&[2, 3]) });
        assert_eq!(allowed([false, true, true, false]), Allowed { all: set(&[1]), repairs: set(&[2]) });
        assert_eq!(allowed([false, false, true, true]), Allowed { all: set(&[2, 3]), repairs: set(&[]) });
        assert_eq!(allowed([false; 4]), Allowed::default());
        assert_eq!(allowed([true; 4]).of(WorkKind::Fresh), set(&[0]));
        assert_eq!(allowed([true; 4]).of(WorkKind::Copy), set(&[0, 2, 3]));
    }

    #[test]
    fn a_path_without_budget_does_not_keep_others_from_use() {
        let mut views = Views::default();
        let empty = PathView { budget: Some(0), ..PathView::example(0, ms(10), 5_000) };
        let paths = [(empty, Role::Primary), (PathView::example(1, ms(10), 5_000), Role::Backup)];
        views.renew(at_us(0), paths.into_iter());
        assert_eq!((views.by_role().all, views.usable()), (set(&[0, 1]), set(&[0, 1])));
    }

    #[test]
    fn a_mask_makes_paths_usable_to_the_scheduler() {
        let mut views = views([true, true, false, true]);
        let usable = |views: &Views, mask| {
            views.seen(mask).iter().filter(|view| view.usable).map(|view| view.id).collect::<PathSet>()
        };
        for mask in [set(&[]), set(&[1, 3]), views.usable()] {
            assert_eq!(usable(&views, mask), mask);
            assert_eq!(views.seen(mask).len(), 4);
        }
        assert!(matches!(views.seen(views.usable()), Cow::Borrowed(_)));
        assert!(
            views.with_room(PathId(0), set(&[0])).is_some()
                && views.with_room(PathId(0), set(&[1])).is_none()
        );
        views.commit(PathId(0), 4_000);
        assert_eq!(views.seen(set(&[0]))[0].in_flight, 4_000);
        assert!(views.with_room(PathId(0), set(&[0])).is_none(), "one packet less than it takes is left");
    }
}
