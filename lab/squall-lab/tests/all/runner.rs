//! Execution of scenarios by the runner.

use std::sync::{Arc, Mutex};

use squall_lab::{Batch, RunError, RunResult, Scenario, result, run, world::Protection};
use squall_proto::sched::{BlockMeta, Context, Decision, Entry, Registry, SchedEvent, Scheduler};

/// A scenario with everything that is random: losses, jitter, sizes.
const RANDOM: &str = r#"
name = "random"
duration = "3s"
seeds = [1, 2]
schedulers = ["minrtt", "redundant"]

[[path]]
name = "one"
rate = "8mbps"
delay = "15ms"
jitter = "3ms"
loss = "2%/3"

[[path]]
name = "two"
rate = "5mbps"
delay = "40ms"
jitter = { normal = "5ms", reorder = true }
loss = "1%"
duplicate = "1%"

[[flow]]
name = "camera"
kind = "video"
fps = 30
bitrate = "2mbps"
jitter = "30%"
deadline = "150ms"
reliable = "key"

[[flow]]
name = "upload"
kind = "bulk"
direction = "up"
start = "500ms"
end = "2s"
"#;

fn scenario(text: &str) -> Scenario {
    Scenario::parse(text, "test.toml").unwrap_or_else(|error| panic!("{error}"))
}

fn registry() -> Arc<Registry> {
    Arc::new(squall_papers::registry())
}

fn run_one(text: &str) -> RunResult {
    let scenario = scenario(text);
    let seed = scenario.seeds[0];
    run(&scenario, &scenario.schedulers[0], seed, &registry(), &mut |_| {}).expect("runs")
}

#[test]
fn the_same_scenario_and_seed_give_the_same_bytes() {
    let scenario = scenario(RANDOM);
    let batch = Batch::of(&scenario, registry());
    let twice = [(); 2].map(|()| result::to_json(&batch.run(&|_| {}).expect("runs")));
    assert_eq!(twice[0], twice[1]);
    let alone = run(&scenario, "redundant", 2, &registry(), &mut |_| {}).expect("runs");
    let together = batch.run(&|_| {}).expect("runs");
    assert_eq!(result::to_json(&[alone]), result::to_json(&together[3..]));
}

#[test]
fn encryption_changes_nothing_that_is_recorded() {
    let damaging = RANDOM.replace("loss = \"1%\"", "loss = \"1%\"\ncorrupt = \"1%\"");
    assert_ne!(damaging, RANDOM);
    let scenario = scenario(&damaging);
    let [plain, encrypted] = [Protection::Checksum, Protection::Tls].map(|protection| {
        let batch = Batch { protection, ..Batch::of(&scenario, registry()) };
        result::to_json(&batch.run(&|_| {}).expect("runs"))
    });
    assert!(plain == encrypted, "the results differ");
}

#[test]
fn results_come_in_order_and_differ_by_seed() {
    let scenario = scenario(RANDOM);
    let batch = Batch::of(&scenario, registry());
    let reported = Mutex::new(0);
    let runs = batch.run(&|piece| *reported.lock().unwrap() += piece).expect("runs");
    let order: Vec<_> = runs.iter().map(|run| (run.scheduler.as_str(), run.seed)).collect();
    assert_eq!(order, [("minrtt", 1), ("minrtt", 2), ("redundant", 1), ("redundant", 2)]);
    assert_eq!(*reported.lock().unwrap(), batch.work_us());
    assert_eq!(batch.work_us(), 12_000_000);
    assert_ne!(runs[0].flows, runs[1].flows);
}

#[test]
fn every_block_is_accounted_for() {
    let scenario = scenario(RANDOM);
    for run in Batch::of(&scenario, registry()).run(&|_| {}).expect("runs") {
        let camera = &run.flows[0];
        assert_eq!((camera.name.as_str(), camera.total.offered_blocks), ("camera", 90));
        for flow in &run.flows {
            let t = &flow.total;
            let ended = t.delivered_blocks
                + t.expired_blocks
                + t.cancelled_blocks
                + t.refused_blocks
                + t.closed_blocks
                + t.open_blocks;
            assert_eq!(ended, t.offered_blocks, "{} with {}", flow.name, run.scheduler);
            assert_eq!(flow.stray_deliveries, 0);
            assert!(flow.waiting.is_some_and(|waiting| waiting.count > 0));
        }
        let upload = &run.flows[1];
        assert_eq!(upload.delivered_bytes[..5], [0; 5], "it starts at 500 ms");
        assert!(upload.total.delivered_bytes > 500_000, "{}", upload.total.delivered_bytes);
        let over_paths: u64 = run.paths.iter().map(|path| path.goodput_up_bps).sum();
        let of_flow = upload.goodput_bps;
        assert!(over_paths.abs_diff(of_flow) < of_flow / 5, "{over_paths} over paths, {of_flow} as blocks");
    }
}

