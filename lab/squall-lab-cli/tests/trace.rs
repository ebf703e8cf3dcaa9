//! `squall-lab trace info`, `squall-lab trace convert` and `squall-lab trace plot`.

mod common;

use std::{fs, path::Path};

use common::{Scratch, failure, run};
use serde_json::Value;

fn stdout(args: &[&str]) -> String {
    let output = run([&["trace"], args].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("is text")
}

fn shown(file: &Path) -> String {
    file.display().to_string()
}

const DRIVE: &[u8] =
    b"time_s,down_mbps,up_mbps,rtt_ms,event\n0,12,2,30,\n1,0.6,2,,ho\n2,0,2,90,\n3,6,2,50,\n";

#[test]
fn a_link_is_summarised_in_figures() {
    let scratch = Scratch::new("trace-info");
    let drive = shown(&scratch.write("drive.csv", DRIVE));
    let text = stdout(&["info", &drive]);
    let expected = format!(
        "{drive}: csv, 4 s\n  columns: down_mbps, up_mbps, rtt_ms, event\n\
         \x20                mean      min      5 %     25 %   median     75 %     95 %     99 %      max\n\
         \x20 down_mbps      4.65        0        0      0.6        6        6       12       12       12\n\
         \x20 rtt_ms                    30       30       50       50       90       90       90       90\n\
         \x20 below 0.5 Mbit/s: 25 % of the time; below 1 Mbit/s: 50 %\n\
         \x20 outages of more than 200 ms: 1, longest 1 s, 1 s in all\n  rows with events: 1 ho\n"
    );
    assert_eq!(text, expected);
    let up: Value =
        serde_json::from_str(&stdout(&["info", "--column", "up_mbps", "--json", &drive])).expect("is JSON");
    assert_eq!((&up["rate"]["column"], &up["rate"]["mean_mbps"]), (&"up_mbps".into(), &2.0.into()));
}

#[test]
fn several_links_are_a_table_or_lines_of_json() {
    let scratch = Scratch::new("trace-table");
    let drive = shown(&scratch.write("drive.csv", DRIVE));
    let walk = shown(&scratch.write("walk.up.mahi", b"0\n1000\n"));
    let table = stdout(&["info", &drive, &walk]);
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[1][1..6], ["csv", "4", "down_mbps", "4.65", "0"]);
    assert_eq!(rows[2][1..6], ["mahimahi", "1", "up_mbps", "0.02", "0.02"]);
    assert_eq!(rows.len(), 4);
    let json = stdout(&["info", "--json", &drive, &walk]);
    let all: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).expect("is JSON")).collect();
    assert_eq!((&all[0]["rtt_ms"]["max"], &all[1]["rtt_ms"]), (&90.0.into(), &Value::Null));
    assert_eq!((&all[1]["format"], &all[1]["rate"]["outages"]["count"]), (&"mahimahi".into(), &1.into()));
}

#[test]
fn every_format_becomes_a_path() {
    let scratch = Scratch::new("trace-formats");
    let saturatr: String = (0..4)
        .map(|n| {
            format!(
                "INCOMING DATA RECEIVED senderid=7, seq={n}, send_time=1, recv_time={n}000000, 1delay=0.1 \n"
            )
        })
        .collect();
    let ucc = "Timestamp,Longitude,Latitude,Speed,Operatorname,CellID,NetworkMode,RSRP,RSRQ,SNR,CQI,RSSI,DL_bitrate,\
               UL_bitrate\n2018.01.27_13.58.29,0,0,0,A,1,LTE,-100,-10,5,9,-80,12000,100\n";
    let logs: [(&str, &str, &str, &str); 7] = [
        ("hsdpa", "5 1000 59.9 10.7 1500000 1000\n", "1000", "12"),
        ("sabre", "[{\"duration_ms\": 1000, \"bandwidth_kbps\": 12000}]", "1000", "12"),
        ("saturatr", &saturatr, "4", "16"),
        ("plain", "time,Mbps\n0,12\n", "1000", "12"),
        ("plain", "0.2 12\n", "1000", "12"),
        ("ucc", ucc, "1000", "12"),
        ("csv", "time_s,down_mbps\n0,12\n1,\n", "1000", "12"),
    ];
    for (index, (format, text, lines, rate)) in logs.into_iter().enumerate() {
        let log = shown(&scratch.write(&format!("log{index}"), text.as_bytes()));
        let info: Value = serde_json::from_str(&stdout(&["info", "--json", &log])).expect("is JSON");
        assert_eq!(info["format"], format, "{text}");
        let out = scratch.path(&format!("log{index}.mahi"));
        let printed = stdout(&["convert", &log, &shown(&out), "--to", "mahimahi", "--from", format]);
        assert!(printed.ends_with(&format!(", {lines} opportunities\n")), "{printed}");
        assert!(fs::read_to_string(&out).expect("was written").lines().count().to_string() == lines);
        let table = stdout(&["convert", &log, "-", "--to", "csv"]);
        assert!(table.starts_with("time_s,down_mbps,") && table.contains(&format!("\n0,{rate},")), "{table}");
    }
}

