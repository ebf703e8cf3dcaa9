//! No scheduler exceeds the clairvoyant bound, for any paths and traffic.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use proptest::prelude::*;
use squall_lab::{
    Batch, Direction, Generator, RunResult, Scenario,
    bound::{Bound, Demand, Demands, Limit, Supply},
    result::{FlowResult, Tally},
    traffic::{References, Traffic},
};

/// Schedulers of every scenario, in addition to a random one.
const ALWAYS: [&str; 3] = ["squall", "minrtt", "redundant"];

const DRAWN: [&str; 14] = [
    "sp",
    "rr",
    "ecf",
    "blest",
    "srpt-ecf",
    "dems",
    "dams",
    "dams-c",
    "ras(spill=true)",
    "storm",
    "ninetails",
    "raven",
    "augur",
    "minrtt(cap=200kB)-R",
];

/// Number of random scenarios; 2,000 with `SQUALL_GRID=all`.
fn cases() -> u32 {
    if std::env::var("SQUALL_GRID").is_ok_and(|grid| grid == "all") { 2_000 } else { 100 }
}

/// Length of a run in milliseconds.
const LENGTH: u64 = 2_000;

fn one_of(texts: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::sample::select(texts).prop_map(str::to_owned)
}

/// A change of a path at a time. `rates` is the weight of rate changes.
fn an_event(rates: u32) -> impl Strategy<Value = String> {
    let rate = (0u64..30, any::<bool>())
        .prop_map(|(mbps, ramp)| format!("rate='{mbps}mbps'{}", if ramp { ", over='300ms'" } else { "" }));
    let delay = (0u64..120, any::<bool>())
        .prop_map(|(delay, ramp)| format!("delay='{delay}ms'{}", if ramp { ", over='300ms'" } else { "" }));
    let outage = (1u64..800).prop_map(|length| format!("outage='{length}ms'"));
    let other = one_of(&["mtu='1280B'", "mtu='1500B'", "mtu='9kB'", "loss='20%'", "loss='0%'"]);
    let direction = one_of(&["", ", direction='down'", ", direction='up'"]);
    (0..LENGTH, prop_oneof![rates => rate, 1 => delay, 2 => outage, 1 => other], direction)
        .prop_map(|(at, what, direction)| format!("{{at='{at}ms', {what}{direction}}}"))
}

fn a_rate() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => (1u64..400).prop_map(|tenths| format!("rate='{}kbps'", 100 * tenths)),
        1 => prop::collection::vec(0u64..30, 1..6).prop_map(|mbps| {
            let steps = mbps.iter().enumerate().map(|(step, mbps)| format!("['{}ms','{mbps}mbps']", 350 * step));
            format!("rate={{steps=[{}]}}", steps.collect::<Vec<_>>().join(","))
        }),
        2 => prop::collection::vec(0u64..6, 2..40).prop_map(|gaps| {
            let mut at = 1;
            let millis = gaps.iter().map(|gap| {
                at += gap;
                at
            });
            format!("rate={{millis={:?}}}", millis.collect::<Vec<_>>())
        }),
    ]
}

/// All fields of a path except rate, queue and bottleneck.
fn a_way(rates: u32) -> impl Strategy<Value = String> {
    let delay = prop_oneof![
        3 => (0u64..100).prop_map(|delay| format!("delay='{delay}ms'")),
        1 => (0u64..100, 0u64..100).prop_map(|(one, two)| {
            format!("delay={{steps=[['0s','{one}ms'],['700ms','{two}ms'],['1300ms','{one}ms']]}}")
        }),
    ];
    let jitter =
        one_of(&["", "", "jitter='9ms'", "jitter='normal:15ms'", "jitter={uniform='20ms', reorder=true}"]);
    let loss = one_of(&["", "", "loss='2%'", "loss='10%/5'"]);
    let more = one_of(&["", "", "duplicate='10%'", "corrupt='1%'", "metered=true", "role='repair'"]);
    let outage = one_of(&["outage='drop'", "outage='hold'"]);
    (delay, jitter, loss, more, outage, prop::collection::vec(an_event(rates), 0..4)).prop_map(
        |(delay, jitter, loss, more, outage, events)| {
            format!("{delay}\n{jitter}\n{loss}\n{more}\n{outage}\nevents=[{}]\n", events.join(","))
        },
    )
}

