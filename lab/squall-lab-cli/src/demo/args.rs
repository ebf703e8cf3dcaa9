//! Arguments of the demo.

use std::path::PathBuf;

use clap::Args;
use squall_terminal::output;
use squall_units::Rate;

/// Plays a video over two emulated links that fade and fail, with several schedulers side by side.
///
/// Real H.264 frames travel in real time through real UDP sockets on loopback addresses. Relays in
/// between emulate Wi-Fi and LTE by a script, and their radios report. Schedulers that act on
/// signal strength use the reports (storm, or any with +swm after its name); the others see only
/// the outcome of their packets. With +follow after its name the encoder follows the capacity that
/// the session forecasts. On a terminal there is a live view; at the end a table and a report are
/// written.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  squall-lab demo\n  squall-lab demo --schedulers minrtt,minrtt+swm,ras,storm\n  \
                        squall-lab demo --schedulers storm,storm+follow --bitrate 40mbps\n  \
                        squall-lab demo --scenario scenarios/outage-second.toml \\\n      \
                        --report out/outage.html"
)]
pub(crate) struct DemoArgs {
    /// Schedulers to compare, one to four, separated by commas
    #[arg(long, alias = "scheduler", value_name = "LIST", default_value = "minrtt,storm,squall+swm")]
    pub(super) schedulers: String,
    /// Length in seconds. Default: that of the scenario
    #[arg(long, value_name = "N")]
    pub(super) seconds: Option<u32>,
    /// Links, script and video. Default: the built-in "coverage"
    #[arg(long, value_name = "FILE")]
    pub(super) scenario: Option<PathBuf>,
    /// Size of the picture
    #[arg(long, value_name = "WxH", default_value = "1280x720", value_parser = parse_size)]
    pub(super) size: (u32, u32),
    /// Frames per second. Default: those of the scenario
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=240))]
    pub(super) fps: Option<u32>,
    /// Bitrate of the video, such as 20mbps. Default: that of the scenario
    #[arg(long, value_name = "RATE")]
    pub(super) bitrate: Option<Rate>,
    /// Make every second frame one that no other depends on, and leave it unrepaired. Default: true
    /// for the built-in scenario, false for others
    #[arg(long, value_name = "true|false", num_args = 0..=1, default_missing_value = "true")]
    pub(super) disposable: Option<bool>,
    /// Seed of links and picture. Default: that of the scenario
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// File for the report
    #[arg(long, value_name = "FILE", default_value = "out/demo.html")]
    pub(super) report: PathBuf,
    /// Also write all measurements as JSON; - for standard output, which replaces all other output
    /// there
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Print progress lines instead of the live view
    #[arg(long)]
    pub(super) no_live: bool,
}

pub(crate) fn parse_size(text: &str) -> Result<(u32, u32), String> {
    let sides = text.split_once('x').and_then(|(w, h)| Some((w.parse().ok()?, h.parse().ok()?)));
    sides.ok_or_else(|| "expected WIDTHxHEIGHT, such as 1280x720".to_owned())
}

impl DemoArgs {
    /// `true` if the JSON output replaces everything else on standard output.
    pub(super) fn json_to_stdout(&self) -> bool {
        self.json.as_deref().is_some_and(output::is_stdout)
    }

    /// Arguments of a plain `squall-lab demo`.
    #[cfg(test)]
    pub(super) fn example() -> Self {
        Self {
            schedulers: "minrtt,storm".into(),
            seconds: None,
            scenario: None,
            size: (1280, 720),
            fps: None,
            bitrate: None,
            disposable: None,
            seed: None,
            report: "out/demo.html".into(),
            json: None,
            no_live: true,
        }
    }
}
