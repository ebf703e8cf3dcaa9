//! Compares the table of messages, chunks and packets with the record of the run.

use std::{collections::BTreeMap, fs, sync::Arc};

use squall_lab::{Batch, RunResult, Scenario};

/// Losses, reordering, duplicates, an address change, and messages of several packets in one ordered channel.
const SCENARIO: &str = r#"
name = "messages"
duration = "4s"
seeds = [1, 2]
schedulers = ["minrtt", "redundant", "rr(cap=100MB)", "dams", "squall", "minrtt-R+late"]

[[path]]
name = "one"
rate = "8mbps"
delay = "15ms"
loss = "2%/3"
events = [{ at = "2s", rebind = true }]

[[path]]
name = "two, far"
rate = "5mbps"
delay = "40ms"
jitter = { normal = "5ms", reorder = true }
loss = "1%"
duplicate = "1%"

[[flow]]
name = "ordered"
kind = "messages"
size = { uniform = ["100B", "9kB"] }
interval = "9ms"
channels = "one"

[[flow]]
name = "frames"
kind = "video"
fps = 30
bitrate = "1mbps"
deadline = "120ms"
reliable = "key"

[[flow]]
name = "back"
kind = "blocks"
size = "3kB"
interval = "20ms"
direction = "up"
"#;

/// A row by column names.
type Row<'a> = BTreeMap<&'a str, &'a str>;

/// Splits a line; a quoted field keeps its quotes.
fn fields(line: &str) -> Vec<&str> {
    let mut is_quoted = false;
    let is_end = |c: char| {
        is_quoted ^= c == '"';
        c == ',' && !is_quoted
    };
    line.split(is_end).collect()
}

fn number(row: &Row<'_>, column: &str) -> Option<u64> {
    Some(row[column]).filter(|cell| !cell.is_empty()).map(|cell| cell.parse().expect("a number"))
}

fn us(row: &Row<'_>, column: &str) -> u64 {
    number(row, column).unwrap_or_else(|| panic!("no {column} in {row:?}"))
}

fn run(text: &str) -> (Vec<RunResult>, String) {
    let scenario = Scenario::parse(text, "test.toml").unwrap_or_else(|error| panic!("{error}"));
    let file = std::env::temp_dir().join(format!("squall-messages-{}.csv", std::process::id()));
    let batch =
        Batch { messages: Some(file.clone()), ..Batch::of(&scenario, Arc::new(squall_papers::registry())) };
    let runs = batch.run(&|_| {}).expect("runs");
    let table = fs::read_to_string(&file).expect("is written");
    let _ = fs::remove_file(file);
    let plain = Batch { messages: None, ..batch }.run(&|_| {}).expect("runs");
    assert_eq!(runs, plain, "the log changes nothing");
    (runs, table)
}

#[test]
fn the_table_agrees_with_the_record_of_every_run() {
    let (runs, table) = run(SCENARIO);
    let mut lines = table.lines().map(fields);
    let columns = lines.next().expect("names");
    let rows: Vec<Row<'_>> = lines
        .map(|cells| {
            assert_eq!(cells.len(), columns.len(), "{cells:?}");
            columns.iter().copied().zip(cells).collect()
        })
        .collect();
    let mut left = &rows[..];
    for run in &runs {
        let is_own = |row: &Row<'_>| {
            row["scheduler"].trim_matches('"') == run.scheduler && row["seed"] == run.seed.to_string()
        };
        let count = left.iter().take_while(|row| is_own(row)).count();
        let own;
        (own, left) = left.split_at(count);
        check(run, own);
    }
    assert!(left.is_empty(), "rows have the order of the runs");
}

