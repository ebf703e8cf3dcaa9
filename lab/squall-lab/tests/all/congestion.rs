//! Congestion controllers for real-time media in virtual time: Steady, SQP, Salsify, and CUBIC that
//! tolerates loss, compared with CUBIC.
//!
//! The assertions are based on earlier measurements (the figures are in `docs/notebook/congestion.md`);
//! nothing was tuned for them.

use std::sync::Arc;

use squall_lab::{Batch, RunResult, Scenario, result};

/// The controllers made for media.
const MEDIA: [&str; 3] = ["steady", "sqp", "salsify"];

/// A link of 10 Mbps and 20 ms with a deep queue.
const DEEP: &str = "[[path]]\nname = \"link\"\nrate = \"10mbps\"\ndelay = \"20ms\"\nqueue = \"1MB\"\n";

/// Bulk data that exceeds the capacity of any link.
const BULK: &str = "[[flow]]\nname = \"bulk\"\nkind = \"bulk\"\nsize = \"20kB\"\npriority = 5\n";

/// Small blocks, like those of a call.
const VOICE: &str = "[[flow]]\nname = \"voice\"\nkind = \"blocks\"\nsize = \"160B\"\ninterval = \"20ms\"\n";

/// 60 frames a second, 8 Mbps.
const VIDEO: &str =
    "[[flow]]\nname = \"video\"\nkind = \"video\"\nfps = 60\nbitrate = \"8mbps\"\nkey_ratio = 1\n";

/// Runs paths and flows with seeds 1 to 3, for ten seconds.
fn runs(congestion: &str, parts: &[&str]) -> Vec<RunResult> {
    with_seeds("[1, 2, 3]", congestion, parts)
}

fn with_seeds(seeds: &str, congestion: &str, parts: &[&str]) -> Vec<RunResult> {
    let text = format!(
        "name = \"congestion\"\nduration = \"10s\"\nseeds = {seeds}\nschedulers = [\"minrtt\"]\n\
         congestion = \"{congestion}\"\n{}",
        parts.concat()
    );
    let scenario = Scenario::parse(&text, "test.toml").unwrap_or_else(|error| panic!("{error}"));
    Batch::of(&scenario, Arc::new(squall_papers::registry())).run(&|_| {}).expect("runs")
}

/// Runs with CUBIC, Steady, SQP and Salsify, for each seed.
fn compared(parts: &[&str]) -> impl Iterator<Item = [RunResult; 4]> {
    [1, 2, 3].into_iter().map(|seed| {
        let of = |congestion| with_seeds(&format!("[{seed}]"), congestion, parts).swap_remove(0);
        ["cubic", "steady", "sqp", "salsify"].map(of)
    })
}

/// Share of the first flow's blocks that arrived in time.
fn in_time(run: &RunResult) -> f64 {
    run.flows[0].total.in_time_ratio().expect("blocks were due")
}

/// 95th percentile of the smoothed RTT of a run's path, in milliseconds.
fn p95_rtt(run: &RunResult, path: usize) -> f64 {
    run.paths[path].rtt.expect("it was sampled").p95_us as f64 / 1e3
}

/// Goodput of a flow in a window of seconds, in Mbps.
fn goodput(run: &RunResult, flow: usize, from_s: u64, to_s: u64) -> f64 {
    run.flows[flow].goodput_within((from_s * 1_000_000, to_s * 1_000_000)) / 1e6
}

/// Smoothed RTTs of the first path from a time on, in milliseconds.
fn rtts(run: &RunResult, from_us: u64) -> impl Iterator<Item = f64> + '_ {
    let series = &run.paths[0].series;
    let times = series.at_us.iter().zip(&series.srtt_us);
    times.filter(move |(at, _)| **at >= from_us).map(|(_, rtt)| *rtt as f64 / 1e3)
}

#[test]
fn packets_of_a_transfer_wait_a_fraction_of_what_they_do_with_cubic() {
    for runs in compared(&[DEEP, BULK]) {
        let waits = runs.each_ref().map(|run| p95_rtt(run, 0));
        let used = runs.each_ref().map(|run| goodput(run, 0, 2, 10));
        println!("p95 of the RTT {waits:.1?} ms, {used:.2?} Mbps");
        let [cubic, steady, sqp, salsify] = waits;
        assert!(steady < 0.1 * cubic && sqp < 0.1 * cubic && salsify < 0.2 * cubic, "{waits:?}");
        // SQP drains the queue if possible, Steady keeps half of its target, Salsify uses all
        // that it allows.
        assert!(sqp < salsify && steady < salsify, "{waits:?}");
        assert!(used[1..].iter().all(|used| *used > 8.5), "of 10 Mbps: {used:?}");
    }
}

