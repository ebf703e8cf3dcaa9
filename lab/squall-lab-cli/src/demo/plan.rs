//! What a demo plays, checked before anything starts.

use std::{path::Path, sync::Arc};

use anyhow::bail;
use squall::{Config, sched::Registry};
use squall_lab::{
    Contender, Direction, Scenario,
    offer::Class,
    traffic::{FrameType, Kind as _, Traffic, Video},
};
use squall_media::{ClipConfig, EncoderConfig, FrameKind, PlayerConfig, frame::frame_time_us};
use squall_net::{
    PathConfig,
    radio::{LevelSeries, Source},
    series::Series,
};
use squall_terminal::{
    error::{usage, whole},
    list,
};
use squall_units::Span;

use super::{DemoArgs, ladder::FOLLOW};

/// The scenario that is played when none is given.
const SCRIPT: &str = include_str!("../../../../scenarios/coverage.toml");

const SCRIPT_NAME: &str = "coverage.toml";

/// From the start of the relays to the first frame: time for handshakes, during which the links are as the
/// script has them at its beginning.
pub(super) const LEAD: Span = Span::from_millis(1_000);

/// The priority of what can wait longest.
const LAST_PRIORITY: u8 = 7;

/// Longest clip that is encoded, in seconds; it is repeated.
const MAX_CLIP_SECONDS: f64 = 8.0;

/// Everything that the schedulers of a demo have in common.
pub(super) struct Plan {
    /// Links, script and flow.
    pub(super) scenario: Scenario,
    /// The only flow of it.
    pub(super) video: Video,
    /// Schedulers to compare, as they were asked for, and how their sessions behave.
    pub(super) schedulers: Vec<(String, Config)>,
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
    pub(super) fn new(args: &DemoArgs, registry: &Arc<Registry>) -> anyhow::Result<Self> {
        let mut scenario = match &args.scenario {
            Some(file) => {
                squall_terminal::input::check(file)?;
                Scenario::load(file).map_err(usage)?
            }
            None => Scenario::parse(SCRIPT, SCRIPT_NAME).map_err(whole)?,
        };
        let name = args.scenario.as_deref().unwrap_or(Path::new(SCRIPT_NAME)).display().to_string();
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
            bitrate_bps: u32::try_from(video.bitrate.bps()).unwrap_or(u32::MAX),
            key_interval: u32::try_from(video.group()).unwrap_or(u32::MAX),
            disposable: args.disposable.unwrap_or(args.scenario.is_none() && video.group().is_multiple_of(2)),
            ..EncoderConfig::default()
        };
        encoder.check().map_err(usage)?;
        let schedulers = schedulers(&args.schedulers, &scenario, registry)?;
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

    /// Whether the encoder of any of them follows.
    pub(super) fn follows(&self) -> bool {
        self.schedulers.iter().any(|(name, _)| name.ends_with(FOLLOW))
    }

    /// Which end of a session sends.
    pub(super) fn direction(&self) -> Direction {
        self.scenario.flows[0].direction
    }

    /// Priority of a frame, and whether it is repaired until it arrives. One that no other needs never is, and
    /// comes after all others.
    pub(super) fn class(&self, kind: FrameKind) -> (u8, bool) {
        let video = &self.video;
        match kind {
            FrameKind::Key => (video.priority_key, video.reliable.covers(FrameType::I)),
            FrameKind::Delta => (video.priority_delta, video.reliable.covers(FrameType::P)),
            FrameKind::Disposable => ((video.priority_delta + 1).min(LAST_PRIORITY), false),
        }
    }

    /// The classes of its frames, in the order of [`Self::class_of`].
    pub(super) fn classes(&self) -> Vec<Class> {
        let class = |name, kind| {
            let (priority, reliable) = self.class(kind);
            Class::new(name, reliable, priority)
        };
        vec![
            class("key", FrameKind::Key),
            class("delta", FrameKind::Delta),
            class("disposable", FrameKind::Disposable),
        ]
    }

    /// The place of a frame's class.
    pub(super) fn class_of(kind: FrameKind) -> u16 {
        match kind {
            FrameKind::Key => 0,
            FrameKind::Delta => 1,
            FrameKind::Disposable => 2,
        }
    }

    /// Whether there is anything to go by.
    pub(super) fn has_radios(&self) -> bool {
        self.scenario.paths.iter().any(|path| path.radio.is_some())
    }

    /// Time from capture until a frame must be there, in microseconds: the deadline, or a second without one.
    pub(super) fn due_us(&self) -> u64 {
        self.video.deadline_us().unwrap_or(1_000_000)
    }

    /// When a frame is captured, in microseconds from the first.
    pub(super) fn captured_us(&self, frame: u64) -> u64 {
        frame_time_us(frame, f64::from(self.video.fps))
    }

    /// How a viewer plays it.
    pub(super) fn player(&self) -> PlayerConfig {
        PlayerConfig { fps: f64::from(self.video.fps), deadline_us: self.due_us(), ..Default::default() }
    }

