//! `squall-lab signal gain`, by its program, on a scenario of two seconds.

mod common;

use std::{path::Path, process::Output};

use common::{Scratch, failure, run};

fn gain(args: &[&str]) -> Output {
    run(["signal", "gain"].iter().chain(args))
}

fn shown(file: &Path) -> String {
    file.display().to_string()
}

fn scenario(radio: &str) -> String {
    format!(
        "name = \"short\"\nduration = \"2s\"\nschedulers = [\"storm\"]\n\
         [[path]]\nname = \"Wi-Fi\"\nrate = \"8mbps\"\ndelay = \"5ms\"\n{radio}\n\
         [[path]]\nname = \"LTE\"\nrate = \"4mbps\"\ndelay = \"20ms\"\n\
         [[flow]]\nname = \"f\"\nkind = \"blocks\"\nsize = \"3kB\"\ninterval = \"10ms\"\ndeadline = \"150ms\"\n"
    )
}

const FADING: &str = "radio = { lead = \"200ms\", series = { rssi = [[\"0s\", -55], [\"1s\", -90]] } }";

#[test]
fn tables_picture_and_json_tell_the_same() {
    let scratch = Scratch::new("gain");
    let file = shown(&scratch.write("short.toml", scenario(FADING).as_bytes()));
    let (svg, json) = (scratch.path("out/gain.svg"), scratch.path("gain.json"));
    let output = gain(&[&file, "--quick", "--seeds", "2", "--draw", &shown(&svg), "--json", &shown(&json)]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "no progress where nobody watches");
    let text = String::from_utf8(output.stdout).expect("is text");
    assert_eq!(text.matches("; all else as in the file").count(), 3, "{text}");
    assert!(text.contains("* 200 ms  storm") && text.contains("any  ras"), "{text}");
    let drawn = std::fs::read_to_string(&svg).expect("was written");
    for name in ["short", "storm: ras with the signal", "minrtt: without a signal"] {
        assert!(drawn.contains(name), "{name}");
    }
    let json = std::fs::read_to_string(&json).expect("was written");
    let json: serde_json::Value = serde_json::from_str(&json).expect("is JSON");
    let leads = json[0]["sweeps"][0]["points"].as_array().expect("is a list");
    let own: Vec<_> = leads.iter().filter(|point| point["own"] == true).collect();
    assert_eq!((own.len(), &own[0]["value"]), (1, &serde_json::json!(200.0)));
    assert_eq!(own[0]["cells"][1]["contender"], "storm");
    let runs = own[0]["cells"][1]["runs"].as_array().expect("is a list");
    let mean = runs.iter().map(|run| run["in_time_percent"].as_f64().expect("is told")).sum::<f64>() / 2.0;
    let row = text.lines().find(|line| line.starts_with("* 200 ms  storm")).expect("is there");
    assert!(row.contains(&format!(" {mean:.2} ± ")), "{mean} in {row}");
}

#[test]
fn mistakes_are_told_in_one_line() {
    let scratch = Scratch::new("gain-bad");
    let silent = shown(&scratch.write("silent.toml", scenario("").as_bytes()));
    let broken =
        shown(&scratch.write("broken.toml", scenario("radio = { lead = \"soon\", walk = {} }").as_bytes()));
    let calls: [(&[&str], &str); 4] = [
        (&[&silent], "scenario short: no path has a radio"),
        (&[&broken], "broken.toml:"),
        (&["nowhere.toml"], "nowhere.toml"),
        (&["--draw", "-", "--json", "-"], "--draw and --json: "),
    ];
    for (args, expected) in calls {
        let (said, code) = failure(&gain(args));
        assert!(said.contains(expected), "{said}");
        assert_eq!((said.lines().count(), code), (1, Some(2)), "{said}");
    }
}
