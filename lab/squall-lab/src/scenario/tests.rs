use proptest::prelude::*;
use squall_proto::{CongestionControl, signal::WatermarkConfig};

use super::*;
use crate::measure::Subject;
use crate::traffic::Traffic;
use crate::variant::Variant;

const HEAD: &str = r#"name = "t"
duration = "10s"
schedulers = ["minrtt"]
"#;
const PATH: &str = "[[path]]\nname = \"wifi\"\nrate = \"20mbps\"\n";
const FLOW: &str = "[[flow]]\nname = \"f\"\nkind = \"bulk\"\n";

fn error(text: &str) -> String {
    Scenario::parse(text, "t.toml").expect_err("should be refused").to_string()
}

/// Returns the error of a complete scenario with this text appended.
fn error_of(tail: &str) -> String {
    error(&format!("{HEAD}{PATH}{FLOW}{tail}"))
}

#[test]
fn defaults_are_filled_in() {
    let scenario = Scenario::parse(&format!("{HEAD}{PATH}{FLOW}"), "t.toml").unwrap();
    assert_eq!((scenario.seeds, scenario.congestion), (vec![1], CongestionControl::default()));
    let flow = &scenario.flows[0];
    assert_eq!((flow.direction, flow.channel), (Direction::Down, 0));
    assert_eq!((flow.start_us, flow.end_us), (0, 10_000_000));
    let Traffic::Bulk(bulk) = &flow.traffic else { panic!("{flow:?}") };
    assert_eq!((bulk.size.bytes(), flow.traffic.backlog()), (64_000, Some(2_000_000)));
}

#[test]
fn a_check_is_resolved() {
    let check = "[[check]]\npath = \"wifi\"\nmeasure = \"goodput\"\nfrom = \"8s\"\nto = \"8.1s\"\nat_least = \"18mbps\"\n";
    let scenario = Scenario::parse(&format!("{HEAD}{PATH}{FLOW}{check}"), "t.toml").unwrap();
    let check = &scenario.checks[0];
    assert_eq!((&check.subject, check.measure.to_string()), (&Subject::path("wifi"), "goodput".into()));
    assert_eq!((check.view.window_us, check.at_least), (Some((8_000_000, 8_100_000)), Some(18e6)));
}

#[test]
fn syntax_errors_name_line_and_column() {
    let text = format!("{HEAD}[[path]]\nname = \"wifi\"\nrat = \"20mbps\"\n{FLOW}");
    let words = error(&text);
    assert!(words.starts_with("t.toml:6:1: unknown field `rat`, expected one of "), "{words}");
    assert!(error("name = ").starts_with("t.toml:1:8: "), "{}", error("name = "));
    let words = error_of("[[check]]\nflow = \"f\"\nmeasure = \"speed\"\n");
    assert!(words.starts_with("t.toml:12:11: unknown measure \"speed\"; there are goodput"), "{words}");
    let words = error(&format!("{HEAD}[[path]]\nname = \"wifi\"\nrate = \"20mpbs\"\n{FLOW}"));
    assert!(words.starts_with("t.toml:6:") && words.contains("20mpbs"), "{words}");
    let words = error("name = \"ä\"  oops");
    assert!(words.starts_with("t.toml:1:13: ") && !words.contains('\n'), "columns are characters: {words}");
}

#[test]
fn top_level_is_checked() {
    let with = |from: &str, to: &str| error(&format!("{HEAD}{PATH}{FLOW}").replace(from, to));
    assert_eq!(with("\"10s\"", "\"1500min\""), "t.toml:2:1: duration: 90000s is not within 1us and 24 h");
    assert_eq!(with("[\"minrtt\"]", "[]"), "t.toml:3:1: schedulers: 0 entries, expected 1 to 1000");
    let twice = with("[\"minrtt\"]", "[\"minrtt\", \"minrtt\"]");
    assert_eq!(twice, "t.toml:3:25: schedulers: \"minrtt\" is there twice");
    let both = with("duration", "seed = 1\nseeds = [2]\nduration");
    assert_eq!(both, "t.toml:2:1: seed: give seed or seeds, not both");
}

