//! What a demo plays, checked before anything starts.

use std::path::Path;

use anyhow::bail;
use squall::SchedulerFactory;
use squall_lab::{
    Direction, Scenario,
    flow::{Traffic, Video},
};
use squall_media::{ClipConfig, EncoderConfig, PlayerConfig, frame::frame_time_us};
use squall_net::{PathConfig, Span};

use super::DemoArgs;
use crate::{
    error::{usage, whole},
    list,
};

/// The scenario that is played when none is given.
const SCRIPT: &str = include_str!("../../../../scenarios/fading.toml");

/// From the start of the relays to the first frame: time for handshakes, during which the links are as the
/// script has them at its beginning.
pub(super) const LEAD: Span = Span::from_millis(1_000);

/// Longest clip that is encoded, in seconds; it is repeated.
const MAX_CLIP_SECONDS: f64 = 8.0;

/// Everything that the schedulers of a demo have in common.
pub(super) struct Plan {
    /// Links, script and flow.
    pub(super) scenario: Scenario,
    /// The only flow of it.
    pub(super) video: Video,
    /// Schedulers to compare, as they were asked for.
    pub(super) schedulers: Vec<(String, SchedulerFactory)>,
    /// What is encoded.
    pub(super) clip: ClipConfig,
    /// Length of the clip in seconds.
    pub(super) clip_seconds: f64,
    /// Frames to send.
    pub(super) frames: u64,
    /// Length of the demo in microseconds.
    pub(super) duration_us: u64,
    /// Seed of links and picture.
    pub(super) seed: u64,
}

impl Plan {
    /// Puts scenario and arguments together.
    pub(super) fn new(args: &DemoArgs) -> anyhow::Result<Self> {
        let mut scenario = match &args.scenario {
            Some(file) => Scenario::load(file).map_err(whole)?,
            None => Scenario::parse(SCRIPT, "fading.toml").map_err(whole)?,
        };
        let name = args.scenario.as_deref().unwrap_or(Path::new("fading.toml")).display().to_string();
        let video = the_video(&mut scenario, args, &name)?;
        if let Some(seconds) = args.seconds {
            shorten(&mut scenario, u64::from(seconds) * 1_000_000);
        }
        let duration_us = scenario.duration_us;
        if !(1_000_000..=300_000_000).contains(&duration_us) {
            return Err(usage(format!("{name}: a demo lasts 1 to 300 seconds; choose with --seconds")));
        }
        let (width, height) = args.size;
        let fps = f64::from(video.fps);
        let encoder = EncoderConfig {
            width,
            height,
            fps,
            bitrate_bps: u32::try_from(video.bitrate_bps).unwrap_or(u32::MAX),
            key_interval: u32::try_from(video.group).unwrap_or(u32::MAX),
            disposable: false,
        };
        encoder.check().map_err(usage)?;
        let schedulers = schedulers(&args.schedulers)?;
        let seed = args.seed.unwrap_or(scenario.seeds[0]);
        Ok(Self {
            frames: duration_us * u64::from(video.fps) / 1_000_000,
            clip_seconds: clip_seconds(&video, duration_us),
            clip: ClipConfig { encoder, seed },
            scenario,
            video,
            schedulers,
            duration_us,
            seed,
        })
    }

    /// Which end of a session sends.
    pub(super) fn direction(&self) -> Direction {
        self.scenario.flows[0].direction
    }

    /// Time from capture until a frame must be there, in microseconds: the deadline, or a second without one.
    pub(super) fn due_us(&self) -> u64 {
        self.video.deadline_us.unwrap_or(1_000_000)
    }

    /// When a frame is captured, in microseconds from the first.
    pub(super) fn captured_us(&self, frame: u64) -> u64 {
        frame_time_us(frame, f64::from(self.video.fps))
    }

    /// How a viewer plays it.
    pub(super) fn player(&self) -> PlayerConfig {
        PlayerConfig { fps: f64::from(self.video.fps), deadline_us: self.due_us(), ..Default::default() }
    }