fn check(run: &RunResult, rows: &[Row<'_>]) {
    let level = |level: &'static str| rows.iter().filter(move |row| row["level"] == level);
    for flow in &run.flows {
        let messages: Vec<_> = level("message").filter(|row| row["flow"] == flow.name).collect();
        assert_eq!(messages.len() as u64, flow.total.offered_blocks);
        assert!(messages.iter().enumerate().all(|(index, row)| row["message"] == index.to_string()));
        let delivered: Vec<_> = messages.iter().filter(|row| row["fate"] == "delivered").collect();
        assert_eq!(delivered.len() as u64, flow.total.delivered_blocks, "{} {}", run.scheduler, flow.name);
        let latest = delivered.iter().map(|row| us(row, "delivered_us") - us(row, "offered_us")).max();
        assert_eq!(latest, flow.latency.as_ref().map(|latency| latency.max_us));
        for row in &delivered {
            let order = ["offered_us", "sent_us", "arrived_us", "complete_us", "delivered_us"];
            let times: Vec<u64> = order.iter().map(|column| us(row, column)).collect();
            assert!(times.is_sorted(), "{row:?}");
        }
        if flow.name == "ordered" {
            assert!(delivered.is_sorted_by_key(|row| us(row, "delivered_us")));
        }
    }
    let held = level("message").filter(|row| number(row, "delivered_us") > number(row, "complete_us"));
    assert!(held.count() > 10, "some wait for those before them");
    check_chunks(run, &level("chunk").collect::<Vec<_>>(), rows);
    check_packets(run, &level("packet").collect::<Vec<_>>());
}

fn check_chunks(run: &RunResult, chunks: &[&Row<'_>], rows: &[Row<'_>]) {
    let mut new_bytes: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for row in chunks {
        assert!(
            us(row, "offered_us") <= us(row, "assigned_us") && us(row, "assigned_us") <= us(row, "sent_us")
        );
        *new_bytes.entry((row["flow"], row["message"])).or_default() += number(row, "new_bytes").unwrap_or(0);
    }
    let whole = rows.iter().filter(|row| row["fate"] == "delivered");
    // Parity replaces bytes that never arrive.
    let wrong = whole.filter(|row| new_bytes[&(row["flow"], row["message"])] != us(row, "bytes")).count();
    assert!(wrong == 0 || run.scheduler == "squall", "{}: {wrong}", run.scheduler);
    // A chunk can leave shortly after it was written, so the transit time in the record may be the
    // longer one.
    let fresh = chunks.iter().filter(|row| number(row, "new_bytes").is_some_and(|bytes| bytes > 0));
    let transit: Vec<u64> = fresh.map(|row| us(row, "arrived_us") - us(row, "sent_us")).collect();
    let recorded = run.transit.as_ref().expect("data arrived");
    assert_eq!(transit.len() as u64, recorded.count);
    let mean = transit.iter().sum::<u64>() / recorded.count;
    assert!(recorded.mean_us.abs_diff(mean) <= 4, "{}: {mean} and {recorded:?}", run.scheduler);
    assert!(recorded.min_us.abs_diff(*transit.iter().min().expect("data arrived")) <= 4, "{recorded:?}");
}

fn check_packets(run: &RunResult, packets: &[&Row<'_>]) {
    // Jitter shortens some of the 40 ms of the second path.
    let delay = 15_000;
    for row in packets {
        if let Some(arrived) = number(row, "arrived_us") {
            assert!(arrived >= us(row, "sent_us") + delay, "{row:?}");
        }
        if row["fate"] == "acknowledged" {
            assert!(us(row, "arrived_us") < us(row, "ended_us"), "{row:?}");
        }
    }
    let of = |column: &str, value: &str| packets.iter().filter(|row| row[column] == value).count();
    assert!(of("fate", "lost") > 5 && of("path", "\"two, far\"") > 20, "{}", run.scheduler);
    assert!(of("kind", "copy") > 0 || run.scheduler != "redundant");
    assert!(of("kind", "parity") > 0 || run.scheduler != "squall");
    assert!(of("kind", "retransmission") > 0, "{}", run.scheduler);
}
