//! What was found, for the terminal.

use squall_lab::{
    experiment::{Finding, Record, Verdict},
    summary::{Column, Table},
    table,
};
use squall_terminal::wrap;

use crate::findings::sentence;

/// The checks that failed, what was found to be the reason where claims do not hold, and all claims.
pub(super) fn text(findings: &[Finding], failed: &Table) -> String {
    let mut text = String::new();
    if !failed.rows.is_empty() {
        text.push_str(&table::render(failed));
        text.push('\n');
    }
    let open = |finding: &&Finding| finding.verdict != Verdict::Holds && !finding.finding.is_empty();
    for (place, finding) in findings.iter().filter(open).enumerate() {
        if place == 0 {
            text.push_str("Where claims do not hold, and why\n\n");
        }
        text.push_str(&wrap::wrap(
            &format!("{}: ", finding.id),
            4,
            &format!("{}.", finding.says),
            wrap::width(),
        ));
        text.push_str(&wrap::wrap("    ", 4, &format!("{}.", sentence(&finding.finding)), wrap::width()));
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(&table::render(&verdicts(findings)));
    text.push_str(&sum(findings));
    text
}

fn verdicts(findings: &[Finding]) -> Table {
    let columns = ["experiment", "claim", "claimed", "here", ""].map(Column::text).into_iter().collect();
    let rows = findings.iter().map(|finding| {
        vec![
            finding.id.clone(),
            finding.says.clone(),
            finding.expected.clone(),
            finding.found.clone(),
            finding.verdict.as_str().to_owned(),
        ]
    });
    Table { title: "What is claimed, and what was measured".into(), columns, rows: rows.collect() }
}

/// How many claims there are of each kind.
fn sum(findings: &[Finding]) -> String {
    let counted =
        Verdict::ALL.map(|kind| (kind, findings.iter().filter(|finding| finding.verdict == kind).count()));
    let parts: Vec<String> = counted
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(kind, count)| format!("{count} {}", kind.of(*count)))
        .collect();
    let plural = if findings.len() == 1 { "" } else { "s" };
    format!("{} claim{plural}: {}\n", findings.len(), parts.join(", "))
}

/// The checks of the scenarios that failed, of every run at every point.
pub(super) fn failed_checks(records: &[Record]) -> Table {
    let columns =
        ["experiment", "scheduler", "seed", "check", "measured", "limit"].map(Column::text).into_iter();
    let rows = records.iter().flat_map(|record| {
        let failed = record.run.checks.iter().filter(|verdict| !verdict.pass);
        failed.map(|verdict| {
            vec![
                record.run.scenario.clone(),
                record.run.scheduler.clone(),
                record.run.seed.to_string(),
                verdict.check.clone(),
                verdict.measured.clone(),
                verdict.limit.clone(),
            ]
        })
    });
    Table { title: "Checks that failed".into(), columns: columns.collect(), rows: rows.collect() }
}
