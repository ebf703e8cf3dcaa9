//! Figures as tables, for a terminal and for a page.

use squall_lab::{
    statistics::Estimate,
    table::{Column, Table, render},
};
use squall_units::format;

use crate::figures::Figures;

/// Returns a table for each scenario and stream, for a terminal.
pub fn text(figures: &[Figures]) -> String {
    tables(figures).iter().map(|table| render(table) + "\n").collect()
}

/// Line before the figures of a page: the text before it stays when the figures are measured again.
pub const MARK: &str = "<!-- figures -->";

/// Returns the figures for a page, after the text of `page` before the line `<!-- figures -->`;
/// `about` says where and when they were measured, and which were omitted.
pub fn markdown(page: &str, about: &[String], figures: &[Figures]) -> String {
    let before = page.split_once(MARK).map_or("", |(before, _)| before);
    let mut text = format!("{before}{MARK}\n\n");
    for line in about {
        text.push_str(&format!("- {line}\n"));
    }
    text.push('\n');
    for Table { title, columns, rows } in tables(figures) {
        text.push_str(&format!("### {title}\n\n"));
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        text.push_str(&line(columns.iter().map(Column::heading).collect()));
        text.push_str(&line(
            columns.iter().map(|column| if column.numeric { "---:" } else { "---" }.into()).collect(),
        ));
        for row in rows {
            text.push_str(&line(row));
        }
        text.push('\n');
    }
    text.trim_end().to_owned() + "\n"
}

fn tables(figures: &[Figures]) -> Vec<Table> {
    let mut groups: Vec<(String, Vec<&Figures>)> = Vec::new();
    for one in figures {
        let title = format!("{}, {}", one.scenario, format::rate(one.stream.rate_bps as f64));
        match groups.iter_mut().find(|(known, _)| *known == title) {
            Some((_, group)) => group.push(one),
            None => groups.push((title, vec![one])),
        }
    }
    groups.into_iter().map(|(title, group)| table(title, &group)).collect()
}

/// Builds a table with the bound and a row for each transport.
fn table(title: String, group: &[&Figures]) -> Table {
    let mut transports: Vec<&str> = Vec::new();
    for one in group {
        if !transports.contains(&one.transport.as_str()) {
            transports.push(&one.transport);
        }
    }
    let of =
        |transport: &str| group.iter().copied().filter(|one| one.transport == transport).collect::<Vec<_>>();
    let mut rows = vec![bound(group)];
    rows.extend(transports.into_iter().map(|transport| row(&of(transport))));
    Table { title, columns: columns(group[0]), rows }
}

/// Latencies that are compared with the bound's: the median and the tail.
const OVER_BOUND: [(usize, &str); 3] = [(0, "p50"), (2, "p99"), (3, "p99.9")];

fn columns(one: &Figures) -> Vec<Column> {
    let mut columns = vec![Column::text("")];
    columns.extend(["p50", "p95", "p99", "p99.9"].map(|name| Column::number(name, "ms")));
    columns.extend(["in 150 ms", "in 300 ms"].map(|name| Column::number(name, "%")));
    columns.extend(OVER_BOUND.map(|(_, name)| Column::number(&format!("{name} / bound"), "")));
    columns.extend(["150 ms / bound", "300 ms / bound"].map(|name| Column::number(name, "%")));
    columns.extend(one.link_bytes.iter().map(|(name, _)| Column::number(name, "MB")));
    columns.push(Column::number("CPU", "s"));
    columns
}

/// Row of the clairvoyant bound.
fn bound(runs: &[&Figures]) -> Vec<String> {
    let mut row = vec!["bound".to_owned()];
    row.extend((0..4).map(|i| latency(runs, |one| one.best.latency_us[i])));
    row.extend([percent(runs, |one| one.best.in_150_ms), percent(runs, |one| one.best.in_300_ms)]);
    row.resize(columns(runs[0]).len(), String::new());
    row
}

/// Row of a transport's valid runs, if there are enough; each run has a different seed.
fn row(all: &[&Figures]) -> Vec<String> {
    let name = &all[0].transport;
    let good: Vec<&Figures> = all.iter().copied().filter(|one| one.invalid.is_none()).collect();
    let mut row = vec![match (good.len(), all.len()) {
        (good, all) if good == all => name.to_owned(),
        (good, all) => format!("{name} (!) {good} of {all}"),
    }];
    if good.len() < ENOUGH.min(all.len()) {
        row.resize(columns(all[0]).len(), "too few".to_owned());
        return row;
    }
    row.extend((0..4).map(|i| latency(&good, |one| one.latency_us[i])));
    row.extend([percent(&good, |one| one.in_150_ms), percent(&good, |one| one.in_300_ms)]);
    row.extend(OVER_BOUND.map(|(i, _)| cell(&good, |one| one.latency_over_bound(i))));
    row.extend([0, 1].map(|i| percent(&good, |one| one.of_bound()[i])));
    let links = 0..all[0].link_bytes.len();
    row.extend(links.map(|i| cell(&good, |one| Some(one.link_bytes[i].1 as f64 / 1e6))));
    row.push(cell(&good, |one| Some(one.cpu_s)));
    row
}

