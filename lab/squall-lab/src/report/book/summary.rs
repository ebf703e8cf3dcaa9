//! The numbers behind the figures: a row for each cell, flow and scheduler.

use super::Chapter;
use super::results::distinct;
use crate::estimate::Estimate;
use crate::experiment::Point;
use crate::measure::{Measure, Subject};
use crate::report::html;
use crate::summary::{Column, Table};

/// More rows than these are shown on demand.
const MANY: usize = 12;

/// What is shown of each flow: heading, unit, measure, factor, decimals, and whether with its interval.
const SHOWN: [(&str, &str, &str, f64, usize, bool); 8] = [
    ("in time", "%", "in_time_ratio", 100.0, 1, true),
    ("bytes in time", "%", "in_time_bytes_ratio", 100.0, 1, true),
    ("limit", "%", "bound_in_time_bytes_ratio", 100.0, 1, false),
    ("latency 50 %", "ms", "p50_latency", 1e-3, 1, false),
    ("99 %", "ms", "p99_latency", 1e-3, 1, true),
    ("99.9 %", "ms", "p999_latency", 1e-3, 1, false),
    ("waiting 50 %", "ms", "p50_waiting", 1e-3, 1, false),
    ("longest", "ms", "max_waiting", 1e-3, 0, false),
];

/// The table, folded if it is long.
pub(super) fn text(chapter: &Chapter) -> String {
    let table = table(chapter);
    if table.rows.is_empty() {
        return String::new();
    }
    let open = if table.rows.len() > MANY { "" } else { " open" };
    format!("<details{open}><summary>Numbers</summary>\n{}</details>\n", html::table(&table))
}

fn table(chapter: &Chapter) -> Table {
    let (axes, flows, paths) = (chapter.axes(), flows(chapter), paths(chapter));
    let several = flows.len() > 1;
    let mut columns = vec![Column::text("scheduler")];
    columns.extend(axes.iter().map(|axis| Column::text(&axis.name)));
    columns.extend(several.then(|| Column::text("flow")));
    columns.extend(SHOWN.iter().map(|(name, unit, ..)| Column::number(name, unit)));
    columns.extend(paths.iter().map(|path| Column::number(path, "%")));
    columns.push(Column::number("sent again", "%"));
    let mut rows = Vec::new();
    for cell in chapter.results().cells(&Point::new()) {
        for flow in &flows {
            for scheduler in chapter.results().schedulers() {
                if chapter.results().at(cell).all(|record| record.run.scheduler != scheduler) {
                    continue;
                }
                let mut row = vec![scheduler.to_owned()];
                row.extend(axes.iter().map(|axis| cell.get(&axis.name).cloned().unwrap_or_default()));
                row.extend(several.then(|| (*flow).to_owned()));
                row.extend(numbers(chapter, scheduler, cell, flow, &paths));
                rows.push(row);
            }
        }
    }
    let title = "Means over the seeds, some ± half of the 95 % interval; under the names of paths, the share of the flow’s \
        data that they brought";
    Table { title: title.into(), columns, rows }
}

fn numbers(chapter: &Chapter, scheduler: &str, at: &Point, flow: &str, paths: &[&str]) -> Vec<String> {
    let estimate = |subject: &Subject, measure: &str| {
        let measure: Measure = measure.parse().expect("is the name of one");
        chapter.results().estimate(scheduler, at, subject, measure)
    };
    let share = |subject: &Subject, measure: &str| show(estimate(subject, measure), (100.0, 1, false));
    let own = Subject::flow(flow);
    let mut cells: Vec<String> = SHOWN
        .iter()
        .map(|(_, _, measure, factor, decimals, sure)| {
            show(estimate(&own, measure), (*factor, *decimals, *sure))
        })
        .collect();
    cells.extend(paths.iter().map(|path| {
        let here = Subject { path: Some((*path).to_owned()), ..own.clone() };
        share(&here, "path_ratio")
    }));
    cells.push(share(&Subject::RUN, "retransmission_ratio"));
    cells
}

fn show(all: Option<Estimate>, (factor, decimals, with_interval): (f64, usize, bool)) -> String {
    let Some(all) = all else { return "–".into() };
    let half = all.half.filter(|_| with_interval);
    let half = half.map_or(String::new(), |half| format!(" ± {:.decimals$}", half * factor));
    format!("{:.decimals$}{half}", all.mean * factor)
}

/// The flows that claims are about, or all.
fn flows(chapter: &Chapter) -> Vec<&str> {
    let claims = chapter.experiment.iter().flat_map(|experiment| &experiment.claims);
    let judged = distinct(claims.filter_map(|claim| claim.subject.flow.as_deref()));
    let all = chapter.records.iter().flat_map(|record| &record.run.flows);
    if judged.is_empty() { distinct(all.map(|flow| flow.name.as_str())) } else { judged }
}

fn paths(chapter: &Chapter) -> Vec<&str> {
    distinct(chapter.records.iter().flat_map(|record| &record.run.paths).map(|path| path.name.as_str()))
}
