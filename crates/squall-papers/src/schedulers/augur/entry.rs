//! Names and options of AUGUR and its halves.

use std::{fmt::Display, str::FromStr, sync::Arc};

use super::{
    Augur, Choice, Frames, Settings, StateManager,
    model::{STATES, Stalls},
    per_path::PerPath,
    users::{Allowance, Counted, DEFAULT_DELTA, MAX_DELTA, Users},
};
use squall_sched::{
    BuildError, Cap, Entry, MAX_PATHS, OptionSpec, Options, PathId, PathSet, Registry, Scheduler, Span, Time,
};

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
    help: "0 to 1000; a backup may carry the stalls' share times this (3.5: 500 MB a month, 1.75: 250 MB); \
           3.5;1:2: 2 for path 1",
};
const BUDGET: OptionSpec = OptionSpec {
    name: "budget",
    default: "none",
    help: "bytes a month for a backup, such as 500MB or 1:500MB;2:1GB, in place of delta; a guide, where cap is a \
           limit",
};
const PLAYING: OptionSpec =
    OptionSpec { name: "playing", default: "0.25", help: "h a day, 0.01 to 24; what budget is shared by" };
const USERS: OptionSpec = OptionSpec {
    name: "users",
    default: "paper",
    help: "whose late bytes an hour budget is shared by: paper; learned: those of all sessions of this process",
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

const AUGUR: Entry = Entry {
    name: "augur",
    summary: "unmetered primary; late frames, and all while it is degraded, on a metered backup",
    source: SOURCE,
    options: &[
        DELTA, BUDGET, PLAYING, USERS, WINDOW, STALL, STALLS, PROBE, SAMPLE, PRIMARY, BACKUP, RESCUE, LEARN,
        RTT,
    ],
    signal: false,
};

const RETRANSMIT: Entry = Entry {
    name: "augur-retransmit",
    summary: "AUGUR without the switch: late frames are repeated on a metered backup",
    source: "AUGUR (NSDI 2024), §3.6.1",
    options: &[DELTA, BUDGET, PLAYING, USERS, WINDOW, STALL, STALLS, PROBE, PRIMARY, BACKUP, RESCUE, LEARN],
    signal: false,
};

const SWITCH: Entry = Entry {
    name: "augur-switch",
    summary: "AUGUR without retransmission: all on a metered backup while the primary is degraded",
    source: "AUGUR (NSDI 2024), §3.6.2",
    options: &[
        DELTA, BUDGET, PLAYING, USERS, WINDOW, STALL, STALLS, PROBE, SAMPLE, PRIMARY, BACKUP, RESCUE, LEARN,
        RTT,
    ],
    signal: false,
};

/// Registers AUGUR and its halves, whose sessions share one record of users.
pub(crate) fn register(registry: &mut Registry) {
    let counted = Arc::new(Counted::default());
    for (entry, retransmit, switch) in [(AUGUR, true, true), (RETRANSMIT, true, false), (SWITCH, false, true)]
    {
        let counted = counted.clone();
        registry.register(entry, move |options| build(options, retransmit, switch, &counted));
    }
}

/// Tasks of the agent, and its paths.
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

/// Late frames that the backup repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rescue {
    All,
    /// Frames for which a probe at their age could be in time.
    Probe,
    /// Frames whose missing bytes can be in time.
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

/// Evaluation of a frame that the backup delivered first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Learn {
    /// Delivered at that time.
    End,
    /// By the outcome on the primary path.
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

/// Round trip of the primary path for the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rtt {
    /// Its latest sample.
    Latest,
    /// The latest sample, or the time since which data has been in flight without an
    /// acknowledgement.
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

/// Users whose mean determines δ of a `budget`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mean {
    /// The paper's users.
    Paper,
    /// The users of this process.
    Learned,
}

impl FromStr for Mean {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "paper" => Ok(Self::Paper),
            "learned" => Ok(Self::Learned),
            _ => Err("must be paper or learned"),
        }
    }
}

