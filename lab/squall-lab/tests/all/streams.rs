//! Channels as streams: cost of ordering, and sharing between channels.

use std::sync::Arc;

use squall_lab::{Batch, RunResult, Scenario};

fn runs(text: &str) -> Vec<RunResult> {
    let scenario = Scenario::parse(text, "test.toml").unwrap_or_else(|error| panic!("{error}"));
    Batch::of(&scenario, Arc::new(squall_papers::registry())).run(&|_| {}).expect("runs")
}

/// Messages of one packet every 5 ms over a path that loses 1 %; p95 and p99 of their latency, by
/// seed.
fn latencies(channels: &str) -> Vec<(u64, u64)> {
    let text = format!(
        "name = \"messages\"\nduration = \"10s\"\nseeds = [1, 2, 3, 4, 5]\nschedulers = [\"minrtt\"]\n\
        [[path]]\nname = \"a\"\nrate = \"20mbps\"\ndelay = \"25ms\"\nloss = \"1%\"\n\
        [[flow]]\nname = \"f\"\nkind = \"blocks\"\nsize = \"600B\"\ninterval = \"5ms\"\n{channels}\n"
    );
    let latency = |run: RunResult| {
        assert_eq!(run.flows[0].total.delivered_blocks + run.flows[0].total.open_blocks, 2_000);
        run.flows[0].latency.as_ref().map(|l| (l.p95_us, l.p99_us)).expect("some arrived")
    };
    runs(&text).into_iter().map(latency).collect()
}

/// Head-of-line blocking (NineTails, §II.B): after a lost packet, a stream waits for its repair,
/// although later messages have arrived.
#[test]
fn one_ordered_channel_blocks_where_a_channel_for_each_message_does_not() {
    let (one, own) = (latencies("channels = \"one\""), latencies("channels = \"per-message\""));
    let (four, free) = (latencies("channels = 4"), latencies(""));
    println!("one {one:?}\nown {own:?}\nfour {four:?}\nunordered {free:?}");
    for seed in 0..5 {
        let [one, own] = [one[seed], own[seed]];
        assert!(one.0 > own.0, "seed {}: p95 {} and {}", seed + 1, one.0, own.0);
        // For a seed with more than 1 % loss, both percentiles include a repair.
        assert!(one.1 >= own.1, "seed {}: p99 {} and {}", seed + 1, one.1, own.1);
    }
    let mean = |all: &[(u64, u64)]| all.iter().map(|(p95, p99)| p95 + p99).sum::<u64>() / 5;
    let [one, four, own, free] = [one, four, own, free].map(|all| mean(&all));
    assert!(one > four && four > own, "fewer messages wait for a lost one: {one}, {four}, {own}");
    assert!(own.abs_diff(free) < own / 10, "what is not ordered waits for none: {own} and {free}");
}

/// Rates of two bulk flows, in bits per second.
fn rates(streams: &str, weights: [u32; 2], scheduler: &str) -> [f64; 2] {
    let [a, b] = weights;
    let text = format!(
        "name = \"bulk\"\nduration = \"10s\"\nschedulers = [\"{scheduler}\"]\n{streams}\n\
        [[path]]\nname = \"a\"\nrate = \"10mbps\"\ndelay = \"15ms\"\n\
        [[path]]\nname = \"b\"\nrate = \"6mbps\"\ndelay = \"40ms\"\nloss = \"0.5%\"\n\
        [[flow]]\nname = \"a\"\nkind = \"bulk\"\nsize = \"20kB\"\nbacklog = \"1MB\"\nweight = {a}\n\
        [[flow]]\nname = \"b\"\nkind = \"bulk\"\nsize = \"20kB\"\nbacklog = \"1MB\"\nweight = {b}\n"
    );
    let run = runs(&text).remove(0);
    [0, 1].map(|flow: usize| run.flows[flow].goodput_within((2_000_000, 10_000_000)))
}

