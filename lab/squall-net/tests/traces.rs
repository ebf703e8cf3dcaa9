//! Recorded links in users' formats: `squall-lab trace` and a path of a scenario read a file alike,
//! or reject it with the same message.

use std::path::{Path, PathBuf};

use squall_net::{LinkConfig, RateConfig};
use squall_signal::{RecordedSource, Replay, ReplayError};
use squall_trace::{Gaps, Quantity, Recording, Wishes, read_text};

/// A temporary folder, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("squall-net-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("is made");
        Self(folder)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let file = self.0.join(name);
        std::fs::write(&file, bytes).expect("is written");
        file
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The outcome of a file: the rates in bits per second by time in microseconds, the milliseconds of
/// a list, or the error after the name of the file.
#[derive(Clone, Debug, PartialEq)]
enum Outcome {
    Rates(Vec<(u64, u64)>),
    List(Vec<u64>),
    Refused(String),
}

use Outcome::{List, Rates, Refused};

fn refused(file: &Path, error: &str) -> Outcome {
    let words = error.strip_prefix(&file.display().to_string()).expect("it names the file");
    assert_eq!(words.lines().count(), 1, "{words}");
    Refused(words.to_owned())
}

/// Reads the file like `squall-lab trace info`, `convert` and `plot`.
fn of_trace(file: &Path, wishes: &Wishes) -> Outcome {
    let recording = match Recording::load(file, wishes) {
        Ok(recording) => recording,
        Err(error) => return refused(file, &error.to_string()),
    };
    let list = recording.mahimahi(Gaps::Hold).expect("can be converted");
    if recording.columns() == ["opportunities"] {
        return List(list.millis().to_vec());
    }
    let bps = |mbps: f64| (mbps * 1e6).round() as u64;
    Rates(recording.numbers(Quantity::Down).map(|(at, mbps)| (at, bps(mbps))).collect())
}

/// Reads the file like a path of a scenario with this rate.
fn of_scenario(file: &Path, rate: &str) -> Outcome {
    let mut link: LinkConfig = toml::from_str(&format!("rate = {{ {rate} }}")).expect("is a link");
    if let Err(error) = link.load(Path::new("")) {
        return refused(file, &error.to_string());
    }
    match link.rate {
        RateConfig::Series(series) => {
            Rates(series.steps().iter().map(|(at, rate)| (at.micros(), rate.bps())).collect())
        }
        RateConfig::Mahimahi { trace: Some(trace), .. } => List(trace.millis().to_vec()),
        other => panic!("{other:?}"),
    }
}

fn csv(file: &Path) -> Outcome {
    of_scenario(file, &format!("csv = '{}', column = 'down_mbps'", file.display()))
}

fn mahimahi(file: &Path) -> Outcome {
    of_scenario(file, &format!("mahimahi = '{}'", file.display()))
}

/// The rows of the table that most cases change.
const ROWS: [(&str, &str, &str); 4] =
    [("0.0", "5", "40"), ("0.5", "6.5", "41"), ("1.0", "7", "42"), ("1.5", "8", "43")];

fn table(row: impl Fn((&str, &str, &str)) -> String) -> String {
    format!("time_s,down_mbps,rtt_ms\n{}", ROWS.map(row).concat())
}

fn plain_table() -> String {
    table(|(time, down, rtt)| format!("{time},{down},{rtt}\n"))
}

fn rates() -> Outcome {
    Rates(vec![(0, 5_000_000), (500_000, 6_500_000), (1_000_000, 7_000_000), (1_500_000, 8_000_000)])
}

fn utf16(text: &str, unit: fn(u16) -> [u8; 2]) -> Vec<u8> {
    format!("\u{feff}{text}").encode_utf16().flat_map(unit).collect()
}

fn gzip(text: &str) -> Vec<u8> {
    use std::io::Write as _;
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(text.as_bytes()).expect("is packed");
    packed.finish().expect("is packed")
}

fn wrong(words: &str) -> Outcome {
    Refused(words.to_owned())
}