    /// The links for relays: the script begins after [`LEAD`].
    pub(super) fn relayed_paths(&self) -> Vec<PathConfig> {
        let mut paths = self.scenario.paths.clone();
        for path in &mut paths {
            let links = [&mut path.up.events, &mut path.down.events].into_iter().flatten();
            let times = path.events.iter_mut().map(|event| &mut event.at);
            for at in times.chain(links.map(|event| &mut event.at)) {
                *at = Span::from_micros(at.micros() + LEAD.micros());
            }
        }
        paths
    }
}

/// The flow of the scenario, with what the arguments change of it.
fn the_video(scenario: &mut Scenario, args: &DemoArgs, name: &str) -> anyhow::Result<Video> {
    let [flow] = scenario.flows.as_mut_slice() else {
        bail!("{name}: a demo plays one flow, this scenario has {}", scenario.flows.len());
    };
    let Traffic::Video(video) = &mut flow.traffic else {
        bail!("{name}: a demo plays video, flow '{}' is none", flow.name);
    };
    if let Some(fps) = args.fps {
        // The key frames stay as far apart in time.
        video.group = (video.group * u64::from(fps)).div_ceil(u64::from(video.fps));
        video.fps = fps;
    }
    if let Some(rate) = args.bitrate {
        video.bitrate_bps = rate.bps();
    }
    Ok(video.clone())
}

fn schedulers(list: &str) -> anyhow::Result<Vec<(String, SchedulerFactory)>> {
    let names = list::split(list);
    if !(1..=4).contains(&names.len()) {
        return Err(usage(format!("--schedulers: give 1 to 4 of them, not {}", names.len())));
    }
    let wrong = |error| usage(format!("--schedulers: {error}"));
    let build = |name: &str| Ok((name.to_owned(), squall::scheduler(name).map_err(wrong)?));
    names.into_iter().map(build).collect()
}

/// Ends the scenario earlier, or later; what would happen after its end does not.
fn shorten(scenario: &mut Scenario, duration_us: u64) {
    scenario.duration_us = duration_us;
    for path in &mut scenario.paths {
        path.events.retain(|event| event.at.micros() < duration_us);
        for link in [&mut path.up, &mut path.down] {
            link.events.retain(|event| event.at.micros() < duration_us);
        }
    }
}

/// Whole groups of frames, so that the clip can be repeated without a key frame more.
fn clip_seconds(video: &Video, duration_us: u64) -> f64 {
    let group = video.group as f64 / f64::from(video.fps);
    let wanted = (duration_us as f64 / 1e6).min(MAX_CLIP_SECONDS);
    ((wanted / group).floor() * group).clamp(group.min(wanted), wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_that_ships_can_be_played() {
        let plan = Plan::new(&DemoArgs::example()).expect("is valid");
        assert_eq!((plan.frames, plan.schedulers.len()), (600, 2));
        assert_eq!(plan.clip_seconds, 8.0);
        let (given, relayed) = (&plan.scenario.paths[0], &plan.relayed_paths()[0]);
        assert_eq!(relayed.events[0].at.micros(), given.events[0].at.micros() + 1_000_000);
    }

    #[test]
    fn arguments_change_the_video() {
        let args = DemoArgs { fps: Some(60), seconds: Some(2), ..DemoArgs::example() };
        let plan = Plan::new(&args).expect("is valid");
        assert_eq!((plan.frames, plan.video.group, plan.clip_seconds), (120, 120, 2.0));
        assert!(plan.scenario.paths.iter().all(|path| path.events.is_empty()), "nothing happens that early");
        for (change, word) in [
            (DemoArgs { schedulers: "fastest".into(), ..DemoArgs::example() }, "'fastest'"),
            (DemoArgs { schedulers: ",".into(), ..DemoArgs::example() }, "1 to 4"),
            (DemoArgs { seconds: Some(301), ..DemoArgs::example() }, "--seconds"),
            (DemoArgs { size: (1281, 720), ..DemoArgs::example() }, "1281"),
        ] {
            let error = Plan::new(&change).err().map(|e| format!("{e:#}")).unwrap_or_default();
            assert!(error.contains(word), "{error}");
        }
    }
}
