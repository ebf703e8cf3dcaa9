//! `squall-lab bench life`: checks that memory and work of sessions stay constant over a day.

use std::{
    fmt::Write as _,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Args;
use serde::Serialize;
use squall_lab::{
    life::{Course, Life, Seen},
    statistics,
    table::{self, Column, Table},
};
use squall_report::{Curve, curves};
use squall_terminal::{output, progress::Progress};
use squall_units::format::digits;

use super::heap;

/// Runs sessions through a day of faults in virtual time, and compares the last hour with the
/// second.
///
/// Video of 30 frames a second, audio, messages and growing blocks over two links, with faults that
/// repeat every hour. The first part is a single session for all hours, with outages, address
/// changes, losses and changes of settings; in the second, the ends restart and close. Fails if the
/// last hour needs more memory or work than the second one: bytes on the heap and allocations by
/// more than 2 %, processor time by more than 25 %.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  squall-lab bench life\n  squall-lab bench life --hours 3 --csv out/life.csv --svg out/life.svg"
)]
pub(super) struct LifeArgs {
    /// Virtual hours of each part
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u64).range(3..=1000))]
    hours: u64,
    /// Write a line per virtual minute: heap, allocations, processor time
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Draw the same values over time
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write hours, faults and verdict as JSON; - for standard output, which replaces all other
    /// output there
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Parts of the test, with their names.
const PARTS: [(&str, Course); 2] = [("one session", Course::OneSession), ("restarts", Course::Restarts)];

/// Hour to compare with, counted from 1. In the first hour, tables grow to their size.
const REFERENCE: usize = 2;

/// Maximum heap size of the last hour relative to the reference.
const MOST_MEMORY: f64 = 1.02;
/// Maximum number of allocations of the last hour relative to the reference.
const MOST_ALLOCATIONS: f64 = 1.02;
/// Maximum processor time of the last hour relative to the reference.
const MOST_CPU: f64 = 1.25;

/// Resources used in a minute.
struct Minute {
    heap_bytes: i64,
    allocations: u64,
    cpu: Option<Duration>,
    blocks: u64,
}

/// Resources used in an hour.
#[derive(Clone, Debug, Serialize)]
struct Hour {
    /// Bytes on the heap at the end of each minute, median of the hour.
    heap_bytes: f64,
    /// Bytes on the heap at the end of each minute, maximum of the hour.
    most_heap_bytes: f64,
    /// Allocations per submitted block.
    allocations_per_block: f64,
    /// Processor time per virtual minute in milliseconds, median of the hour; `None` if the system
    /// does not report it.
    cpu_ms_per_minute: Option<f64>,
}

/// Result of a part.
#[derive(Serialize)]
struct Outcome {
    name: &'static str,
    /// Duration in real time, in seconds.
    real_s: f64,
    blocks: u64,
    last_block: u64,
    sessions: u64,
    hours: Vec<Hour>,
    seen: Vec<Seen>,
    /// Limits that the last hour exceeded.
    grown: Vec<String>,
    #[serde(skip)]
    minutes: Vec<Minute>,
}

/// Runs the command.
pub(super) fn run(args: &LifeArgs) -> anyhow::Result<ExitCode> {
    heap::start();
    let outcomes: Vec<Outcome> =
        PARTS.iter().map(|(name, course)| live(name, *course, args.hours)).collect::<anyhow::Result<_>>()?;
    if let Some(file) = &args.csv {
        output::write(file, &csv(&outcomes))?;
    }
    if let Some(file) = &args.svg {
        output::write(file, &picture(&outcomes))?;
    }
    let grown: Vec<String> = outcomes.iter().flat_map(|part| part.grown.clone()).collect();
    let code = if grown.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if let Some(file) = &args.json {
        output::write(file, &format!("{}\n", serde_json::to_string_pretty(&outcomes)?))?;
        if output::is_stdout(file) {
            return Ok(code);
        }
    }
    for part in &outcomes {
        output::print(&(table::render(&hours(part)) + &table::render(&faults(part))))?;
    }
    let verdict = if grown.is_empty() { "nothing has grown".to_owned() } else { grown.join("\n") };
    output::print(&(verdict + "\n"))?;
    Ok(code)
}

