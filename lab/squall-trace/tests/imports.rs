//! Public measurement logs as traces. The logs here are synthetic, in the forms of the published
//! ones.

use squall_trace::{Format, Input, Quantity, Recording, Tech, TraceError, Wishes};

fn input(text: &str) -> Input {
    Input::new("log", text)
}

fn import(format: Option<Format>, inputs: &[Input], wishes: &Wishes) -> Result<Recording, TraceError> {
    Recording::parse(inputs, &Wishes { format, ..wishes.clone() })
}

/// Returns the rows of the trace as text, without the names of the columns.
fn rows(trace: &Recording) -> Vec<String> {
    trace.to_string().lines().skip(1).map(str::to_owned).collect()
}

fn imported(format: Format, text: &str, wishes: &Wishes) -> Vec<String> {
    assert_eq!(Format::detect(text), Some(format));
    rows(&import(None, &[input(text)], wishes).expect("is a log"))
}

fn refused(format: Format, text: &str) -> String {
    import(Some(format), &[input(text)], &Wishes::default()).expect_err("is refused").to_string()
}

fn part(name: &str) -> Wishes {
    Wishes { part: Some(name.to_owned()), ..Wishes::default() }
}

const UCC: &str = "Timestamp,Longitude,Latitude,Speed,Operatorname,CellID,NetworkMode,RSRP,RSRQ,SNR,CQI,RSSI,\
                   DL_bitrate,UL_bitrate,State,PINGAVG,PINGMIN,PINGMAX,PINGSTDEV,PINGLOSS,RAWCELLID\n";

fn ucc(rows: &[(&str, &str)]) -> String {
    let row = |(time, rest): &(&str, &str)| format!("2020.02.29_23.59.{time},-8.5,51.9,0,B,{rest}\n");
    UCC.to_owned() + &rows.iter().map(row).collect::<String>()
}

#[test]
fn seconds_of_ucc_are_merged() {
    let log = ucc(&[
        ("50", "1,LTE,-90,-10,5,8,-60,1000,100,D,-,-,-,-,-,7"),
        ("50", "1,LTE,-91,-11,-,8,-,3000,300,D,71,65,80,6,0,7"),
        ("51", "1,LTE,-200,-11,4,8,-61,2000,0,D,-,-,-,-,-,8"),
        ("52", "1,5G,-95,-11,4,8,-61,2000,0,D,-,-,-,-,100,8"),
        ("53", "1,HSPA+,-80,-11,4,8,-61,500,0,D,-,-,-,-,-,-"),
    ]);
    let expected = [
        "0,2,0.2,71,-91,-11,,,LTE,",
        "1,2,0,,,-11,4,-61,LTE,ho",
        "2,2,0,,-95,-11,4,-61,5G,pingloss=1;tech:LTE>5G",
        "3,0.5,0,,-80,,,,HSPA+,tech:5G>HSPA+",
    ];
    assert_eq!(imported(Format::Ucc, &log, &Wishes::default()), expected);
}

#[test]
fn short_pauses_of_ucc_are_of_the_application_and_long_ones_are_outages() {
    let at = |time, rate| (time, format!("1,LTE,-90,-10,5,8,-60,{rate},10,D,-,-,-,-,-,7"));
    let all =
        [at("40", 2000), at("41", 99), at("42", 0), at("43", 2000), at("44", 0), at("47", 2000), at("55", 0)];
    let log = ucc(&all.each_ref().map(|(time, rest)| (*time, rest.as_str())));
    let trace = import(None, &[input(&log)], &Wishes::default()).expect("is a log");
    let found: Vec<(Option<f64>, String)> = trace
        .rows()
        .iter()
        .map(|row| {
            (row[Quantity::Down], row.events.iter().map(ToString::to_string).collect::<Vec<_>>().join(";"))
        })
        .collect();
    let expected = [
        (Some(2.0), ""),
        (None, "app_idle"),
        (None, "app_idle"),
        (Some(2.0), ""),
        (Some(0.0), "outage"),
        (Some(2.0), ""),
        (None, "gap;app_idle"),
    ];
    assert_eq!(found, expected.map(|(rate, events)| (rate, events.to_owned())));
}

