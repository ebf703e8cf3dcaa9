//! Results of claims for the terminal.

use squall_lab::{
    experiment::{Finding, OnStock, Record, Verdict},
    table::{self, Column, Table},
};
use squall_terminal::wrap;

use crate::findings::{found, sentence};

/// Formats failed checks, findings of claims that do not hold, and all claims.
pub(super) fn text(findings: &[Finding], failed: &Table) -> String {
    let mut text = String::new();
    if !failed.rows.is_empty() {
        text.push_str(&table::render(failed));
        text.push('\n');
    }
    let open = |finding: &&Finding| {
        !matches!(finding.verdict, Verdict::Holds | Verdict::Exceeds) && !finding.finding.is_empty()
    };
    for (place, finding) in findings.iter().filter(open).enumerate() {
        if place == 0 {
            text.push_str("Where claims do not hold, and why\n\n");
        }
        let claim = format!("{}.", finding.says);
        text.push_str(&wrap::wrap(&format!("{}: ", finding.id), 4, &claim, wrap::width()));
        text.push_str(&wrap::wrap("    ", 4, &format!("{}.", sentence(&finding.finding)), wrap::width()));
    }
    if !text.is_empty() {
        text.push('\n');
    }
    let with_stock = findings.iter().any(|finding| finding.stock.is_some());
    let row = |finding: &Finding| {
        let cells = [finding.id.clone(), finding.says.clone(), finding.expected.clone(), found(finding)];
        let stock = || finding.stock.as_ref().map_or("", |stock| stock.verdict.as_str());
        let verdicts = std::iter::once(finding.verdict.as_str()).chain(with_stock.then(stock));
        cells.into_iter().chain(verdicts.map(str::to_owned)).collect()
    };
    let columns = ["experiment", "claim", "claimed", "here", "", "stock baseline"];
    let columns =
        columns[..columns.len() - usize::from(!with_stock)].iter().copied().map(Column::text).collect();
    let rows = findings.iter().map(row).collect();
    text += &table::render(&Table { title: "What is claimed, and what was measured".into(), columns, rows });
    text + &sum(findings)
}

/// Counts the claims by verdict.
fn sum(findings: &[Finding]) -> String {
    let count = |kind| findings.iter().filter(|finding| finding.verdict == kind).count();
    let counted = Verdict::ALL.map(|kind| (kind, count(kind)));
    let counted = counted.iter().filter(|(_, count)| *count > 0);
    let parts: Vec<String> = counted.map(|(kind, count)| format!("{count} {}", kind.of(*count))).collect();
    let plural = if findings.len() == 1 { "" } else { "s" };
    let stock = OnStock::of(findings)
        .map_or(String::new(), |on_stock| format!("; against stock baselines {on_stock} hold"));
    format!("{} claim{plural}: {}{stock}\n", findings.len(), parts.join(", "))
}

/// Returns the failed checks of every run at every point.
pub(super) fn failed_checks(records: &[Record]) -> Table {
    let mut rows = Vec::new();
    for run in records.iter().map(|record| &record.run) {
        for verdict in run.checks.iter().filter(|verdict| !verdict.pass) {
            let head = [run.scenario.clone(), run.scheduler.clone(), run.seed.to_string()];
            let cells = [&verdict.check, &verdict.measured, &verdict.limit].map(String::clone);
            rows.push(head.into_iter().chain(cells).collect());
        }
    }
    let columns = ["experiment", "scheduler", "seed", "check", "measured", "limit"].map(Column::text).into();
    Table { title: "Checks that failed".into(), columns, rows }
}
