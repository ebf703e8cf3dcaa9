//! Figures as tables, for a terminal and for a page.

use squall_lab::{
    summary::{Column, Table},
    table::render,
};
use squall_units::format;

use crate::{contender::Contender, figures::Figures};

/// A table for each scenario and stream, for a terminal.
pub fn text(figures: &[Figures]) -> String {
    tables(figures).iter().map(|table| render(table) + "\n").collect()
}

/// The line that a page has before the figures: what is before this line stays when they are measured anew.
pub const MARK: &str = "<!-- figures -->";

/// The figures for a page, behind what `page` says before the line `<!-- figures -->`; `about` tells where and when they
/// were measured, and what was left out.
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

/// The bound, and a row for each contender.
fn table(title: String, group: &[&Figures]) -> Table {
    let mut contenders: Vec<Contender> = Vec::new();
    for one in group {
        if !contenders.contains(&one.contender) {
            contenders.push(one.contender);
        }
    }
    let of = |contender| group.iter().copied().filter(|one| one.contender == contender).collect::<Vec<_>>();
    let mut rows = vec![bound(group)];
    rows.extend(contenders.into_iter().map(|contender| row(&of(contender))));
    Table { title, columns: columns(group[0]), rows }
}

/// Those of the latencies that are set beside the bound's: the median, and the ends.
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

/// What the clairvoyant bound has.
fn bound(runs: &[&Figures]) -> Vec<String> {
    let mut row = vec!["bound".to_owned()];
    row.extend((0..4).map(|i| latency(median(runs, |one| one.best.latency_us[i].map(|us| us as f64)))));
    row.extend([mean(runs, |one| one.best.in_150_ms), mean(runs, |one| one.best.in_300_ms)].map(percent));
    row.resize(columns(runs[0]).len(), String::new());
    row
}

/// What the runs of a contender have, each with a seed of its own.
fn row(runs: &[&Figures]) -> Vec<String> {
    let mark = if runs.iter().any(|one| one.invalid.is_some()) { " (!)" } else { "" };
    let mut row = vec![format!("{}{mark}", runs[0].contender.name())];
    row.extend((0..4).map(|i| latency(median(runs, |one| one.latency_us[i].map(|us| us as f64)))));
    row.extend([mean(runs, |one| one.in_150_ms), mean(runs, |one| one.in_300_ms)].map(percent));
    let over = |(i, _)| median(runs, |one: &Figures| one.latency_over_bound(i));
    row.extend(OVER_BOUND.map(over).map(|over| over.map_or("never".to_owned(), format::digits)));
    let of_bound = [mean(runs, |one| one.of_bound()[0]), mean(runs, |one| one.of_bound()[1])];
    row.extend(of_bound.map(percent));
    let links = 0..runs[0].link_bytes.len();
    row.extend(links.map(|i| format::digits(mean(runs, |one| one.link_bytes[i].1 as f64 / 1e6))));
    row.push(format::digits(mean(runs, |one| one.cpu_s)));
    row
}

fn latency(us: Option<f64>) -> String {
    us.map_or("never".to_owned(), |us| format::digits(us / 1e3))
}

fn percent(share: f64) -> String {
    format::digits(share * 100.0)
}

/// The median of the runs, the higher of two in the middle; one that has no such value has the highest.
fn median(runs: &[&Figures], value: impl Fn(&Figures) -> Option<f64>) -> Option<f64> {
    let mut values: Vec<f64> = runs.iter().map(|one| value(one).unwrap_or(f64::INFINITY)).collect();
    values.sort_by(f64::total_cmp);
    Some(values[values.len() / 2]).filter(|value| value.is_finite())
}

fn mean(runs: &[&Figures], value: impl Fn(&Figures) -> f64) -> f64 {
    runs.iter().map(|one| value(one)).sum::<f64>() / runs.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{frames::Best, stream::Stream};

    fn one() -> Figures {
        Figures {
            scenario: "calm".to_owned(),
            stream: Stream { rate_bps: 8_000_000, fps: 30 },
            contender: Contender::UdpSingle,
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
    fn several_seeds_make_one_row() {
        let run = |seed, p50, p99, in_300_ms| Figures {
            seed,
            latency_us: [Some(p50), Some(p50), p99, p99],
            in_300_ms,
            ..one()
        };
        let runs = [run(1, 20_000, Some(60_000), 1.0), run(2, 30_000, None, 0.5), run(3, 90_000, None, 0.75)];
        let rows = cells(&runs);
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[1][1..7], ["30.0", "30.0", "never", "never", "50.0", "75.0"]);
        assert_eq!(rows[1][7..9], ["3.00", "never"]);
        let p99 = cells(&[runs[0].clone(), run(2, 30_000, Some(50_000), 1.0)]).remove(1).remove(3);
        assert_eq!(p99, "60.0");
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