#[test]
fn paths_are_checked() {
    assert_eq!(error(&format!("{HEAD}{FLOW}")), "t.toml:1:1: 0 [[path]] tables, expected 1 to 8");
    assert_eq!(error_of(PATH), "t.toml:11:1: name: two paths are called \"wifi\"");
    let dead = "[[path]]\nname = \"dead\"\nrate = 0\n";
    assert_eq!(error_of(dead), "t.toml:12:1: rate: 0 down for the whole run carries nothing");
    let late = "[[path]]\nname = \"late\"\nevents = [{ at = \"1s\", rebind = true },\n  { at = \"10s\", outage = \"1s\" }]\n";
    assert_eq!(error_of(late), "t.toml:13:5: events: 10s is not before the end of the run");
    let empty =
        "[[path]]\nname = \"empty\"\nevents = [{ at = \"1s\", outage = \"1s\" },\n  { at = \"2s\" }]\n";
    assert!(
        error_of(empty).starts_with("t.toml:13:3: events: event at 2s: it changes nothing"),
        "{}",
        error_of(empty)
    );
    let lost = "[[path]]\nname = \"shared\"\nbottleneck = \"lte\"\n";
    assert_eq!(error_of(lost), "t.toml:12:1: bottleneck: no other path is called \"lte\"");
    let many: String = (0..8).map(|n| format!("[[path]]\nname = \"p{n}\"\n")).collect();
    assert!(error_of(&many).ends_with("9 [[path]] tables, expected 1 to 8"));
    assert!(error_of("[[path]]\nrate = \"1mbps\"\n").starts_with("t.toml:10:1: name: \"\" is not"));
}

#[test]
fn flows_are_checked() {
    let video = "[[flow]]\nname = \"v\"\nkind = \"video\"\nfps = 30\nbitrate = \"8mbps\"\n";
    let with = |line: &str| error_of(&format!("{video}{line}\n"));
    let foreign = with("size = 10");
    assert!(
        foreign.starts_with("t.toml:15:1: size: a flow of kind \"video\" has no such field"),
        "{foreign}"
    );
    assert_eq!(with("key_ratio = 0.5"), "t.toml:15:1: key_ratio: 0.5 is not within 1 and 100");
    assert_eq!(with("end = \"11s\""), "t.toml:15:1: end: it is after the end of the run");
    assert_eq!(with("start = \"10s\""), "t.toml:15:1: start: the flow ends before it starts");
    assert_eq!(with("deadline = 0"), "t.toml:15:1: deadline: nothing arrives within 0");
    assert!(
        with("reliable = \"some\"").starts_with("t.toml:15:12: invalid value"),
        "{}",
        with("reliable = \"some\"")
    );
    assert_eq!(
        with("priority_delta = 8"),
        "t.toml:15:1: priority_delta: 8 is not within 0 and 7",
        "as many as a session has"
    );
    let huge = error_of(&video.replace("8mbps", "9gbps"));
    assert!(huge.starts_with("t.toml:14:1: bitrate: its largest frame"), "{huge}");
    let no_fps = error_of(&video.replace("fps = 30\n", ""));
    assert_eq!(no_fps, "t.toml:12:1: missing field `fps`");
}

