use proptest::prelude::*;

use super::*;
use crate::{COLUMNS, Input, TraceError, Wishes};

fn read(name: &str, text: &str, wishes: &Wishes) -> Result<Recording, TraceError> {
    Recording::parse(&[Input::new(name, text)], wishes)?.checked_length(name)
}

fn refused(text: &str, wishes: &Wishes) -> String {
    read("log", text, wishes).expect_err("is refused").to_string()
}

fn column(name: &str) -> Wishes {
    Wishes { column: Some(name.into()), ..Wishes::default() }
}

const BOTH: &str = "time_s,down_mbps,up_mbps,rtt_ms,event\n0,8,2,,\n1,4,,50,ho\n";

#[test]
fn a_table_has_its_columns_and_its_end() {
    let both = read("log", BOTH, &Wishes::default()).unwrap();
    assert_eq!((both.format(), both.rate()), (Format::Csv, Some(Quantity::Down)));
    assert_eq!(both.columns(), ["down_mbps", "up_mbps", "rtt_ms", "event"]);
    assert_eq!((both.duration(), both.last(), both.step), (2_000_000, 1_000_000, 1_000_000));
    assert_eq!(both.numbers(Quantity::Rtt).collect::<Vec<_>>(), [(1_000_000, 50.0)]);
    assert_eq!(both.table(1).unwrap().rows().len(), 2);
    let up = read("log", BOTH, &column("up_mbps")).unwrap();
    assert_eq!((up.rate(), up.columns()), (Some(Quantity::Up), vec!["up_mbps", "rtt_ms", "event"]));
    let short = read("log", "time_s,down_mbps\n0,8\n1,4\n1.25,\n", &Wishes::default()).unwrap();
    assert_eq!(short.duration(), 1_250_000);
    assert_eq!(short.table(1).unwrap().rows().len(), 3);
}

#[test]
fn any_column_of_a_table_can_be_the_rate() {
    let text = "time_s,weather,link_kbps\n0,rain,800\n2,sun,\n4,sun,200\n";
    let link = read("log", text, &column("link_kbps")).unwrap();
    assert_eq!((link.columns(), link.duration()), (vec!["down_mbps"], 8_000_000));
    let supply = link.supply(Gaps::Hold).unwrap();
    assert_eq!(supply.mean_bps(0..8_000_000), 500_000.0);
    assert_eq!(refused(text, &column("down")), "log:1: there is no column \"down\"");
    assert_eq!(
        refused("time_s,a_kbps\n0,-1\n", &column("a_kbps")),
        "log:2: a_kbps: -1 is out of range or of the wrong unit"
    );
    assert_eq!(refused("1\n", &column("a_kbps")), "log:1: there is no column \"a_kbps\" in mahimahi");
}

#[test]
fn what_is_missing_is_refused() {
    let none = Wishes::default();
    assert_eq!(
        refused("time_s,up_mbps\n0,1\n", &column("down_mbps")),
        "log:1: there is no rate in down_mbps; there is one in up_mbps"
    );
    assert!(
        refused("hello\n", &none)
            .starts_with("log:1: the first line is of no known format; name one of mahimahi, ")
    );
    assert_eq!(
        refused("{}\n", &Wishes { format: Some(Format::Perama), ..none.clone() }),
        "perama takes two files at a time, not 1"
    );
    assert_eq!(refused("5\n4\n", &none), "log:2: 4 ms is earlier than 5 ms on the line before");
}