#[test]
fn mistakes_in_ucc_are_reported_with_their_place() {
    let good = "1,LTE,-90,-10,5,8,-60,1000,100,D,-,-,-,-,-,7";
    let cases = [
        (ucc(&[("50", good), ("49", good)]), "log:3: its time is before that of the row above"),
        (ucc(&[("5x", good)]), "log:2: Timestamp: \"2020.02.29_23.59.5x\" is not a date and time"),
        (ucc(&[("50", &good.replace("1000", "fast"))]), "log:2: DL_bitrate: \"fast\" is not a number"),
        (ucc(&[("50", &good.replace("1000", "-5"))]), "log:2: DL_bitrate: -0.005 is not within 0…10000"),
        (ucc(&[("50", &good.replace("LTE", "L,E"))]), "log:2: 22 cells instead of 21"),
        (ucc(&[]), "log: there are no rows"),
        (UCC.replace("SNR", "CINR"), "log:1: there is no column \"SNR\""),
    ];
    for (log, expected) in cases {
        assert_eq!(refused(Format::Ucc, &log), expected);
    }
}

#[test]
fn the_bus_of_kingston_sends_and_receives_alternately() {
    let mut log = "Timestamp,Longitude,Latitude,Speed,Operator,CellID,LAC,LTERSSI,RSRP,RSRQ,SNR,DL_bitrate,\
                   UL_bitrate\n"
        .to_owned();
    let seconds = [
        (0, 7, 20_000, 400),
        // An upload.
        (1, 7, 300, 4000),
        // A pause of the application.
        (2, 7, 0, 0),
        (3, 7, 20_000, 0),
        // An outage, and another cell.
        (4, 9, 0, 0),
        (5, 9, 0, 0),
        (6, 9, 0, 0),
        (7, 9, 0, 0),
        (8, 9, 9_000, 0),
    ];
    for (second, cell, down, up) in seconds {
        log += &format!(
            "2019-12-05 09:02:0{second},-76.4,44.2,3,302610,{cell},56009,-66,-84,-7,2147483647,{down},{up}\n"
        );
    }
    let expected = [
        "0,20,0.4,,-84,-7,,-66,LTE,",
        "1,,4,,-84,-7,,-66,LTE,app_idle",
        "2,,0,,-84,-7,,-66,LTE,app_idle",
        "3,20,0,,-84,-7,,-66,LTE,",
        "4,0,0,,-84,-7,,-66,LTE,ho;outage",
        "5,0,0,,-84,-7,,-66,LTE,outage",
        "6,0,0,,-84,-7,,-66,LTE,outage",
        "7,0,0,,-84,-7,,-66,LTE,outage",
        "8,9,0,,-84,-7,,-66,LTE,",
    ];
    assert_eq!(imported(Format::Kingston, &log, &Wishes::default()), expected);
}

#[test]
fn modems_of_mtu_report_their_own_levels() {
    let nsa = "Time,rsrp(dBm),rsrq(dB),rssi(dBm),nr_rsrp(dBm),nr_rsrq(dB),nr_rssi(dBm),Sent Bytes,RATE(MBit/s)\n\
               Thu Aug 11 23:59:58 UTC 2022,-96,-10,-65,0,0,0,100,15.25\n\
               Fri Aug 12 00:00:01 UTC 2022,-89,-11,-58,-95,-14,-80,200,58.5\n\
               Fri Aug 12 00:00:04 UTC 2022,-140,0,-125,0,0,0,300,0\n";
    let expected = [
        "0,,15.25,,-96,-10,,-65,LTE,",
        "3,,58.5,,-95,-14,,-80,5G-NSA,tech:LTE>5G-NSA",
        "6,,0,,,,,,LTE,tech:5G-NSA>LTE",
    ];
    assert_eq!(imported(Format::Mtu, nsa, &Wishes::default()), expected);
    let lte = "Time,rsrpVal_signal_info(dBm),rsrqVal_signal_info(dB),rssilte_signal_info(dBm),\
               snrVal_signal_info(dB),Sent Bytes,RATE(MBit/s)\n\
               Sat Aug 20 13:29:30 UTC 2022,-94,-13,0,0,100,30\n";
    assert_eq!(imported(Format::Mtu, lte, &Wishes::default()), ["0,,30,,-94,-13,0,,LTE,"]);
    let umts = "Time,ecioVal_signal_info(dB),rssiumts_signal_info(dBm),Sent Bytes,RATE(MBit/s)\n\
                Sat Aug 20 13:29:30 UTC 2022,-12,-76,100,13.75\n";
    assert_eq!(imported(Format::Mtu, umts, &Wishes::default()), ["0,,13.75,,,,,-76,UMTS,"]);
    let none = "Time,Sent Bytes,RATE(MBit/s)\n";
    assert_eq!(refused(Format::Mtu, none), "log:1: there are no columns of 5G, LTE or UMTS levels");
    let said = refused(Format::Mtu, &umts.replace("13:29:30", "noon"));
    assert!(said.starts_with("log:2: Time: \"Sat Aug 20 noon UTC 2022\" is not a time such as"), "{said}");
}

