use squall_net::{LinkConfig, PathConfig, RateConfig};

use super::*;
use crate::bound::{Bound, Demand, Supply};
use crate::flow::Direction;
use crate::result::{DirectionBound, RunResult, sample::run};

fn take(subject: &Subject, name: &str, run: &RunResult) -> Option<f64> {
    subject.measure(name.parse().expect("is a measure"), View::default(), run)
}

#[test]
fn names_are_read_as_they_are_written() {
    for name in Measure::all().map(|measure| measure.to_string()) {
        assert_eq!(name.parse::<Measure>().map(|measure| measure.to_string()), Ok(name.clone()));
    }
    assert_eq!(Measure::all().count(), 52 + 9 * 7);
    for name in
        ["p50_latency", "p9999_packet_delay", "max_waiting", "min_latency", "mean_picture_latency", "p99_rtt"]
    {
        assert_eq!(name.parse::<Measure>().map(|measure| measure.to_string()), Ok(name.to_owned()));
    }
    let error = "p98_latency".parse::<Measure>().unwrap_err();
    assert!(error.contains("did you mean p99_latency?"), "{error}");
    let slips = ["in_time", "p99", "goodputs", "p99_latncy"].map(|name| meant(name).unwrap_or_default());
    assert_eq!(slips, ["in_time_ratio", "p99_latency", "goodput", "p99_latency"]);
    let error = "speed".parse::<Measure>().unwrap_err();
    assert!(error.contains("in_time_ratio") && error.contains("p999"), "{error}");
}

#[test]
fn it_is_known_which_way_is_better() {
    let best = |name: &str| name.parse::<Measure>().expect("is one").best();
    for name in ["in_time_ratio", "mean_fps", "offered_bitrate", "p5_ssim"] {
        assert_eq!(best(name), Some(Best::Highest), "{name}");
    }
    for name in ["late_ratio", "metered_ratio", "p99_latency", "max_packet_delay", "psnr_loss"] {
        assert_eq!(best(name), Some(Best::Lowest), "{name}");
    }
    for name in ["path_ratio", "bound_in_time_ratio", "p50_least_latency", "mean_rtt", "recoveries"] {
        assert_eq!(best(name), None, "{name}");
    }
}

#[test]
fn every_subject_gives_what_it_has() {
    let run = run("minrtt", 1);
    let class = Subject { class: Some("key".into()), ..Subject::flow("camera") };
    let subjects = [Subject::RUN, Subject::path("LTE"), Subject::flow("camera"), class];
    for name in ["goodput", "in_time_ratio", "lost_packets", "p99_latency", "mean_fps", "p50_rtt"] {
        let measure: Measure = name.parse().expect("is one");
        for subject in &subjects {
            let measured = subject.measure(measure, View::default(), &run);
            assert_eq!(measured.is_some(), subject.has(measure), "{name} of {}", subject.kind());
        }
    }
}

#[test]
fn what_is_not_there_is_not_measured() {
    let run = run("minrtt", 1);
    for subject in [Subject::flow("none"), Subject::path("none")] {
        assert_eq!(take(&subject, "goodput", &run), None);
    }
}

#[test]
fn a_condensed_run_has_the_goodput_of_its_flows_but_not_of_a_part() {
    let (full, flow) = (run("minrtt", 1), Subject::flow("camera"));
    let condensed = full.clone().condensed();
    assert_eq!(take(&flow, "goodput", &condensed), take(&flow, "goodput", &full));
    assert!(take(&flow, "goodput", &full) > Some(0.0));
    let goodput: Measure = "goodput".parse().expect("is one");
    let part = |run| flow.measure(goodput, View { window_us: Some((0, 1_000_000)), ..View::default() }, run);
    assert!(part(&full) > Some(0.0));
    assert_eq!(part(&condensed), None);
}

#[test]
fn shares_are_of_what_was_possible() {
    let link = LinkConfig { rate: RateConfig::Fixed("8mbps".parse().unwrap()), ..LinkConfig::default() };
    let paths = [PathConfig::symmetric("only", link)];
    let supply = Supply::of(&paths, 1, 1_000_000, Direction::Down).unwrap();
    let block =
        Demand { release_us: 0, size: 200_000, deadline_us: Some(100_000), priority: 0, needs: [None; 2] };
    let bound = Bound::of(&supply, &[block]);
    let mut run = run("minrtt", 1);
    let reached = run.flows[0].in_time_bytes_ratio.unwrap();
    run.flows[0].bound = Some(bound.total);
    run.bounds = vec![DirectionBound { direction: Direction::Down, bound }];
    let of = |name: &str| take(&Subject::flow("camera"), name, &run);
    let most = of("bound_in_time_bytes_ratio").unwrap();
    assert!((0.4..0.5).contains(&most), "half of it, less the headers: {most}");
    assert_eq!(of("in_time_bytes_of_bound"), Some((reached / most * 1e6).round() / 1e6));
    assert_eq!(of("bound_in_time_ratio"), Some(0.0));
    assert_eq!(of("in_time_of_bound"), None, "nothing was possible");
    assert_eq!(take(&Subject::RUN, "bound_in_time_bytes_ratio", &run), Some(most));
    let bound = |name: &str| name.parse::<Measure>().unwrap().bound().map(|bound| bound.to_string());
    assert_eq!(bound("p99_latency").as_deref(), Some("p99_least_latency"));
    assert_eq!(bound("in_time_bitrate").as_deref(), Some("bound_in_time_bitrate"));
    assert_eq!((bound("goodput"), bound("p99_rtt")), (None, None));
}

#[test]
fn shares_of_paths_are_of_all_that_arrived() {
    let mut run = run("minrtt", 1);
    let classes = &mut run.flows[0].classes;
    classes[0].path_bytes = vec![300];
    classes[1].path_bytes = vec![100, 100];
    let of = |path: &str| {
        take(&Subject { path: Some(path.into()), ..Subject::flow("camera") }, "path_ratio", &run)
    };
    let [first, second] = [&run.paths[0].name, &run.paths[1].name];
    assert_eq!((of(first), of(second)), (Some(0.8), Some(0.2)));
    assert_eq!(take(&Subject::path(second), "path_ratio", &run), Some(0.2));
    let key = Subject { path: Some(first.clone()), class: Some("key".into()), ..Subject::flow("camera") };
    assert_eq!(take(&key, "path_ratio", &run), Some(1.0));
    for class in &mut run.flows[0].classes {
        class.path_bytes.clear();
    }
    assert_eq!(take(&Subject::path("LTE"), "path_ratio", &run), None);
}