#[test]
fn tables_are_read_alike_or_refused_alike() {
    let folder = Folder::new("tables");
    let remedy = "write seconds since the start of the recording";
    let semicolons = |decimal: &str| {
        let text = plain_table().replace(',', ";");
        if decimal == "," { text.replace('.', ",") } else { text }
    };
    let cases: Vec<(&str, Vec<u8>, Outcome)> = vec![
        ("plain", plain_table().into(), rates()),
        ("bom_crlf", format!("\u{feff}{}", plain_table().replace('\n', "\r\n")).into(), rates()),
        ("utf16_le", utf16(&plain_table(), u16::to_le_bytes), rates()),
        ("utf16_be", utf16(&plain_table(), u16::to_be_bytes), rates()),
        (
            "utf16_without_a_mark",
            utf16(&plain_table(), u16::to_le_bytes)[2..].to_vec(),
            wrong(":1: a NUL, as UTF-16 without a mark has; save it as UTF-8"),
        ),
        (
            "latin_1",
            b"time_s,down_mbps\n0,5\n1,\xe4\n".to_vec(),
            wrong(":3: not UTF-8 text; save it as UTF-8"),
        ),
        ("gzip", gzip(&plain_table()), rates()),
        (
            "gzip_cut_off",
            gzip(&plain_table())[..40].to_vec(),
            wrong(": compressed by gzip, and cut off or damaged"),
        ),
        (
            "spreadsheet",
            b"PK\x03\x04\x14\0\x06\0\x08".to_vec(),
            wrong(":1: a zip archive or a spreadsheet; unpack it, or export it as text"),
        ),
        ("capitals", plain_table().replace("time_s,down_mbps", "Time_s, Down_Mbps ").into(), rates()),
        ("quoted", table(|(time, down, rtt)| format!("\"{time}\",\"{down}\",\"{rtt}\"\n")).into(), rates()),
        (
            "quoted_names",
            plain_table().replace("time_s,down_mbps,rtt_ms", "\"time_s\",\"down_mbps\",\"rtt_ms\"").into(),
            rates(),
        ),
        ("semicolons", semicolons(".").into(), rates()),
        ("decimal_commas", format!("\u{feff}{}", semicolons(",")).into(), rates()),
        ("tabs", plain_table().replace(',', "\t").into(), rates()),
        ("empty_rows_at_the_end", format!("{},,\n  \n\n", plain_table()).into(), rates()),
        ("remarks", format!("# a drive\n{}# the end\n", plain_table()).into(), rates()),
        (
            "remarks_before_a_mistake",
            format!("# a drive\n\n{}# soon\n\n2.0,x,40\n", plain_table()).into(),
            wrong(":10: down_mbps: \"x\" is not a number"),
        ),
        (
            "duplicate_times",
            plain_table().replace("0.5,6.5,41\n", "0.5,6.5,41\n0.5,6.5,41\n").into(),
            Rates(vec![
                (0, 5_000_000),
                (500_000, 6_500_000),
                (500_000, 6_500_000),
                (1_000_000, 7_000_000),
                (1_500_000, 8_000_000),
            ]),
        ),
        (
            "gap",
            plain_table().replace("1.5,", "41.5,").into(),
            Rates(vec![
                (0, 5_000_000),
                (500_000, 6_500_000),
                (1_000_000, 7_000_000),
                (41_500_000, 8_000_000),
            ]),
        ),
        ("dashes", plain_table().replace(",41", ",-").into(), rates()),
        (
            "nothing_measured",
            plain_table().replace("6.5", "-").into(),
            Rates(vec![(0, 5_000_000), (1_000_000, 7_000_000), (1_500_000, 8_000_000)]),
        ),
        (
            "nan",
            plain_table().replace("6.5", "NaN").into(),
            wrong(":3: down_mbps: \"NaN\" is not a number; leave empty what was not measured"),
        ),
        (
            "nan_in_another_column",
            plain_table().replace(",41", ",nan").into(),
            wrong(":3: rtt_ms: \"nan\" is not a number; leave empty what was not measured"),
        ),
        (
            "iso_times",
            plain_table().replace("0.0,", "2026-11-27T10:00:00.000Z,").into(),
            wrong(&format!(":2: time_s: \"2026-11-27T10:00:00.000Z\" is not a number; {remedy}")),
        ),
        (
            "epoch_in_ms",
            plain_table().replace("0.0,", "1700000000000,").into(),
            wrong(&format!(":2: time_s: 1700000000000 is not within 0…604800; {remedy}")),
        ),
        (
            "clock_that_is_set",
            plain_table().replace("1.5,", "1700000001.5,").into(),
            wrong(&format!(":5: time_s: 1700000001.5 is not within 0…604800; {remedy}")),
        ),
        (
            "one_back",
            plain_table().replace("1.0,", "0.4,").into(),
            wrong(":4: time_s: 0.4 is before the row above, 0.5"),
        ),
        (
            "truncated",
            format!("{}2.", plain_table()).into(),
            wrong(":6: 1 cells instead of 3; the file may be cut off"),
        ),
        (
            "other_unit",
            plain_table().replace("6.5", "12000").into(),
            wrong(
                ":3: down_mbps: 12000 is not within 0…10000; which unit is it? A column down_kbps or down_bps names \
                 another one",
            ),
        ),
        (
            "twice",
            plain_table().replace("rtt_ms", "Down_mbps").into(),
            wrong(":1: there are two columns \"down_mbps\""),
        ),
        ("odd_event", "time_s,down_mbps,event\n0,5,rain\n".into(), {
            let known = of_trace(&folder.write("events.csv", b"time_s,event\n0,rain\n"), &Wishes::default());
            let Refused(words) = known else { panic!("{known:?}") };
            Refused(words)
        }),
    ];
    for (name, bytes, expected) in cases {
        let file = folder.write(&format!("{name}.csv"), &bytes);
        assert_eq!(of_trace(&file, &Wishes::default()), expected, "{name}: squall-lab trace");
        let named = Wishes { column: Some("down_mbps".to_owned()), ..Wishes::default() };
        assert_eq!(of_trace(&file, &named), expected, "{name}: squall-lab trace --column down_mbps");
        assert_eq!(csv(&file), expected, "{name}: a scenario");
        // Without levels there is nothing to replay; that error occurs only for a file that can be
        // read.
        let replayed = read_text(&file).map(|text| RecordedSource::parse("x", &text, Replay::default()));
        let is_read = match replayed {
            Ok(Err(ReplayError::Silent(_))) => true,
            Ok(Err(ReplayError::Line { .. })) | Err(_) => false,
            other => panic!("{name}: {other:?}"),
        };
        assert_eq!(
            is_read,
            matches!(expected, Rates(_)) || name == "odd_event",
            "{name}: squall signal watch"
        );
    }
}

