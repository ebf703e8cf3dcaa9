//! Carrier over RIST's tools, with UDP at both ends.

use std::net::SocketAddr;

use squall_shell::Addresses;

use squall_versus_stream::{PORT, SINK_PORT, SOURCE_PORT};

use super::run::Run;
use crate::{
    spec::{End, SideSpec},
    transport::RistMode,
};

/// RIST uses ports in pairs.
const STEP: u16 = 2;

pub(super) fn run(spec: &SideSpec, mode: RistMode, buffer_ms: u32) -> Run {
    let weight = match mode {
        RistMode::Duplicate => "",
        RistMode::Balanced => "&weight=5",
    };
    let links: Vec<String> = (0..spec.links)
        .map(|link| {
            let port = PORT + link as u16 * STEP;
            let there = SocketAddr::new(Addresses::of(link).server(spec.family), port);
            match spec.end {
                End::Near => format!("rist://{there}?buffer={buffer_ms}{weight}"),
                End::Far => format!("rist://@{there}?buffer={buffer_ms}"),
            }
        })
        .collect();
    let links = links.join(",");
    let arguments = match spec.end {
        End::Near => [format!("udp://@127.0.0.1:{SOURCE_PORT}"), links],
        End::Far => [links, format!("udp://127.0.0.1:{SINK_PORT}")],
    };
    let program = match spec.end {
        End::Near => "ristsender",
        End::Far => "ristreceiver",
    };
    let [input, output] = arguments;
    Run::new(program, ["-v", "3", "-S", "0", "-i", &input, "-o", &output])
}
