//! The halves of a demo side by side: a table, and where which one was better.

use squall_lab::{
    result::PathResult,
    table::{Column, Table},
};
use squall_net::RelayReport;

use super::{ladder::FOLLOW, verdict::Judged};

type Measure = (&'static str, fn(&Judged) -> String);

/// A line for each measure, as there are many of them and few schedulers.
const MEASURES: [Measure; 17] = [
    ("frames sent", |half| half.play.frames.sent.to_string()),
    ("frames in time", |half| {
        let frames = &half.play.frames;
        format!("{} ({:.1} %)", frames.in_time, 100.0 * frames.in_time as f64 / frames.sent.max(1) as f64)
    }),
    ("frames late / never", |half| format!("{} / {}", half.play.frames.late, half.play.frames.missing)),
    ("frames shown", |half| half.play.frames.shown.to_string()),
    ("shown per second", |half| format!("{:.1}", half.play.fps.mean)),
    ("in the worst second", |half| half.play.fps.min.to_string()),
    ("freezes", |half| half.play.stalls.count.to_string()),
    ("time frozen", |half| format!("{:.2} s", half.play.stalls.total_us as f64 / 1e6)),
    ("longest gap", |half| milliseconds(longest_gap_us(half))),
    ("latency p50", |half| milliseconds(half.play.latency.p50_us)),
    ("latency p95", |half| milliseconds(half.play.latency.p95_us)),
    ("latency p99", |half| milliseconds(half.play.latency.p99_us)),
    ("latency max", |half| milliseconds(half.play.latency.max_us)),
    ("PSNR of pictures", |half| format!("{:.1} dB", half.quality.psnr_y.mean)),
    ("PSNR, worst 10 %", |half| format!("{:.1} dB", half.quality.psnr_y.p10)),
    ("packets lost in outages", |half| lost_in_outages(&half.relay).to_string()),
    ("alerts of radios", |half| {
        half.result.paths.iter().map(|path| path.alerts.len()).sum::<usize>().to_string()
    }),
];

/// One measure that halves are judged by.
struct Judgement {
    name: &'static str,
    of: fn(&Judged) -> u64,
    more_is_better: bool,
}

/// What a viewer feels, and what it cost.
const JUDGEMENTS: [Judgement; 6] = [
    Judgement { name: "frames in time", of: |half| half.play.frames.in_time, more_is_better: true },
    Judgement { name: "freezes", of: |half| half.play.stalls.count, more_is_better: false },
    Judgement { name: "time frozen", of: |half| half.play.stalls.total_us, more_is_better: false },
    Judgement { name: "longest gap", of: longest_gap_us, more_is_better: false },
    Judgement {
        name: "packets lost in outages",
        of: |half| lost_in_outages(&half.relay),
        more_is_better: false,
    },
    Judgement { name: "metered bytes", of: |half| half.metered_bytes, more_is_better: false },
];

/// All measures of all halves.
pub(super) fn table(judged: &[Judged]) -> Table {
    let names = judged.iter().map(|half| Column::number(&half.result.scheduler, ""));
    let row = |name: &str, cell: &dyn Fn(&Judged) -> String| {
        std::iter::once(name.to_owned()).chain(judged.iter().map(cell)).collect::<Vec<_>>()
    };
    let mut rows: Vec<_> = MEASURES.iter().map(|(name, measure)| row(name, measure)).collect();
    for (index, path) in judged.iter().take(1).flat_map(|half| &half.result.paths).enumerate() {
        rows.push(row(&format!("sent over {}", path.name), &|half| {
            format!("{:.1} MB", bytes(&half.result.paths[index]) as f64 / 1e6)
        }));
    }
    rows.push(row("emulation late, p99", &|half| milliseconds(half.relay.live.slip.p99)));
    Table {
        title: "The same video at the same time over the same links".to_owned(),
        columns: std::iter::once(Column::text("")).chain(names).collect(),
        rows,
    }
}

/// Where each of two halves was better that sent the same, in a line each; nothing about more or fewer than two.
pub(super) fn verdict(judged: &[Judged]) -> Vec<String> {
    let same: Vec<_> = judged.iter().filter(|half| !half.result.scheduler.ends_with(FOLLOW)).collect();
    let [first, second] = same[..] else { return Vec::new() };
    let values = JUDGEMENTS.map(|one| (one.name, (one.of)(first), (one.of)(second), one.more_is_better));
    sentences([&first.result.scheduler, &second.result.scheduler], &values)
}

/// Names, values of both halves, and whether more is better.
type Values<'a> = (&'a str, u64, u64, bool);

fn sentences(schedulers: [&str; 2], values: &[Values<'_>]) -> Vec<String> {
    let named = |is_meant: &dyn Fn(&Values<'_>) -> bool| {
        values.iter().filter(|one| is_meant(one)).map(|one| one.0).collect::<Vec<_>>().join(", ")
    };
    let first = named(&|(_, a, b, more)| if *more { a > b } else { a < b });
    let second = named(&|(_, a, b, more)| if *more { a < b } else { a > b });
    let even = named(&|(_, a, b, _)| a == b);
    [
        (format!("better with {}", schedulers[0]), first),
        (format!("better with {}", schedulers[1]), second),
        ("even".to_owned(), even),
    ]
    .into_iter()
    .filter(|(_, names)| !names.is_empty())
    .map(|(words, names)| format!("{words}: {names}"))
    .collect()
}

/// Datagrams that died because a link was out, in both directions.
pub(super) fn lost_in_outages(relay: &RelayReport) -> u64 {
    let links = relay.live.paths.iter().flat_map(|path| [&path.up, &path.down]);
    links.map(|link| link.dropped.outage.packets).sum()
}

/// UDP payload in both directions.
pub(super) fn bytes(path: &PathResult) -> u64 {
    path.totals.wire_bytes_down + path.totals.wire_bytes_up
}

/// The longest time in which no frame arrived, in microseconds.
fn longest_gap_us(half: &Judged) -> u64 {
    half.result.flows.iter().map(|flow| flow.longest_gap_us).max().unwrap_or(0)
}

fn milliseconds(us: u64) -> String {
    format!("{:.1} ms", us as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_better_one_is_named_for_each_measure() {
        let values = [("frames", 9, 10, true), ("freezes", 3, 3, false), ("gap", 7, 8, false)];
        let said = sentences(["a", "b"], &values);
        assert_eq!(said, ["better with a: gap", "better with b: frames", "even: freezes"]);
        assert_eq!(sentences(["a", "b"], &values[1..2]), ["even: freezes"]);
    }
}