#[test]
fn the_name_of_a_list_has_its_direction() {
    let of = |name: &str, wishes: &Wishes| read(name, "1\n2\n", wishes).unwrap().rate();
    assert_eq!(of("up/drive.down", &Wishes::default()), Some(Quantity::Down));
    assert_eq!(of("drive.up.mahi", &Wishes::default()), Some(Quantity::Up));
    assert_eq!(of("drive.up", &column("down_mbps")), Some(Quantity::Down));
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(
        text in prop_oneof![
            "[0-9a-z,. =\n-]{0,60}",
            "(INCOMING|OUTGOING) [A-Z]{4} senderid=[0-9]{1,3}, recv_time=-?[0-9]{1,20}, rtt=[0-9.]{1,4}\n",
            "([0-9]{1,3}[ ,\n]){0,30}",
            "\\[(\\{\"duration_ms\":[0-9.e-]{1,4},\"bandwidth_kbps\":[0-9.e-]{1,4}\\},?){0,4}\\]",
        ],
        format in prop::option::of(prop::sample::select(Format::ALL.to_vec())),
        column in prop::option::of(prop::sample::select(vec!["down_mbps", "up_mbps", "a_kbps"])),
    ) {
        let wishes = Wishes { format, column: column.map(str::to_owned), ..Wishes::default() };
        if let Ok(recording) = read("log", &text, &wishes) {
            prop_assert!(recording.duration() > 0);
        }
    }

    #[test]
    fn a_table_of_a_recording_reads_as_the_same(
        steps in prop::collection::vec((1u64..3_000_000, prop::option::of(0.0..500.0), prop::option::of(1.0..900.0)), 1..20),
    ) {
        let mut at = 0;
        let mut text = COLUMNS.join(",") + "\n0,1,,,,,,,,\n";
        for (step, rate, rtt) in steps {
            at += step;
            let cell = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
            text += &format!("{}.{:06},{},,{},,,,,,\n", at / 1_000_000, at % 1_000_000, cell(rate), cell(rtt));
        }
        let first = read("log", &text, &Wishes::default()).unwrap();
        let again = read("log", &first.table(1).unwrap().to_string(), &Wishes::default()).unwrap();
        prop_assert_eq!(first, again);
    }
}

#[test]
fn a_recording_of_weeks_or_of_no_time_is_refused() {
    assert!(read("log", "0\n604800000\n", &Wishes::default()).is_ok());
    let error = refused("0\n1151151155\n", &Wishes::default());
    assert_eq!(
        error,
        "log:2: 1151151155 ms is later than 7 days; write milliseconds since the start of the recording"
    );
    let interval = "1 5 59.9 10.7 9 1000\n";
    let error = refused(&format!("{interval}1 1151151155 59.9 10.7 9 1000\n"), &Wishes::default());
    assert_eq!(error, "log: it is 13 days long, and at most 7 are read");
    assert_eq!(refused("time_s,down_mbps\n0,1\n0,\n", &Wishes::default()), "log: no time passes in it");
}

fn rows(times: &[Micros]) -> Vec<Row> {
    times.iter().map(|&at| Row::new(at).with(Quantity::Down, 1.0)).collect()
}

#[test]
fn rows_are_checked_with_their_number() {
    let refused = |rows| Recording::new(rows).expect_err("is refused").to_string();
    assert_eq!(refused(Vec::new()), "there are no rows");
    assert_eq!(refused(rows(&[0, 5, 4])), "row 3: time_s: 0.000004 is before the row above, 0.000005");
    let mut bad = rows(&[0, 5]);
    bad[1][Quantity::Rsrp] = Some(2_147_483_647.0);
    assert_eq!(refused(bad), "row 2: rsrp_dbm: 2147483647 is not within -200…0");
}

#[test]
fn a_cut_begins_at_zero() {
    let recording = Recording::new(rows(&[0, 10, 20, 30])).expect("is one");
    let part = recording.cut(10, 10).expect("has rows");
    assert_eq!(part.rows().iter().map(|row| row.at).collect::<Vec<_>>(), [0, 10]);
    assert_eq!(recording.cut(31, 10), None);
}

#[test]
fn the_step_is_the_usual_one() {
    let of = |times: &[Micros]| Recording::new(rows(times)).expect("is one").step;
    assert_eq!(of(&[0]), 1_000_000);
    assert_eq!(of(&[0, 0, 3, 6, 60]), 3);
}

#[test]
fn the_uplink_counts_where_there_is_no_downlink() {
    let up = Row::new(0).with(Quantity::Up, 2.0);
    let only = Recording::new(vec![up.clone()]).expect("is one");
    assert_eq!(only.rates().collect::<Vec<_>>(), [(0, 2.0)]);
    let both = Recording::new(vec![up, Row::new(7).with(Quantity::Down, 3.0)]).expect("is one");
    assert_eq!(both.rates().collect::<Vec<_>>(), [(7, 3.0)]);
}