fn live(name: &'static str, course: Course, hours: u64) -> anyhow::Result<Outcome> {
    let (before, begin) = (heap::live_bytes(), Instant::now());
    let mut life = Life::new(course, 1)?;
    // Allocated in full at the start, so that it does not count as growth.
    let mut minutes = Vec::with_capacity(hours as usize * 60);
    let mut progress = Progress::default();
    for minute in 0..hours * 60 {
        let (cpu, allocations, blocks) = (cpu_time(), heap::allocations(), life.work().blocks);
        life.pass_minute().map_err(|why| anyhow::anyhow!("{name}, minute {minute}: {why}"))?;
        minutes.push(Minute {
            heap_bytes: heap::live_bytes() - before,
            allocations: heap::allocations() - allocations,
            cpu: cpu_time().zip(cpu).map(|(after, before)| after.saturating_sub(before)),
            blocks: life.work().blocks - blocks,
        });
        progress.show(&format!("{name}: {} of {hours} h", minute / 60));
    }
    progress.clear();
    let hours: Vec<Hour> = minutes.chunks(60).map(hour).collect();
    let grown = grown(name, &hours);
    let (work, seen) = (life.work().clone(), life.seen().to_vec());
    let real_s = begin.elapsed().as_secs_f64();
    let (blocks, last_block, sessions) = (work.blocks, work.last_block, work.sessions);
    Ok(Outcome { name, real_s, blocks, last_block, sessions, hours, seen, grown, minutes })
}

/// Processor time of this thread, which does all the work. Linux reports it in nanoseconds.
fn cpu_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(text.split_whitespace().next()?.parse().ok()?))
}

fn hour(minutes: &[Minute]) -> Hour {
    let heap: Vec<f64> = minutes.iter().map(|minute| minute.heap_bytes as f64).collect();
    let total = |of: fn(&Minute) -> u64| minutes.iter().map(of).sum::<u64>() as f64;
    let cpu: Option<Vec<f64>> =
        minutes.iter().map(|minute| minute.cpu.map(|cpu| cpu.as_secs_f64() * 1e3)).collect();
    Hour {
        most_heap_bytes: heap.iter().copied().fold(0.0, f64::max),
        heap_bytes: super::figure::median(&heap),
        allocations_per_block: total(|minute| minute.allocations) / total(|minute| minute.blocks),
        cpu_ms_per_minute: cpu.and_then(statistics::median),
    }
}

/// Describes the limits that the last hour exceeded.
fn grown(name: &str, hours: &[Hour]) -> Vec<String> {
    let (Some(then), Some(now)) = (hours.get(REFERENCE - 1), hours.last()) else { return Vec::new() };
    let figures = [
        ("bytes on the heap, median", then.heap_bytes, now.heap_bytes, MOST_MEMORY),
        ("bytes on the heap, most", then.most_heap_bytes, now.most_heap_bytes, MOST_MEMORY),
        ("allocations per block", then.allocations_per_block, now.allocations_per_block, MOST_ALLOCATIONS),
        (
            "processor time",
            then.cpu_ms_per_minute.unwrap_or(1.0),
            now.cpu_ms_per_minute.unwrap_or(1.0),
            MOST_CPU,
        ),
    ];
    let too_much = figures.into_iter().filter(|(_, then, now, most)| *now > then * most);
    too_much
        .map(|(what, then, now, most)| {
            format!(
                "grown: {name}: {what}: {} in hour {REFERENCE}, {} in hour {}, at most {} times as much is allowed",
                digits(then),
                digits(now),
                hours.len(),
                digits(most)
            )
        })
        .collect()
}

fn csv(outcomes: &[Outcome]) -> String {
    let mut text = "part,minute,heap_bytes,allocations,cpu_ms,blocks\n".to_owned();
    for part in outcomes {
        for (number, minute) in part.minutes.iter().enumerate() {
            let cpu = minute.cpu.map_or_else(String::new, |cpu| format!("{:.3}", cpu.as_secs_f64() * 1e3));
            let Minute { heap_bytes, allocations, blocks, .. } = minute;
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{},{number},{heap_bytes},{allocations},{cpu},{blocks}", part.name);
        }
    }
    text
}