#[test]
fn two_connections_carry_twice_as_much_over_random_loss() {
    let lossy = "[[path]]\nname = \"link\"\nrate = \"50mbps\"\ndelay = \"50ms\"\nloss = \"0.1%\"\n";
    let carried = |congestion: &str| {
        let text = format!(
            "name = \"connections\"\nduration = \"80s\"\nseeds = [1, 2, 3]\nschedulers = [\"minrtt\"]\n\
             congestion = \"{congestion}\"\n{lossy}{BULK}"
        );
        let scenario = Scenario::parse(&text, "test.toml").unwrap_or_else(|error| panic!("{error}"));
        let runs = Batch::of(&scenario, Arc::new(squall_papers::registry())).run(&|_| {}).expect("runs");
        let mbps = runs.iter().map(|run| goodput(run, 0, 20, 80)).sum::<f64>() / runs.len() as f64;
        println!("{congestion}: {mbps:.2} Mbps");
        mbps
    };
    // √(3 / 2p) = 38.7 packets per round trip and connection, with 1.35 kB of data each.
    let [library, one, two] = ["cubic", "cubic(connections=1)", "cubic(connections=2)"].map(carried);
    assert!((3.0..6.0).contains(&one) && (0.7..1.4).contains(&(one / library)), "{one} and {library} Mbps");
    assert!((7.0..10.0).contains(&two) && two > 1.6 * one, "{two} and {one} Mbps");
}

/// Offer time of the last frame that was later than `limit_us` or never arrived, in microseconds.
fn last_late(run: &RunResult, limit_us: u64) -> u64 {
    let flow = &run.flows[0];
    let late = flow.latencies.iter().filter(|p| p.latency_us > limit_us).map(|p| p.at_us);
    late.chain(flow.missing_at_us.iter().copied()).max().unwrap_or(0)
}

#[test]
fn a_dip_of_the_rate_makes_no_frame_later_than_with_cubic() {
    // For a second the link carries a quarter of the stream. The data that CUBIC has in flight by
    // then will be late and delays the data behind it.
    let dip = "{ steps = [[\"0s\", \"12mbps\"], [\"5s\", \"2mbps\"], [\"6s\", \"12mbps\"]] }";
    let dip = DEEP.replace("\"10mbps\"", dip);
    let video = VIDEO.to_owned() + "deadline = \"150ms\"\nreliable = \"none\"\n";
    for runs in compared(&[&dip, &video]) {
        let slowest = runs.each_ref().map(|run| {
            let after = run.flows[0].latencies.iter().filter(|p| p.at_us > 4_900_000);
            after.map(|p| p.latency_us).max().expect("frames arrive")
        });
        let back = runs.each_ref().map(|run| last_late(run, 150_000));
        println!("slowest {slowest:?} µs, last late at {back:?} µs");
        // Data in the queue when the rate falls is as late with SQP as with CUBIC.
        assert!(slowest[2] < slowest[0] + 1_000, "{slowest:?}");
        assert!(slowest[1] < slowest[0] && slowest[3] < slowest[0], "{slowest:?}");
        // Steady and Salsify recover together with the link; SQP adds at most 320 kbps per frame.
        assert!([1, 3].into_iter().all(|i| back[i] < back[0] && back[i] < 6_150_000), "{back:?}");
        assert!(back[2] < 7_500_000, "{back:?}");
    }
}

#[test]
fn salsify_bounds_the_round_trip_and_pays_for_it_on_long_ones() {
    for run in runs("salsify", &[DEEP, BULK]) {
        let longest = rtts(&run, 2_000_000).fold(0.0, f64::max);
        println!("round trip {longest:.1} ms");
        assert!((90.0..105.0).contains(&longest), "d is 100 ms: {longest}");
    }
    // Round trip of 200 ms, of which 100 ms may be in flight.
    for run in runs("salsify", &[&DEEP.replace("20ms", "100ms"), BULK]) {
        let used = goodput(&run, 0, 3, 10);
        println!("over 200 ms: {used:.2} Mbps");
        assert!((4.0..5.5).contains(&used), "half of 10 Mbps: {used}");
    }
}

