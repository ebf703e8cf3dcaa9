//! Messages of the shell at its start and end.

use serde_json::json;
use squall_lab::table::{self, Column, Table};
use squall_net::{LinkStats, PathConfig};
use squall_shell::{Addresses, Family, Prepared, ShellReport};
use squall_units::format;

/// Describes addresses and links.
pub(super) fn welcome(prepared: &Prepared, paths: &[PathConfig], has_server: bool) -> String {
    let all = |of: &dyn Fn(Family) -> String| {
        prepared.families().iter().map(|family| of(*family)).collect::<Vec<_>>().join(", ")
    };
    let mut text =
        format!("server side {} over any link", all(&|family| squall_shell::server(family).to_string()));
    if !has_server {
        text.push_str(", without a program (--server)");
    }
    text.push('\n');
    for (path, (interface, config)) in prepared.interfaces().iter().zip(paths).enumerate() {
        let addresses = Addresses::of(path);
        let metered = if config.metered { ", metered" } else { "" };
        let ends = all(&|family| format!("{} to {}", addresses.client(family), addresses.server(family)));
        text.push_str(&format!("{interface}: {ends}{metered}\n"));
    }
    text
}

/// Formats the statistics of the links as a table.
pub(super) fn table(report: &ShellReport) -> String {
    let mut rows = Vec::new();
    for path in &report.live.paths {
        let directions = [("up", &path.up), ("down", &path.down)];
        for (direction, stats) in directions {
            rows.push(row(format!("{} {direction}", path.name), stats, report.live.elapsed));
        }
        for (direction, stats) in path.bottleneck.iter().flat_map(|(up, down)| [("up", up), ("down", down)]) {
            rows.push(row(format!("{} {direction}, shared", path.name), stats, report.live.elapsed));
        }
    }
    let mut columns = vec![Column::text("link")];
    columns.extend(
        ["packets", "delivered", "mean rate", "full", "lost", "outage", "other", "longest wait"]
            .map(|name| Column::number(name, "")),
    );
    let title = format!(
        "links, {:.1} s; packets late by {:.2} ms (99 of 100)",
        report.live.elapsed as f64 / 1e6,
        report.live.slip.p99 as f64 / 1e3
    );
    table::render(&Table { title, columns, rows })
}

fn row(name: String, stats: &LinkStats, elapsed: u64) -> Vec<String> {
    let dropped = &stats.dropped;
    let rate = stats.delivered.bytes as f64 * 8e6 / elapsed.max(1) as f64;
    vec![
        name,
        stats.pushed.packets.to_string(),
        stats.delivered.packets.to_string(),
        format::rate(rate),
        dropped.queue.packets.to_string(),
        dropped.loss.packets.to_string(),
        dropped.outage.packets.to_string(),
        (dropped.codel + dropped.mtu + dropped.policer).packets.to_string(),
        format::time(stats.queueing_max),
    ]
}

/// Formats the statistics and further details as JSON.
pub(super) fn json(report: &ShellReport, seed: u64, invalid: Option<&str>) -> anyhow::Result<String> {
    let version = env!("CARGO_PKG_VERSION");
    let all = json!({ "squall": version, "seed": seed, "valid": invalid.is_none(), "invalid": invalid, "report": report });
    Ok(serde_json::to_string_pretty(&all)? + "\n")
}
