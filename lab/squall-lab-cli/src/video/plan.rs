//! Derives a show from the arguments.

use std::path::Path;

use anyhow::{anyhow, ensure};
use squall::sched::Registry;
use squall_lab::{Scenario, Variant, video::Show};
use squall_media::studio::{self, Footage, Programs};
use squall_terminal::list;
use squall_units::Span;

use super::{Latency, VideoArgs};

/// Maximum number of schedulers side by side.
const MAX_SCHEDULERS: usize = 7;

/// Smallest and largest side of a picture that all encoders accept, in pixels.
const SIDES: std::ops::RangeInclusive<u32> = 16..=4096;

/// Plans the show, and checks as much as possible before work begins.
pub(super) fn plan(args: &VideoArgs, registry: &Registry) -> anyhow::Result<Show> {
    squall_terminal::input::check(&args.scenario)?;
    let scenario = Scenario::load(&args.scenario)?;
    let schedulers = schedulers(&args.scheduler, registry)?;
    let latency = latency(args, &scenario)?;
    let programs = Programs::default();
    studio::check(&programs, args.codec)?;
    let mut footage = match args.film.to_str() {
        Some("scene" | "test") => Footage::scene(args.seed.unwrap_or(scenario.seeds[0]), &programs),
        _ => Footage::open(&args.film, &programs)?,
    };
    footage.size = args.size.unwrap_or(footage.size);
    footage.rate = args.fps.unwrap_or(footage.rate);
    let (width, height) = footage.size;
    ensure!(
        SIDES.contains(&width) && SIDES.contains(&height) && width % 2 == 0 && height % 2 == 0,
        "pictures of {width}x{height}: sides must be even, from {} to {}; --size sets them",
        SIDES.start(),
        SIDES.end()
    );
    Ok(Show {
        footage,
        name: name(&args.film),
        coding: args.codec,
        bitrate_bps: args.bitrate.bps(),
        latency,
        length_us: args.seconds.map(|seconds| u64::from(seconds) * 1_000_000),
        schedulers,
        seed: args.seed.unwrap_or(scenario.seeds[0]),
        scenario,
        ffmpeg: programs.ffmpeg,
    })
}

fn schedulers(words: &str, registry: &Registry) -> anyhow::Result<Vec<String>> {
    let names = list::split(words);
    let count = names.len();
    ensure!(
        (1..=MAX_SCHEDULERS).contains(&count),
        "--scheduler: give 1 to {MAX_SCHEDULERS} of them, not {count}"
    );
    for name in &names {
        Variant::of(name).check(registry).map_err(|error| anyhow!("--scheduler: {error}"))?;
    }
    Ok(names.into_iter().map(str::to_owned).collect())
}

fn latency(args: &VideoArgs, scenario: &Scenario) -> anyhow::Result<Span> {
    if let Latency::Time(latency) = args.latency {
        return Ok(latency);
    }
    let deadline = scenario.flows.iter().find_map(|flow| flow.traffic.deadline());
    deadline.ok_or_else(|| {
        anyhow!(
            "--latency: no flow of {} has a deadline; give a time, such as 150ms",
            args.scenario.display()
        )
    })
}

/// Name of the file without folders.
fn name(film: &Path) -> String {
    film.file_name().unwrap_or(film.as_os_str()).to_string_lossy().into_owned()
}