#[test]
fn after_the_rate_halves_the_delay_comes_back() {
    let halved = DEEP.replace("\"10mbps\"", "{ steps = [[\"0s\", \"10mbps\"], [\"5s\", \"5mbps\"]] }");
    for congestion in MEDIA {
        for run in runs(congestion, &[&halved, BULK]) {
            let before = rtts(&run, 4_000_000).next().expect("it runs");
            let after = rtts(&run, 6_000_000).fold(0.0, f64::max);
            let used = goodput(&run, 0, 7, 10);
            println!("{congestion}: {before:.1} ms before, {after:.1} ms a second after, {used:.2} Mbps");
            assert!(after < before + 10.0, "{congestion}: {before} and {after}");
            assert!(used > 4.0, "{congestion} uses {used} of 5 Mbps");
        }
    }
}

#[test]
fn a_stream_below_the_rate_of_the_link_is_left_alone() {
    let wide = DEEP.replace("10mbps", "50mbps");
    for congestion in MEDIA {
        for run in runs(congestion, &[&wide, VIDEO]) {
            let late = run.flows[0].latencies.iter().filter(|p| p.at_us > 2_000_000);
            let slowest = late.map(|p| p.latency_us).max().expect("frames arrive");
            let windows = &run.paths[0].series.window;
            let (first, last) = (windows[50], windows[99]);
            println!("{congestion}: slowest frame {slowest} µs, window {first} and {last} bytes");
            assert!(slowest < 30_000, "{congestion}: 20 ms and 3 ms of sending: {slowest}");
            // 100 ms of the link's capacity, plus a round trip and a frame of the stream.
            assert!(last < 650_000 && last > 60_000, "{congestion}: {last}");
        }
    }
}

#[test]
fn random_loss_is_no_congestion() {
    let lossy = format!("{DEEP}loss = \"1%\"\n");
    let cubic = runs("cubic", &[&lossy, BULK]);
    for congestion in MEDIA.into_iter().chain(["cubic-tolerant"]) {
        for (run, cubic) in runs(congestion, &[&lossy, BULK]).iter().zip(&cubic) {
            let [used, cubic] = [run, cubic].map(|run| goodput(run, 0, 2, 10));
            println!("{congestion}: {used:.2} Mbps, cubic {cubic:.2}");
            assert!(used > 8.5 && used > 1.5 * cubic, "{congestion}: {used}, cubic {cubic}");
        }
    }
}

#[test]
fn where_packets_queue_tolerance_changes_nothing() {
    for (name, link) in [("1 MB", DEEP.to_owned()), ("50 kB", DEEP.replace("1MB", "50kB"))] {
        let runs = ["cubic", "cubic-tolerant"].map(|congestion| runs(congestion, &[&link, BULK]));
        for (cubic, tolerant) in runs[0].iter().zip(&runs[1]) {
            let pair = [cubic, tolerant];
            let waits = pair.map(|run| p95_rtt(run, 0));
            let lost = pair.map(|run| run.paths[0].totals.lost_packets);
            println!("queue of {name}: p95 of the RTT {waits:.1?} ms, lost {lost:?}");
            assert!(waits[1] < 1.05 * waits[0], "{name}: {waits:?}");
            assert!(lost[1] < 2 * lost[0] + 10, "{name}: {lost:?}");
        }
    }
}

#[test]
fn a_stream_over_a_lossy_link_is_in_time_where_loss_is_tolerated() {
    let lossy = format!("{DEEP}loss = {{ to_bad = \"0.5%\", to_good = \"25%\" }}\n");
    let video = VIDEO.to_owned() + "deadline = \"300ms\"\n";
    let runs = ["cubic", "cubic-tolerant"].map(|congestion| runs(congestion, &[&lossy, &video]));
    for (cubic, tolerant) in runs[0].iter().zip(&runs[1]) {
        let in_time = [cubic, tolerant].map(in_time);
        println!("in time: {in_time:.3?}");
        assert!(in_time[1] > 0.99 && in_time[0] < 0.9, "{in_time:?}");
    }
}

#[test]
fn losses_in_runs_leave_room_for_most_of_a_link() {
    let link = DEEP.replace("10mbps", "25mbps").replace("1MB", "150kB");
    let lossy = format!("{link}loss = {{ to_bad = \"0.5%\", to_good = \"25%\" }}\n");
    let video = VIDEO.replace("8mbps", "18mbps") + "deadline = \"300ms\"\n";
    for run in runs("cubic-tolerant", &[&lossy, &video]) {
        let in_time = in_time(&run);
        println!("in time: {in_time:.3}");
        assert!(in_time > 0.97, "{in_time}");
    }
}

