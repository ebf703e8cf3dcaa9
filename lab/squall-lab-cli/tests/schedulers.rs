//! `squall-lab schedulers`: the list, and the picture.

mod common;

use common::{Scratch, failure, run};

fn stdout(args: &[&str]) -> String {
    let output = run(args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "no progress where nobody watches");
    String::from_utf8(output.stdout).expect("is text")
}

#[test]
fn a_picture_of_everything_has_a_panel_for_each() {
    let scratch = Scratch::new("picture");
    let file = scratch.path("out/all.svg");
    let shown = file.display().to_string();
    assert_eq!(stdout(&["schedulers", "--draw", &shown]), format!("picture: {shown}\n"));
    let svg = std::fs::read_to_string(&file).expect("was written");
    let json = stdout(&["schedulers", "--json", "-"]);
    let list: serde_json::Value = serde_json::from_str(&json).expect("is JSON");
    let list = list.as_array().expect("is a list");
    assert_eq!(svg.matches("<g class=\"panel\"").count(), list.len());
    for entry in list {
        assert!(svg.contains(&format!("data-scheduler={}", entry["name"])), "{}", entry["name"]);
    }
    assert!(!scratch.path("out/all.svg.part").exists());
    assert_eq!(stdout(&["schedulers", "--draw", "-"]), svg, "another process draws the same");
}

#[test]
fn only_what_is_named_is_shown() {
    let svg = stdout(&["schedulers", "rr(cap=35kB)", "minrtt-R,sp(path=1)", "--draw", "-"]);
    let panels: Vec<&str> = svg.split("data-scheduler=\"").skip(1).collect();
    assert_eq!(panels.len(), 3);
    for (panel, name) in panels.iter().zip(["rr(cap=35kB)", "minrtt-R", "sp(path=1)"]) {
        assert!(panel.starts_with(&format!("{name}\"")), "{name}");
    }
    let text = stdout(&["schedulers", "sp", "sp(path=1)-R", "redundant"]);
    let names: Vec<&str> = text.lines().filter(|line| !line.starts_with(' ')).collect();
    assert!(names[0].starts_with("sp ") && names[2].starts_with("redundant "), "{text}");
    assert_eq!(text.matches("source: ").count(), 2, "{text}");
    assert!(text.contains("cap=none") && text.contains("minrtt-R"), "{text}");
}

#[test]
fn mistakes_in_names_are_told_in_a_line() {
    let calls: [(&[&str], &str); 5] = [
        (&["fastest"], "unknown scheduler 'fastest'; there are "),
        (&["minrtt", "fastest-R", "--draw", "never.svg"], "unknown scheduler 'fastest'; there are "),
        (&["sp(pth=1)"], "scheduler 'sp' has no option 'pth'; it has path, "),
        (&[",", "--json", "-"], "name a scheduler; "),
        (&["--draw", "-", "--json", "-"], "--draw and --json: "),
    ];
    for (args, expected) in calls {
        let (said, code) = failure(&run([&["schedulers"], args].concat()));
        assert!(said.starts_with(&format!("squall-lab: {expected}")), "{said}");
        assert_eq!((said.lines().count(), code), (1, Some(2)), "{said}");
    }
    assert!(!std::path::Path::new("never.svg").exists());
}

#[test]
fn a_file_that_cannot_be_written_is_named_and_nothing_is_left() {
    let scratch = Scratch::new("unwritable");
    let old = scratch.write("old.svg", b"old");
    let folder = scratch.path("folder");
    std::fs::create_dir(&folder).expect("is new");
    let below = old.join("below.svg");
    for (file, problem) in [(&folder, "cannot write"), (&below, "cannot make the folder")] {
        let shown = file.display().to_string();
        let (said, code) = failure(&run(["schedulers", "sp", "--draw", &shown]));
        assert!(
            said.starts_with(&format!("squall-lab: {problem} "))
                && said.contains("old.svg") | said.contains(&shown),
            "{said}"
        );
        assert_eq!((said.lines().count(), code), (1, Some(1)), "{said}");
    }
    assert_eq!(std::fs::read(&old).expect("is there"), b"old");
    assert_eq!(std::fs::read_dir(&folder).expect("is there").count(), 0);
}
