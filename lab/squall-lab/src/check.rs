//! Assertions about results, which make a scenario file a test.

use crate::measure::{Measure, Subject, View};
use crate::result::RunResult;
pub use crate::result::Verdict;

/// One assertion: a measure stays within its limits.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// Subject of the measure.
    pub subject: Subject,
    /// Measure to check.
    pub measure: Measure,
    /// Part and direction of the run.
    pub view: View,
    /// Lower limit in the unit of the measure.
    pub at_least: Option<f64>,
    /// Upper limit in the unit of the measure.
    pub at_most: Option<f64>,
    /// Schedulers that the check applies to, as named in the scenario. Empty: all, even those that
    /// the scenario does not name.
    pub schedulers: Vec<String>,
}

impl Check {
    /// Evaluates the check for a run; `None` if it does not apply to the run's scheduler. A measure
    /// that the run lacks fails.
    pub fn judge(&self, run: &RunResult) -> Option<Verdict> {
        if !self.schedulers.is_empty() && !self.schedulers.contains(&run.scheduler) {
            return None;
        }
        let measured = self.subject.measure(self.measure, self.view, run);
        let within = |value: f64| {
            self.at_least.is_none_or(|limit| value >= limit)
                && self.at_most.is_none_or(|limit| value <= limit)
        };
        Some(Verdict {
            check: format!("{}: {}{}", self.subject.describe(), self.measure, self.view.describe()),
            measured: measured.map_or_else(|| "nothing".into(), |value| self.show(value)),
            limit: self.limit(),
            pass: measured.is_some_and(within),
        })
    }

    fn limit(&self) -> String {
        let least = self.at_least.map(|limit| format!("at least {}", self.show(limit)));
        let most = self.at_most.map(|limit| format!("at most {}", self.show(limit)));
        [least, most].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    fn show(&self, value: f64) -> String {
        self.measure.unit().show(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::sample::run;

    fn check(subject: Subject, measure: &str) -> Check {
        Check {
            subject,
            measure: measure.parse().unwrap(),
            view: View::default(),
            at_least: None,
            at_most: None,
            schedulers: Vec::new(),
        }
    }

    #[test]
    fn a_limit_decides() {
        let run = run("minrtt", 1);
        let flow = Subject::flow(&run.flows[0].name);
        let measured = run.flows[0].completion_rate.unwrap();
        let holds = Check {
            at_least: Some(measured),
            at_most: Some(measured),
            ..check(flow.clone(), "in_time_ratio")
        };
        assert!(holds.judge(&run).unwrap().pass);
        let fails = Check { at_least: Some(measured + 0.01), ..check(flow, "in_time_ratio") };
        let verdict = fails.judge(&run).unwrap();
        assert!(!verdict.pass);
        assert!(verdict.check.ends_with(": in_time_ratio") && verdict.limit.starts_with("at least "));
    }

    #[test]
    fn another_scheduler_is_not_judged() {
        let run = run("minrtt", 1);
        let target = Subject::path(&run.paths[0].name);
        let mut check = Check { schedulers: vec!["redundant".into()], ..check(target, "goodput") };
        assert_eq!(check.judge(&run), None);
        check.schedulers.push("minrtt".into());
        check.view.window_us = Some((1_000_000, 2_000_000));
        check.at_least = Some(1_000_000.0);
        assert!(check.judge(&run).unwrap().pass);
    }

    #[test]
    fn what_was_not_measured_fails() {
        let run = run("minrtt", 1);
        let check = Check { at_most: Some(1.0), ..check(Subject::path("none"), "loss_ratio") };
        let verdict = check.judge(&run).unwrap();
        assert!(!verdict.pass && verdict.measured == "nothing");
    }
}
