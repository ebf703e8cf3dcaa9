//! Trace files: a written file is read again, and errors are reported with their positions.

use proptest::prelude::*;
use squall_signal::{QualityIndex, Span, Technology, WatermarkConfig};
use squall_trace::{
    COLUMNS, Event, Format, Input, Quantity, Recording, Row, SignalSurvey, Tech, TraceError, Wishes,
};

fn read(text: &str) -> Result<Recording, TraceError> {
    let wishes = Wishes { format: Some(Format::Csv), ..Wishes::default() };
    Recording::parse(&[Input::new("t.csv", text)], &wishes)
}

fn parse(text: &str) -> Recording {
    read(text).expect("is a trace")
}

fn refused(text: &str) -> String {
    read(text).expect_err("is refused").to_string()
}

#[test]
fn columns_may_come_in_any_order_and_be_missing() {
    let trace = parse("tech,rssi_dbm,time_s,event\nWiFi-5,-61.5,0,\n\nWiFi-5,,0.5,disassoc;retx=2\n");
    let [first, second] = trace.rows() else { panic!("{trace:?}") };
    assert_eq!((first.at, first[Quantity::Rssi], first.tech.word()), (0, Some(-61.5), "WiFi-5"));
    assert_eq!(second.events, [Event::Disconnected, Event::Retransmits(2)]);
    let readings: Vec<_> = trace.readings().collect();
    assert_eq!(readings.len(), 2);
    assert_eq!((readings[0].technology, readings[0].rssi), (Technology::Wifi, Some(-61.5)));
    assert!(readings[1].disconnected && readings[1].at.micros() == 500_000);
}

#[test]
fn empty_is_not_zero() {
    let trace = parse("time_s,down_mbps,sinr_db\n0,,\n1,0,0\n");
    let [first, second] = trace.rows() else { panic!("{trace:?}") };
    assert_eq!((first[Quantity::Down], first[Quantity::Sinr], first.reading()), (None, None, None));
    assert_eq!((second[Quantity::Down], second[Quantity::Sinr]), (Some(0.0), Some(0.0)));
}

#[test]
fn lines_of_other_systems_are_read() {
    let trace = parse("time_s,rsrp_dbm\r\n0, -90 \r\n1,-91\r\n");
    assert_eq!(trace.rows()[0][Quantity::Rsrp], Some(-90.0));
}

#[test]
fn mistakes_are_reported_with_line_and_column() {
    let head = "time_s,down_mbps,rsrp_dbm,tech,event\n";
    let cases = [
        ("0,1,-90,LTE\n", "t.csv:2: 4 cells instead of 5; the file may be cut off"),
        ("0,1,-90,LTE,,\n", "t.csv:2: 6 cells instead of 5"),
        ("0,1,-90,LTE,\n\n\n1,x,-90,LTE,\n", "t.csv:5: down_mbps: \"x\" is not a number"),
        ("0,inf,-90,LTE,\n", "t.csv:2: down_mbps: \"inf\" is not a number"),
        ("0,-1,-90,LTE,\n", "t.csv:2: down_mbps: -1 is not within 0…10000"),
        ("0,1,2147483647,LTE,\n", "t.csv:2: rsrp_dbm: 2147483647 is not within -200…0"),
        (",1,-90,LTE,\n", "t.csv:2: time_s: is empty"),
        ("-1,1,-90,LTE,\n", "t.csv:2: time_s: -1 is not within 0…1000000000"),
        ("2,1,-90,LTE,\n1.5,1,-90,LTE,\n", "t.csv:3: time_s: 1.5 is before the row above, 2"),
        ("0,1,-90,L>E,\n", "t.csv:2: tech: \"L>E\" is not at most 24 of letters, digits and +-./_"),
        ("0,1,-90,LTE,ho;rain\n", "t.csv:2: event: \"rain\" is not an event; there are ho, "),
        ("0,1,-90,LTE,ho;\n", "t.csv:2: event: \"\" is not an event"),
        ("0,\"1\n2\",-90,LTE,\n", "t.csv:2: down_mbps: \"1\\n2\" is not a number"),
        ("", "t.csv: there are no rows"),
    ];
    for (rows, expected) in cases {
        let said = refused(&format!("{head}{rows}"));
        assert!(said.starts_with(expected), "{rows:?}: {said}");
    }
}

