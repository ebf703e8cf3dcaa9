//! Figures as tables, for a terminal and for a page.

use squall_lab::{
    summary::{Column, Table},
    table::{format, render},
};

use crate::figures::Figures;

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
    let mut tables: Vec<Table> = Vec::new();
    for one in figures {
        let rate = format::rate(one.stream.rate_bps as f64);
        let title = format!("{}, {rate}", one.scenario);
        let table = match tables.iter().position(|table| table.title == title) {
            Some(known) => &mut tables[known],
            None => {
                tables.push(Table { title, columns: columns(one), rows: Vec::new() });
                tables.last_mut().expect("it was just put there")
            }
        };
        table.rows.push(row(one));
    }
    tables
}

fn columns(one: &Figures) -> Vec<Column> {
    let mut columns = vec![Column::text("")];
    columns.extend(["p50", "p95", "p99", "p99.9"].map(|name| Column::number(name, "ms")));
    columns.extend(["in 150 ms", "in 300 ms"].map(|name| Column::number(name, "%")));
    columns.extend(one.link_bytes.iter().map(|(name, _)| Column::number(name, "MB")));
    columns.push(Column::number("CPU", "s"));
    columns
}

fn row(one: &Figures) -> Vec<String> {
    let mark = if one.invalid.is_some() { " (!)" } else { "" };
    let mut row = vec![format!("{}{mark}", one.contender.name())];
    let latency = |us: &Option<u64>| us.map_or("never".to_owned(), |us| format::digits(us as f64 / 1e3));
    row.extend(one.latency_us.iter().map(latency));
    row.extend([one.in_150_ms, one.in_300_ms].map(|share| format::digits(share * 100.0)));
    row.extend(one.link_bytes.iter().map(|(_, bytes)| format::digits(*bytes as f64 / 1e6)));
    row.push(format::digits(one.cpu_s));
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{contender::Contender, stream::Stream};

    #[test]
    fn what_stands_before_the_figures_stays() {
        let one = Figures {
            scenario: "calm".to_owned(),
            stream: Stream { rate_bps: 8_000_000, fps: 30 },
            contender: Contender::UdpSingle,
            frames: 30,
            complete: 29,
            latency_us: [Some(20_000), Some(30_000), None, None],
            in_150_ms: 0.5,
            in_300_ms: 0.75,
            link_bytes: vec![("wifi".to_owned(), 2_000_000)],
            cpu_s: 0.5,
            overflows: 0,
            invalid: None,
            attempts: 1,
        };
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