#[test]
fn bulk_channels_share_by_their_weights() {
    // Planners of whole blocks by deadline have none to prefer here.
    for scheduler in ["minrtt", "rr", "dems", "dams", "dams-robust", "ras", "squall"] {
        for weights in [[1, 1], [3, 1], [1, 8]] {
            let [a, b] = rates("[streams]\nscheduler = \"wrr\"", weights, scheduler);
            let (got, wanted) = (a / b, f64::from(weights[0]) / f64::from(weights[1]));
            println!("{scheduler}, weights {weights:?}: {got:.3}");
            assert!((got / wanted - 1.0).abs() < 0.05, "{scheduler}: {got} for {wanted}");
            assert!(a + b > 11e6, "nothing is lost by it: {}", a + b);
        }
    }
}

/// Frames with a deadline next to bulk data with 16 times the weight: if the load of the frames
/// fits, planners by deadline deliver them as with equal weights.
#[test]
fn weights_cost_no_deadline_under_planners() {
    for scheduler in ["dams", "dams-robust", "ras", "squall"] {
        let late = |weight: u32, streams: &str| {
            let text = format!(
                "name = \"mix\"\nduration = \"10s\"\nseeds = [1, 2]\nschedulers = [\"{scheduler}\"]\n{streams}\n\
                [[path]]\nname = \"a\"\nrate = \"10mbps\"\ndelay = \"15ms\"\n\
                [[path]]\nname = \"b\"\nrate = \"6mbps\"\ndelay = \"30ms\"\n\
                [[flow]]\nname = \"frames\"\nkind = \"blocks\"\nsize = \"20kB\"\ninterval = \"33ms\"\n\
                deadline = \"200ms\"\n\
                [[flow]]\nname = \"bulk\"\nkind = \"bulk\"\nsize = \"20kB\"\nbacklog = \"500kB\"\nweight = {weight}\n"
            );
            let late = |run: &RunResult| {
                let total = &run.flows[0].total;
                total.offered_blocks - total.in_time_blocks - total.open_blocks
            };
            runs(&text).iter().map(late).sum::<u64>()
        };
        let wrr = "[streams]\nscheduler = \"wrr\"";
        let [equal, weighted, fifo] = [late(1, wrr), late(16, wrr), late(1, "")];
        println!("{scheduler}: late of 606 frames: {equal}, {weighted}, without weights {fifo}");
        assert_eq!((equal, weighted), (fifo, fifo), "{scheduler}");
    }
}

#[test]
fn without_turns_weights_mean_nothing() {
    assert_eq!(rates("", [8, 1], "minrtt"), rates("", [1, 1], "minrtt"));
}

#[test]
fn mistakes_are_located() {
    let error = |streams: &str, flow: &str| {
        let text = format!(
            "name = \"t\"\nduration = \"1s\"\nschedulers = [\"minrtt\"]\n{streams}\n\
            [[path]]\nname = \"a\"\n[[flow]]\nname = \"f\"\nkind = \"bulk\"\n{flow}\n"
        );
        Scenario::check_text(&text, "t.toml", &squall_papers::registry()).expect_err("is refused").to_string()
    };
    assert_eq!(
        error("[streams]\nscheduler = \"fair\"", ""),
        "t.toml:5:1: streams: unknown stream scheduler 'fair'; there are fifo, wrr"
    );
    assert_eq!(
        error("[streams]\nscheduler = \"fifo(quantum=1000)\"", ""),
        "t.toml:5:1: streams: stream scheduler 'fifo' has no option 'quantum'; it has none"
    );
    let small = error("[streams]\nscheduler = \"wrr(quantum=63)\"", "");
    assert!(small.ends_with("quantum=63: must be from 64 to 1048576"), "{small}");
    let unknown = error("", "channels = \"by-size\"");
    assert!(unknown.contains("channels: unknown multiplexer 'by-size'; there are one,"), "{unknown}");
    assert_eq!(error("", "weight = 257"), "t.toml:10:1: weight: 257 is not within 1 and 256");
    assert!(
        error("", "channels = \"per-message\"\nweight = 2").contains("channels per message are everybody's")
    );
    assert!(error("", "channels = 0").contains("or a number of channels, 1 to 1024"));
    assert!(error("", "channel = 1000\nchannels = 25").ends_with("channels: 25 from 1000 on go beyond 1024"));
}
