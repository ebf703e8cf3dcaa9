use crate::{COLUMNS, Format as Log};
use proptest::prelude::*;

use super::*;

fn read(name: &str, text: &str, wishes: &Wishes) -> Result<Recording, RecordingError> {
    Recording::parse(Input { name: name.into(), text: text.into() }, wishes)
}

fn told(text: &str, wishes: &Wishes) -> String {
    read("log", text, wishes).expect_err("is refused").to_string()
}

fn column(name: &str) -> Wishes {
    Wishes { column: Some(name.into()), ..Wishes::default() }
}

const BOTH: &str = "\u{feff}time_s,down_mbps,up_mbps,rtt_ms,event\n0,8,2,,\n1,4,,50,ho\n";

#[test]
fn a_table_knows_its_columns_and_its_end() {
    let both = read("log", BOTH, &Wishes::default()).unwrap();
    assert_eq!((both.format(), both.column()), (Format::Csv, Some(Column::Down)));
    assert_eq!(both.columns(), ["down_mbps", "up_mbps", "rtt_ms", "event"]);
    assert_eq!((both.duration(), both.rtts()), (2_000_000, vec![(1_000_000, 50.0)]));
    assert_eq!(both.table(1).unwrap().rows().len(), 2);
    let up = read("log", BOTH, &column("up_mbps")).unwrap();
    assert_eq!((up.column(), up.columns()), (Some(Column::Up), vec!["up_mbps", "rtt_ms", "event"]));
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
    assert_eq!(told(text, &column("down")), "log:1: there is no column \"down\"");
    assert_eq!(
        told("time_s,a_kbps\n0,-1\n", &column("a_kbps")),
        "log:2: a_kbps: -1 is out of range or of the wrong unit"
    );
    assert_eq!(told("1\n", &column("a_kbps")), "log:1: there is no column \"a_kbps\" in mahimahi");
}

#[test]
fn what_is_missing_is_told() {
    let none = Wishes::default();
    assert_eq!(
        told("time_s,up_mbps\n0,1\n", &column("down_mbps")),
        "log:1: there is no rate in down_mbps; there is one in up_mbps"
    );
    assert!(
        told("hello\n", &none)
            .starts_with("log:1: the first line is of no known format; name one of mahimahi, ")
    );
    assert!(
        told("exp,ap,x\n", &Wishes { format: Some(Format::Log(Log::Feup)), column: None })
            .contains("a log of feup")
    );
    assert_eq!(told("5\n4\n", &none), "log:2: 4 ms is earlier than 5 ms on the line before");
}

#[test]
fn the_name_of_a_list_tells_its_direction() {
    let of = |name: &str, wishes: &Wishes| read(name, "1\n2\n", wishes).unwrap().column();
    assert_eq!(of("up/drive.down", &Wishes::default()), Some(Column::Down));
    assert_eq!(of("drive.up.mahi", &Wishes::default()), Some(Column::Up));
    assert_eq!(of("drive.up", &column("down_mbps")), Some(Column::Down));
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
        let wishes = Wishes { format, column: column.map(str::to_owned) };
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
    let error = told("0\n1151151155\n", &Wishes::default());
    assert_eq!(error, "log: it is 13 days long, and at most 7 are read");
    assert_eq!(told("time_s,down_mbps\n0,1\n0,\n", &Wishes::default()), "log: no time passes in it");
}
