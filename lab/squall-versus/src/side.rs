//! One side of a run: the carrier's end, and the source or the sink.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use nix::{
    sys::{
        resource::{UsageWho, getrusage},
        signal::{Signal, kill},
        time::TimeValLike as _,
    },
    unistd::Pid,
};
use serde::{Deserialize, Serialize};

use crate::{
    carrier::{self, Run, SINK_PORT, SOURCE_PORT},
    sink, source,
    spec::{End, SideSpec},
};

/// Results of the source's side.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Near {
    pub(crate) frames: u32,
    /// Time at which the first frame was sent, by the [clock](crate::clock).
    pub(crate) started_us: u64,
    pub(crate) cpu_us: u64,
    pub(crate) overflows: u64,
}

/// Results of the sink's side.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Far {
    /// Number and latency in microseconds of each frame that became complete.
    pub(crate) frames: Vec<(u32, u64)>,
    pub(crate) cpu_us: u64,
    pub(crate) overflows: u64,
}

/// Time in which the carrier's ends connect.
pub(crate) const SETTLE: Duration = Duration::from_millis(2_500);

/// Time in which late packets may still arrive.
pub(crate) const DRAIN: Duration = Duration::from_millis(2_000);

/// Time for which the far side runs before the near one starts.
pub(crate) const HEAD_START: Duration = Duration::from_millis(500);

/// Time that a carrier has to end by itself.
const GRACE: Duration = Duration::from_millis(500);

/// Runs a side, and writes its results to `near.json` or `far.json` in its folder.
///
/// # Errors
///
/// If the carrier cannot be started or ends too early.
pub fn side(spec: &SideSpec) -> anyhow::Result<()> {
    let (settings, carries) = carrier::programs(spec)?;
    for setting in settings {
        let status = command(&setting, Stdio::inherit()).status().with_context(|| words(&setting))?;
        ensure!(status.success(), "{}: {status}", words(&setting));
    }
    let name = if spec.end == End::Near { "near" } else { "far" };
    let log = fs::File::create(spec.folder.join(format!("{name}.log")))?;
    let mut child = command(&carries, log.into()).spawn().with_context(|| words(&carries))?;
    let time = Duration::from_millis(spec.time_ms);
    let outcome = match spec.end {
        End::Near => {
            std::thread::sleep(SETTLE);
            let started_us = source::play(spec.stream, &spec.packets, ("127.0.0.1", SOURCE_PORT))?;
            ensure_alive(&mut child)?;
            // The far side ends first, after the time for late packets; this end may then end by
            // itself.
            std::thread::sleep(DRAIN + HEAD_START);
            let cpu_us = end(&mut child)?;
            let frames = spec.packets.len() as u32;
            serde_json::to_string(&Near { frames, started_us, cpu_us, overflows: overflows() })?
        }
        End::Far => {
            let frames = sink::watch(SINK_PORT, HEAD_START + SETTLE + time + DRAIN)?;
            ensure_alive(&mut child)?;
            let cpu_us = end(&mut child)?;
            serde_json::to_string(&Far {
                frames: frames.into_iter().collect(),
                cpu_us,
                overflows: overflows(),
            })?
        }
    };
    write(&spec.folder.join(format!("{name}.json")), &outcome)
}

fn command(run: &Run, output: Stdio) -> Command {
    let mut command = Command::new(&run.program);
    command.args(&run.arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
    command
}

fn words(run: &Run) -> String {
    format!("{} {}", run.program.display(), run.arguments.join(" "))
}

fn ensure_alive(carrier: &mut Child) -> anyhow::Result<()> {
    match carrier.try_wait()? {
        Some(status) => bail!("the carrier has ended too early: {status}"),
        None => Ok(()),
    }
}

/// Ends a carrier; returns the processor time of it and of all programs before it, in microseconds.
fn end(child: &mut Child) -> anyhow::Result<u64> {
    let _ = kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM);
    let start = Instant::now();
    while child.try_wait()?.is_none() {
        if start.elapsed() > GRACE {
            child.kill()?;
            child.wait()?;
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    Ok((usage.user_time() + usage.system_time()).num_microseconds().unsigned_abs())
}

/// Returns the number of packets that UDP sockets of this side's namespace dropped because their
/// buffers were full; 0 if the kernel does not report it.
fn overflows() -> u64 {
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
    overflows_of_v4(&read("/proc/net/snmp")) + overflows_of_v6(&read("/proc/net/snmp6"))
}

/// Parses a line of names and a line of values.
fn overflows_of_v4(snmp: &str) -> u64 {
    let mut lines = snmp.lines().filter(|line| line.starts_with("Udp: "));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return 0 };
    let mut pairs = names.split(' ').zip(values.split(' '));
    pairs.find(|(name, _)| *name == "RcvbufErrors").and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
}

/// Parses lines with a name and a value each.
fn overflows_of_v6(snmp6: &str) -> u64 {
    let value = snmp6.lines().find_map(|line| line.strip_prefix("Udp6RcvbufErrors"));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

/// Writes a file atomically.
fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    let part = file.with_extension("part");
    fs::write(&part, text)?;
    fs::rename(&part, file)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overflows_of_both_versions_of_ip_are_counted() {
        let snmp = "Tcp: A B\nTcp: 1 2\nUdp: InDatagrams RcvbufErrors SndbufErrors\nUdp: 9 7 8\nUdpLite: RcvbufErrors\n";
        assert_eq!((overflows_of_v4(snmp), overflows_of_v4("")), (7, 0));
        let snmp6 = "Udp6InErrors                    \t9\nUdp6RcvbufErrors                \t5\nUdpLite6RcvbufErrors \t3\n";
        assert_eq!((overflows_of_v6(snmp6), overflows_of_v6("")), (5, 0));
    }
}
