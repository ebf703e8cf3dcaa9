//! Scenario of a demo: that of the file, with its video really encoded.

use std::path::Path;

use anyhow::bail;
use squall_lab::{
    Scenario, Traffic,
    traffic::{Film, Kind, ReliableFrames, Video},
};
use squall_proto::CongestionControl;
use squall_terminal::error::{usage, whole};
use squall_units::Span;

use super::args::DemoArgs;

/// Default scenario.
const SCRIPT: &str = include_str!("../../../../scenarios/coverage.toml");

const SCRIPT_NAME: &str = "coverage.toml";

/// Lowest priority.
const LAST_PRIORITY: u8 = 7;

/// Maximum length of the encoded clip in seconds; it is repeated.
const MAX_CLIP_SECONDS: f64 = 8.0;

/// Maximum number of pictures that are compared.
const COMPARED: u64 = 40;

/// Loads the scenario and applies the arguments.
pub(super) fn load(args: &DemoArgs) -> anyhow::Result<Scenario> {
    let mut scenario = match &args.scenario {
        Some(file) => {
            squall_terminal::input::check(file)?;
            Scenario::load(file).map_err(usage)?
        }
        // The file has the congestion control of the papers; a demo uses the default of
        // applications.
        None => Scenario { congestion: CongestionControl::default(), ..built_in()? },
    };
    let name = args.scenario.as_deref().unwrap_or(Path::new(SCRIPT_NAME)).display().to_string();
    if let Some(seconds) = args.seconds {
        end_at(&mut scenario, u64::from(seconds) * 1_000_000);
    }
    if !(1_000_000..=300_000_000).contains(&scenario.duration_us) {
        return Err(usage(format!("{name}: a demo lasts 1 to 300 seconds; choose with --seconds")));
    }
    let [flow] = scenario.flows.as_mut_slice() else {
        bail!("{name}: a demo plays one flow, this scenario has {}", scenario.flows.len());
    };
    let Traffic::Video(video) = &mut flow.traffic else {
        bail!("{name}: a demo plays video, flow '{}' is none", flow.name);
    };
    if let Some(fps) = args.fps {
        video.fps = fps;
    }
    if let Some(rate) = args.bitrate {
        video.bitrate = rate;
    }
    scenario.seeds = vec![args.seed.unwrap_or(scenario.seeds[0])];
    flow.dependencies = true;
    flow.traffic = Traffic::Film(encoded(args, video, scenario.duration_us, scenario.seeds[0])?);
    Ok(scenario)
}

fn built_in() -> anyhow::Result<Scenario> {
    Scenario::parse(SCRIPT, SCRIPT_NAME).map_err(whole)
}

/// Film of a demo.
pub(super) fn film(scenario: &Scenario) -> &Film {
    match &scenario.flows[0].traffic {
        Traffic::Film(film) => film,
        _ => unreachable!("the scenario of a demo has a film"),
    }
}

/// Changes the length of the scenario, and drops events after its end.
fn end_at(scenario: &mut Scenario, duration_us: u64) {
    scenario.duration_us = duration_us;
    scenario.flows.iter_mut().for_each(|flow| flow.end_us = duration_us);
    for path in &mut scenario.paths {
        path.events.retain(|event| event.at.micros() < duration_us);
        for link in [&mut path.up, &mut path.down] {
            link.events.retain(|event| event.at.micros() < duration_us);
        }
    }
}

