//! minRTT, also called LowRTT, and "MPQUIC" in papers that mean the default of multipath QUIC.
//!
//! Source: the default scheduler of Linux MPTCP and of the multipath QUIC implementations that
//! STORM (USENIX ATC 2025, §2), DAMS (INFOCOM 2022, §V) and NineTails (§4) compare with. Blocks
//! leave in the order of the hand-over, lost reliable data first, each packet on the path with the
//! lowest smoothed RTT that has congestion window left. Unreliable data is never sent again. Any
//! number of paths.
//!
//! Option `unreliable` (`in-line` or `last`, default `in-line`). With `last` unreliable data waits
//! while reliable bytes wait, lost or never sent: Case 3 of STORM (§2.3.2, Fig. 5). Either kind
//! stays in the order of the hand-over. A decision then costs O(unreliable blocks that wait).

use std::str::FromStr;

use crate::{
    Assignment, BlockQueue, BuildError, Context, Decision, Entry, OptionSpec, Options, Scheduler, Work,
    WorkKind,
};

pub(super) const ENTRY: Entry = Entry {
    name: "minrtt",
    summary: "each packet on the lowest-RTT path with window left",
    source: "Linux MPTCP default; \"MPQUIC\" in STORM and DAMS, \"LowRTT\" in NineTails",
    options: &[OptionSpec {
        name: "unreliable",
        default: "in-line",
        help: "unreliable blocks: in-line (in the order of handing over) or last (after all reliable bytes that wait)",
    }],
    signal: false,
};

pub(super) fn build(options: &mut Options) -> Result<Box<dyn Scheduler>, BuildError> {
    Ok(match options.take("unreliable", Unreliable::InLine)? {
        Unreliable::InLine => Box::new(MinRtt),
        Unreliable::Last => Box::new(ReliableFirst),
    })
}

/// Position of unreliable blocks.
enum Unreliable {
    InLine,
    Last,
}

impl FromStr for Unreliable {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "in-line" => Ok(Self::InLine),
            "last" => Ok(Self::Last),
            _ => Err("must be in-line or last"),
        }
    }
}

/// Each packet on the lowest-RTT path with window left.
#[derive(Clone, Copy, Debug, Default)]
pub struct MinRtt;

impl Scheduler for MinRtt {
    fn next(&mut self, cx: &Context<'_>) -> Decision {
        on_fastest(cx, BlockQueue::next_in_line)
    }
}

/// Like [`MinRtt`], with unreliable data after the reliable.
#[derive(Clone, Copy, Debug)]
struct ReliableFirst;

impl Scheduler for ReliableFirst {
    fn next(&mut self, cx: &Context<'_>) -> Decision {
        on_fastest(cx, |queue| queue.next_repair().or_else(|| reliable(queue)).or_else(|| queue.next_fresh()))
    }
}

fn on_fastest(cx: &Context<'_>, next: impl FnOnce(&BlockQueue) -> Option<Work>) -> Decision {
    let work = cx.fastest_with_room().and_then(|path| Some((path, next(cx.queue)?)));
    work.map_or_else(Decision::idle, |(path, work)| {
        Decision::Send(Assignment::new(work, path.id, "lowest RTT with window left"))
    })
}

/// Returns the oldest range of a reliable block that was never sent.
fn reliable(queue: &BlockQueue) -> Option<Work> {
    queue.reliable_by_deadline().next()?;
    let block = queue.with_fresh().find(|block| block.meta().reliable)?;
    Some(Work { block: block.meta().id, range: block.next_fresh()?, kind: WorkKind::Fresh })
}
