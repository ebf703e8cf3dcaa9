//! Thin links in either direction: framing and reports leave the rate to the stream.

use std::sync::Arc;

use squall_lab::{Batch, RunResult, Scenario};

/// Stream with key frames of five times the size every two seconds, over two links of 15 and 25 ms.
fn stream(schedulers: &str, link: &str, direction: &str, bitrate: &str) -> Vec<RunResult> {
    let text = format!(
        "name = \"thin\"\nduration = \"60s\"\nseeds = [1, 2]\nschedulers = [{schedulers}]\n\
         [[path]]\nname = \"a\"\ndelay = \"15ms\"\n{link}\n[[path]]\nname = \"b\"\ndelay = \"25ms\"\n{link}\n\
         [[flow]]\nname = \"camera\"\nkind = \"video\"\ndirection = \"{direction}\"\nfps = 30\nbitrate = \"{bitrate}\"\n\
         keyframe_interval = \"2s\"\nkey_ratio = 5.0\ndeadline = \"300ms\"\ndependencies = true\n"
    );
    let scenario = Scenario::parse(&text, "test.toml").unwrap_or_else(|error| panic!("{error}"));
    Batch::of(&scenario, Arc::new(squall_papers::registry())).run(&|_| {}).expect("runs")
}

/// Share of frames in time for the seed with the fewest.
fn in_time(runs: &[RunResult]) -> f64 {
    let ratios = runs.iter().map(|run| run.flows[0].total.in_time_ratio().expect("frames were due"));
    ratios.fold(1.0, f64::min)
}

fn asymmetric(up: &str) -> String {
    format!("up = {{ rate = \"{up}\" }}\ndown = {{ rate = \"10mbps\" }}")
}

#[test]
fn framing_for_parity_costs_no_packets_where_nothing_is_lost() {
    let runs = stream("\"squall\", \"squall(without=parity)\"", &asymmetric("2mbps"), "down", "15mbps");
    let packets = |scheduler: &str| -> u64 {
        let of_it = runs.iter().filter(|run| run.scheduler == scheduler);
        of_it.flat_map(|run| &run.paths).map(|path| path.totals.packets).sum()
    };
    let (with, without) = (packets("squall"), packets("squall(without=parity)"));
    println!("{with} packets, {without} without parity");
    assert!(with as f64 <= 1.03 * without as f64, "{with} packets, {without} without parity");
}

#[test]
fn a_stream_of_seven_tenths_of_two_thin_links_is_in_time() {
    let in_time = in_time(&stream("\"squall\"", "rate = \"500kbps\"", "up", "700kbps"));
    assert!(in_time >= 0.99, "{in_time}");
}

#[test]
fn reports_do_not_choke_a_thin_uplink() {
    for (up, least) in [("1mbps", 0.99), ("500kbps", 0.99), ("300kbps", 0.95)] {
        let in_time = in_time(&stream("\"squall\"", &asymmetric(up), "down", "15mbps"));
        println!("{up}: {in_time:.4}");
        assert!(in_time >= least, "{up}: {in_time}");
    }
}
