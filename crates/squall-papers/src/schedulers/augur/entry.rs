//! The names and options of AUGUR and its halves.

use std::str::FromStr;

use super::{
    Augur, Choice, Frames, Settings, StateManager,
    model::{STATES, Stalls},
};
use squall_sched::{BuildError, Cap, Entry, OptionSpec, Options, PathSet, Scheduler, Span, Time};

const PRIMARY: OptionSpec =
    OptionSpec { name: "primary", default: "auto", help: "path id, 0 to 7; auto: the first unmetered path" };
const BACKUP: OptionSpec = OptionSpec {
    name: "backup",
    default: "auto",
    help: "path id, 0 to 7; auto: metered paths, else all others",
};
const DELTA: OptionSpec = OptionSpec {
    name: "delta",
    default: "3.5",
    help: "0 to 1000; the backup may carry the stalls' share times this (3.5: 500 MB a month, 1.75: 250 MB)",
};
const BUDGET: OptionSpec = OptionSpec {
    name: "budget",
    default: "none",
    help: "bytes a month for the backup, such as 500MB, in place of delta; a guide, where cap is a limit",
};
const PLAYING: OptionSpec =
    OptionSpec { name: "playing", default: "0.25", help: "h a day, 0.01 to 24; what budget is shared by" };
const WINDOW: OptionSpec =
    OptionSpec { name: "window", default: "300", help: "s, 1 to 86400; how long samples count" };
const STALL: OptionSpec =
    OptionSpec { name: "stall", default: "200", help: "ms, 1 to 60000; a frame later than this is a stall" };
const PROBE: OptionSpec =
    OptionSpec { name: "probe", default: "50", help: "ms, 1 to 60000; between probes of the backup" };
const SAMPLE: OptionSpec =
    OptionSpec { name: "sample", default: "10", help: "ms, 1 to 60000; between looks at the oldest frame" };
const RESCUE: OptionSpec = OptionSpec {
    name: "rescue",
    default: "all",
    help: "late frames to repeat: all; probe: while age and round trip are within stall; frame: and its bytes",
};
const LEARN: OptionSpec = OptionSpec {
    name: "learn",
    default: "end",
    help: "end: a frame is judged by its first delivery; primary: by what the primary path alone does",
};

const RTT: OptionSpec = OptionSpec {
    name: "rtt",
    default: "silence",
    help: "of the primary, for the switch: latest: the latest sample; silence: or the silence since, if longer",
};

const STALLS: OptionSpec = OptionSpec {
    name: "stalls",
    default: "late",
    help: "late: frames later than stall by this side's clock; reported: those that the peer reports",
};

const SOURCE: &str = "AUGUR (NSDI 2024)";

pub(crate) const AUGUR: Entry = Entry {
    name: "augur",
    summary: "unmetered primary; late frames, and all while it is degraded, on a metered backup",
    source: SOURCE,
    options: &[
        DELTA, BUDGET, PLAYING, WINDOW, STALL, STALLS, PROBE, SAMPLE, PRIMARY, BACKUP, RESCUE, LEARN, RTT,
    ],
    signal: false,
};

pub(crate) const RETRANSMIT: Entry = Entry {
    name: "augur-retransmit",
    summary: "AUGUR without the switch: late frames are repeated on a metered backup",
    source: "AUGUR (NSDI 2024), §3.6.1",
    options: &[DELTA, BUDGET, PLAYING, WINDOW, STALL, STALLS, PROBE, PRIMARY, BACKUP, RESCUE, LEARN],
    signal: false,
};

pub(crate) const SWITCH: Entry = Entry {
    name: "augur-switch",
    summary: "AUGUR without retransmission: all on a metered backup while the primary is degraded",
    source: "AUGUR (NSDI 2024), §3.6.2",
    options: &[
        DELTA, BUDGET, PLAYING, WINDOW, STALL, STALLS, PROBE, SAMPLE, PRIMARY, BACKUP, RESCUE, LEARN, RTT,
    ],
    signal: false,
};

pub(crate) fn build_augur(options: &mut Options) -> Result<Box<dyn Scheduler>, BuildError> {
    build(options, true, true)
}

pub(crate) fn build_retransmit(options: &mut Options) -> Result<Box<dyn Scheduler>, BuildError> {
    build(options, true, false)
}

pub(crate) fn build_switch(options: &mut Options) -> Result<Box<dyn Scheduler>, BuildError> {
    build(options, false, true)
}

/// What the agent is to do, and with which paths.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen {
    pub(super) retransmit: bool,
    pub(super) switch: bool,
    pub(super) primary: Choice,
    pub(super) backup: Choice,
    pub(super) probe: Span,
    pub(super) rescue: Rescue,
    pub(super) learn: Learn,
    pub(super) rtt: Rtt,
}

/// Which late frames the backup repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rescue {
    All,
    /// Those that a probe of their age could be in time for.
    Probe,
    /// Those whose missing bytes can be in time.
    Frame,
}

impl FromStr for Rescue {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "all" => Ok(Self::All),
            "probe" => Ok(Self::Probe),
            "frame" => Ok(Self::Frame),
            _ => Err("must be all, probe or frame"),
        }
    }
}