/// δ as the value of an option.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Delta(f64);

impl FromStr for Delta {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let delta = text.parse().ok().filter(|delta| (0.0..=MAX_DELTA).contains(delta));
        delta.map(Self).ok_or_else(|| format!("must be from 0 to {MAX_DELTA}"))
    }
}

/// Returns δ of each path: the value for that path, else the value for all. `None` of `budget`
/// defers to `delta`.
fn allowances(options: &mut Options, users: &Users) -> Result<[Allowance; MAX_PATHS], BuildError> {
    let delta: PerPath<Delta> = options.take("delta", PerPath::default())?;
    let budget: PerPath<Cap> = options.take("budget", PerPath::default())?;
    let playing = options.take_in("playing", 0.25, 0.01..=24.0)?;
    let both = |delta: Option<Delta>, budget: Option<Cap>| Some((delta?, budget?.0?));
    if let Some((Delta(delta), _)) = both(delta.all, budget.all) {
        return Err(refuse("delta", delta, "is what budget decides"));
    }
    let mut allowances = [Allowance::Delta(DEFAULT_DELTA); MAX_PATHS];
    for (path, allowance) in (0..).map(PathId).zip(&mut allowances) {
        let (own_delta, own_budget) = (delta.own(path), budget.own(path));
        if let Some((Delta(delta), _)) = both(own_delta, own_budget) {
            return Err(refuse("delta", format!("{}:{delta}", path.0), "is what budget decides"));
        }
        let monthly = own_budget.or(budget.all.filter(|_| own_delta.is_none())).and_then(|cap| cap.0);
        *allowance = match monthly {
            Some(budget) => Allowance::Monthly { budget, playing },
            None => Allowance::Delta(own_delta.or(delta.all).map_or(DEFAULT_DELTA, |Delta(delta)| delta)),
        };
        // Paths with the same δ form one group, no matter which option it comes from.
        if !users.are_learned() {
            *allowance = Allowance::Delta(allowance.delta(users.late_per_hour()));
        }
    }
    let is_monthly = |allowance: &Allowance| matches!(allowance, Allowance::Monthly { .. });
    if users.are_learned() && !allowances.iter().any(is_monthly) {
        return Err(refuse("users", "learned", "has no effect without a budget"));
    }
    Ok(allowances)
}

fn build(
    options: &mut Options,
    retransmit: bool,
    switch: bool,
    counted: &Arc<Counted>,
) -> Result<Box<dyn Scheduler>, BuildError> {
    let mut millis = |option, default| Ok(Span::from_millis(options.take_in(option, default, 1..=60_000)?));
    let (stall, probe, sample) = (millis("stall", 200)?, millis("probe", 50)?, millis("sample", 10)?);
    let users = match options.take("users", Mean::Paper)? {
        Mean::Paper => Users::default(),
        Mean::Learned => Users::learned(counted),
    };
    let settings = Settings {
        stall,
        allowances: allowances(options, &users)?,
        users,
        window: Span::from_secs(options.take_in("window", 300, 1..=86_400)?),
        sample,
        stalls: options.take("stalls", Stalls::Late)?,
    };
    // A sampling interval or window outside these bounds would miss the events that it is for.
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
    let manager = StateManager::new(settings);
    Ok(Box::new(Augur {
        options: Chosen { retransmit, switch, primary, backup, probe, rescue, learn, rtt },
        roles: None,
        frames: Frames::new(manager.groups().len()),
        manager,
        handed_over_at: None,
        gone_at: None,
        away: None,
        backup_in_use: None,
        received_at: None,
        probe_at: Time::EPOCH,
        to_probe: PathSet::EMPTY,
        probed: false,
    }))
}

fn refuse(option: &str, value: impl Display, why: &str) -> BuildError {
    BuildError::BadValue { option: option.into(), value: value.to_string(), why: why.into() }
}
