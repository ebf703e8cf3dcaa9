//! Description of the measurement: date, machine and programs.

use std::{collections::BTreeSet, fs, process::Command};

use squall_versus::Figures;

use super::VersusArgs;

/// Returns one line per item.
pub(super) fn about(args: &VersusArgs, figures: &[Figures], left_out: &[String]) -> Vec<String> {
    let again: u32 = figures.iter().map(|run| run.attempts - 1).sum();
    let seeds: BTreeSet<u64> = figures.iter().map(|run| run.seed).collect();
    let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let model = field("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut lines = vec![
        format!("`{}`, commit {}", command(), commit()),
        format!("Measured on {}, {cores} cores of {model}, Linux {}", today(), kernel.trim()),
        format!(
            "`squall-lab versus` {}, streams of {} each, seeds {}; means and their 95 % confidence intervals (Student's t)",
            env!("CARGO_PKG_VERSION"),
            args.time,
            seeds.join(", ")
        ),
    ];
    if args.keep_awake {
        lines.push("`--keep-awake` was on".to_owned());
    }
    if again > 0 {
        lines.push(format!("Runs repeated because the machine was too slow for the links: {again}"));
    }
    let versions =
        [("srt-live-transmit", "-version", "SRT Library version"), ("ristsender", "--help", "version")];
    lines.extend(versions.iter().filter_map(|(program, option, word)| version(program, option, word)));
    if let Ok(control) = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control") {
        lines.push(format!("`mptcp`: the kernel's congestion control is {}", control.trim()));
    }
    lines.extend(left_out.iter().map(|line| format!("Omitted: {line}")));
    lines
}

/// Command line of this program.
fn command() -> String {
    let arguments: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into()).collect();
    format!("squall-lab {}", arguments.join(" "))
}

/// Commit of the repository in the current folder.
fn commit() -> String {
    output("git", &["describe", "--always", "--dirty"]).unwrap_or_else(|| "unknown".to_owned())
}

/// The date in UTC.
fn today() -> String {
    output("date", &["-u", "+%Y-%m-%d"]).unwrap_or_else(|| "an unknown date".to_owned())
}

/// Returns the output of a program, if it succeeds.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output =
        Command::new(program).args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Returns the value of a `name : value` line.
fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Returns the version of a program: the first line of its output with a word.
fn version(program: &str, option: &str, word: &str) -> Option<String> {
    let output = Command::new(program).arg(option).output().ok()?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let line = said.lines().find(|line| line.contains(word))?;
    // Some programs print a time stamp before it.
    let words = line.rsplit(']').next().unwrap_or(line).trim();
    Some(format!("`{program}`: {words}"))
}