#[test]
fn a_part_can_be_taken_repeated_and_scaled() {
    let scratch = Scratch::new("trace-part");
    let drive = shown(&scratch.write("drive.csv", DRIVE));
    let part = stdout(&["convert", &drive, "-", "--to", "csv", "--start", "2500ms", "--column", "down_mbps"]);
    assert_eq!(part.lines().skip(1).collect::<Vec<_>>(), ["0,0,,,,,,,,", "0.5,6,,50,,,,,,", "1.5,,,,,,,,,"]);
    let long = ["--start", "3s", "--length", "6s", "--repeat", "--scale", "0.5"];
    let long = stdout(&[&["convert", &drive, "-", "--to", "mahimahi"], long.as_slice()].concat());
    // 3 Mbit/s, then half of 12, 0.6, 0, 6 and 12 Mbit/s.
    assert_eq!(long.lines().count(), 250 + 500 + 25 + 250 + 500);
    assert_eq!((long.lines().next(), long.lines().last()), (Some("4"), Some("6000")));
    let out = shown(&scratch.path("tail.mahi"));
    let printed = stdout(&["convert", &drive, &out, "--to", "mahimahi", "--length", "3s"]);
    let expected =
        "mahimahi, 3 s, 4.2 Mbit/s, 1050 opportunities; it begins again after 2 s, where the last one is\n";
    assert_eq!(printed, format!("{out}: {expected}"));
}

#[test]
fn a_list_becomes_a_table_of_means() {
    let scratch = Scratch::new("trace-list");
    let walk = shown(&scratch.write("walk.down", b"1\n2\n3\n250\n"));
    let table = stdout(&["convert", &walk, "-", "--to", "csv"]);
    assert_eq!(
        table.lines().skip(1).collect::<Vec<_>>(),
        ["0,0.36,,,,,,,,", "0.1,0,,,,,,,,", "0.2,0.24,,,,,,,,", "0.25,,,,,,,,,"]
    );
    assert_eq!(
        stdout(&["convert", &walk, "-", "--to", "csv", "--step", "1s"]).lines().nth(1),
        Some("0,0.192,,,,,,,,")
    );
}

#[test]
fn nothing_is_overwritten_unasked_and_nothing_left_half_done() {
    let scratch = Scratch::new("trace-force");
    let drive = shown(&scratch.write("drive.csv", DRIVE));
    let out = scratch.write("out.mahi", b"precious");
    let error = format!("squall-lab: {} is there already; --force overwrites it", out.display());
    assert_eq!(
        failure(&run(["trace", "convert", &drive, &shown(&out), "--to", "mahimahi"])),
        (error, Some(2))
    );
    assert_eq!(fs::read(&out).expect("is there"), b"precious");
    stdout(&["convert", &drive, &shown(&out), "--to", "mahimahi", "--force"]);
    assert!(fs::read_to_string(&out).expect("is there").starts_with("1\n2\n"));
    let bad = shown(&scratch.write("bad.csv", b"time_s,down_mbps\n0,1\n1,fast\n"));
    let other = scratch.path("other.mahi");
    assert_eq!(failure(&run(["trace", "convert", &bad, &shown(&other), "--to", "mahimahi"])).1, Some(2));
    let mut files: Vec<String> = fs::read_dir(scratch.path(""))
        .expect("is a folder")
        .map(|entry| entry.expect("is there").file_name().to_string_lossy().into_owned())
        .collect();
    files.sort();
    assert_eq!(files, ["bad.csv", "drive.csv", "out.mahi"]);
}