/// A path with a serialiser of its own.
fn a_path() -> impl Strategy<Value = String> {
    let mtu = one_of(&["", "", "mtu='1280B'", "mtu='1400B'", "mtu='9kB'"]);
    let queue = one_of(&["", "queue='30kB'", "queue='infinite'", "queue='400 packets'", "delay_first=true"]);
    let stalls = one_of(&["", "", "stalls=[{every='400ms', length='20ms..300ms'}]"]);
    let radio = one_of(&[
        "",
        "",
        "",
        "walk={speed=12.0, far=60.0}",
        "wifi_edge={speed=12.0}",
        "rail={}",
        "tunnel={}",
    ]);
    (a_rate(), a_way(1), mtu, queue, stalls, radio).prop_map(|(rate, way, mtu, queue, stalls, radio)| {
        // A radio needs a rate to scale.
        let radio =
            if radio.is_empty() || rate.contains("millis") { "" } else { &format!("radio={{{radio}}}") };
        format!("{rate}\n{way}\n{mtu}\n{queue}\n{stalls}\n{radio}\n")
    })
}

/// One to three paths; the last may share the serialiser of the first.
fn some_paths() -> impl Strategy<Value = String> {
    (prop::collection::vec(a_path(), 1..3), prop::option::weighted(0.3, a_way(0))).prop_map(
        |(paths, guest)| {
            let mut text = String::new();
            for (place, path) in paths.iter().enumerate() {
                let path = if guest.is_some() && place == 0 { &without_stalls(path) } else { path };
                text += &format!("[[path]]\nname='{place}'\n{path}");
            }
            guest.iter().for_each(|way| text += &format!("[[path]]\nname='guest'\nbottleneck='0'\n{way}"));
            text
        },
    )
}

/// Removes stalls, which are not allowed when paths share a serialiser.
fn without_stalls(path: &str) -> String {
    path.lines().filter(|line| !line.starts_with("stalls")).map(|line| format!("{line}\n")).collect()
}

/// A flow of any kind except films, because their encoder takes longer than the run.
fn a_flow() -> impl Strategy<Value = String> {
    let film = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traffic/live.csv");
    let recorded = format!("kind='frames'\nfile='{}'", film.display());
    let clocked = prop_oneof![
        one_of(&[
            "kind='video'\nfps=30\nkeyframe_interval='500ms'\njitter='30%'",
            "kind='video'\nfps=60\nkeyframe_interval='1s'\nreferences='key'\nreliable='none'",
            "kind='video'\nfps=30\nkeyframe_interval='400ms'\ndependencies=true\nreliable='key'",
            "kind='video'\nfps=25\nproduction='20ms'\ngrowing=true\ndependencies=true",
            "kind='gop'\npattern='IPPBBB'\ninterval='200ms'\nreliable='none'",
            "kind='gop'\npattern='IBPBPB'\ninterval='250ms'\nspread=true\nchannels='one'",
            "kind='tiles'\ncolumns=6\nrows=3\nreliable='all'",
            "kind='tiles'\ncolumns=4\nrows=2",
        ]),
        Just(recorded),
    ];
    let clocked = (clocked, 1u64..250, one_of(&["", "40ms", "150ms", "400ms", "1500ms", "5s"]));
    let clocked = clocked.prop_map(|(kind, tenths, deadline)| {
        let deadline = if deadline.is_empty() { String::new() } else { format!("deadline='{deadline}'\n") };
        format!("{kind}\nbitrate='{}kbps'\n{deadline}", 100 * tenths)
    });
    let other = one_of(&[
        "kind='blocks'\nsize='30kB'\ninterval='40ms'\ndeadline='100ms'\npriority=2\n",
        "kind='blocks'\nsize='400B'\ninterval='5ms'\ndeadline='80ms'\nreliable=false\n",
        "kind='blocks'\nsize='300kB'\ninterval='300ms'\n",
        "kind='messages'\nsize={pareto={mean='20kB', shape=1.5}}\ninterval={exponential='15ms'}\ndeadline='150ms'\n",
        "kind='messages'\nsize='20kB'\ninterval='5ms'\nblocking=true\ndeadline='200ms'\nchannels=4\n",
        "kind='bulk'\nsize='64kB'\n",
        "kind='game'\nbitrate_min='500kbps'\nbitrate_max='30mbps'\n",
        "kind='dash'\nbitrate='6mbps'\ndeadline='400ms'\n",
    ]);
    (prop_oneof![clocked, other], one_of(&["", "", "direction='up'\n"]), 0u64..1_000).prop_map(
        |(flow, direction, start)| format!("{flow}{direction}start='{}ms'\n", start.saturating_sub(600)),
    )
}

