//! Conversion between rates and delivery opportunities.

use crate::{
    MAX_OPPORTUNITIES, Micros, Quantity, RecordingError, Row, Supply, mahimahi, supply::PACKET_MICROBITS,
};

/// Returns the opportunities of a link whose rate changes in steps: one at each time by which it
/// has carried another [`PACKET`](crate::PACKET), in whole milliseconds, rounded up.
pub(crate) fn opportunities(supply: &Supply) -> Result<mahimahi::Trace, RecordingError> {
    let count = supply.microbits_until(supply.end()) / PACKET_MICROBITS;
    if count == 0 {
        return Err(RecordingError::Never);
    }
    if count > u128::from(MAX_OPPORTUNITIES) {
        return Err(RecordingError::TooManyOpportunities { count });
    }
    let mut millis = Vec::with_capacity(count as usize);
    let mut due = PACKET_MICROBITS;
    for (step, until) in supply.steps() {
        let after = step.before + u128::from(step.bps) * u128::from(until - step.at);
        while due <= after {
            // The rate is above 0, because the sum grew.
            let within = (due - step.before).div_ceil(u128::from(step.bps)) as Micros;
            millis.push((step.at + within).div_ceil(1_000));
            due += PACKET_MICROBITS;
        }
    }
    mahimahi::Trace::new(millis)
}

/// Returns rows with the mean rate of a list of opportunities in each step.
pub(crate) fn rows(supply: &Supply, step: Micros, rate: Quantity) -> Vec<Row> {
    let starts = (0..).map(|index| index * step).take_while(|at| *at < supply.end());
    let mean = |at: Micros| supply.mean_bps(at..(at + step).min(supply.end())) / 1e6;
    starts.map(|at| Row::new(at).with(rate, mean(at))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Gaps;

    fn steps(rates: &[f64], step: Micros) -> Supply {
        let row = |(at, &rate): (Micros, &f64)| Row::new(at * step).with(Quantity::Down, rate);
        let rows: Vec<Row> = (0..).zip(rates).map(row).collect();
        Supply::of_rows(&rows, rates.len() as Micros * step, step, Quantity::Down, Gaps::Hold).unwrap()
    }

    #[test]
    fn twelve_megabits_are_a_packet_a_millisecond() {
        let trace = opportunities(&steps(&[12.0, 0.0, 6.0], 4_000)).unwrap();
        assert_eq!(trace.millis(), [1, 2, 3, 4, 10, 12]);
        assert_eq!(trace.text(), "1\n2\n3\n4\n10\n12\n");
    }

    #[test]
    fn what_is_too_slow_or_too_fast_is_refused() {
        assert_eq!(opportunities(&steps(&[0.0, 0.001], 1_000_000)), Err(RecordingError::Never));
        let fast = opportunities(&steps(&[1e6], 1_000_000_000));
        assert_eq!(fast, Err(RecordingError::TooManyOpportunities { count: 83_333_333_333 }));
    }

    proptest! {
        #[test]
        fn opportunities_follow_the_rate_within_a_packet(
            rates in prop::collection::vec(prop_oneof![Just(0.0), 0.0..3.0, 0.0..90.0], 1..30),
            step in prop_oneof![Just(100_000u64), 1u64..150_000],
        ) {
            let steps = steps(&rates, step);
            let Ok(trace) = opportunities(&steps) else {
                prop_assert!(steps.microbits_until(steps.end()) < PACKET_MICROBITS);
                return Ok(());
            };
            let list = Supply::of_opportunities(trace.millis().to_vec(), steps.end().div_ceil(1_000) * 1_000);
            for millis in 1..=steps.end() / 1_000 {
                let (of_rate, of_list) =
                    (steps.microbits_until(millis * 1_000), list.microbits_until(millis * 1_000));
                prop_assert!(of_list <= of_rate && of_rate < of_list + PACKET_MICROBITS);
            }
        }

        #[test]
        fn rows_carry_what_the_opportunities_carry(
            mut millis in prop::collection::vec(0u64..3_000, 1..400),
            step in prop_oneof![Just(100_000u64), Just(250_000), Just(1_000_000)],
        ) {
            millis.sort_unstable();
            let end = (millis[millis.len() - 1] + 1) * 1_000;
            let list = Supply::of_opportunities(millis, end);
            let rows = rows(&list, step, Quantity::Down);
            let steps = Supply::of_rows(&rows, end, step, Quantity::Down, Gaps::Hold).unwrap();
            for at in (0..=end / step).map(|n| n * step).chain([end]) {
                // A rate has whole bits per second.
                let (of_list, of_steps) = (list.microbits_until(at), steps.microbits_until(at));
                prop_assert!(of_list.abs_diff(of_steps) <= u128::from(end));
            }
        }
    }
}
