//! Measures of the clairvoyant bound, and shares of it.

use super::Count;
use crate::bound::Limit;
use crate::result::{ClassResult, FlowResult, RunResult, rate_bps, round6};

/// What no scheduler could have surpassed. Of several: their sum, without percentiles.
pub(super) fn of_run(run: &RunResult) -> Option<Limit> {
    let totals = run.bounds.iter().map(|bound| bound.bound.total);
    totals.reduce(|sum, one| Limit {
        offered_blocks: sum.offered_blocks + one.offered_blocks,
        offered_bytes: sum.offered_bytes + one.offered_bytes,
        open_blocks: sum.open_blocks + one.open_blocks,
        open_bytes: sum.open_bytes + one.open_bytes,
        in_time_blocks: sum.in_time_blocks + one.in_time_blocks,
        in_time_bytes: sum.in_time_bytes + one.in_time_bytes,
        latency: None,
    })
}

/// The completion rates by blocks and by packets, if any block was decided.
pub(super) type Reached = (Option<f64>, Option<f64>);

/// A measure of the bound, or of how much of it was reached, by what was reached: the completion rates by blocks
/// and by packets.
pub(super) fn of_limit(count: Count, limit: &Limit, reached: Reached, run: &RunResult) -> Option<f64> {
    let share = |reached: Option<f64>, most: Option<f64>| {
        let most = most.filter(|most| *most > 0.0)?;
        Some(round6(reached? / most))
    };
    match count {
        Count::BoundInTimeRatio => limit.in_time_ratio(),
        Count::BoundInTimeBytesRatio => limit.in_time_bytes_ratio(),
        Count::BoundInTimeBitrate => Some(rate_bps(limit.tally_bytes(), run.duration_us) as f64),
        Count::InTimeOfBound => share(reached.0, limit.in_time_ratio()),
        Count::InTimeBytesOfBound => share(reached.1, limit.in_time_bytes_ratio()),
        _ => None,
    }
}

/// The completion rates of a flow by blocks and by packets.
pub(super) fn reached_by_flow(flow: &FlowResult) -> Reached {
    (flow.total.in_time_ratio(), flow.in_time_bytes_ratio)
}

/// The same of a class.
pub(super) fn reached_by_class(class: &ClassResult) -> Reached {
    (class.tally.in_time_ratio(), class.in_time_bytes_ratio)
}

#[cfg(test)]
mod tests {
    use crate::bound::{Bound, Demand, Supply};
    use crate::measure::{Measure, Subject, View};
    use crate::result::{DirectionBound, sample::run};
    use squall_net::{Direction, LinkConfig, PathConfig, RateConfig};

    #[test]
    fn shares_are_of_what_was_possible() {
        let link = LinkConfig { rate: RateConfig::Fixed("8mbps".parse().unwrap()), ..LinkConfig::default() };
        let paths = [PathConfig::symmetric("only", link)];
        let supply = Supply::of(&paths, 1, 1_000_000, Direction::Down).unwrap();
        let block = Demand { release_us: 0, size: 200_000, deadline_us: Some(100_000), priority: 0 };
        let bound = Bound::of(&supply, &[block]);
        let mut run = run("minrtt", 1);
        let reached = run.flows[0].in_time_bytes_ratio.unwrap();
        run.flows[0].bound = Some(bound.total);
        run.bounds = vec![DirectionBound { direction: Direction::Down, bound }];
        let of = |name: &str| {
            let measure: Measure = name.parse().unwrap();
            Subject::flow("camera").measure(measure, View::default(), &run)
        };
        let most = of("bound_in_time_bytes_ratio").unwrap();
        assert!((0.4..0.5).contains(&most), "half of it, less the headers: {most}");
        assert_eq!(of("in_time_bytes_of_bound"), Some((reached / most * 1e6).round() / 1e6));
        assert_eq!(of("bound_in_time_ratio"), Some(0.0));
        assert_eq!(of("in_time_of_bound"), None, "nothing was possible");
        assert_eq!(
            Subject::RUN.measure("bound_in_time_bytes_ratio".parse().unwrap(), View::default(), &run),
            Some(most)
        );
    }
}