    /// The links for relays: the script begins after [`LEAD`], and so do the levels that were written down.
    /// Levels that repeat or are drawn by lot have no beginning to wait for.
    pub(super) fn relayed_paths(&self) -> Vec<PathConfig> {
        let mut paths = self.scenario.paths.clone();
        for path in &mut paths {
            let links = [&mut path.up.events, &mut path.down.events].into_iter().flatten();
            let times = path.events.iter_mut().map(|event| &mut event.at);
            for at in times.chain(links.map(|event| &mut event.at)) {
                *at = after_lead(*at);
            }
            let source = path.radio.as_mut().map(|radio| &mut radio.source);
            if let Some(Source::Series(levels) | Source::Trace(levels)) = source {
                delay(levels);
            }
        }
        paths
    }
}

fn after_lead(at: Span) -> Span {
    Span::from_micros(at.micros() + LEAD.micros())
}

/// Lets levels begin after [`LEAD`].
fn delay(levels: &mut LevelSeries) {
    if levels.repeat.is_some() {
        return;
    }
    for column in [&mut levels.rsrp, &mut levels.sinr, &mut levels.rssi].into_iter().flatten() {
        let steps = column.steps().iter().map(|(at, level)| (after_lead(*at), *level)).collect();
        // Steps in order stay in order.
        *column = Series::new(steps, None).unwrap_or_else(|_| column.clone());
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
        video.fps = fps;
    }
    if let Some(rate) = args.bitrate {
        video.bitrate = rate;
    }
    Ok(video.clone())
}

fn schedulers(
    list: &str,
    scenario: &Scenario,
    registry: &Arc<Registry>,
) -> anyhow::Result<Vec<(String, Config)>> {
    let names = list::split(list);
    if !(1..=4).contains(&names.len()) {
        return Err(usage(format!("--schedulers: give 1 to 4 of them, not {}", names.len())));
    }
    let wrong = |error| usage(format!("--schedulers: {error}"));
    let build = |name: &str| {
        let contender = Contender::of(name.strip_suffix(FOLLOW).unwrap_or(name));
        let config = contender.config(registry).map_err(wrong)?;
        Ok((name.to_owned(), Config { congestion: scenario.congestion, ..config }))
    };
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
    let group = video.group() as f64 / f64::from(video.fps);
    let wanted = (duration_us as f64 / 1e6).min(MAX_CLIP_SECONDS);
    ((wanted / group).floor() * group).clamp(group.min(wanted), wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(args: &DemoArgs) -> anyhow::Result<Plan> {
        Plan::new(args, &Arc::new(Registry::standard()))
    }

    #[test]
    fn the_script_that_ships_can_be_played() {
        let plan = planned(&DemoArgs::example()).expect("is valid");
        assert_eq!((plan.frames, plan.schedulers.len()), (600, 2));
        assert_eq!(plan.clip_seconds, 8.0);
        let signals: Vec<_> = plan.schedulers.iter().map(|(_, config)| config.signal.is_some()).collect();
        assert_eq!(signals, [false, true], "minrtt goes by what packets tell, storm by the radios too");
    }

    #[test]
    fn the_script_waits_for_the_handshake() {
        let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/fading.toml").into();
        let fading = planned(&DemoArgs { scenario: Some(scenario), ..DemoArgs::example() });
        let plan = fading.expect("is valid");
        let (given, relayed) = (&plan.scenario.paths[0], &plan.relayed_paths()[0]);
        assert_eq!(relayed.events[0].at.micros(), given.events[0].at.micros() + 1_000_000);

        let plan = planned(&DemoArgs::example()).expect("is valid");
        let fade = |paths: &[PathConfig]| match paths[0].radio.as_ref().map(|radio| &radio.source) {
            Some(Source::Series(levels)) => levels.rssi.as_ref().map(|rssi| rssi.steps()[1].0.micros()),
            _ => None,
        };
        let given = fade(&plan.scenario.paths).expect("levels are written down");
        assert_eq!(fade(&plan.relayed_paths()), Some(given + 1_000_000));
    }

    #[test]
    fn what_no_frame_needs_is_not_repaired() {
        let plan = planned(&DemoArgs::example()).expect("is valid");
        assert!(plan.clip.encoder.disposable);
        let without = planned(&DemoArgs { disposable: Some(false), ..DemoArgs::example() });
        assert!(!without.expect("is valid").clip.encoder.disposable);
        assert_eq!(plan.class(FrameKind::Key), (0, true));
        assert_eq!(plan.class(FrameKind::Delta), (1, true));
        assert_eq!(plan.class(FrameKind::Disposable), (2, false));
    }

    #[test]
    fn arguments_change_the_video() {
        let args = DemoArgs { fps: Some(60), seconds: Some(2), ..DemoArgs::example() };
        let plan = planned(&args).expect("is valid");
        assert_eq!((plan.frames, plan.video.group(), plan.clip_seconds), (120, 120, 2.0));
        assert!(plan.scenario.paths.iter().all(|path| path.events.is_empty()), "nothing happens that early");
        for (change, word) in [
            (DemoArgs { schedulers: "fastest".into(), ..DemoArgs::example() }, "'fastest'"),
            (DemoArgs { schedulers: ",".into(), ..DemoArgs::example() }, "1 to 4"),
            (DemoArgs { seconds: Some(301), ..DemoArgs::example() }, "--seconds"),
            (DemoArgs { size: (1281, 720), ..DemoArgs::example() }, "1281"),
        ] {
            let error = planned(&change).err().map(|e| format!("{e:#}")).unwrap_or_default();
            assert!(error.contains(word), "{error}");
        }
    }
}
