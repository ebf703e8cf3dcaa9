//! minRTT, also called LowRTT, and "MPQUIC" where papers name the default of multipath QUIC.
//!
//! Source: the default scheduler of Linux MPTCP and of the multipath QUIC implementations that
//! STORM (USENIX ATC 2025, §2), DAMS (INFOCOM 2022, §V) and NineTails (§4) compare with. Blocks in the
//! order of handing over; lost reliable data first; each packet on the path with the lowest smoothed
//! RTT that has congestion window left. Unreliable data is never sent again. Takes no options, and any
//! number of paths.

use crate::{Assignment, BuildError, Context, Decision, Entry, Options, Scheduler};

pub(super) const ENTRY: Entry = Entry {
    name: "minrtt",
    summary: "each packet on the lowest-RTT path with window left",
    source: "Linux MPTCP default; \"MPQUIC\" in STORM and DAMS, \"LowRTT\" in NineTails",
    options: &[],
    signal: false,
};

pub(super) fn build(_: &mut Options) -> Result<Box<dyn Scheduler>, BuildError> {
    Ok(Box::new(MinRtt))
}

/// Each packet on the lowest-RTT path with window left.
#[derive(Clone, Copy, Debug, Default)]
pub struct MinRtt;

impl Scheduler for MinRtt {
    fn next(&mut self, cx: &Context<'_>) -> Decision {
        let Some(path) = cx.fastest_with_room() else {
            return Decision::idle();
        };
        match cx.queue.next_in_line() {
            Some(work) => Decision::Send(Assignment::new(work, path.id, "lowest RTT with window left")),
            None => Decision::idle(),
        }
    }
}