/// What a frame that the backup delivered first counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Learn {
    /// As delivered then.
    End,
    /// As what the primary path makes of it.
    Primary,
}

impl FromStr for Learn {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "end" => Ok(Self::End),
            "primary" => Ok(Self::Primary),
            _ => Err("must be end or primary"),
        }
    }
}

/// Round trip of the primary path, for the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rtt {
    /// Its latest sample.
    Latest,
    /// That, or the time since which something is in flight and nothing was received.
    Silence,
}

impl FromStr for Rtt {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "latest" => Ok(Self::Latest),
            "silence" => Ok(Self::Silence),
            _ => Err("must be latest or silence"),
        }
    }
}

/// δ of Eq. 6 without options (§5.1).
const DEFAULT_DELTA: f64 = 3.5;

/// Largest δ.
const MAX_DELTA: f64 = 1000.0;

/// Bytes of late frames in an hour of playing, of the mean user. The paper derives δ from a monthly budget by the mean
/// stall rate and the mean playing time of its users (§5.1) and prints neither, but the product: 500 MB are 3.5 times
/// the late frames of a month. The hours are ours: 0.25 a day, which makes 0.45 % late frames (§5.3) of 9.3 Mbps.
const LATE_PER_HOUR: f64 = 500e6 / 3.5 / (30.0 * 0.25);

/// δ for a budget in bytes a month and hours of playing a day: the backup may carry what is late on average δ times.
fn delta_of(budget: u64, playing: f64) -> f64 {
    (budget as f64 / (LATE_PER_HOUR * 30.0 * playing)).min(MAX_DELTA)
}

fn delta(options: &mut Options) -> Result<f64, BuildError> {
    let delta = options.take_in("delta", DEFAULT_DELTA, 0.0..=MAX_DELTA)?;
    let playing = options.take_in("playing", 0.25, 0.01..=24.0)?;
    match options.take("budget", Cap::default())? {
        Cap(None) => Ok(delta),
        Cap(Some(_)) if delta != DEFAULT_DELTA => Err(refuse("delta", delta, "is what budget decides")),
        Cap(Some(budget)) => Ok(delta_of(budget, playing)),
    }
}

fn build(options: &mut Options, retransmit: bool, switch: bool) -> Result<Box<dyn Scheduler>, BuildError> {
    let mut millis = |option, default| Ok(Span::from_millis(options.take_in(option, default, 1..=60_000)?));
    let (stall, probe, sample) = (millis("stall", 200)?, millis("probe", 50)?, millis("sample", 10)?);
    let settings = Settings {
        stall,
        delta: delta(options)?,
        window: Span::from_secs(options.take_in("window", 300, 1..=86_400)?),
        sample,
        stalls: options.take("stalls", Stalls::Late)?,
    };
    // A look or a window outside these bounds sees nothing of what it is for.
    if settings.sample > stall {
        return Err(refuse(
            "sample",
            settings.sample / Span::from_millis(1),
            "must not be longer than stall",
        ));
    }
    if settings.window <= stall {
        return Err(refuse("window", settings.window / Span::from_secs(1), "must be longer than stall"));
    }
    debug_assert_eq!(stall.micros() % STATES as u64, 0, "every state is as wide as the others");
    let primary = options.take("primary", Choice::default())?;
    let backup = options.take("backup", Choice::default())?;
    if let (Choice(Some(one)), Choice(Some(other))) = (primary, backup)
        && one == other
    {
        return Err(refuse("backup", other, "must differ from the primary path"));
    }
    let rescue = options.take("rescue", Rescue::All)?;
    let learn = options.take("learn", Learn::End)?;
    let rtt = if switch { options.take("rtt", Rtt::Silence)? } else { Rtt::Silence };
    Ok(Box::new(Augur {
        options: Chosen { retransmit, switch, primary, backup, probe, rescue, learn, rtt },
        roles: None,
        manager: StateManager::new(settings),
        frames: Frames::default(),
        gone_at: None,
        away: None,
        backup_in_use: None,
        received_at: None,
        probe_at: Time::EPOCH,
        to_probe: PathSet::EMPTY,
        probed: false,
    }))
}

#[expect(clippy::needless_pass_by_value, reason = "callers pass numbers")]
fn refuse(option: &str, value: impl ToString, why: &str) -> BuildError {
    BuildError::BadValue { option: option.into(), value: value.to_string(), why: why.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_monthly_budget_is_shared_by_the_late_frames_of_the_mean_user() {
        let near = |delta: f64, expected: f64| assert!((delta - expected).abs() < 1e-9, "{delta}");
        near(delta_of(500_000_000, 0.25), 3.5);
        near(delta_of(250_000_000, 0.25), 1.75);
        near(delta_of(500_000_000, 1.0), 0.875);
        near(delta_of(0, 0.25), 0.0);
        near(delta_of(u64::MAX, 0.25), MAX_DELTA);
        // The means behind it: 0.1 % is 78.0 % less (§5.3), 7.5 hours a month, and 9.3 Mbps.
        let late: f64 = 0.001 / (1.0 - 0.78) * 7.5 * 3600.0 * 9.3e6 / 8.0;
        assert!((500e6 / late / 3.5 - 1.0).abs() < 0.005, "{late}");
    }
}
