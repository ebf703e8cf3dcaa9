//! The report: tables and drawings of a set of runs, as one HTML file or as SVG files.
//!
//! The page needs no network and no script, follows the reader's light or dark setting, prints, and can be
//! read without colour: schedulers differ by dash, marker and label too.

pub(crate) mod axis;
mod book;
pub(crate) mod canvas;
mod chart;
mod html;
pub(crate) mod panels;
pub(crate) mod style;
mod tail;
mod timeline;

use std::path::{Path, PathBuf};

use crate::result::RunResult;
use crate::summary::{self, Table, by_scenario};
pub use book::{Book, Chapter, Drawing, Timeline};
use canvas::Figure;

/// Writes one self-contained HTML page about these runs.
///
/// Runs are grouped by scenario. Where a scheduler ran with several seeds, tables show the mean with its
/// confidence interval, drawings over time show the first seed, and the tail drawing shows all.
///
/// # Errors
/// What the system says about `out`.
pub fn write_html(runs: &[RunResult], title: &str, out: &Path) -> std::io::Result<()> {
    std::fs::write(out, html(runs, title))
}

/// The page as text; see [`write_html`].
pub fn html(runs: &[RunResult], title: &str) -> String {
    html::page(title, &body(runs))
}

/// What is on the page below its title.
fn body(runs: &[RunResult]) -> String {
    let series = Series::of(runs);
    let mut body = String::new();
    let mut figures = 0;
    for (scenario, runs) in by_scenario(runs) {
        body.push_str(&format!("<h2>Scenario {}</h2>\n{}", html::escape(scenario), introduction(&runs)));
        push_tables(&mut body, &[summary::blocks(&runs), summary::pictures(&runs), summary::checks(&runs)]);
        let mut push_figures = |body: &mut String, drawn: Vec<Figure>| {
            for figure in drawn {
                figures += 1;
                body.push_str(&html::figure(&figure, &format!("figure{figures}")));
            }
        };
        push_figures(&mut body, flow_figures(&series, &runs));
        body.push_str("<h3>Paths</h3>\n");
        push_tables(&mut body, &[summary::paths(&runs)]);
        body.push_str(&format!("<p class=\"note\">{}</p>\n", html::escape(&timeline::caption())));
        push_figures(&mut body, path_figures(&series, &runs));
    }
    body
}

/// Writes each drawing to a file of its own into `directory`, which must exist; returns the files.
///
/// # Errors
/// What the system says about one of the files.
pub fn write_svgs(runs: &[RunResult], directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for (name, figure) in named_figures(runs) {
        let path = directory.join(name);
        std::fs::write(&path, figure.standalone())?;
        files.push(path);
    }
    Ok(files)
}

/// All drawings, each with the name of a file.
fn named_figures(runs: &[RunResult]) -> Vec<(String, Figure)> {
    let series = Series::of(runs);
    let mut named: Vec<(String, Figure)> = Vec::new();
    for (scenario, runs) in by_scenario(runs) {
        for figure in flow_figures(&series, &runs).into_iter().chain(path_figures(&series, &runs)) {
            let number = named.len() + 1;
            named.push((
                format!("{}-{number:02}-{}.svg", file_name(scenario), file_name(&figure.name)),
                figure,
            ));
        }
    }
    named
}

fn push_tables(body: &mut String, tables: &[Table]) {
    for table in tables.iter().filter(|table| !table.rows.is_empty()) {
        body.push_str(&html::table(table));
    }
}

/// The schedulers of a report in order of first appearance: each looks the same in all its drawings.
struct Series<'a>(Vec<&'a str>);

impl<'a> Series<'a> {
    fn of(runs: &'a [RunResult]) -> Self {
        let all: Vec<&RunResult> = runs.iter().collect();
        Self(summary::by_scheduler(&all).into_iter().map(|(scheduler, _)| scheduler).collect())
    }

    /// The run with the number of its scheduler.
    fn numbered<'r>(&self, run: &'r RunResult) -> (usize, &'r RunResult) {
        let number = self.0.iter().position(|scheduler| *scheduler == run.scheduler);
        (number.expect("every run of a report is in its series"), run)
    }

    /// The first run of each scheduler.
    fn first_seeds<'r>(&self, runs: &[&'r RunResult]) -> Vec<(usize, &'r RunResult)> {
        summary::by_scheduler(runs).iter().map(|(_, runs)| self.numbered(runs[0])).collect()
    }
}