/// Minimum number of valid runs for a mean with its interval, unless fewer were made in all.
const ENOUGH: usize = 3;

fn latency(runs: &[&Figures], us: impl Fn(&Figures) -> Option<u64>) -> String {
    cell(runs, |one| us(one).map(|us| us as f64 / 1e3))
}

fn percent(runs: &[&Figures], share: impl Fn(&Figures) -> f64) -> String {
    cell(runs, |one| Some(share(one) * 100.0))
}

/// Formats the mean of the runs and half of its 95 % confidence interval. If runs lack the value,
/// it states in how many.
fn cell(runs: &[&Figures], value: impl Fn(&Figures) -> Option<f64>) -> String {
    let values: Vec<f64> = runs.iter().filter_map(|one| value(one)).collect();
    match Estimate::of(&values) {
        Some(Estimate { mean, half }) if values.len() == runs.len() => {
            let half = half.map_or(String::new(), |half| format!(" ± {}", format::digits(half)));
            format::digits(mean) + &half
        }
        Some(_) => format!("never in {} of {}", runs.len() - values.len(), runs.len()),
        None => "never".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use squall_versus_stream::Stream;

    use super::*;
    use crate::frames::Best;

    fn one() -> Figures {
        Figures {
            scenario: "calm".to_owned(),
            stream: Stream { rate_bps: 8_000_000, fps: 30 },
            transport: "udp-single".to_owned(),
            seed: 1,
            frames: 30,
            complete: 29,
            latency_us: [Some(20_000), Some(30_000), None, None],
            in_150_ms: 0.5,
            in_300_ms: 0.75,
            best: Best {
                latency_us: [Some(10_000), Some(15_000), Some(20_000), Some(25_000)],
                in_150_ms: 1.0,
                in_300_ms: 0.9375,
            },
            link_bytes: vec![("wifi".to_owned(), 2_000_000)],
            cpu_s: 0.5,
            overflows: 0,
            invalid: None,
            attempts: 1,
        }
    }

    fn cells(figures: &[Figures]) -> Vec<Vec<String>> {
        tables(figures).remove(0).rows
    }

    #[test]
    fn figures_stand_beside_the_bound() {
        let rows = cells(&[one()]);
        let words = |row: usize| rows[row].join(" ");
        assert_eq!(words(0).trim(), "bound 10.0 15.0 20.0 25.0 100 93.8");
        assert_eq!(
            words(1),
            "udp-single 20.0 30.0 never never 50.0 75.0 2.00 never never 50.0 80.0 2.00 0.50"
        );
    }

    #[test]
    fn several_seeds_make_one_row_of_means_and_intervals() {
        let run = |seed, p50, p99, in_300_ms| Figures {
            seed,
            latency_us: [Some(p50), Some(p50), p99, p99],
            in_300_ms,
            ..one()
        };
        let runs = [run(1, 20_000, Some(60_000), 1.0), run(2, 30_000, None, 0.5), run(3, 40_000, None, 0.75)];
        let rows = cells(&runs);
        assert_eq!(rows.len(), 2);
        // 4.303 × 10 / √3, and 4.303 × 25 / √3.
        let expected =
            ["30.0 ± 24.8", "30.0 ± 24.8", "never in 2 of 3", "never in 2 of 3", "50.0 ± 0", "75.0 ± 62.1"];
        assert_eq!(rows[1][1..7], expected);
        assert_eq!(rows[1][7..9], ["3.00 ± 2.48", "never in 2 of 3"]);
    }

    #[test]
    fn runs_that_do_not_count_are_left_out_and_too_few_are_no_mean() {
        let run = |seed, p50, invalid: Option<&str>| Figures {
            seed,
            latency_us: [Some(p50); 4],
            invalid: invalid.map(str::to_owned),
            ..one()
        };
        let mut runs = vec![
            run(1, 20_000, None),
            run(2, 20_000, None),
            run(3, 20_000, None),
            run(4, 900_000, Some("late")),
        ];
        let row = cells(&runs).remove(1);
        assert_eq!(row[..2], ["udp-single (!) 3 of 4", "20.0 ± 0"]);
        runs[2].invalid = Some("late".to_owned());
        let row = cells(&runs).remove(1);
        assert_eq!(row[..3], ["udp-single (!) 2 of 4", "too few", "too few"]);
        assert_eq!(cells(&[run(1, 20_000, None)]).remove(1)[1], "20.0", "one run has no interval");
    }

    #[test]
    fn what_stands_before_the_figures_stays() {
        let one = one();
        let about = ["Measured somewhere".to_owned()];
        let before = "# A page\n\nWords | and | bars.\n\n";
        let first = markdown(&format!("{before}{MARK}\n\nold figures\n"), &about, std::slice::from_ref(&one));
        assert!(
            first.starts_with(&format!("{before}{MARK}\n\n- Measured somewhere\n\n### calm, ")),
            "{first}"
        );
        assert!(first.contains("\n| udp-single | ") && !first.contains("old"), "{first}");
        assert_eq!(markdown(&first, &about, &[one]), first, "once more changes nothing");
        assert_eq!(markdown("", &about, &[]), format!("{MARK}\n\n- Measured somewhere\n"));
    }
}