fn a_scenario() -> impl Strategy<Value = String> {
    let congestion = prop::sample::select(vec!["steady", "steady", "cubic", "bbr3"]);
    let flows = prop::collection::vec(a_flow(), 1..4);
    (some_paths(), flows, congestion, prop::sample::select(DRAWN.to_vec()), 1u64..1_000).prop_map(
        |(paths, flows, congestion, drawn, seed)| {
            let schedulers: Vec<&str> = ALWAYS.into_iter().chain([drawn]).collect();
            let mut text = format!(
                "name='drawn'\nduration='{LENGTH}ms'\nseeds=[{seed}]\nschedulers={schedulers:?}\ncongestion='{congestion}'\n{paths}"
            );
            for (place, flow) in flows.iter().enumerate() {
                text += &format!("[[flow]]\nname='{place}'\n{flow}");
            }
            text
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 300, ..ProptestConfig::default() })]

    #[test]
    fn no_scheduler_surpasses_its_bound(text in a_scenario()) {
        let scenario = Scenario::parse(&text, "test.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
        let runs = Batch::of(&scenario, Arc::new(squall_papers::registry())).run(&|_| {});
        for run in &runs.unwrap_or_else(|error| panic!("{error}\n{text}")) {
            let surpassed = surpassed(&scenario, run);
            prop_assert!(surpassed.is_empty(), "{}: {surpassed:#?}\n{text}", run.scheduler);
        }
    }
}

/// Returns all values of a run that exceed its bounds: of each direction by priority, of each flow
/// and of each class.
fn surpassed(scenario: &Scenario, run: &RunResult) -> Vec<String> {
    let mut wrong = Vec::new();
    for bound in &run.bounds {
        let flows = || run.flows.iter().filter(|flow| flow.direction == bound.direction);
        for class in &bound.bound.classes {
            let classes = flows().flat_map(|flow| &flow.classes).filter(|one| one.priority <= class.priority);
            let tally = classes.fold(Tally::default(), |sum, class| sum.plus(&class.tally));
            let name = format!("{:?}, up to priority {}", bound.direction, class.priority);
            compare(&name, &tally, None, &class.so_far, &mut wrong);
        }
    }
    let supplies = supplies(scenario, run.seed);
    for (index, flow) in run.flows.iter().enumerate() {
        let Some(limit) = &flow.bound else { continue };
        compare(&flow.name, &flow.total, flow.in_time_bytes_ratio, limit, &mut wrong);
        for class in &flow.classes {
            let limit = class.bound.as_ref().expect("its flow has one");
            compare(
                &format!("{} {}", flow.name, class.name),
                &class.tally,
                class.in_time_bytes_ratio,
                limit,
                &mut wrong,
            );
        }
        let supply = &supplies[usize::from(flow.direction == Direction::Up)];
        undercut(&demands(scenario, index, run.seed), supply, flow, limit, &mut wrong);
    }
    wrong
}

fn supplies(scenario: &Scenario, seed: u64) -> [Supply; 2] {
    [Direction::Down, Direction::Up].map(|direction| {
        Supply::of(&scenario.paths, seed, scenario.duration_us, direction)
            .unwrap_or_else(|error| panic!("{error}"))
    })
}

/// Blocks of a flow if it offers the same ones in every run; empty for other flows.
fn demands(scenario: &Scenario, index: usize, seed: u64) -> Vec<Demand> {
    let flow = &scenario.flows[index];
    let is_fixed = match &flow.traffic {
        Traffic::Bulk(_) | Traffic::Game(_) | Traffic::Dash(_) => false,
        Traffic::Messages(messages) => !messages.blocking,
        _ => true,
    };
    if is_fixed { needing(Generator::new(flow, index, seed)) } else { Vec::new() }
}

/// Blocks of a flow with their dependencies.
fn needing(generator: Generator) -> Vec<Demand> {
    let mut demands = Demands::default();
    generator.for_each(|offer| demands.add(0, &offer));
    demands.finish()
}