#[test]
fn copies_are_counted_apart_from_new_data() {
    let text = "name = \"copies\"\nduration = \"4s\"\nschedulers = [\"redundant\"]\n\
        [[path]]\nname = \"a\"\nrate = \"10mbps\"\ndelay = \"10ms\"\n\
        [[path]]\nname = \"b\"\nrate = \"10mbps\"\ndelay = \"30ms\"\n\
        [[flow]]\nname = \"f\"\nkind = \"blocks\"\nsize = \"10kB\"\ninterval = \"40ms\"\n";
    let run = run_one(text);
    let new: u64 = run.paths.iter().map(|path| path.goodput_down_bps).sum();
    assert!(new.abs_diff(2_000_000) < 60_000, "{new}");
    let duplicates: u64 = run.paths.iter().map(|path| path.totals.duplicate_bytes).sum();
    assert!(duplicates > 900_000, "{duplicates}");
}

#[test]
fn the_suffix_makes_every_block_reliable_and_stays_in_the_name() {
    let text = "name = \"reliable\"\nduration = \"3s\"\nschedulers = [\"minrtt\", \"minrtt-R\", \"sp(path=0)-R\"]\n\
        [[path]]\nname = \"a\"\nrate = \"10mbps\"\ndelay = \"10ms\"\nloss = \"5%\"\n\
        [[flow]]\nname = \"f\"\nkind = \"blocks\"\nsize = \"3kB\"\ninterval = \"10ms\"\nend = \"2s\"\n\
        reliable = false\n";
    let scenario = scenario(text);
    let runs = Batch::of(&scenario, registry()).run(&|_| {}).expect("runs");
    let names: Vec<_> = runs.iter().map(|run| run.scheduler.as_str()).collect();
    assert_eq!(names, ["minrtt", "minrtt-R", "sp(path=0)-R"]);
    let [plain, reliable, single] = [0, 1, 2].map(|run| &runs[run].flows[0].total);
    assert_eq!((reliable.delivered_blocks, single.delivered_blocks), (200, 200));
    assert!(plain.delivered_blocks < 190, "{}", plain.delivered_blocks);
    let repaired = [0, 1, 2].map(|run: usize| runs[run].paths[0].totals.retransmitted_bytes > 0);
    assert_eq!(repaired, [false, true, true]);
}

#[test]
fn ids_of_paths_are_those_of_the_file() {
    let text = "name = \"ids\"\nduration = \"2s\"\nschedulers = [\"sp(path=0)\", \"sp(path=1)\", \"sp(path=2)\"]\n\
        [[path]]\nname = \"a\"\nrate = \"10mbps\"\ndelay = \"150ms\"\n\
        [[path]]\nname = \"b\"\nrate = \"10mbps\"\ndelay = \"40ms\"\n\
        [[path]]\nname = \"c\"\nrate = \"10mbps\"\ndelay = \"2ms\"\n\
        [[flow]]\nname = \"f\"\nkind = \"blocks\"\nsize = \"3kB\"\ninterval = \"10ms\"\n";
    let runs = Batch::of(&scenario(text), registry()).run(&|_| {}).expect("runs");
    for (path, run) in runs.iter().enumerate() {
        let carried: Vec<usize> = (0..3).filter(|other| run.paths[*other].goodput_down_bps > 0).collect();
        assert_eq!(carried, [path], "{}", run.scheduler);
    }
}

#[test]
fn times_of_the_file_count_from_the_flows() {
    let text = "name = \"times\"\nduration = \"3s\"\nschedulers = [\"minrtt\"]\n\
        [[path]]\nname = \"a\"\nrate = { steps = [[\"0s\", \"20mbps\"], [\"2s\", \"5mbps\"]] }\ndelay = \"20ms\"\n\
        events = [{ at = \"1s\", outage = \"500ms\" }]\n\
        [[flow]]\nname = \"f\"\nkind = \"blocks\"\nsize = \"500B\"\ninterval = \"10ms\"\nreliable = false\n\
        deadline = \"100ms\"\n";
    let run = run_one(text);
    let series = &run.paths[0].series;
    let link = |at_us: u64| series.link_bps[series.at_us.iter().position(|at| *at == at_us).unwrap()];
    assert_eq!(link(900_000), Some(20_000_000));
    assert_eq!(link(1_200_000), Some(0));
    assert_eq!(link(1_900_000), Some(20_000_000));
    assert_eq!(link(2_100_000), Some(5_000_000));
    let flow = &run.flows[0];
    let first = flow.latencies[0];
    assert_eq!(first.at_us, 0);
    assert!((20_000..22_000).contains(&first.latency_us), "{}", first.latency_us);
    let missing = &flow.missing_at_us;
    assert!(missing.iter().all(|at| (980_000..1_500_000).contains(at)), "{missing:?}");
    assert!(missing.len() >= 40, "{missing:?}");
    let suspect = run.paths[0].states.iter().find(|change| change.state == result::PathState::Suspect);
    assert!(suspect.is_some_and(|change| (1_000_000..1_400_000).contains(&change.at_us)));
}