/// The drawings about each flow of one scenario.
fn flow_figures(series: &Series<'_>, runs: &[&RunResult]) -> Vec<Figure> {
    let first = series.first_seeds(runs);
    let all: Vec<(usize, &RunResult)> = runs.iter().map(|run| series.numbered(run)).collect();
    let mut figures = Vec::new();
    for (name, kind) in flows(runs) {
        if kind == "bulk" {
            figures.extend(panels::goodput(&first, name));
        } else {
            figures.extend(tail::figure(&all, name));
            figures.extend(panels::latency(&first, name));
        }
    }
    figures
}

/// The drawings about the paths of one scenario, one per scheduler.
fn path_figures(series: &Series<'_>, runs: &[&RunResult]) -> Vec<Figure> {
    series.first_seeds(runs).into_iter().filter_map(|(number, run)| timeline::figure(number, run)).collect()
}

fn flows<'a>(runs: &[&'a RunResult]) -> Vec<(&'a str, &'a str)> {
    let mut flows: Vec<(&str, &str)> = Vec::new();
    for flow in runs.iter().flat_map(|run| &run.flows) {
        if flows.iter().all(|(name, _)| *name != flow.name) {
            flows.push((&flow.name, &flow.kind));
        }
    }
    flows
}

fn introduction(runs: &[&RunResult]) -> String {
    let Some(first) = runs.first() else { return String::new() };
    let seeds: std::collections::BTreeSet<u64> = runs.iter().map(|run| run.seed).collect();
    let several = seeds.len() > 1;
    let seeds = seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let plural = if several { "seeds" } else { "seed" };
    let note = if several {
        " Tables give the mean over the seeds ± half of its 95 % confidence interval; drawings over time show \
         the first seed."
    } else {
        ""
    };
    format!(
        "<p class=\"note\">{} each, congestion control {}, {plural} {seeds}, squall {}.{note}</p>\n",
        squall_units::format::time(first.duration_us),
        html::escape(&first.congestion),
        html::escape(&first.version)
    )
}

/// Letters, digits and single dashes only.
fn file_name(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::sample::run;

    fn runs() -> Vec<RunResult> {
        ["minrtt", "rr(weighted=true)", "redundant", "storm(alpha=0.5)", "dams", "augur"]
            .map(|name| run(name, 1))
            .into()
    }

    #[test]
    fn page_is_complete_and_self_contained() {
        let page = html(&runs(), "Fading <links>");
        assert!(page.contains("<h1>Fading &lt;links&gt;</h1>"));
        assert!(page.contains("Wi-Fi &lt;5 GHz&gt;") && !page.contains("<5 GHz>"));
        assert_eq!(page.matches("<svg").count(), 8, "tail, latency and one per scheduler");
        assert_eq!(page.matches("<title id=").count(), 8);
        assert!(!page.contains("<script") && !page.contains("src=") && !page.contains("url("));
        assert!(!page.contains("#0100"), "every placeholder colour became a class");
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
    fn a_radio_is_drawn_where_the_session_went_by_it() {
        let page = |name| html(&[run(name, 1)], "t");
        let (with, without) = (page("storm(alpha=0.5)"), page("minrtt"));
        assert!(
            with.contains("0.32") && with.contains("signal: out") && with.contains(timeline::radio::CAPTION)
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
        let directory = std::env::temp_dir().join(format!("squall-lab-svgs-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let files = write_svgs(&runs()[..1], &directory).unwrap();
        let svg = std::fs::read_to_string(&files[0]).unwrap();
        std::fs::remove_dir_all(&directory).unwrap();
        let names: Vec<_> = files.iter().map(|file| file.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(
            names,
            ["fading-01-tail-camera.svg", "fading-02-latency-camera.svg", "fading-03-paths-minrtt-1.svg"]
        );
        assert!(svg.contains("<style>") && svg.contains("xmlns="));
    }
}