/// Compares a tally with its limit. `timely` is the share of the bytes in time, if recorded.
fn compare(name: &str, tally: &Tally, timely: Option<f64>, limit: &Limit, wrong: &mut Vec<String>) {
    if (tally.offered_blocks, tally.offered_bytes) != (limit.offered_blocks, limit.offered_bytes) {
        wrong.push(format!("{name}: not the same blocks, {tally:?}, {limit:?}"));
    }
    let numbers = [
        ("bytes", tally.in_time_bytes, limit.in_time_bytes),
        ("blocks", tally.in_time_blocks, limit.in_time_blocks),
        ("decodable blocks", tally.decodable_blocks, limit.decodable_blocks),
    ];
    let numbers = numbers.map(|(what, reached, most)| (what, Some(reached as f64), Some(most as f64)));
    let shares = [
        ("share of the bytes", timely, limit.in_time_bytes_ratio()),
        ("share of the blocks", tally.in_time_ratio(), limit.in_time_ratio()),
        ("share of decodable blocks", tally.decodable_ratio(), limit.decodable_ratio()),
    ];
    for (what, reached, most) in numbers.into_iter().chain(shares) {
        // If nothing can be in time, the bound may have no share.
        if reached > most.or(Some(0.0)) {
            wrong.push(format!("{name}: {what}, {reached:?} > {most:?}, {tally:?}, {limit:?}"));
        }
    }
}

/// Returns blocks that arrived too early: individually if the blocks of the flow can be determined,
/// otherwise by rank among all blocks that can arrive.
fn undercut(demands: &[Demand], supply: &Supply, flow: &FlowResult, limit: &Limit, wrong: &mut Vec<String>) {
    let mut least: BTreeMap<u64, u64> = BTreeMap::new();
    for demand in demands {
        let of_its_time = least.entry(demand.release_us).or_insert(u64::MAX);
        *of_its_time = (*of_its_time).min(supply.least_latency_us(demand).unwrap_or(u64::MAX));
    }
    let of = |at_us| least.get(&at_us).copied().unwrap_or(if demands.is_empty() { 0 } else { u64::MAX });
    for point in flow.latencies.iter().filter(|point| point.latency_us < of(point.at_us)) {
        wrong.push(format!("{}: {point:?} < {}", flow.name, of(point.at_us)));
    }
    let (Some(latency), Some(least)) = (flow.latency, limit.latency) else {
        if flow.latency.is_some() {
            wrong.push(format!("{}: none could arrive", flow.name));
        }
        return;
    };
    let ranks =
        [(latency.p50_us, least.p50_us), (latency.p99_us, least.p99_us), (latency.max_us, least.max_us)];
    let all_arrived = latency.count == least.count;
    if latency.count > least.count || all_arrived && ranks.iter().any(|(latency, least)| latency < least) {
        wrong.push(format!("{}: {latency:?} < {least:?}", flow.name));
    }
}

/// Clairvoyant shares in time and decodable for the video of `limits/dark.toml`, means over its
/// seeds.
fn dark(references: References, keyframe_interval: &str, deadline: &str) -> (f64, f64) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/limits");
    let scenario = Scenario::load(&folder.join("dark.toml")).unwrap_or_else(|error| panic!("{error}"));
    let mut flow = scenario.flows[0].clone();
    let Traffic::Video(video) = &mut flow.traffic else { panic!("it is video") };
    let time = |text: &str| text.parse().expect("is a time");
    (video.references, video.deadline) = (references, Some(time(deadline)));
    video.keyframe_interval = time(keyframe_interval);
    let (mut in_time, mut decodable) = (0.0, 0.0);
    for seed in &scenario.seeds {
        let supply = Supply::of(&scenario.paths, *seed, scenario.duration_us, flow.direction)
            .unwrap_or_else(|error| panic!("{error}"));
        let limit = Bound::of(&supply, &needing(Generator::new(&flow, 0, *seed))).total;
        in_time += limit.in_time_ratio().expect("has blocks") / scenario.seeds.len() as f64;
        decodable += limit.decodable_ratio().expect("has blocks") / scenario.seeds.len() as f64;
    }
    println!(
        "{references:?}, key frames each {keyframe_interval}, {deadline}: {:.1} % in time, {:.1} % decodable",
        100.0 * in_time,
        100.0 * decodable
    );
    (in_time, decodable)
}

#[test]
fn in_the_dark_a_chain_of_references_costs_frames_that_could_be_in_time() {
    for deadline in ["150ms", "300ms"] {
        let (in_time, chained) = dark(References::Previous, "2s", deadline);
        let (same, keyed) = dark(References::Key, "2s", deadline);
        assert_eq!(in_time, same, "the same frames");
        assert!(chained < keyed - 0.1 && keyed < in_time, "{chained} {keyed} {in_time}");
        let (_, short) = dark(References::Previous, "500ms", deadline);
        assert!(
            chained < short - 0.05 && short < keyed,
            "{chained} {short} {keyed}: fewer hang on each frame"
        );
    }
}