#[test]
fn vehicles_of_cicv5g_send_messages() {
    let log = "pub_time(ms) sub_time(ms) delay(ms) utmX(m) cellid(db) sinr(db) rsrp(db)\n\
               1723188920442 1723188920484 42 329059.9 5C4 7 -93\n\
               1723188920496 1723188920513 17 329059.9 5C5 8 -92\n";
    let expected = ["0,,,42,-93,,7,,5G,", "0.054,,,17,-92,,8,,5G,ho"];
    assert_eq!(imported(Format::Cicv, log, &Wishes::default()), expected);
    let n78 = Wishes { tech: Some(Tech::new("5G-n78").expect("is a word")), ..Wishes::default() };
    assert!(imported(Format::Cicv, log, &n78)[1].ends_with(",5G-n78,ho"));
    assert_eq!(
        refused(Format::Cicv, &log.replace(" 17 ", " soon ")),
        "log:3: delay(ms): \"soon\" is not a number"
    );
}

const SIGCOMM: &str =
    "timestamp,nrStatus,rsrp,nr_ssRsrp,nr_ssSinr,uplink_mbps,Throughput,run_number,network_type,direction\n";

#[test]
fn walks_of_sigcomm_have_levels_while_5g_is_connected() {
    let log = SIGCOMM.to_owned()
        + "2021-01-23 12:40:21,CONNECTED,-74.0,-74.0,4.0,0.52,104.0,7.0,NSA+LTE,downlink\n\
           2021-01-23 12:40:22,NOT_RESTRICTED,-80.0,-80.0,4.0,0.52,0.25,7.0,NSA+LTE,downlink\n\
           2021-01-23 12:50:00,CONNECTED,-60,-61,12,50.75,37.7,8.0,SA only,uplink\n";
    let first = imported(Format::Sigcomm, &log, &part("7"));
    assert_eq!(first, ["0,104,,,-74,,4,,5G-NSA,", "1,0.25,,,,,,,LTE,tech:5G-NSA>LTE;outage"]);
    assert_eq!(imported(Format::Sigcomm, &log, &part("8")), ["0,,50.75,,-61,,12,,5G-SA,"]);
    assert_eq!(refused(Format::Sigcomm, &log), "log: choose a part; its parts are 7, 8");
    let sideways = SIGCOMM.to_owned() + "2021-01-23 12:40:21,CONNECTED,-74,-74,4,0.5,104,7,NSA,sideways\n";
    let said = refused(Format::Sigcomm, &sideways);
    assert_eq!(said, "log:2: direction: \"sideways\" is neither downlink nor uplink");
}

#[test]
fn plain_lines_are_times_and_rates() {
    let log = "3 40.0\n4 0\n4 17\n\n5 12.3456\n";
    let expected = ["0,40,,,,,,,cellular,", "1,0,,,,,,,cellular,outage", "2,12.346,,,,,,,cellular,"];
    assert_eq!(imported(Format::Plain, log, &Wishes::default()), expected);
    let wifi = Wishes { tech: Some(Tech::new("WiFi").expect("is a word")), ..Wishes::default() };
    assert_eq!(imported(Format::Plain, "0\t1\n", &wifi), ["0,1,,,,,,,WiFi,"]);
    assert_eq!(refused(Format::Plain, "0 1\n1 2 3\n"), "log:2: 3 words instead of a time and a rate");
    assert_eq!(refused(Format::Plain, "0 1\n\n1 NaN\n"), "log:3: rate: NaN is not within 0…10000");
}

#[test]
fn the_client_of_feup_receives_several_stations() {
    let head = "senderId,receiverId,systime,channelFreq,isIperfOn,rssiMean,nBytesReceived\n";
    let log = head.to_owned()
        + "ap1,w2,1548778993,2437,0.0,-100.0,0\n\
           ap1,w2,1548778994,2437,1.0,-49.709677,565092\n\
           ap1,w2,1548778995,2437,1.0,-90.5,0\n\
           ap1,w2,1548778996,2437,1.0,-100.0,0\n\
           ap2,w1,1548778993,5180,1.0,-60.0,0\n";
    let first = [
        "0,,,,,,,,WiFi-2.4,app_idle",
        "1,4.521,,,,,,-49.71,WiFi-2.4,",
        "2,0,,,,,,-90.5,WiFi-2.4,outage",
        "3,0,,,,,,,WiFi-2.4,outage",
    ];
    assert_eq!(imported(Format::Feup, &log, &part("ap1-w2")), first);
    // A single second without data is not an outage.
    assert_eq!(imported(Format::Feup, &log, &part("ap2-w1")), ["0,0,,,,,,-60,WiFi-5,"]);
    assert_eq!(refused(Format::Feup, &log), "log: choose a part; its parts are ap1-w2, ap2-w1");
}

