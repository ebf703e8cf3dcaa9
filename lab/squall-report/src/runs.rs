//! Report about runs: tables and drawings, scenario by scenario.

use std::collections::BTreeSet;

use maud::{Markup, html};
use squall_lab::result::RunResult;
use squall_lab::summary::{self, by_scenario, by_scheduler};

use crate::page::{self, file_name, note};
use crate::surface::Figure;
use crate::{distribution, panels, timeline};

/// Returns one self-contained HTML page about these runs.
///
/// Runs are grouped by scenario. If a scheduler ran with several seeds, tables show the mean with
/// its confidence interval, drawings over time show the first seed, and the tail drawing shows all.
pub fn html(runs: &[RunResult], title: &str) -> String {
    page::page(title, &body(runs))
}

/// Returns the part of the page below its title.
pub(crate) fn body(runs: &[RunResult]) -> Markup {
    let series = Series::of(runs);
    let mut number = 0;
    let mut show = |figures: Vec<Figure>| {
        html! {
            @for figure in figures {
                ({ number += 1; page::figure(&figure, &format!("figure{number}")) })
            }
        }
    };
    html! {
        @for (scenario, runs) in by_scenario(runs) {
            h2 { "Scenario " (scenario) }
            (note(&introduction(&runs)))
            @for table in [summary::blocks(&runs), summary::pictures(&runs), summary::checks(&runs)] {
                (page::table(&table))
            }
            (show(flow_figures(&series, &runs)))
            h3 { "Paths" }
            (page::table(&summary::paths(&runs)))
            (note(timeline::CAPTION))
            (show(path_figures(&series, &runs)))
        }
    }
}

/// Returns all drawings, each with a file name.
pub(crate) fn named_figures(runs: &[RunResult]) -> Vec<(String, Figure)> {
    let series = Series::of(runs);
    let mut named: Vec<(String, Figure)> = Vec::new();
    for (scenario, runs) in by_scenario(runs) {
        for figure in flow_figures(&series, &runs).into_iter().chain(path_figures(&series, &runs)) {
            let (number, name) = (named.len() + 1, file_name(&figure.name));
            named.push((format!("{}-{number:02}-{name}.svg", file_name(scenario)), figure));
        }
    }
    named
}

/// Schedulers of a report in order of first appearance: each has the same style in all drawings.
struct Series<'a>(Vec<&'a str>);

impl<'a> Series<'a> {
    fn of(runs: &'a [RunResult]) -> Self {
        let all: Vec<&RunResult> = runs.iter().collect();
        Self(by_scheduler(&all).into_iter().map(|(scheduler, _)| scheduler).collect())
    }

    /// Returns the run with the number of its scheduler.
    fn numbered<'r>(&self, run: &'r RunResult) -> (usize, &'r RunResult) {
        let number = self.0.iter().position(|scheduler| *scheduler == run.scheduler);
        (number.expect("every run of a report is in its series"), run)
    }

    /// Returns the first run of each scheduler.
    fn first_seeds<'r>(&self, runs: &[&'r RunResult]) -> Vec<(usize, &'r RunResult)> {
        by_scheduler(runs).iter().map(|(_, runs)| self.numbered(runs[0])).collect()
    }
}

/// Draws the figures about each flow of one scenario.
fn flow_figures(series: &Series<'_>, runs: &[&RunResult]) -> Vec<Figure> {
    let first = series.first_seeds(runs);
    let all: Vec<(usize, &RunResult)> = runs.iter().map(|run| series.numbered(run)).collect();
    let mut flows: Vec<(&str, &str)> = Vec::new();
    for flow in runs.iter().flat_map(|run| &run.flows) {
        if flows.iter().all(|(name, _)| *name != flow.name) {
            flows.push((&flow.name, &flow.kind));
        }
    }
    let of = |(name, kind): (&str, &str)| match kind {
        "bulk" => [panels::goodput(&first, name), None],
        _ => [distribution::of_runs(&all, name), panels::latency(&first, name)],
    };
    flows.into_iter().flat_map(of).flatten().collect()
}

/// Draws the figures about the paths of one scenario, one per scheduler.
fn path_figures(series: &Series<'_>, runs: &[&RunResult]) -> Vec<Figure> {
    series.first_seeds(runs).into_iter().filter_map(|(number, run)| timeline::figure(number, run)).collect()
}

fn introduction(runs: &[&RunResult]) -> String {
    let Some(first) = runs.first() else { return String::new() };
    let seeds: BTreeSet<u64> = runs.iter().map(|run| run.seed).collect();
    let (plural, remark) = match seeds.len() {
        0 | 1 => ("seed", ""),
        _ => (
            "seeds",
            " Tables give the mean over the seeds ± half of its 95 % confidence interval; drawings over time show the \
             first seed.",
        ),
    };
    format!(
        "{} each, congestion control {}, {plural} {}, squall {}.{remark}",
        squall_units::format::time(first.duration_us),
        first.congestion,
        seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
        first.version
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_lab::result::sample::run;

    fn runs() -> Vec<RunResult> {
        ["minrtt", "rr(weighted=true)", "redundant", "storm(alpha=0.5)", "dams", "augur"]
            .map(|name| run(name, 1))
            .into()
    }

    #[test]
    fn page_is_complete_and_self_contained() {
        let page = html(&runs(), "Fading <links>\u{1b}");
        assert!(page.contains("<h1>Fading &lt;links&gt;\u{fffd}</h1>"));
        assert!(page.contains("Wi-Fi &lt;5 GHz&gt;") && !page.contains("<5 GHz>"));
        assert_eq!(page.matches("<svg").count(), 8, "tail, latency and one per scheduler");
        assert_eq!(page.matches("<title id=").count(), 8);
        assert!(!page.contains("<script") && !page.contains("src=") && !page.contains("url("));
    }

    #[test]
    fn a_scheduler_looks_the_same_in_every_scenario() {
        let mut runs = vec![run("minrtt", 1), run("dams", 1), run("dams", 1)];
        runs[2].scenario = "other".into();
        let page = html(&runs, "t");
        let (_, other) = page.split_once("Scenario other").unwrap();
        assert!(other.contains("f-series1") && !other.contains("f-series0"));
    }

    #[test]
    fn a_radio_is_drawn_where_the_session_uses_it() {
        let page = |name| html(&[run(name, 1)], "t");
        let (with, without) = (page("storm(alpha=0.5)"), page("minrtt"));
        assert!(
            with.contains("0.32") && with.contains("signal: out") && with.contains(timeline::RADIO_CAPTION)
        );
        assert!(!without.contains("signal"));
    }

    #[test]
    fn same_runs_same_bytes() {
        assert_eq!(html(&runs(), "t"), html(&runs(), "t"));
    }

    #[test]
    fn nothing_recorded_is_no_figure() {
        let mut run = run("minrtt", 1);
        run.flows.clear();
        run.paths.clear();
        assert!(!html(&[run], "t").contains("<svg"));
        assert!(html(&[], "t").contains("<h1>t</h1>"));
    }

    #[test]
    fn files_are_named_after_what_they_show() {
        let figures = named_figures(&runs()[..1]);
        let names: Vec<&str> = figures.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            ["fading-01-tail-camera.svg", "fading-02-latency-camera.svg", "fading-03-paths-minrtt-1.svg"]
        );
        let svg = figures[0].1.standalone();
        assert!(svg.contains("<style>") && svg.contains("xmlns="));
    }
}
