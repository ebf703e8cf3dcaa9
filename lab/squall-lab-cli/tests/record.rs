//! `squall record` over emulated links with given rates, and again over the links of its own
//! recording.

#![cfg(target_os = "linux")]

mod common;

use std::{fs, path::Path};

use common::{Scratch, failure, lab, shell_is_possible, squall};
use squall_testkit::{assert_duration, in_real_time};

/// Rates of the Wi-Fi in Mbit/s, down and up.
const WIFI: (f64, f64) = (12.0, 4.0);
/// Rates of LTE in Mbit/s, down and up.
const LTE: (f64, f64) = (3.0, 3.0);

/// Two links; the Wi-Fi has a radio whose level falls.
const LINKS: &str = r#"
name = "links"
duration = "60s"
schedulers = ["minrtt"]

[[path]]
name = "wifi"
delay = "20ms"
queue = "1MB"
down = { rate = "12mbps" }
up = { rate = "4mbps" }
radio = { trace = { rssi = [["0s", -50], ["6s", -75], ["50s", -75]] }, technology = "wifi" }

[[path]]
name = "lte"
delay = "40ms"
queue = "1MB"
rate = "3mbps"

[[flow]]
name = "unused"
kind = "blocks"
size = "1kB"
interval = "1s"
"#;

/// Records behind the links of a scenario into a folder next to it.
fn record(scratch: &Scratch, scenario: &str, out: &str, more: &str) {
    let squall = format!("'{}' record --token 'a token for tests'", squall().display());
    let server = format!("{squall} --listen 10.77.0.1:4434");
    let client = format!("{squall} --to 10.77.0.1:4434 --for 6s --out {out} {more}");
    let mut shell = lab();
    shell.current_dir(scratch.path(".")).args(["shell", "--quiet", "--time", "60s", "--max-slip", "10s"]);
    let output = shell.args(["--scenario", scenario, "--server", &server, "--client", &client]).output();
    let (said, code) = failure(&output.expect("the program starts"));
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("recorded 2 of 2 interfaces"), "{said}");
}

/// Returns a column of a table.
fn column(file: &Path, name: &str) -> Vec<Option<f64>> {
    let text = fs::read_to_string(file).expect("was written");
    let mut lines = text.lines();
    let names = lines.next().expect("has names").split(',').position(|one| one == name);
    let index = names.expect("has the column");
    lines.map(|line| line.split(',').nth(index).and_then(|cell| cell.parse().ok())).collect()
}

fn median(values: Vec<Option<f64>>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().flatten().collect();
    assert!(values.len() >= 6, "{values:?}");
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Checks that the medians of a recording are within this share of the rates.
fn check_rates(scratch: &Scratch, out: &str, tolerance: f64) {
    for (name, (down, up)) in [("wifi", WIFI), ("lte", LTE)] {
        let file = scratch.path(&format!("{out}/{name}.csv"));
        for (direction, rate) in [("down_mbps", down), ("up_mbps", up)] {
            let measured = median(column(&file, direction));
            println!("{out}: {name} {direction} {measured:.3} of {rate}");
            assert_duration!(
                (measured / rate - 1.0).abs() < tolerance,
                "{name} {direction}: {measured} of {rate}"
            );
        }
    }
}

#[test]
fn a_recording_is_a_scenario_with_the_rates_of_the_links() {
    if !shell_is_possible() {
        return;
    }
    in_real_time(|| {
        let scratch = Scratch::new("record");
        fs::write(scratch.path("links.toml"), LINKS).expect("is written");
        record(&scratch, "links.toml", "samples", "--step 200ms");
        check_rates(&scratch, "samples", 0.04);
        for (name, round_trip) in [("wifi", 40.0), ("lte", 80.0)] {
            let measured = median(column(&scratch.path(&format!("samples/{name}.csv")), "rtt_ms"));
            assert_duration!((round_trip..round_trip + 10.0).contains(&measured), "{name}: {measured} ms");
        }
        let levels = column(&scratch.path("samples/wifi.csv"), "rssi_dbm");
        let levels: Vec<f64> = levels.into_iter().flatten().collect();
        assert!(levels.contains(&-50.0) && levels.contains(&-75.0), "{levels:?}");

        // The laboratory reproduces the recorded links: here for the same program, with saturation.
        record(&scratch, "samples/scenario.toml", "again", "--saturate --at-most 100MB");
        check_rates(&scratch, "again", 0.05);
        let run = lab().current_dir(scratch.path(".")).args(["run", "again/scenario.toml"]).output();
        let (said, code) = failure(&run.expect("the program starts"));
        assert_eq!(code, Some(0), "{said}");
    });
}
