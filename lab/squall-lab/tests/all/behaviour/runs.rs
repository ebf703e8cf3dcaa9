//! Schedulers side by side on one scenario.

use std::{ops::RangeInclusive, sync::Arc};

use squall_lab::{
    Batch, RunResult, Scenario,
    result::{FlowResult, Tally},
};

/// Runs of a scenario, by scheduler.
pub(crate) struct Runs {
    runs: Vec<RunResult>,
    seeds: usize,
}

impl Runs {
    /// Runs `body` (paths and flows of a scenario, for `seconds`) with each scheduler and seed, and
    /// prints the results of each flow and path. Paths use CUBIC, as in the published systems.
    pub(crate) fn run(
        name: &str,
        seconds: u64,
        body: &str,
        schedulers: &[&str],
        seeds: RangeInclusive<u64>,
    ) -> Self {
        let seeds: Vec<u64> = seeds.collect();
        let text = format!(
            "name = {name:?}\nduration = \"{seconds}s\"\nseeds = {seeds:?}\nschedulers = {schedulers:?}\n\
             congestion = \"cubic\"\n{body}"
        );
        let scenario = Scenario::parse(&text, name).unwrap_or_else(|error| panic!("{error}"));
        let batch = Batch::of(&scenario, Arc::new(squall_papers::registry()));
        let runs = Self { runs: batch.run(&|_| {}).expect("runs"), seeds: seeds.len() };
        println!("{name}, seeds {seeds:?}");
        for scheduler in schedulers {
            runs.print(scheduler);
        }
        runs
    }

    fn print(&self, scheduler: &str) {
        let runs = self.of(scheduler);
        print!("  {scheduler:<16}");
        for flow in &runs[0].flows {
            let [p50, p99, max] = [50.0, 99.0, 100.0].map(|q| self.latency_ms(scheduler, &flow.name, q));
            let in_time = 100.0 * self.in_time(scheduler, &flow.name);
            print!(" {}: {in_time:.1} % in time, {p50:.0}/{p99:.0}/{max:.0} ms;", flow.name);
        }
        for path in &runs[0].paths {
            print!(" {}: {:.2} MB", path.name, self.path_bytes(scheduler, &path.name) / 1e6);
        }
        println!();
    }

    /// All runs of a scheduler, one for each seed.
    pub(crate) fn of(&self, scheduler: &str) -> Vec<&RunResult> {
        let runs: Vec<_> = self.runs.iter().filter(|run| run.scheduler == scheduler).collect();
        assert_eq!(runs.len(), self.seeds, "runs of {scheduler}");
        runs
    }

    /// Outcomes of the blocks of all flows whose name has this prefix, over all seeds.
    pub(crate) fn tally(&self, scheduler: &str, flow: &str) -> Tally {
        let flows = self.of(scheduler).into_iter().flat_map(|run| &run.flows);
        let named = flows.filter(|f| f.name.starts_with(flow));
        named.fold(Tally::default(), |sum, f| sum.plus(&f.total))
    }

    /// Share of the offered blocks that arrived in time, over all seeds.
    pub(crate) fn in_time(&self, scheduler: &str, flow: &str) -> f64 {
        self.tally(scheduler, flow).in_time_ratio().expect("blocks were due")
    }

    /// Mean over the seeds of a percentile of the delivered blocks' latency.
    pub(crate) fn latency_ms(&self, scheduler: &str, flow: &str, percentile: f64) -> f64 {
        self.mean(scheduler, |run| {
            let flow = run.flows.iter().find(|f| f.name == flow).expect("flow exists");
            let mut latencies: Vec<u64> = flow.latencies.iter().map(|point| point.latency_us).collect();
            latencies.sort_unstable();
            let rank = (percentile / 100.0 * latencies.len() as f64).ceil() as usize;
            let at = rank.clamp(1, latencies.len().max(1)) - 1;
            latencies.get(at).map_or(f64::INFINITY, |us| *us as f64 / 1e3)
        })
    }

    /// Mean over the seeds of the delivered blocks' mean latency.
    pub(crate) fn mean_latency_ms(&self, scheduler: &str, flow: &str) -> f64 {
        self.mean(scheduler, |run| {
            let flow = run.flows.iter().find(|f| f.name == flow).expect("flow exists");
            let sum = flow.latencies.iter().map(|point| point.latency_us as f64).sum::<f64>();
            sum / flow.latencies.len() as f64 / 1e3
        })
    }

    /// Blocks offered from `from_s` on that took longer than `ms` or never arrived, over all seeds.
    pub(crate) fn later_than(&self, scheduler: &str, flow: &str, ms: u64, from_s: u64) -> usize {
        let flows = self.of(scheduler).into_iter().flat_map(|run| &run.flows).filter(|f| f.name == flow);
        let late = |f: &FlowResult| {
            let counts = |at_us: &u64| *at_us >= from_s * 1_000_000;
            let slow = f.latencies.iter().filter(|p| counts(&p.at_us) && p.latency_us > ms * 1000).count();
            slow + f.missing_at_us.iter().filter(|at| counts(at)).count()
        };
        flows.map(late).sum()
    }

    /// Mean over the seeds of the bytes on the wire of a path, both directions.
    pub(crate) fn path_bytes(&self, scheduler: &str, path: &str) -> f64 {
        self.mean(scheduler, |run| {
            let path = run.paths.iter().find(|p| p.name == path).expect("path exists");
            (path.totals.wire_bytes_down + path.totals.wire_bytes_up) as f64
        })
    }

    /// Mean over the seeds.
    pub(crate) fn mean(&self, scheduler: &str, measure: impl Fn(&RunResult) -> f64) -> f64 {
        let runs = self.of(scheduler);
        runs.iter().map(|run| measure(run)).sum::<f64>() / runs.len() as f64
    }
}
