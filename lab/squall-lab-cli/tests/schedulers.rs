//! `squall-lab schedulers`: the list, and errors in its arguments.

mod common;

use common::{Scratch, failure, run};

fn stdout(args: &[&str]) -> String {
    let output = run(args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "no progress without a terminal");
    String::from_utf8(output.stdout).expect("is text")
}

#[test]
fn the_list_and_its_json_have_the_same_schedulers() {
    let text = stdout(&["schedulers"]);
    let list: serde_json::Value =
        serde_json::from_str(&stdout(&["schedulers", "--json", "-"])).expect("is JSON");
    let list = list.as_array().expect("is a list");
    let schedulers = text.split("\nStream schedulers").next().expect("is text");
    assert_eq!(list.len(), schedulers.matches("source: ").count());
    let at = |entry: &serde_json::Value| {
        let name = entry["name"].as_str().expect("is text");
        text.find(&format!("\n{name} ")).or_else(|| text.starts_with(&format!("{name} ")).then_some(0))
    };
    let places: Vec<usize> = list.iter().map(|entry| at(entry).expect("is listed")).collect();
    assert!(places.is_sorted(), "in the same order");
}

#[test]
fn only_what_is_named_is_shown() {
    let text = stdout(&["schedulers", "sp", "sp(path=1)-R", "redundant"]);
    let names: Vec<&str> = text.lines().filter(|line| !line.starts_with(' ')).collect();
    assert!(names[0].starts_with("sp ") && names[2].starts_with("redundant "), "{text}");
    assert_eq!(text.matches("source: ").count(), 2, "{text}");
    assert!(text.contains("cap=none") && text.contains("minrtt-R"), "{text}");
}

#[test]
fn mistakes_in_names_are_reported_in_a_line() {
    let calls: [(&[&str], &str); 4] = [
        (&["fastest"], "unknown scheduler 'fastest'; there are "),
        (&["minrtt", "fastest-R", "--json", "never.json"], "unknown scheduler 'fastest'; there are "),
        (&["sp(pth=1)"], "scheduler 'sp' has no option 'pth'; it has path, "),
        (&[",", "--json", "-"], "name a scheduler; "),
    ];
    for (args, expected) in calls {
        let (said, code) = failure(&run([&["schedulers"], args].concat()));
        assert!(said.starts_with(&format!("squall-lab: {expected}")), "{said}");
        assert_eq!((said.lines().count(), code), (1, Some(2)), "{said}");
    }
    assert!(!std::path::Path::new("never.json").exists());
}

#[test]
fn a_file_that_cannot_be_written_is_named_and_nothing_is_left() {
    let scratch = Scratch::new("unwritable");
    let old = scratch.write("old.json", b"old");
    let folder = scratch.path("folder");
    std::fs::create_dir(&folder).expect("is new");
    let below = old.join("below.json");
    for (file, problem) in [(&folder, "cannot write"), (&below, "cannot make the folder")] {
        let shown = file.display().to_string();
        let (said, code) = failure(&run(["schedulers", "sp", "--json", &shown]));
        assert!(
            said.starts_with(&format!("squall-lab: {problem} "))
                && said.contains("old.json") | said.contains(&shown),
            "{said}"
        );
        assert_eq!((said.lines().count(), code), (1, Some(1)), "{said}");
    }
    assert_eq!(std::fs::read(&old).expect("is there"), b"old");
    assert_eq!(std::fs::read_dir(&folder).expect("is there").count(), 0);
}
