//! Latest sending times for a given time of arrival.

use squall_trace::Micros;

use super::volume::Stretch;

/// Latest sending times of a bottleneck, by time of arrival.
///
/// Data sent shortly before a moment may end in the same packet as data sent at that moment, and
/// arrive with it. All data sent up to [`Reach::latest`] may therefore be in time, and nothing sent
/// later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    lines: Vec<Line>,
    /// The earliest arrival of each line and all lines after it.
    arrivals: Vec<Micros>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Line {
    to: Micros,
    lag: Micros,
}

/// The last line that delivers anything by a given time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Last {
    pub(super) to: Micros,
    pub(super) lag: Micros,
    /// First arrival of any later line; [`Micros::MAX`] if there is none.
    pub(super) until: Micros,
}

impl Reach {
    /// Builds the reach of these stretches, which are in order of time.
    pub fn of(stretches: &[Stretch]) -> Self {
        let mut arrivals: Vec<Micros> =
            stretches.iter().map(|stretch| stretch.from.saturating_add(stretch.lag)).collect();
        for index in (1..arrivals.len()).rev() {
            arrivals[index - 1] = arrivals[index - 1].min(arrivals[index]);
        }
        let lines = stretches.iter().map(|stretch| Line { to: stretch.to, lag: stretch.lag }).collect();
        Self { lines, arrivals }
    }

    /// Returns the latest sending time of data that may arrive by `by`; `None` if nothing arrives.
    pub fn latest(&self, by: Micros) -> Option<Micros> {
        let last = self.last(by)?;
        Some(last.to.min(by - last.lag))
    }

    /// Returns the time of the first arrival; `None` if nothing ever arrives.
    pub fn first(&self) -> Option<Micros> {
        self.arrivals.first().copied().filter(|at| *at != Micros::MAX)
    }

    pub(super) fn last(&self, by: Micros) -> Option<Last> {
        let index = self.arrivals.partition_point(|at| *at <= by).checked_sub(1)?;
        // The earliest arrival from this line on is at most `by`, that from the next line on is
        // later: this line delivers it.
        let Line { to, lag } = self.lines[index];
        let until = self.arrivals.get(index + 1).copied().unwrap_or(Micros::MAX);
        (lag <= by).then_some(Last { to, lag, until })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::Volume;

    #[test]
    fn a_shorter_delay_takes_along_what_was_carried_before() {
        let stretch = |from, to, lag| Stretch { from, to, volume: Volume::Rate(1), lag };
        let reach = Reach::of(&[stretch(0, 100, 50), stretch(100, 200, 10)]);
        assert_eq!([49, 50, 90, 109].map(|by| reach.latest(by)), [None, Some(0), Some(40), Some(59)]);
        assert_eq!([110, 150, 900].map(|by| reach.latest(by)), [Some(100), Some(140), Some(200)]);
        assert_eq!((reach.first(), Reach::of(&[]).first()), (Some(50), None));
    }
}
