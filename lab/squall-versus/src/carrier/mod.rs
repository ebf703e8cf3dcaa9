//! Carriers of the stream from one side to the other.

mod mptcp;
mod noq;
mod rist;
mod run;
mod squall;
mod srt;
mod tquic;
mod udp;

pub(crate) use squall_versus_stream::{SINK_PORT, SOURCE_PORT};

pub(crate) use run::Run;
pub use run::{Relay, RelayEnd};

use crate::{
    programs::Values,
    spec::{End, SideSpec},
    transport::Carrier,
};

/// Runs a relay until it is killed.
///
/// # Errors
///
/// If the system reports an error, or if no connection is established.
pub fn relay(relay: Relay, end: RelayEnd) -> anyhow::Result<()> {
    match relay {
        Relay::Mptcp => mptcp::run(&end),
        Relay::Noq => noq::run(end),
        Relay::Udp => udp::run(&end),
    }
}

/// Returns the programs that run on a side before the stream starts, in this order, and the one
/// that carries. Each of the former must end before the next starts.
///
/// # Errors
///
/// If the path of the folder cannot be an argument of a program.
pub(crate) fn programs(spec: &SideSpec) -> anyhow::Result<(Vec<Run>, Run)> {
    let relay = |relay, links| Run::relay(&spec.lab, relay, relay_end(spec, links));
    let settings = if spec.transport.carrier == Carrier::Mptcp { mptcp::settings(spec) } else { Vec::new() };
    let carries = match &spec.transport.carrier {
        Carrier::Squall { scheduler, congestion } => squall::tunnel(spec, scheduler, congestion),
        Carrier::Noq { multipath } => relay(Relay::Noq, if *multipath { spec.links } else { 1 })?,
        Carrier::Udp => relay(Relay::Udp, 1)?,
        Carrier::Mptcp => relay(Relay::Mptcp, spec.links)?,
        Carrier::Srt { buffer_ms } => srt::single(spec, *buffer_ms),
        Carrier::SrtGroup { kind, buffer_ms } => srt::group(spec, kind, *buffer_ms),
        Carrier::Rist { mode, buffer_ms } => rist::run(spec, *mode, *buffer_ms),
        Carrier::Tquic { scheduler } => tquic::run(spec, scheduler),
        Carrier::Programs(programs) => {
            let values = Values {
                links: spec.links,
                family: spec.family,
                latency_ms: spec.latency_ms,
                folder: &spec.folder,
            };
            let (setup, carries) = programs.of_side(spec.end == End::Near, &values)?;
            return Ok((setup.into_iter().map(Run::of).collect(), Run::of(carries)));
        }
    };
    Ok((settings, carries))
}

fn relay_end(spec: &SideSpec, links: usize) -> RelayEnd {
    let (family, certificate) = (spec.family, spec.folder.join("certificate"));
    match spec.end {
        End::Near => RelayEnd::Client { links, family, certificate },
        End::Far => RelayEnd::Server { family, certificate },
    }
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};

    use squall_shell::Family;
    use squall_versus_stream::Stream;

    use super::*;

    use crate::transport::Transport;

    #[test]
    fn a_folder_that_cannot_be_an_argument_is_refused() {
        let spec = |folder: &[u8]| SideSpec {
            end: End::Far,
            transport: Transport::named("noq-multipath").expect("it is one"),
            stream: Stream { rate_bps: 8_000_000, fps: 30 },
            time_ms: 1_000,
            latency_ms: 300,
            packets: Vec::new(),
            links: 2,
            family: Family::V4,
            radios: false,
            lab: "squall-lab".into(),
            squall: "squall".into(),
            folder: OsStr::from_bytes(folder).into(),
        };
        let (settings, carries) = programs(&spec(b"/tmp/log")).expect("a relay");
        assert!(settings.is_empty() && carries.arguments[1].contains("/tmp/log/certificate"), "{carries:?}");
        let error = programs(&spec(b"/tmp/\xff")).expect_err("it is no UTF-8");
        assert_eq!(error.to_string(), "a path that is no UTF-8");
    }
}
