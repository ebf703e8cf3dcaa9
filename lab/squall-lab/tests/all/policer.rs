//! A policer with a bucket: an encoder that follows must not exceed its rate repeatedly.

use std::sync::Arc;

use squall_lab::{Batch, RunResult, Scenario};

/// Runs a game that follows the safe rate for a minute and a half over a link with this `policer`
/// and one of 3 Mbps.
fn follow(policer: &str) -> Vec<RunResult> {
    let text = format!(
        "name = \"policer\"\nduration = \"90s\"\nseeds = [1, 2]\nschedulers = [\"squall\", \"minrtt\"]\n\
         [[path]]\nname = \"lte\"\nrate = \"40mbps\"\ndelay = \"35ms\"\n{policer}\n\
         [[path]]\nname = \"dsl\"\nrate = \"3mbps\"\ndelay = \"20ms\"\nqueue = \"200kB\"\n\
         [[flow]]\nname = \"camera\"\nkind = \"game\"\ndirection = \"up\"\nfps = 30\nbitrate_min = \"300kbps\"\n\
         bitrate_max = \"12mbps\"\nfollow = \"safe\"\nshare = 0.9\nkeyframe_interval = \"2s\"\ndeadline = \"300ms\"\n\
         dependencies = true\n"
    );
    let scenario = Scenario::parse(&text, "test.toml").unwrap_or_else(|error| panic!("{error}"));
    Batch::of(&scenario, Arc::new(squall_papers::registry())).run(&|_| {}).expect("runs")
}

/// Loss ratio of the policed link.
fn lost(run: &RunResult) -> f64 {
    let totals = &run.paths[0].totals;
    totals.lost_packets as f64 / totals.packets as f64
}

#[test]
fn a_policer_behind_a_burst_of_20_mb_costs_frames_in_one_second_only() {
    for run in follow("policer = \"2mbps:20MB\"") {
        let shown = &run.flows[0].playback.as_ref().expect("a stream").shown_per_second;
        let (lost, mbps) = (lost(&run), run.flows[0].goodput_bps as f64 / 1e6);
        println!("{}, seed {}: {lost:.4} lost, {mbps:.2} Mbps, {shown:?}", run.scheduler, run.seed);
        assert!(lost < 0.03, "{lost}");
        assert!(shown.iter().filter(|pictures| **pictures < 30).count() <= 1, "{shown:?}");
        // 20 MB at once, then 2 and 3 Mbps: 6.8 Mbps on average, of which an encoder uses nine
        // tenths.
        assert!(mbps > 5.0, "{mbps}");
    }
}

#[test]
fn a_policer_with_a_small_bucket_costs_few_frames() {
    for run in follow("policer = \"2mbps:15kB\"") {
        let (lost, in_time) = (lost(&run), run.flows[0].total.in_time_ratio().expect("frames were due"));
        println!("{}, seed {}: {lost:.4} lost, {in_time:.4}", run.scheduler, run.seed);
        assert!(lost < 0.05 && in_time > 0.99, "{lost} lost, {in_time} in time");
    }
}
