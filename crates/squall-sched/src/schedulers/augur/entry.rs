//! The names and options of AUGUR and its halves.

use std::str::FromStr;

use super::{Augur, Choice, Frames, Settings, StateManager, model::STATES};
use crate::{BuildError, Entry, Micros, OptionSpec, Options, Scheduler};

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

const SOURCE: &str = "AUGUR (NSDI 2024)";

pub(in crate::schedulers) const AUGUR: Entry = Entry {
    name: "augur",
    summary: "unmetered primary; late frames, and all while it is degraded, on a metered backup",
    source: SOURCE,
    options: &[DELTA, WINDOW, STALL, PROBE, SAMPLE, PRIMARY, BACKUP, RESCUE, LEARN],
    signal: false,
};

pub(in crate::schedulers) const RETRANSMIT: Entry = Entry {
    name: "augur-retransmit",
    summary: "AUGUR without the switch: late frames are repeated on a metered backup",
    source: "AUGUR (NSDI 2024), §3.6.1",
    options: &[DELTA, WINDOW, STALL, PROBE, PRIMARY, BACKUP, RESCUE, LEARN],
    signal: false,
};

pub(in crate::schedulers) const SWITCH: Entry = Entry {
    name: "augur-switch",
    summary: "AUGUR without retransmission: all on a metered backup while the primary is degraded",
    source: "AUGUR (NSDI 2024), §3.6.2",
    options: &[DELTA, WINDOW, STALL, PROBE, SAMPLE, PRIMARY, BACKUP, RESCUE, LEARN],
    signal: false,
};

pub(in crate::schedulers) fn build_augur(options: &mut Options) -> Result<Box<dyn Scheduler>, BuildError> {
    build(options, true, true)
}

pub(in crate::schedulers) fn build_retransmit(
    options: &mut Options,
) -> Result<Box<dyn Scheduler>, BuildError> {
    build(options, true, false)
}

pub(in crate::schedulers) fn build_switch(options: &mut Options) -> Result<Box<dyn Scheduler>, BuildError> {
    build(options, false, true)
}

/// What the agent is to do, and with which paths.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen {
    pub(super) retransmit: bool,
    pub(super) switch: bool,
    pub(super) primary: Choice,
    pub(super) backup: Choice,
    pub(super) probe: Micros,
    pub(super) rescue: Rescue,
    pub(super) learn: Learn,
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

fn build(options: &mut Options, retransmit: bool, switch: bool) -> Result<Box<dyn Scheduler>, BuildError> {
    let mut millis = |option, default| Ok(1000 * options.take_in(option, default, 1..=60_000_u64)?);
    let (stall, probe, sample) = (millis("stall", 200)?, millis("probe", 50)?, millis("sample", 10)?);
    let settings = Settings {
        stall,
        delta: options.take_in("delta", 3.5, 0.0..=1000.0)?,
        window: 1_000_000 * options.take_in("window", 300, 1..=86_400_u64)?,
        sample,
    };
    // A look or a window outside these bounds sees nothing of what it is for.
    if settings.sample > stall {
        return Err(refuse("sample", settings.sample / 1000, "must not be longer than stall"));
    }
    if settings.window <= stall {
        return Err(refuse("window", settings.window / 1_000_000, "must be longer than stall"));
    }
    debug_assert_eq!(stall % STATES as Micros, 0, "every state is as wide as the others");
    let primary = options.take("primary", Choice::default())?;
    let backup = options.take("backup", Choice::default())?;
    if let (Choice(Some(one)), Choice(Some(other))) = (primary, backup)
        && one == other
    {
        return Err(refuse("backup", other, "must differ from the primary path"));
    }
    let rescue = options.take("rescue", Rescue::All)?;
    let learn = options.take("learn", Learn::End)?;
    Ok(Box::new(Augur {
        options: Chosen { retransmit, switch, primary, backup, probe, rescue, learn },
        roles: None,
        manager: StateManager::new(settings),
        frames: Frames::default(),
        gone_at: None,
        away: None,
        received_at: 0,
        probe_at: 0,
        to_probe: 0,
        probed: false,
    }))
}

#[expect(clippy::needless_pass_by_value, reason = "callers pass numbers")]
fn refuse(option: &str, value: impl ToString, why: &str) -> BuildError {
    BuildError::BadValue { option: option.into(), value: value.to_string(), why: why.into() }
}
