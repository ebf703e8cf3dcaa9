//! What a session's congestion control allows an encoder.
//!
//! A controller gives a window, not a rate, and each means something else by it. What it lets a path carry is
//!
//! | control | rate | because |
//! | --- | --- | --- |
//! | `cubic`, `newreno` | window / smoothed RTT | a window leaves each round trip |
//! | `bbr3` | window / (2 · smallest RTT) | the window is twice what the path carries in its shortest round trip |
//! | `sqp` | window / (smallest RTT + a frame interval) | that is how the window comes from the target rate |
//! | `salsify` | window / (100 ms, or the smoothed RTT if it is longer) | the window is what arrives within that delay |
//!
//! The session has it of the paths that its scheduler would use: one alone for `sp`; the primary for AUGUR and its
//! halves, and while that is suspected the first of the others; the best for `redundant`, which sends everything on
//! every path; for all others the sum. Paths that are suspected or out of use have none.

use squall_proto::{
    CongestionControl, PathStats,
    congestion::{SalsifyConfig, SqpConfig},
    sched::{Micros, PathId, PathState},
};

use crate::contender::Contender;

/// How a rate is had from the paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Allowance {
    control: CongestionControl,
    paths: Paths,
}

/// Which paths count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Paths {
    Only(u8),
    /// This one, or the first unmetered one, and the others if that is no use.
    Primary(Option<u8>),
    Best,
    Sum,
}

impl Allowance {
    /// Of a session with this congestion control and scheduler.
    pub(super) fn new(control: CongestionControl, scheduler: &str) -> Self {
        let contender = Contender::of(scheduler);
        let number = |name| option(contender.scheduler, name).and_then(|value| value.parse().ok());
        let paths = match contender.name() {
            "sp" => Paths::Only(number("path").unwrap_or(0)),
            name if name.starts_with("augur") => Paths::Primary(number("primary")),
            "redundant" => Paths::Best,
            _ => Paths::Sum,
        };
        Self { control, paths }
    }

    /// The rate in bits per second.
    pub(super) fn bps<'a>(&self, paths: impl Iterator<Item = (PathId, &'a PathStats)>) -> u64 {
        let active: Vec<(PathId, &PathStats)> =
            paths.filter(|(_, stats)| stats.state == PathState::Active).collect();
        let mut rates = active.iter().map(|(_, stats)| self.of_path(stats));
        match self.paths {
            Paths::Only(path) => active.iter().find(|(id, _)| id.0 == path).map(|(_, s)| self.of_path(s)),
            Paths::Primary(path) => {
                let named = active.iter().find(|(id, _)| Some(id.0) == path);
                let free = || active.iter().find(|(_, stats)| !stats.metered);
                named.or_else(free).or(active.first()).map(|(_, stats)| self.of_path(stats))
            }
            Paths::Best => rates.max(),
            Paths::Sum => rates.next().map(|first| rates.fold(first, u64::saturating_add)),
        }
        .unwrap_or(0)
    }

    fn of_path(&self, stats: &PathStats) -> u64 {
        let [srtt, min_rtt] = [stats.srtt, stats.min_rtt].map(|rtt| rtt.as_micros() as Micros);
        let within_us: Micros = match self.control {
            CongestionControl::Cubic | CongestionControl::CubicTolerant | CongestionControl::NewReno => srtt,
            CongestionControl::Bbr3 => 2 * min_rtt,
            CongestionControl::Sqp => min_rtt + SqpConfig::default().interval,
            CongestionControl::Salsify => srtt.max(SalsifyConfig::default().delay),
        };
        stats.window.saturating_mul(8_000_000) / within_us.max(1)
    }
}

/// The value of an option in `name(option=value, …)`.
fn option<'a>(scheduler: &'a str, name: &str) -> Option<&'a str> {
    let (_, options) = scheduler.trim_end().trim_end_matches(')').split_once('(')?;
    let values = options.split(',').filter_map(|one| one.split_once('='));
    values
        .map(|(key, value)| (key.trim(), value.trim()))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Wi-Fi of 10 Mbps by its window and 20 ms, LTE of 4 Mbps and 50 ms that costs money.
    fn paths() -> [(PathId, PathStats); 2] {
        let path = |id, window, srtt_us, metered| {
            let mut stats = PathStats::default();
            (stats.window, stats.metered) = (window, metered);
            stats.srtt = Duration::from_micros(srtt_us);
            stats.min_rtt = stats.srtt / 2;
            (PathId(id), stats)
        };
        [path(0, 25_000, 20_000, false), path(1, 25_000, 50_000, true)]
    }

    fn mbps(control: CongestionControl, scheduler: &str, paths: &[(PathId, PathStats)]) -> u64 {
        let all = paths.iter().map(|(id, stats)| (*id, stats));
        Allowance::new(control, scheduler).bps(all) / 1_000_000
    }

    #[test]
    fn the_paths_that_a_scheduler_uses_count() {
        let of = |scheduler| mbps(CongestionControl::Cubic, scheduler, &paths());
        assert_eq!((of("sp"), of("sp(path=1)"), of("sp(cap=2MB, path = 1)-R")), (10, 4, 4));
        assert_eq!((of("augur"), of("augur-switch(primary=1)"), of("augur(primary=auto)")), (10, 4, 10));
        assert_eq!((of("redundant"), of("minrtt"), of("storm(alpha=0.2)")), (10, 14, 14));
    }

    #[test]
    fn what_is_suspected_carries_nothing() {
        let mut paths = paths();
        paths[0].1.state = PathState::Suspect;
        let of = |scheduler| mbps(CongestionControl::NewReno, scheduler, &paths);
        assert_eq!((of("sp"), of("augur"), of("minrtt"), of("redundant")), (0, 4, 4, 4));
        assert_eq!(mbps(CongestionControl::Cubic, "minrtt", &[]), 0);
    }

    #[test]
    fn a_window_means_what_its_controller_means() {
        let of = |control| mbps(control, "sp", &paths());
        // 200,000 bits within 2 · 10, 10 + 16.667, and 100 ms.
        assert_eq!(of(CongestionControl::Bbr3), 10);
        assert_eq!(of(CongestionControl::Sqp), 7);
        assert_eq!(of(CongestionControl::Salsify), 2);
    }
}