#[test]
fn a_column_may_have_another_unit_and_others_beside_it() {
    let folder = Folder::new("units");
    let file = folder.write("a.csv", b"time_s,down_kbps\n0,5000\n1,6500\n");
    let expected = Rates(vec![(0, 5_000_000), (1_000_000, 6_500_000)]);
    let scenario =
        |column: &str| of_scenario(&file, &format!("csv = '{}', column = '{column}'", file.display()));
    assert_eq!(of_trace(&file, &Wishes::default()), expected);
    assert_eq!(scenario("down_kbps"), expected);
    let noted = folder.write("b.csv", b"time_s,down_mbps,note\n0,5,sun\n1,6.5,rain\n");
    let named = Wishes { column: Some("down_mbps".to_owned()), ..Wishes::default() };
    assert_eq!((of_trace(&noted, &named), csv(&noted)), (expected.clone(), expected));
    let Refused(words) = of_trace(&noted, &Wishes::default()) else { panic!("it is read") };
    assert!(words.starts_with(":1: there is no column \"note\" in a trace; there are time_s, "), "{words}");
    assert!(words.ends_with("; --column with the name of the rate passes over others"), "{words}");
}

#[test]
fn lists_are_read_alike_or_refused_alike() {
    let folder = Folder::new("lists");
    let remedy = "write milliseconds since the start of the recording";
    let whole =
        |line: u32, word: &str| wrong(&format!(":{line}: \"{word}\" is not a whole number of milliseconds"));
    let cases: Vec<(&str, Vec<u8>, Outcome)> = vec![
        ("plain", b"1\n2\n2\n9\n".to_vec(), List(vec![1, 2, 2, 9])),
        ("bom", b"\xef\xbb\xbf1\n2\n".to_vec(), List(vec![1, 2])),
        ("utf16", utf16("1\n2\n", u16::to_le_bytes), List(vec![1, 2])),
        ("crlf", b"1\r\n2\r\n".to_vec(), List(vec![1, 2])),
        ("no_newline_at_the_end", b"1\n2".to_vec(), List(vec![1, 2])),
        ("blank_lines", b"\n1\n\n2\n\n \n".to_vec(), List(vec![1, 2])),
        ("spaces", b"1 \n 2\t\n".to_vec(), List(vec![1, 2])),
        ("remark", b"# recorded 2026\n1\n2\n".to_vec(), List(vec![1, 2])),
        ("begins_late", b"60000\n60001\n".to_vec(), List(vec![60_000, 60_001])),
        ("hours", b"0\n0\n10800000\n".to_vec(), List(vec![0, 0, 10_800_000])),
        ("one_line", b"1\n".to_vec(), List(vec![1])),
        ("gzip", gzip("1\n2\n"), List(vec![1, 2])),
        ("gzip_of_parts", [gzip("1\n"), gzip("2\n")].concat(), List(vec![1, 2])),
        ("one_back", b"1\n5\n4\n".to_vec(), wrong(":3: 4 ms is earlier than 5 ms on the line before")),
        ("decimals", b"1\n\n2.5\n".to_vec(), whole(3, "2.5")),
        ("nan", b"1\nNaN\n".to_vec(), whole(2, "NaN")),
        (
            "epoch",
            b"1700000000000\n1700000000001\n".to_vec(),
            wrong(&format!(":1: 1700000000000 ms is later than 7 days; {remedy}")),
        ),
        ("zeros", b"0\n0\n".to_vec(), wrong(":2: the last time must be above 0")),
    ];
    for (name, bytes, expected) in cases {
        let file = folder.write(&format!("{name}.mahi"), &bytes);
        assert_eq!(of_trace(&file, &Wishes::default()), expected, "{name}: squall-lab trace");
        assert_eq!(mahimahi(&file), expected, "{name}: a scenario");
    }
}