/// Converts a video to a film, in which disposable frames are not repaired and have a lower
/// priority than all others.
fn encoded(args: &DemoArgs, video: &Video, duration_us: u64, seed: u64) -> anyhow::Result<Film> {
    let (width, height) = args.size;
    let frames = duration_us * u64::from(video.fps) / 1_000_000;
    let film = Film {
        width,
        height,
        fps: video.fps,
        bitrate: video.bitrate,
        keyframe_interval: video.keyframe_interval,
        disposable: args.disposable.unwrap_or(args.scenario.is_none() && video.group().is_multiple_of(2)),
        length: Span::from_micros(clip_pictures(video, frames) * 1_000_000 / u64::from(video.fps)),
        scene: seed,
        // Without a deadline, one second is enough.
        deadline: video.deadline.unwrap_or(Span::from_millis(1_000)),
        priority_key: video.priority_key,
        priority_delta: video.priority_delta,
        priority_disposable: (video.priority_delta + 1).min(LAST_PRIORITY),
        reliable: match video.reliable {
            ReliableFrames::All => ReliableFrames::Reference,
            fewer => fewer,
        },
        compared_every: u32::try_from(frames / COMPARED).unwrap_or(1).max(1),
        follow: false,
    };
    film.validate().map_err(|error| usage(error.words))?;
    Ok(film)
}

/// Length of the clip in pictures: whole groups of frames, so that its repetition does not add a
/// key frame.
fn clip_pictures(video: &Video, frames: u64) -> u64 {
    let wanted = frames.min((MAX_CLIP_SECONDS * f64::from(video.fps)) as u64).max(1);
    (wanted / video.group() * video.group()).clamp(video.group().min(wanted), wanted)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use squall_lab::Batch;

    use super::*;

    fn played(args: &DemoArgs) -> (Scenario, Film) {
        let scenario = load(args).expect("is valid");
        let Traffic::Film(film) = scenario.flows[0].traffic.clone() else { panic!("is a film") };
        (scenario, film)
    }

    #[test]
    fn the_script_that_ships_can_be_played() {
        let (scenario, film) = played(&DemoArgs::example());
        assert_eq!((scenario.duration_us, film.pictures(), film.compared_every), (20_000_000, 240, 15));
        assert_eq!(film.deadline, Span::from_millis(150));
    }

    #[test]
    fn squall_shows_the_whole_film() {
        let (mut scenario, _) = played(&DemoArgs { seed: Some(2), ..DemoArgs::example() });
        // With each of these seeds a reference was once late, together with its dependents, because
        // its end waited for a Wi-Fi link that became slower.
        scenario.seeds = vec![6, 9, 17, 18, 24, 35];
        let schedulers = vec!["squall+swm".to_owned()];
        let batch = Batch { schedulers, ..Batch::of(&scenario, Arc::new(squall_papers::registry())) };
        for run in batch.run(&|_| {}).expect("runs") {
            let total = &run.flows[0].total;
            assert!(total.decodable_blocks >= total.offered_blocks - 3, "seed {}: {total:?}", run.seed);
        }
    }

    #[test]
    fn what_no_frame_needs_is_not_repaired() {
        let (scenario, film) = played(&DemoArgs::example());
        assert!(film.disposable);
        let classes = scenario.flows[0].traffic.classes();
        let classes: Vec<_> = classes.iter().map(|class| (class.priority, class.reliable)).collect();
        assert_eq!(classes, [(0, true), (1, true), (2, false)]);
        let without = DemoArgs { disposable: Some(false), ..DemoArgs::example() };
        assert!(!played(&without).1.disposable);
    }

    #[test]
    fn arguments_change_the_video() {
        let args = DemoArgs { fps: Some(60), seconds: Some(2), ..DemoArgs::example() };
        let (scenario, film) = played(&args);
        assert_eq!((film.pictures(), film.fps, film.keyframe_interval), (120, 60, Span::from_millis(2_000)));
        assert_eq!((scenario.duration_us, scenario.flows[0].end_us), (2_000_000, 2_000_000));
        assert!(scenario.paths.iter().all(|path| path.events.is_empty()), "nothing happens that early");
        for (change, word) in [
            (DemoArgs { seconds: Some(301), ..DemoArgs::example() }, "--seconds"),
            (DemoArgs { size: (1281, 720), ..DemoArgs::example() }, "1281"),
        ] {
            let error = load(&change).err().map(|e| format!("{e:#}")).unwrap_or_default();
            assert!(error.contains(word), "{error}");
        }
    }
}