#[test]
fn checks_are_checked() {
    let with = |body: &str| error_of(&format!("[[check]]\n{body}\n"));
    let cases = [
        ("flow = \"g\"\nmeasure = \"goodput\"\nat_least = 1", "11:1: flow: no flow is called \"g\""),
        ("path = \"lte\"\nmeasure = \"goodput\"\nat_least = 1", "11:1: path: no path is called \"lte\""),
        (
            "path = \"wifi\"\nmeasure = \"longest_gap\"\nat_most = \"1s\"",
            "12:1: measure: a path has no longest_gap",
        ),
        ("flow = \"f\"\nmeasure = \"goodput\"", "12:1: the check has neither at_least nor at_most"),
        ("measure = \"longest_gap\"\nat_most = \"1s\"", "11:1: measure: a run has no longest_gap"),
        (
            "flow = \"f\"\nclass = \"key\"\nmeasure = \"goodput\"\nat_least = 1",
            "12:1: class: \"key\" is none of f: it has block",
        ),
        (
            "class = \"key\"\nmeasure = \"goodput\"\nat_least = 1",
            "11:1: class: it needs the flow that it is of",
        ),
        (
            "flow = \"f\"\npath = \"wifi\"\nmeasure = \"goodput\"\nat_least = 1",
            "13:1: measure: a flow on a path has no goodput",
        ),
        (
            "flow = \"f\"\nmeasure = \"goodput\"\nfrom = \"1.05s\"\nat_least = 1",
            "13:1: from: 1.05s is not a multiple of 100ms",
        ),
        (
            "flow = \"f\"\nmeasure = \"longest_gap\"\nto = \"1s\"\nat_most = \"1s\"",
            "13:1: to: longest_gap is only known for the whole run",
        ),
        (
            "flow = \"f\"\nmeasure = \"goodput\"\nat_most = 1\nschedulers = [\"rr\"]",
            "14:1: schedulers: the scenario does not run \"rr\", only minrtt",
        ),
    ];
    for (body, expected) in cases {
        assert_eq!(with(body), format!("t.toml:{expected}"));
    }
    let unit = with("flow = \"f\"\nmeasure = \"longest_gap\"\nat_most = \"3\"");
    assert!(unit.starts_with("t.toml:13:1: at_most: \"3\" is not a duration"), "{unit}");
}

#[test]
fn files_are_checked() {
    let missing = Scenario::load(Path::new("/nonexistent/t.toml")).unwrap_err().to_string();
    assert!(missing.starts_with("/nonexistent/t.toml: "), "{missing}");
    assert_eq!(
        Text::of_bytes(b"a = 1\nb\xff".to_vec(), "t.toml").unwrap_err().to_string(),
        "t.toml:2:2: not UTF-8 text; save it as UTF-8"
    );
    let marked = Text::of_bytes(b"\xef\xbb\xbfa = 1\nb = x\n".to_vec(), "t.toml").unwrap();
    let place = marked.parse::<toml::Table>().unwrap_err().to_string();
    assert!(place.starts_with("t.toml:2:5: "), "{place}");
}

#[test]
fn shipped_scenarios_load() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        // Scenarios of the papers have their own folder and test.
        if path.is_dir() {
            continue;
        }
        let scenario =
            Scenario::load_with(&path, &squall_papers::registry()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(Some(scenario.name.as_str()), path.file_stem().and_then(|stem| stem.to_str()));
        assert!(!scenario.description.is_empty(), "{}", scenario.name);
        names.push(scenario.name);
    }
    for name in ["stable", "outage-first", "outage-second", "fading", "lossy", "rebinding", "bloated"] {
        assert!(names.iter().any(|found| found == name), "{name} in {names:?}");
    }
}

#[test]
fn an_unknown_scheduler_is_located() {
    let path = std::env::temp_dir().join(format!("squall-scenario-{}.toml", std::process::id()));
    std::fs::write(&path, format!("{HEAD}{PATH}{FLOW}").replace("[\"minrtt\"]", "[\"minrtt\", \"fast\"]"))
        .unwrap();
    let known = Scenario::load(&path).map(drop);
    let error = Scenario::load_with(&path, &squall_papers::registry()).unwrap_err().to_string();
    std::fs::remove_file(&path).unwrap();
    assert!(known.is_ok());
    let start = format!("{}:3:25: unknown scheduler 'fast'; there are ", path.display());
    assert!(error.starts_with(&start), "{error}");
}

#[test]
fn channels_have_weights_under_all_schedulers_but_one() {
    let registry = squall_papers::registry();
    let streams = "[streams]\nscheduler = \"wrr\"\n";
    let turns = Scenario::parse(&format!("{HEAD}{PATH}{FLOW}{streams}"), "t.toml").unwrap();
    let fifo = Scenario::parse(&format!("{HEAD}{PATH}{FLOW}"), "t.toml").unwrap();
    let mut refused = Vec::new();
    for entry in registry.entries() {
        assert_eq!(Variant::of(entry.name).check_in(&fifo, &registry), Ok(()), "{}", entry.name);
        if let Err(error) = Variant::of(entry.name).check_in(&turns, &registry) {
            assert!(error.to_string().contains("orders blocks by their remaining bytes"), "{error}");
            refused.push(entry.name);
        }
    }
    assert_eq!(refused, ["srpt-ecf"]);
}