#[test]
fn a_file_of_another_format_is_refused_with_what_to_do() {
    let folder = Folder::new("formats");
    let kbps = folder.write("kbps.txt", b"0.0\t5000\n0.5\t6000\n");
    let question = ":1: rate: 5000 is 5 Gbit/s if it is in Mbit/s; which unit is it? A first line \"time kbps\", \"time bps\" \
                    or \"time Mbps\" names it";
    assert_eq!(of_trace(&kbps, &Wishes::default()), wrong(question));
    let named = folder.write("named.txt", b"time kbps\n0.0\t5000\n0.5\t6000\n");
    assert_eq!(of_trace(&named, &Wishes::default()), Rates(vec![(0, 5_000_000), (500_000, 6_000_000)]));
    let advice = |format: &str, to: &str| {
        format!("this is {format}, of which `squall-lab trace convert --to {to}` makes such a file")
    };
    assert_eq!(csv(&kbps), wrong(&format!(":1: there is no column \"time_s\"; {}", advice("plain", "csv"))));
    assert_eq!(
        mahimahi(&kbps),
        wrong(&format!(
            ":1: \"0.0\\t5000\" is not a whole number of milliseconds; {}",
            advice("plain", "mahimahi")
        ))
    );
    let list = folder.write("list.mahi", b"1\n2\n");
    assert_eq!(
        csv(&list),
        wrong(&format!(":1: there is no column \"time_s\"; {}", advice("mahimahi", "csv")))
    );
}