#[test]
fn two_paths_are_both_used_and_neither_fills_its_queue() {
    let second = "[[path]]\nname = \"slow\"\nrate = \"5mbps\"\ndelay = \"40ms\"\nqueue = \"1MB\"\n";
    for congestion in MEDIA {
        for run in runs(congestion, &[DEEP, second, BULK]) {
            let rates: Vec<f64> = run.paths.iter().map(|path| path.goodput_down_bps as f64 / 1e6).collect();
            let waits = [p95_rtt(&run, 0), p95_rtt(&run, 1)];
            println!("{congestion}: {rates:.2?} Mbps, p95 of the RTT {waits:.1?} ms");
            assert!(rates[0] > 8.0 && rates[1] > 3.7, "{congestion}: {rates:?}");
            assert!(waits[0] < 105.0 && waits[1] < 115.0, "{congestion}: {waits:?}");
        }
    }
}

#[test]
fn on_harder_links_all_keep_going() {
    let links = [
        ("1 Mbps", DEEP.replace("10mbps", "1mbps"), 1.0),
        ("100 Mbps", DEEP.replace("10mbps", "100mbps"), 100.0),
        ("round trip of 200 ms", DEEP.replace("20ms", "100ms"), 10.0),
        ("jitter of 5 ms", format!("{DEEP}jitter = \"5ms\"\n"), 10.0),
        ("reordering", format!("{DEEP}jitter = {{ normal = \"5ms\", reorder = true }}\n"), 10.0),
        ("queue of 10 kB", DEEP.replace("1MB", "10kB"), 10.0),
    ];
    for (name, link, rate) in links {
        for congestion in ["cubic", "cubic-tolerant", "steady", "sqp", "salsify"] {
            let run = with_seeds("[1]", congestion, &[&link, BULK]).swap_remove(0);
            let share = goodput(&run, 0, 5, 10) / rate;
            let lost = run.paths[0].totals.lost_packets as f64 / run.paths[0].totals.packets as f64;
            let rtt = p95_rtt(&run, 0);
            println!("{name}, {congestion}: {share:.2} of it, p95 of the RTT {rtt:.0} ms, {lost:.3} lost");
            assert!(share > 0.1, "{name}, {congestion}: {share}");
            assert!(congestion != "sqp" || rtt < 215.0, "{name}: {rtt}");
        }
    }
}

/// Runs a transfer with Steady over a link for a number of seconds.
fn transfer(link: &str, seconds: u64) -> RunResult {
    let text = format!(
        "name = \"congestion\"\nduration = \"{seconds}s\"\nseeds = [1]\nschedulers = [\"minrtt\"]\n\
         congestion = \"steady\"\n[[path]]\nname = \"link\"\n{link}\n{BULK}backlog = \"16MB\"\n"
    );
    let scenario = Scenario::parse(&text, "test.toml").unwrap_or_else(|error| panic!("{error}"));
    Batch::of(&scenario, Arc::new(squall_papers::registry())).run(&|_| {}).expect("runs").swap_remove(0)
}

/// Required upper limit of the p95 round trip, over a link with this rate in Mbps and this round
/// trip in milliseconds.
fn longest_rtt(mbps: f64, base: f64) -> f64 {
    base + f64::max(25.0, base / 8.0).max(4.0 * 1.5 * 8.0 / mbps)
}

/// Utilisation of the link by a transfer from the fifth second on, headers included, and p95 of the
/// smoothed RTT in that time.
fn used_and_waited(run: &RunResult, mbps: f64, seconds: u64) -> (f64, f64) {
    let mut waits: Vec<f64> = rtts(run, 5_000_000).collect();
    waits.sort_by(f64::total_cmp);
    (goodput(run, 0, 5, seconds) * 1.05 / mbps, waits[waits.len() * 95 / 100])
}