#[test]
fn names_of_columns_must_be_known_and_once() {
    assert!(refused("").starts_with("t.csv: is empty; "));
    assert_eq!(refused("down_mbps\n1\n"), "t.csv:1: there is no column \"time_s\"");
    assert_eq!(refused("time_s,tech,tech\n"), "t.csv:1: there are two columns \"tech\"");
    let said = refused("time_s,rsrp\n0,-90\n");
    assert!(
        said.starts_with("t.csv:1: there is no column \"rsrp\" in a trace; there are time_s, "),
        "{said}"
    );
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let folder = std::env::temp_dir();
    let said = Input::load(&folder.join("squall-no-such-trace.csv")).expect_err("is not there").to_string();
    assert!(said.contains("squall-no-such-trace.csv: "), "{said}");
    let file = folder.join(format!("squall-trace-{}.csv", std::process::id()));
    std::fs::write(&file, b"time_s\n0\n\xff\n").expect("is written");
    let said = Input::load(&file).expect_err("is no text").to_string();
    std::fs::remove_file(&file).expect("was there");
    assert!(said.ends_with(".csv:3: not UTF-8 text; save it as UTF-8"), "{said}");
}

#[test]
fn readings_drive_the_watermarks_in_virtual_time() {
    let rows: String = (0..40)
        .map(|second| {
            let rssi = if (10..20).contains(&second) { -85 } else { -55 };
            format!("{second},{},{rssi},WiFi\n", 100 + rssi)
        })
        .collect();
    let trace = parse(&format!("time_s,down_mbps,rssi_dbm,tech\n{rows}"));
    let survey = SignalSurvey::of(&trace, WatermarkConfig::default()).expect("the defaults are sound");
    assert_eq!(survey.alerts, [0, 1, 1]);
    assert_eq!(survey.states[2], Span::from_secs(10));
    assert_eq!(
        survey.numbers.iter().map(|(what, _)| *what).collect::<Vec<_>>(),
        [Quantity::Down, Quantity::Rssi]
    );
    assert_eq!(survey.best_lag().map(|lag| lag.seconds), Some(0));
    assert_eq!(trace.lags(&QualityIndex::default()), survey.lags);
}

fn tech() -> impl Strategy<Value = Tech> {
    "[A-Za-z0-9+./_-]{0,24}".prop_map(|word| Tech::new(&word).expect("is a word"))
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        Just(Event::Handover),
        Just(Event::HandoverStart),
        Just(Event::HandoverEnd),
        (tech(), tech()).prop_map(|(from, to)| Event::Changed { from, to }),
        Just(Event::Outage),
        Just(Event::Gap),
        Just(Event::Idle),
        (0.0..=1.0).prop_map(Event::Loss),
        Just(Event::Lost),
        (0.0..=1.0).prop_map(Event::PingLoss),
        any::<u32>().prop_map(Event::Retransmits),
        Just(Event::Disconnected),
    ]
}

fn number(quantity: Quantity) -> impl Strategy<Value = Option<f64>> {
    prop::option::of(quantity.bounds())
}

prop_compose! {
    fn row()(
        at in 0u64..1_000_000_000_000,
        rates in (number(Quantity::Down), number(Quantity::Up), number(Quantity::Rtt)),
        levels in (
            number(Quantity::Rsrp),
            number(Quantity::Rsrq),
            number(Quantity::Sinr),
            number(Quantity::Rssi),
        ),
        tech in tech(),
        events in prop::collection::vec(event(), 0..3),
    ) -> Row {
        let ((down, up, rtt), (rsrp, rsrq, sinr, rssi)) = (rates, levels);
        Row { at, numbers: [down, up, rtt, rsrp, rsrq, sinr, rssi], tech, events }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(mut rows in prop::collection::vec(row(), 1..20)) {
        rows.sort_by_key(|row| row.at);
        let trace = Recording::new(rows).expect("all is within bounds");
        prop_assert_eq!(read(&trace.to_string()), Ok(trace));
    }

    #[test]
    fn any_text_is_read_or_refused_in_one_line(
        cells in prop::collection::vec("[0-9.,;\"=>eE a-z\n-]{0,12}", 0..40),
        columns in prop::sample::subsequence(COLUMNS.to_vec(), 1..=COLUMNS.len()),
    ) {
        let text = format!("{}\n{}", columns.join(","), cells.join(","));
        if let Err(error) = read(&text) {
            let said = error.to_string();
            prop_assert!(said.starts_with("t.csv:"), "{}", said);
            prop_assert_eq!(said.lines().count(), 1, "{}", said);
        }
    }
}