fn picture(outcomes: &[Outcome]) -> String {
    let names = PARTS.map(|(name, _)| name.to_owned());
    let curve = |what: &str, of: &dyn Fn(&Minute) -> Option<f64>| Curve {
        what: what.to_owned(),
        lines: outcomes
            .iter()
            .map(|part| {
                let points = part.minutes.iter().enumerate();
                points.filter_map(|(at, minute)| Some(((at + 1) as f64 / 60.0, of(minute)?))).collect()
            })
            .collect(),
    };
    let panels = [
        curve(
            "Heap in kB, both ends and the network between them, at the end of each virtual minute",
            &|minute| Some(minute.heap_bytes as f64 / 1e3),
        ),
        curve("Allocations per block, by virtual minute", &|minute| {
            Some(minute.allocations as f64 / minute.blocks as f64)
        }),
        curve("Processor time in ms per virtual minute", &|minute| {
            minute.cpu.map(|cpu| cpu.as_secs_f64() * 1e3)
        }),
    ];
    curves("Memory and work of a long life", &names, "virtual hours", &panels)
}

fn hours(part: &Outcome) -> Table {
    let row = |(number, hour): (usize, &Hour)| {
        vec![
            (number + 1).to_string(),
            digits(hour.heap_bytes / 1e3),
            digits(hour.most_heap_bytes / 1e3),
            format!("{:.3}", hour.allocations_per_block),
            hour.cpu_ms_per_minute.map_or_else(|| "–".to_owned(), digits),
        ]
    };
    let Outcome { name, real_s, blocks, last_block, sessions, .. } = part;
    Table {
        title: format!(
            "{name}: {} h in {real_s:.0} s, {blocks} blocks, sessions: {sessions}, last block id {last_block}",
            part.hours.len()
        ),
        columns: vec![
            Column::number("hour", ""),
            Column::number("heap", "kB"),
            Column::number("most", "kB"),
            Column::number("allocations per block", ""),
            Column::number("processor", "ms/min"),
        ],
        rows: part.hours.iter().enumerate().map(row).collect(),
    }
}

fn faults(part: &Outcome) -> Table {
    let row = |seen: &Seen| {
        vec![
            seen.fault.to_owned(),
            seen.times.to_string(),
            digits(seen.longest_gap_us as f64 / 1e3),
            seen.lost.to_string(),
            seen.late.to_string(),
            seen.frames.to_string(),
        ]
    };
    Table {
        title: format!("{}: what a viewer saw, from each fault to the next", part.name),
        columns: vec![
            Column::text("fault"),
            Column::number("times", ""),
            Column::number("longest gap", "ms"),
            Column::number("lost", "frames"),
            Column::number("late", "frames"),
            Column::number("of", "frames"),
        ],
        rows: part.seen.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_hour_may_have_little_more_than_the_second() {
        let hour = |heap: f64, allocations: f64, cpu: f64| Hour {
            heap_bytes: heap,
            most_heap_bytes: heap,
            allocations_per_block: allocations,
            cpu_ms_per_minute: Some(cpu),
        };
        let (first, second) = (hour(9e9, 9.0, 9.0), hour(1e6, 5.0, 100.0));
        let same = [first.clone(), second.clone(), hour(1.01e6, 5.0, 120.0)];
        assert!(grown("x", &same).is_empty());
        let more = grown("x", &[first, second, hour(1.03e6, 5.2, 130.0)]);
        assert_eq!(more.len(), 4, "{more:?}");
        assert!(
            more[2].starts_with("grown: x: allocations per block: 5.00 in hour 2, 5.20 in hour 3"),
            "{more:?}"
        );
    }

    #[test]
    fn what_is_held_is_counted() {
        heap::start();
        let (before, allocations) = (heap::live_bytes(), heap::allocations());
        let held = std::hint::black_box(vec![1u8; 64 << 20]);
        // Other tests also allocate and free memory, but not this much.
        assert!(heap::live_bytes() - before > 32 << 20 && heap::allocations() > allocations);
        drop(held);
        assert!(heap::live_bytes() - before < 32 << 20);
    }
}