#[test]
fn mistakes_are_reported_in_a_line() {
    let scratch = Scratch::new("trace-bad");
    let drive = shown(&scratch.write("drive.csv", DRIVE));
    let bad = shown(&scratch.write("bad.csv", b"time_s,down_mbps\n0,1\n1,fast\n"));
    let odd = shown(&scratch.write("odd", b"hello\n"));
    let list = shown(&scratch.write("list", b"5\n4\n"));
    let rtts = shown(&scratch.write("rtts.csv", b"time_s,rtt_ms\n0,1\n"));
    let quiet = shown(&scratch.write("quiet.csv", b"time_s,tech\n0,LTE\n"));
    let none = shown(&scratch.path("none/x"));
    let calls: [(&[&str], String); 10] = [
        (&["info", &drive, &bad], format!("{bad}:3: down_mbps: \"fast\" is not a number")),
        (
            &["info", &odd],
            format!("{odd}:1: the first line is of no known format; name one of mahimahi, csv, hsdpa, "),
        ),
        (&["info", &list], format!("{list}:2: 4 ms is earlier than 5 ms")),
        (&["info", &list, "--from", "sabre"], format!("{list}:1: invalid type: integer `5`")),
        (&["info", &none], format!("{none}: ")),
        (&["info", &rtts, "--column", "up_mbps"], format!("{rtts}:1: there is no rate in up_mbps")),
        (&["convert", &rtts, "-", "--to", "mahimahi"], format!("{rtts}: there is no rate in it")),
        (
            &["convert", &drive, "-", "--to", "csv", "--start", "4s"],
            format!("{drive}: it has 4 s, so that nothing"),
        ),
        (
            &["convert", &drive, "-", "--to", "mahimahi", "--scale", "1e-6"],
            format!("{drive}: the link never carries"),
        ),
        (&["plot", &quiet, "-o", "-"], format!("{quiet}: there is neither a rate nor a round trip")),
    ];
    for (args, expected) in calls {
        let (error, code) = failure(&run([&["trace"], args].concat()));
        assert!(error.starts_with(&format!("squall-lab: {expected}")), "{error}");
        assert_eq!((error.lines().count(), code), (1, Some(2)), "{error}");
    }
    let many = [vec!["trace", "plot", "-o", "-"], vec![drive.as_str(); 9]].concat();
    assert_eq!(
        failure(&run(many)),
        ("squall-lab: a picture has room for 8 files, not for 9".to_owned(), Some(2))
    );
    for wrong in
        [["--scale", "0"], ["--length", "0"], ["--step", "1"], ["--from", "pcap"], ["--gaps", "guess"]]
    {
        let output = run([&["trace", "convert", &drive, "-", "--to", "csv"], wrong.as_slice()].concat());
        assert_eq!(failure(&output).1, Some(2), "{wrong:?}");
    }
}

#[test]
fn help_lists_every_format() {
    let help = stdout(&["info", "--help"]);
    for name in ["mahimahi:", "csv:", "hsdpa:", "sabre:", "saturatr:", "plain:", "ucc:", "sigcomm21:"] {
        assert!(help.contains(name), "{name} is not in {help}");
    }
}

#[test]
fn links_are_drawn_together() {
    let scratch = Scratch::new("trace-plot");
    let drive = shown(&scratch.write("drive.csv", DRIVE));
    let walk = shown(&scratch.write("walk.mahi", b"100\n3000\n"));
    let picture = scratch.path("out/links.svg");
    let printed = stdout(&["plot", &drive, &walk, "-o", &shown(&picture)]);
    assert_eq!(printed, format!("picture: {}\n", picture.display()));
    let svg = fs::read_to_string(&picture).expect("was written");
    for words in ["<svg", "drive.csv", "walk.mahi", "Rate in Mbit/s", "Round trip in ms"] {
        assert!(svg.contains(words), "{words} is not in the picture");
    }
}

#[test]
fn a_scenario_takes_what_was_made() {
    let scratch = Scratch::new("trace-scenario");
    let drive = shown(&scratch.write("drive.csv", DRIVE));
    stdout(&["convert", &drive, &shown(&scratch.path("drive.mahi")), "--to", "mahimahi"]);
    stdout(&["convert", &drive, &shown(&scratch.path("half.csv")), "--to", "csv", "--scale", "0.5"]);
    let scenario = scratch.write(
        "links.toml",
        b"name = \"links\"\nduration = \"3s\"\nseeds = [1]\nschedulers = [\"minrtt\"]\n\
          [[path]]\nname = \"a\"\nrate = { mahimahi = \"drive.mahi\" }\ndelay = \"10ms\"\n\
          [[path]]\nname = \"b\"\nrate = { csv = \"half.csv\", column = \"down_mbps\" }\n\
          delay = { csv = \"half.csv\", column = \"rtt_ms\", scale = 0.5 }\n\
          [[flow]]\nname = \"video\"\nkind = \"video\"\nbitrate = \"1mbps\"\nfps = 30\ndeadline = \"200ms\"\n",
    );
    let output = run(["run", &shown(&scenario)]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