#[test]
fn a_session_that_ends_early_is_a_result() {
    let text = "name = \"dead\"\nduration = \"40s\"\nschedulers = [\"minrtt\"]\n\
        [[path]]\nname = \"a\"\nrate = \"5mbps\"\ndelay = \"20ms\"\n\
        events = [{ at = \"1s\", outage = \"39s\" }]\n\
        [[flow]]\nname = \"f\"\nkind = \"blocks\"\nsize = \"500B\"\ninterval = \"1s\"\n";
    let run = run_one(text);
    assert!(run.extra.contains_key("session ended"), "{:?}", run.extra);
    let total = &run.flows[0].total;
    assert_eq!((total.offered_blocks, total.delivered_blocks, total.closed_blocks), (40, 1, 39));
}

#[test]
fn mistakes_are_named() {
    let text = RANDOM.replace("\"redundant\"", "\"redundant\", \"fastest(x=1)\"");
    let scenario = scenario(&text);
    let batch = Batch::of(&scenario, registry());
    let error = batch.run(&|_| {}).unwrap_err();
    assert!(matches!(error, RunError::Scheduler { .. }));
    let words = error.to_string();
    assert!(words.starts_with("scenario random: unknown scheduler 'fastest'"), "{words}");
    let narrow = RANDOM.replace("name = \"two\"", "name = \"two\"\nmtu = 600");
    let error = run(&self::scenario(&narrow), "minrtt", 1, &registry(), &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("path two did not connect"), "{error}");
}

#[test]
fn a_timed_run_differs_in_its_time_only() {
    let plain = run_one(RANDOM);
    let mut timed = run_one(&RANDOM.replacen("seeds", "timed = true\nseeds", 1));
    assert!(plain.scheduling_ns.is_none());
    assert!(timed.scheduling_ns.take().is_some_and(|nanos| nanos > 0));
    assert_eq!(plain, timed);
}

/// A walk to the edge of a Wi-Fi network and back.
const WALK: &str = r#"
name = "walk"
duration = "40s"
schedulers = ["storm"]

[[path]]
name = "Wi-Fi"
rate = "20mbps"
delay = "10ms"
radio = { late = "50ms", noise = 0.0, wifi_edge = {} }

[[path]]
name = "LTE"
rate = "20mbps"
delay = "25ms"

[[flow]]
name = "voice"
kind = "blocks"
size = "160B"
interval = "20ms"
"#;

#[test]
fn a_report_that_is_later_is_further_from_the_truth() {
    let bias = |late: &str| {
        let run = run_one(&WALK.replacen("late = \"50ms\"", &format!("late = \"{late}\""), 1));
        assert_eq!(run.paths[1].signal_bias, None, "it has no radio");
        run.paths[0].signal_bias.expect("it has one")
    };
    let (soon, late) = (bias("50ms"), bias("1950ms"));
    println!("{soon:?} after 100 ms, {late:?} after 2 s");
    assert!(soon.mean < 0.03 && late.mean > 2.0 * soon.mean);
}

#[test]
fn who_waits_longer_for_a_signal_recovers_later() {
    let regain = |recovery: &str| {
        let run = run_one(&format!("{WALK}[signal]\nrecovery = \"{recovery}\"\nadapt = false\n"));
        let back = |alert: &&result::PathAlert| alert.kind == result::AlertWord::Recovery;
        let path = &run.paths[0];
        assert_eq!(path.recoveries, path.alerts.iter().filter(back).count() as u64);
        path.alerts.iter().find(back).expect("it recovers").at_us
    };
    let (soon, late) = (regain("100ms"), regain("3s"));
    println!("{soon} and {late} us");
    assert!(late >= soon + 1_000_000);
}

#[test]
fn a_check_of_a_dead_link_fails() {
    let flows = [
        ("kind = \"blocks\"\nsize = \"1kB\"\ninterval = \"20ms\"\ndeadline = \"60s\"\n", "in_time_ratio"),
        ("kind = \"blocks\"\nsize = \"1kB\"\ninterval = \"20ms\"\n", "delivered_ratio"),
        ("kind = \"bulk\"\nsize = \"20kB\"\n", "in_time_bytes_ratio"),
        ("kind = \"bulk\"\nsize = \"20kB\"\n", "efficiency"),
    ];
    for (flow, measure) in flows {
        let text = format!(
            "name = \"dead\"\nduration = \"2s\"\nschedulers = [\"minrtt\"]\n[[path]]\nname = \"link\"\n\
             rate = \"10mbps\"\ndelay = \"10ms\"\nloss = 1.0\n[[flow]]\nname = \"data\"\n{flow}\
             [[check]]\nflow = \"data\"\nmeasure = \"{measure}\"\nat_least = \"1%\"\n"
        );
        let scenario = Scenario::parse(&text, "dead.toml").unwrap_or_else(|error| panic!("{error}"));
        let runs = Batch::of(&scenario, Arc::new(squall_papers::registry())).run(&|_| {}).expect("runs");
        let verdict = &runs[0].checks[0];
        assert!(!verdict.pass, "{measure} of {flow}: {verdict:?}");
    }
}

