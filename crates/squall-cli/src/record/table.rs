//! The recording as files: a table for each interface, and a scenario with these tables.

use std::fmt::Write as _;

use squall_signal::{Reading, Technology};

use super::{
    flow::Flow,
    wire::{Bin, Mode},
};

/// Columns of a trace, in the order of docs/signal.md.
const COLUMNS: &str = "time_s,down_mbps,up_mbps,rtt_ms,rsrp_dbm,rsrq_db,sinr_db,rssi_dbm,tech,event";

/// Minimum number of packets of a train that gives a rate.
const MIN_PACKETS: u32 = 3;

/// Maximum rate of a trace. A train that a radio delivers in one piece exceeds it, and has no rate.
const MAX_MBPS: f64 = 10_000.0;

/// One row of a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Row {
    /// Microseconds from the start.
    at: u64,
    pub(super) down: Option<f64>,
    pub(super) up: Option<f64>,
    pub(super) rtt_us: Option<u64>,
    reading: Option<Reading>,
    /// Share of lost packets in both directions.
    loss: f64,
}

/// Returns the rate of a train in Mbit/s: bytes over the time from its first packet to its last.
pub(super) fn sampled(bin: &Bin) -> Option<f64> {
    if bin.packets < MIN_PACKETS || bin.span == 0 {
        return None;
    }
    let bytes = f64::from(bin.bytes) * f64::from(bin.packets - 1) / f64::from(bin.packets);
    Some(8.0 * bytes / f64::from(bin.span)).filter(|rate| *rate <= MAX_MBPS)
}

/// Returns the rows of the steps from `begin` to before `end`, with readings ordered by time.
pub(super) fn rows(flow: &Flow, readings: &[Reading], begin: u32, end: u32) -> Vec<Row> {
    let step = u64::from(flow.plan.step);
    let mut rows = Vec::new();
    let mut read = 0;
    for number in begin..end {
        let end_at = (u64::from(number) + 1) * step;
        let before = read;
        read += readings[read..].partition_point(|reading| reading.at.since_epoch().micros() < end_at);
        // A suspended machine has no measurements.
        if flow.plan.mode == Mode::Sample && !flow.trains.contains_key(&number) {
            continue;
        }
        let (down, up) = (flow.bins.get(&number), flow.theirs.get(&number));
        // The other end could no longer report, perhaps because of an outage.
        let is_up_known = number < flow.until || down.is_none();
        rows.push(Row {
            at: u64::from(number - begin) * step,
            down: rate(flow, down),
            up: rate(flow, up).filter(|_| is_up_known),
            rtt_us: flow.round_trips.get(&number).copied(),
            reading: readings[before..read].last().copied(),
            loss: loss([down, up].into_iter().flatten()),
        });
    }
    rows
}

fn rate(flow: &Flow, bin: Option<&Bin>) -> Option<f64> {
    match (bin, flow.plan.mode) {
        (None, _) => Some(0.0),
        (Some(bin), Mode::Sample) => sampled(bin),
        (Some(bin), Mode::Saturate) => Some(8.0 * f64::from(bin.bytes) / f64::from(flow.plan.step)),
    }
}

fn loss<'b>(bins: impl Iterator<Item = &'b Bin>) -> f64 {
    let (mut lost, mut sent) = (0.0, 0.0);
    for bin in bins {
        lost += f64::from(bin.lost);
        sent += f64::from(bin.lost) + f64::from(bin.packets);
    }
    if sent > 0.0 { lost / sent } else { 0.0 }
}

/// Formats rows as a trace.
pub(super) fn csv(rows: &[Row]) -> String {
    let mut text = format!("{COLUMNS}\n");
    for row in rows {
        let cell = |number: Option<f64>, digits: usize| {
            number
                .filter(|number| number.is_finite())
                .map_or_else(String::new, |number| format!("{number:.digits$}"))
        };
        let reading = row.reading.unwrap_or_default();
        let (down, up) = (cell(row.down, 4), cell(row.up, 4));
        let rtt = cell(row.rtt_us.map(|rtt| rtt as f64 / 1e3), 3);
        let _ = write!(text, "{:.3},{down},{up},{rtt}", row.at as f64 / 1e6);
        for level in [reading.rsrp, reading.rsrq, reading.sinr, reading.rssi] {
            let _ = write!(text, ",{}", cell(level.filter(|_| !reading.disconnected), 1));
        }
        let _ = writeln!(text, ",{},{}", word(reading.technology), events(row).join(";"));
    }
    text
}

fn events(row: &Row) -> Vec<String> {
    let mut events = Vec::new();
    if row.down == Some(0.0) && row.up == Some(0.0) {
        events.push("outage".to_owned());
    }
    if row.loss > 0.0 {
        events.push(format!("loss={:.4}", row.loss));
    }
    if row.reading.is_some_and(|reading| reading.disconnected) {
        events.push("disassoc".to_owned());
    }
    events
}

/// Returns the name of a technology in traces.
fn word(technology: Technology) -> &'static str {
    match technology {
        Technology::Unknown => "",
        Technology::Wifi => "WiFi",
        Technology::Gsm => "GSM",
        Technology::Umts => "UMTS",
        Technology::Lte => "LTE",
        Technology::NrNsa => "5G-NSA",
        Technology::Nr => "5G-SA",
    }
}

/// An interface of a recording, for its scenario.
pub(super) struct Link<'r> {
    pub(super) name: &'r str,
    pub(super) file: &'r str,
    pub(super) rows: &'r [Row],
    /// Smallest round trip in microseconds, including that before the first row.
    pub(super) least_rtt: u64,
}