#[test]
fn steady_over_links_of_all_kinds() {
    for mbps in [1, 5, 20, 60, 200] {
        // A slow link takes longer to settle, but less time to simulate.
        let seconds = if mbps < 20 { 20 } else { 12 };
        for base in [10, 40, 100, 300] {
            let link = format!("rate = \"{mbps}mbps\"\ndelay = \"{}ms\"\nqueue = \"1MB\"", base / 2);
            let (used, waited) = used_and_waited(&transfer(&link, seconds), mbps.into(), seconds);
            let wanted = longest_rtt(mbps.into(), base.into());
            println!("| {mbps} Mbps, {base} ms | {:.0} % | {waited:.0} of {wanted:.0} ms |", used * 100.0);
            // A receiver collects reports for up to 10 ms, which count in the mean round trip.
            assert!(
                used > 0.9 && waited < (1.25 * wanted).max(wanted + 20.0),
                "{used} of the link, {waited} ms"
            );
        }
    }
    // Minimum utilisation of the link; overtaken packets are mistaken for lost ones.
    for (name, more, least) in [
        ("jitter of 2 ms", "jitter = \"2ms\"", 0.9),
        ("jitter of 5 ms", "jitter = \"5ms\"", 0.9),
        ("jitter of 10 ms", "jitter = \"10ms\"", 0.8),
        ("jitter of 2 ms that reorders", "jitter = { normal = \"2ms\", reorder = true }", 0.9),
        ("jitter of 5 ms that reorders", "jitter = { normal = \"5ms\", reorder = true }", 0.05),
        ("1 % random loss", "loss = \"1%\"", 0.9),
        ("5 % random loss", "loss = \"5%\"", 0.9),
        ("2 % loss in runs of four", "loss = { to_bad = \"0.5%\", to_good = \"25%\" }", 0.9),
        ("policer with 20 kB", "policer = \"20mbps:20kB\"\nrate = \"100mbps\"", 0.9),
        ("policer with 50 kB", "policer = \"20mbps:50kB\"\nrate = \"100mbps\"", 0.9),
        ("policer with 200 kB", "policer = \"20mbps:200kB\"\nrate = \"100mbps\"", 0.9),
        // Seven packets: 60 to 76 %, depending on the seed.
        ("queue of 10 kB", "queue = \"10kB\"", 0.6),
        ("queue of 20 kB", "queue = \"20kB\"", 0.9),
        ("queue of 50 kB", "queue = \"50kB\"", 0.9),
        ("queue of 100 kB", "queue = \"100kB\"", 0.9),
    ] {
        let queue = if more.starts_with("queue") { "" } else { "queue = \"1MB\"" };
        let rate = if more.contains("rate") { "" } else { "rate = \"20mbps\"" };
        let link = format!("{rate}\ndelay = \"20ms\"\n{queue}\n{more}");
        let (used, waited) = used_and_waited(&transfer(&link, 12), 20.0, 12);
        let wanted = longest_rtt(20.0, 40.0);
        println!("| 20 Mbps, 40 ms, {name} | {:.0} % | {waited:.0} of {wanted:.0} ms |", used * 100.0);
        assert!(used > least, "{name}: {used} of the link");
    }
}

#[test]
fn steady_follows_steps_by_ten_in_either_direction() {
    for (low, base) in [(1, 40), (2, 10), (5, 10), (5, 40), (5, 100), (5, 300), (20, 40)] {
        let link = |from, to| {
            let rate = format!("{{ steps = [[\"0s\", \"{from}mbps\"], [\"10s\", \"{to}mbps\"]] }}");
            format!("rate = {rate}\ndelay = \"{}ms\"\nqueue = \"3MB\"", base / 2)
        };
        let high = 10 * low;
        let (up, down) = (transfer(&link(low, high), 20), transfer(&link(high, low), 20));
        let found = 10 + (2_000.max(14 * base) as u64).div_ceil(1_000);
        let used = goodput(&up, 0, found, found + 2) * 1.05 / f64::from(high);
        let queues: Vec<f64> = rtts(&down, 10_000_000).map(|rtt| rtt - f64::from(base)).collect();
        // Measured over a second, because a queue is not detected at once.
        let is_short = |second: &[f64]| second.iter().all(|queue| *queue < 50.0);
        let drained = 100 * queues.windows(10).position(is_short).expect("it drains");
        // Until a round trip after the step, data arrives at the old rate; all of it leaves at a
        // tenth of the rate.
        let least = 10 * (base + 15) - 50;
        println!("| {low} to {high} Mbps, {base} ms | {:.0} % | {drained} of {least} ms |", used * 100.0);
        assert!(used > 0.9, "{used} of {high} Mbps over {base} ms");
        assert!(drained < 2 * least as usize + 300, "{drained} ms over {base} ms");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let jittery = DEEP.replace("delay = \"20ms\"", "delay = \"20ms\"\njitter = \"3ms\"\nloss = \"1%\"");
    for congestion in MEDIA.into_iter().chain(["cubic-tolerant"]) {
        let twice = [(); 2].map(|()| result::to_json(&runs(congestion, &[&jittery, VIDEO, VOICE])));
        assert_eq!(twice[0], twice[1], "{congestion}");
    }
}
