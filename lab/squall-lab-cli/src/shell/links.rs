//! Links that the arguments define.

use std::path::Path;

use anyhow::anyhow;
use squall_lab::Scenario;
use squall_net::{PathConfig, RateConfig};
use squall_terminal::{
    error::{usage, whole},
    input,
};
use squall_trace::{Gaps, Recording, Wishes};

use super::ShellArgs;

/// Prefix of a link that follows a recording.
const TRACE: &str = "trace:";

/// Returns the paths, with all files loaded.
pub(super) fn paths(args: &ShellArgs) -> anyhow::Result<Vec<PathConfig>> {
    match &args.scenario {
        Some(file) => {
            input::check(file)?;
            Ok(Scenario::load(file).map_err(usage)?.paths)
        }
        None => args
            .link
            .iter()
            .map(|text| link(text).map_err(|error| usage(format!("--link {text}: {error:#}"))))
            .collect(),
    }
}

fn link(text: &str) -> anyhow::Result<PathConfig> {
    let Some(trace) = text.strip_prefix(TRACE) else {
        let mut path: PathConfig = text.parse()?;
        path.load(Path::new("")).map_err(whole)?;
        return Ok(path);
    };
    let (file, rest) = trace.split_once(',').unwrap_or((trace, ""));
    let mut path: PathConfig = rest.parse()?;
    path.load(Path::new("")).map_err(whole)?;
    for (link, column) in [(&mut path.up, "up_mbps"), (&mut path.down, "down_mbps")] {
        if link.rate == RateConfig::Unlimited {
            link.rate = recorded(Path::new(file), column)?;
        }
    }
    Ok(path)
}

/// Returns the rate of a recording from this column, or from its only one.
fn recorded(file: &Path, column: &str) -> anyhow::Result<RateConfig> {
    let load = |column: Option<&str>| {
        Recording::load(file, &Wishes { column: column.map(str::to_owned), ..Wishes::default() })
    };
    let recording = load(Some(column)).or_else(|_| load(None)).map_err(whole)?;
    let trace = recording.mahimahi(Gaps::Hold).map_err(|error| anyhow!("{}: {error}", file.display()))?;
    Ok(RateConfig::Mahimahi { file: None, trace: Some(trace), once: false })
}