fn iw(seconds: f64, said: &str) -> String {
    let nanoseconds = (seconds * 1e9) as u64;
    let phy = serde_json::json!({ "timestamp": nanoseconds, "payload": { "phy": said, "loc": "loc4" } });
    format!("{phy}\n")
}

fn iperf(reverse: u32, seconds: &[(u64, u32)]) -> String {
    let interval = |(index, &(bits, retransmits)): (usize, &(u64, u32))| {
        let sum = serde_json::json!({
            "start": index, "end": index + 1, "bits_per_second": bits, "retransmits": retransmits,
        });
        serde_json::json!({ "streams": [{ "rtt": 63140 }], "sum": sum })
    };
    let intervals: Vec<_> = seconds.iter().enumerate().map(interval).collect();
    let start = serde_json::json!({
        "timestamp": { "timesecs": 1_668_771_552 }, "test_start": { "reverse": reverse },
    });
    serde_json::json!({ "start": start, "intervals": intervals }).to_string()
}

#[test]
fn the_shipyard_is_joined_by_time() {
    let began = 1_668_771_552.0;
    let here = |signal: i32| {
        format!(
            "Connected to 02:00:00:00:00:01 (on wlan0)\n\tSSID: X\n\tfreq: 2442\n\tsignal: {signal} dBm\n"
        )
    };
    let radio = iw(began - 0.4, &here(-87))
        + &iw(began + 0.1, &here(-79))
        + &iw(began + 0.6, &here(-77))
        + &iw(began + 1.5, "Not connected.\n")
        + &iw(began + 2.1, "Not connected.\n")
        + &iw(began + 2.6, &here(-84));
    let transfer = iperf(0, &[(3_741_370, 0), (0, 18), (0, 0), (2_000_000, 1)]);
    let expected = [
        "0,,3.741,63.14,,,,-78,WiFi-2.4,",
        "1,,0,63.14,,,,,WiFi-2.4,retx=18;disassoc;outage",
        "2,,0,63.14,,,,-84,WiFi-2.4,outage",
        "3,,2,63.14,,,,,WiFi-2.4,retx=1",
    ];
    let files = [input(&transfer), input(&radio)];
    for files in [files.clone(), [files[1].clone(), files[0].clone()]] {
        let trace = import(None, &files, &Wishes::default()).expect("are the two");
        assert_eq!(rows(&trace), expected);
    }
    let down = [input(&iperf(1, &[(1_000_000, 0)])), input(&radio)];
    let trace = import(None, &down, &Wishes::default()).expect("are the two");
    assert!(rows(&trace)[0].starts_with("0,1,,63.14,"));
}

#[test]
fn mistakes_in_the_shipyard_are_reported_with_their_place() {
    let refused = |transfer: &str, radio: &str| {
        let files = [input(transfer), input(radio)];
        import(Some(Format::Perama), &files, &Wishes::default()).expect_err("is refused").to_string()
    };
    let (transfer, radio) = (iperf(0, &[(1, 0)]), iw(1.0, "Not connected.\n"));
    assert_eq!(refused(&transfer, &transfer), "log: one file must be of iPerf3 and the other of iw link");
    let said = refused(&transfer, &(radio.clone() + "{\"timestamp\": 1}\n"));
    assert!(said == "log:2: there is no /payload/phy", "{said}");
    let said = refused(&transfer, &(radio.clone() + &iw(2.0, "Connected to X\n\tsignal: loud dBm\n")));
    assert_eq!(said, "log:2: phy: signal: \"loud\" is not a number");
    let said = refused(&transfer.replace("intervals", "interval"), &radio);
    assert!(said == "log: there are no intervals", "{said}");
}

#[test]
fn text_that_is_no_log_never_breaks_an_importer() {
    let odd =
        ["", "\n", "{", "{}", "a b\n", "Timestamp\n", "\u{feff}\n", ",,,\n,,,\n", "0 1\n0 1 2\n", "\"\n"];
    for format in Format::ALL {
        for text in odd {
            let files = vec![input(text); format.files()];
            assert!(import(Some(format), &files, &Wishes::default()).is_err(), "{format}: {text:?}");
        }
    }
}
