//! Lead, noise and lateness of a radio as axes of an experiment, and the value of a report's lead.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use squall_lab::experiment::{Cell, Experiment};
use squall_lab::{Batch, RunResult};

/// Wi-Fi that fails for half a second, and permanent LTE. The flow moves with the lead, so that
/// every lead encounters the same network.
const SUDDEN: &str = r#"
name = "sudden"
duration = "3s"
seeds = [1, 2]
schedulers = ["ras", "storm"]

[[path]]
name = "Wi-Fi"
rate = "8mbps"
delay = "5ms"
[path.radio]
series = { rssi = [["0s", -55], ["1500ms", -90], ["2s", -55]] }

[[path]]
name = "LTE"
rate = "4mbps"
delay = "20ms"
[path.radio]
technology = "lte"
series = { rsrp = [["0s", -80]], sinr = [["0s", 25]] }

[[flow]]
name = "f"
kind = "blocks"
size = "3kB"
interval = "10ms"
deadline = "150ms"

[[axis]]
name = "lead"
base = "0.3"
points = [
    { name = "-0.5", at = -0.5, set = { "path.*.radio.lead" = "-500ms", "flow.*.start" = "0s", duration = "2s" } },
    { name = "0", at = 0.0, set = { "path.*.radio.lead" = "0s", "flow.*.start" = "500ms", duration = "2500ms" } },
    { name = "0.3", at = 0.3, set = { "path.*.radio.lead" = "300ms", "flow.*.start" = "800ms", duration = "2800ms" } },
]

[[axis]]
name = "late"
base = "0"
points = [
    { name = "0", at = 0.0, set = { "path.*.radio.late" = "0s" } },
    { name = "0.3", at = 0.3, set = { "path.*.radio.late" = "300ms" } },
]
"#;

fn experiment(name: &str, text: &str) -> Result<Experiment, String> {
    let file = std::env::temp_dir().join(format!("squall-lead-{name}-{}.toml", std::process::id()));
    fs::write(&file, text).expect("is written");
    let experiment = Experiment::load(&file, &squall_papers::registry()).map_err(|error| error.to_string());
    fs::remove_file(&file).expect("was there");
    experiment
}

fn runs(cells: &[Cell], lead: &str, late: &str) -> Vec<RunResult> {
    let cell = cells.iter().find(|cell| cell.point["lead"] == lead && cell.point["late"] == late);
    let batch = Batch::of(&cell.expect("is there").scenario, Arc::new(squall_papers::registry()));
    batch.run(&|_| {}).expect("runs")
}

fn lost(runs: &[RunResult], scheduler: &str) -> u64 {
    runs.iter().filter(|run| run.scheduler == scheduler).map(RunResult::lost_packets).sum()
}

#[test]
fn axes_with_a_base_vary_one_at_a_time() {
    let cells = experiment("base", SUDDEN).expect("is one").cells(false).expect("are scenarios");
    let points: Vec<(&str, &str)> =
        cells.iter().map(|cell| (cell.point["lead"].as_str(), cell.point["late"].as_str())).collect();
    assert_eq!(points, [("-0.5", "0"), ("0", "0"), ("0.3", "0"), ("0.3", "0.3")]);
    let error = experiment("unknown", &SUDDEN.replace("base = \"0\"", "base = \"1\"")).unwrap_err();
    assert!(error.ends_with("base: there is no point \"1\""), "{error}");
}

#[test]
fn a_radio_that_is_early_and_late_by_as_much_is_neither() {
    let cells = experiment("early", SUDDEN).expect("is one").cells(false).expect("are scenarios");
    let of = |lead, late| -> Vec<_> {
        runs(&cells, lead, late)
            .into_iter()
            .map(|run| (run.lost_packets(), run.packet_delay, run.flows[0].total))
            .collect()
    };
    assert_eq!(of("0.3", "0.3"), of("0", "0"));
}

#[test]
fn a_lead_saves_what_is_in_flight_when_a_link_ends() {
    let cells = experiment("lead", SUDDEN).expect("is one").cells(false).expect("are scenarios");
    let late = runs(&cells, "-0.5", "0");
    let early = runs(&cells, "0.3", "0");
    assert!(lost(&late, "ras") > 0 && 2 * lost(&late, "storm") >= lost(&late, "ras"));
    assert_eq!((lost(&early, "storm"), lost(&early, "ras")), (0, lost(&late, "ras")));
}

#[test]
fn the_experiments_that_ship_have_every_value() {
    for name in ["lead-walking", "lead-edge"] {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../scenarios/{name}.toml"));
        let experiment =
            Experiment::load(&file, &squall_papers::registry()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(experiment.name(), name);
        let cells = experiment.cells(false).expect("are scenarios");
        assert_eq!(cells.len(), 9 + 6 + 7 - 2, "{name}");
        let offered = |cell: &Cell| cell.scenario.duration_us - cell.scenario.flows[0].start_us;
        assert!(
            cells.iter().all(|cell| offered(cell) == offered(&cells[0])),
            "{name}: as long at every lead"
        );
    }
}