#[test]
fn outages_of_a_run_are_joined() {
    let events = "events = [{ at = \"1s\", outage = \"2s\" }, { at = \"2s\", outage = \"2s\", direction = \"down\" },\n\
        { at = \"9s\", outage = \"5s\" }]\n";
    let scenario = Scenario::parse(&format!("{HEAD}{PATH}{events}{FLOW}"), "t.toml").unwrap();
    let run = scenario.unmeasured("minrtt", 3);
    let outages: Vec<_> = run.paths[0].outages.iter().map(|o| (o.from_us, o.to_us)).collect();
    assert_eq!(outages, [(1_000_000, 4_000_000), (9_000_000, 10_000_000)]);
    assert_eq!((run.seed, run.flows[0].kind.as_str()), (3, "bulk"));
}

#[test]
fn deep_nesting_is_refused() {
    for open in ["[", "{ a = ", "a."] {
        let text = format!("a = {}", open.repeat(100_000));
        assert!(Scenario::parse(&text, "t.toml").is_err());
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(Text { text, .. }) = Text::of_bytes(bytes, "t.toml") {
            let _ = Scenario::parse(&text, "t.toml");
        }
    }

    #[test]
    fn mutilated_scenarios_never_panic(
        cut in 0usize..2_000, insert in "\\PC{0,12}", file in 0usize..3,
    ) {
        let text = [
            include_str!("../../../../scenarios/fading.toml"),
            include_str!("../../../../scenarios/rebinding.toml"),
            include_str!("../../../../docs/scenarios.md"),
        ][file];
        let at = (0..=cut.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let rest = text[at..].char_indices().nth(3).map_or("", |(skip, _)| &text[at + skip..]);
        let _ = Scenario::parse(&format!("{}{insert}{rest}", &text[..at]), "t.toml");
    }
}

#[test]
fn every_congestion_control_can_be_named_and_others_are_refused() {
    let controllers = squall_papers::controllers();
    for control in controllers.controls() {
        let name = control.name();
        let text = format!("congestion = \"{name}\"\n{HEAD}{PATH}{FLOW}");
        let scenario = Scenario::parse(&text, "t.toml").expect("it is known");
        assert_eq!(
            (&scenario.congestion, scenario.unmeasured("minrtt", 1).congestion.as_str()),
            (control, name)
        );
    }
    let words = error(&format!("congestion = \"reno\"\n{HEAD}{PATH}{FLOW}"));
    let known = "unknown congestion control 'reno'; there are steady, cubic, cubic-tolerant, newreno, bbr3, cubic(connections=2), sqp, salsify";
    assert!(words.starts_with("t.toml:1:14: ") && words.contains(known), "{words}");
}

#[test]
fn signals_are_as_sessions_have_them_unless_said_otherwise() {
    let usual = WatermarkConfig::default();
    let scenario = Scenario::parse(&format!("{HEAD}{PATH}{FLOW}"), "t.toml").unwrap();
    assert_eq!((scenario.signal, scenario.timed), (usual, false));
    let table = "[signal]\nrecovery = \"50ms\"\nwarning = 0.4\nadapt = false\n";
    let scenario = Scenario::parse(&format!("{HEAD}timed = true\n{PATH}{FLOW}{table}"), "t.toml").unwrap();
    assert_eq!(scenario.signal.recovery, squall_units::Span::from_millis(50));
    assert_eq!((scenario.signal.marks.warning, scenario.signal.marks.good), (0.4, 0.45));
    assert!(scenario.signal.adaptation.is_none() && scenario.timed);
    let words = error_of("[signal]\nwarning = 0.5\n");
    assert!(words.starts_with("t.toml:10:") && words.contains("outage < warning < good"), "{words}");
}
