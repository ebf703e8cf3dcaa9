//! Streams with one key frame at their start, as encoders with intra refresh send: the frames after
//! a lost one are shown again.

use std::sync::Arc;

use squall_lab::{Batch, RunResult, Scenario};

/// Forty seconds of video of 9 Mbps over Wi-Fi of `wifi` and LTE of `lte`, which both fail for 400
/// ms after ten seconds.
fn video(wifi: &str, lte: &str, keyframe_interval: &str) -> Vec<RunResult> {
    let outage = "events = [{ at = \"10s\", outage = \"400ms\" }]";
    let text = format!(
        "name = \"refresh\"\nduration = \"40s\"\nseeds = [1, 2]\nschedulers = [\"squall\", \"minrtt\"]\n\
         [[path]]\nname = \"wifi\"\ndelay = \"15ms\"\n{wifi}\n{outage}\n\
         [[path]]\nname = \"lte\"\ndelay = \"40ms\"\n{lte}\n{outage}\n\
         [[flow]]\nname = \"camera\"\nkind = \"video\"\ndirection = \"up\"\nfps = 30\nbitrate = \"9mbps\"\n\
         keyframe_interval = \"{keyframe_interval}\"\ndeadline = \"300ms\"\ndependencies = true\n"
    );
    let scenario = Scenario::parse(&text, "test.toml").unwrap_or_else(|error| panic!("{error}"));
    Batch::of(&scenario, Arc::new(squall_papers::registry())).run(&|_| {}).expect("runs")
}

/// Share of the frames in time for the seed with the fewest, with `squall` and with minRTT.
fn in_time(runs: &[RunResult]) -> [f64; 2] {
    ["squall", "minrtt"].map(|scheduler| {
        let of_it = runs.iter().filter(|run| run.scheduler == scheduler);
        let ratios = of_it.map(|run| run.flows[0].total.in_time_ratio().expect("frames were due"));
        let least = ratios.fold(1.0, f64::min);
        println!("{scheduler}: {least:.4}");
        least
    })
}

/// Minimum share of frames in time. The outage costs 1 % under any scheduler.
const LEAST: f64 = 0.97;

#[test]
fn one_lost_frame_does_not_keep_all_later_ones_from_a_metered_path() {
    for interval in ["10min", "2s"] {
        let [squall, minrtt] =
            in_time(&video("rate = \"4mbps\"", "rate = \"12mbps\"\nmetered = true", interval));
        assert!(squall >= LEAST && minrtt >= LEAST, "{interval}: {squall}, minRTT {minrtt}");
    }
}

#[test]
fn one_lost_frame_costs_no_later_ones_where_nothing_is_metered() {
    for interval in ["10min", "2s"] {
        let [squall, minrtt] = in_time(&video("rate = \"8mbps\"", "rate = \"6mbps\"", interval));
        assert!(squall >= LEAST && minrtt >= LEAST, "{interval}: {squall}, minRTT {minrtt}");
    }
}