/// Builds a scenario of the links, with a stream that a user can replace.
pub(super) fn scenario(name: &str, mode: Mode, links: &[Link<'_>], duration: u64) -> String {
    let quoted = |text: &str| toml::Value::from(text).to_string();
    let mut text = format!(
        "# Written by `squall record`; run it with `squall-lab run`. docs/traces.md has the meaning of the tables beside it.\n\n\
         name = {}\ndescription = \"A recording of {} links: {mode}\"\nduration = \"{}ms\"\n\
         schedulers = [\"minrtt\", \"squall\"]\n",
        quoted(name),
        links.len(),
        duration / 1_000,
    );
    for link in links {
        let file = quoted(link.file);
        let _ = write!(text, "\n[[path]]\nname = {}\n", quoted(link.name));
        let _ = match mode {
            Mode::Sample => writeln!(text, "delay = {{ csv = {file}, column = \"rtt_ms\", scale = 0.5 }}"),
            // The round trips of the table include the queue that saturates the link.
            Mode::Saturate => writeln!(text, "delay = \"{}us\"", link.least_rtt / 2),
        };
        for direction in ["down", "up"] {
            let _ = writeln!(
                text,
                "{direction} = {{ rate = {{ csv = {file}, column = \"{direction}_mbps\" }} }}"
            );
        }
        let latest = link.rows.iter().filter_map(|row| row.reading).rfind(has_level);
        if let Some(reading) = latest {
            let technology = quoted(reading.technology.name());
            let _ = writeln!(text, "radio = {{ trace = {{ csv = {file} }}, technology = {technology} }}");
        }
    }
    text.push_str(
        "\n[[flow]]\nname = \"video\"\nkind = \"video\"\nfps = 30\nbitrate = \"4mbps\"\ndeadline = \"300ms\"\n",
    );
    text
}

/// `true` if a scenario can use the reading.
fn has_level(reading: &Reading) -> bool {
    !reading.disconnected && [reading.rsrp, reading.sinr, reading.rssi].iter().any(Option::is_some)
}

#[cfg(test)]
mod tests {
    use squall_signal::Time;

    use super::*;
    use crate::record::wire::Plan;

    fn bin(step: u32, packets: u32, lost: u32, span: u32) -> Bin {
        Bin { step, packets, lost, bytes: packets * 1_250, span }
    }

    fn flow(mode: Mode) -> Flow {
        let mut flow = Flow::new(Plan { mode, step: 500_000, train: 16, is_ending: false }, true, 28);
        for step in [4, 5, 7] {
            flow.trains.insert(step, 16);
        }
        flow.bins = [(4, bin(4, 16, 0, 15_000)), (7, bin(7, 12, 4, 11_000))].into();
        flow.theirs = [(4, bin(4, 16, 0, 30_000))].into();
        flow.round_trips = [(4, 41_250)].into();
        flow.until = 6;
        flow
    }

    fn wifi(ms: u64, rssi: f64) -> Reading {
        Reading::wifi(Time::from_micros(ms * 1_000), rssi)
    }

    #[test]
    fn a_row_has_the_rates_of_its_trains_and_the_last_levels_before_its_end() {
        let gone = Reading::disconnected(Time::from_micros(2_700_000), Technology::Wifi);
        let readings = [wifi(300, -50.0), wifi(2_100, -60.0), wifi(2_400, -61.5), gone];
        let rows = rows(&flow(Mode::Sample), &readings, 4, 8);
        assert_eq!(
            csv(&rows),
            format!(
                "{COLUMNS}\n0.000,10.0000,5.0000,41.250,,,,-61.5,WiFi,\n0.500,0.0000,0.0000,,,,,,WiFi,outage;disassoc\n\
                 1.500,10.0000,,,,,,,,loss=0.2500\n"
            ),
            "no row where no train has left, and no rate where the other end did not report"
        );
    }

    #[test]
    fn a_saturated_step_has_the_rate_of_its_bytes() {
        let rows = rows(&flow(Mode::Saturate), &[], 4, 6);
        let rates: Vec<_> = rows.iter().map(|row| (row.down, row.up)).collect();
        assert_eq!(rates, [(Some(0.32), Some(0.32)), (Some(0.0), Some(0.0))]);
    }

    #[test]
    fn a_train_in_one_piece_has_no_rate() {
        assert_eq!(sampled(&bin(1, 16, 0, 0)), None);
        assert_eq!(sampled(&bin(1, 2, 0, 1_000)), None);
        assert_eq!(sampled(&bin(1, 16, 0, 1)), None);
    }

    #[test]
    fn a_scenario_quotes_names_and_leaves_out_radios_without_levels() {
        let quiet = [Row::default()];
        let loud = [Row { reading: Some(wifi(1, -60.0)), ..Row::default() }];
        let link = |name, rows| Link { name, file: "a b.csv", rows, least_rtt: 41_000 };
        let text =
            scenario("a \"walk\"", Mode::Saturate, &[link("wlan0", &loud), link("eth0", &quiet)], 60_000_000);
        let table: toml::Table = text.parse().expect("is TOML");
        assert_eq!(table["name"].as_str(), Some("a \"walk\""));
        assert_eq!(table["path"][0]["radio"]["technology"].as_str(), Some("wifi"));
        assert_eq!(table["path"][0]["delay"].as_str(), Some("20500us"));
        assert!(table["path"][1].get("radio").is_none());
    }
}