/// Records the options of each block that its session shows.
struct Watcher {
    inner: Box<dyn Scheduler>,
    seen: Arc<Mutex<Vec<BlockMeta>>>,
}

impl Scheduler for Watcher {
    fn next(&mut self, cx: &Context<'_>) -> Decision {
        self.inner.next(cx)
    }

    fn on_event(&mut self, event: &SchedEvent, cx: &Context<'_>) {
        if let SchedEvent::Queued(id) = event {
            self.seen.lock().unwrap().extend(cx.queue.get(*id).map(|block| *block.meta()));
        }
        self.inner.on_event(event, cx);
    }
}

/// Returns the metadata that the session receives with the first blocks of a flow with these
/// fields.
fn shown(fields: &str) -> Vec<BlockMeta> {
    let seen: Arc<Mutex<Vec<BlockMeta>>> = Arc::default();
    let (noted, mut registry) = (seen.clone(), squall_papers::registry());
    let entry = Entry { name: "watcher", summary: "", source: "", options: &[], signal: false };
    registry.register(entry, move |_| {
        let inner = squall_papers::registry().build("minrtt").unwrap();
        Ok(Box::new(Watcher { inner, seen: noted.clone() }))
    });
    let text = format!(
        "name = 'needs'\nduration = '1s'\nschedulers = ['watcher']\n[[path]]\nname = 'a'\nrate = '8mbps'\n\
         [[flow]]\nname = 'camera'\nkind = 'video'\nfps = 30\nbitrate = '1mbps'\nkeyframe_interval = '100ms'\n{fields}"
    );
    run(&scenario(&text), "watcher", 1, &Arc::new(registry), &mut |_| {}).expect("runs");
    let seen = seen.lock().unwrap();
    assert!(seen.len() > 20);
    seen[..6].to_vec()
}

#[test]
fn a_session_learns_what_blocks_need_if_the_flow_says_so() {
    let needs = |fields: &str| {
        let first = shown(fields);
        first.iter().map(|meta| meta.needs[0].map(|need| need.0 - first[0].id.0)).collect::<Vec<_>>()
    };
    let previous = [None, Some(0), Some(1), None, Some(3), Some(4)];
    assert_eq!(needs(""), [None; 6]);
    assert_eq!(needs("dependencies = false"), [None; 6]);
    assert_eq!(needs("dependencies = true"), previous);
    assert_eq!(needs("dependencies = true\nproduction = '20ms'\ngrowing = true"), previous);
    assert_eq!(
        needs("dependencies = true\nreferences = 'key'"),
        [None, Some(0), Some(0), None, Some(3), Some(3)]
    );
    assert_eq!(shown("").iter().map(|meta| meta.value).collect::<Vec<_>>()[..2], [16_384, 4_096]);
}

#[test]
fn a_cap_lowers_the_bound_of_the_run() {
    let text = |schedulers: &str| {
        format!(
            "name = 'cap'\nduration = '4s'\nschedulers = [{schedulers}]\n\
             [[path]]\nname = 'free'\nrate = '4mbps'\n[[path]]\nname = 'dear'\nrate = '8mbps'\nmetered = true\n\
             [[flow]]\nname = 'camera'\nkind = 'video'\nfps = 30\nbitrate = '6mbps'\ndeadline = '150ms'"
        )
    };
    let [free, capped] = ["'minrtt'", "'minrtt(cap=300kB)'"].map(|name| run_one(&text(name)));
    let share = |run: &RunResult| run.flows[0].bound.expect("has one").in_time_bytes_ratio().expect("is due");
    // The unmetered path carries 64 of 100 bytes, and slightly more within the deadline of the
    // last; the cap is ten of 100.
    assert_eq!(share(&free), 1.0);
    assert!((0.68..0.76).contains(&share(&capped)), "{}", share(&capped));
    for run in [&free, &capped] {
        let (tally, bound) = (run.flows[0].total, run.flows[0].bound.expect("has one"));
        assert!(tally.in_time_bytes <= bound.in_time_bytes && tally.in_time_blocks <= bound.in_time_blocks);
        assert!(tally.decodable_blocks <= bound.decodable_blocks);
        assert!(tally.decodable_blocks <= tally.in_time_blocks);
    }
}
