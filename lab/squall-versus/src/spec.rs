//! One side of a run, as it is described to the program that runs it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use squall_shell::Family;
use squall_versus_stream::Stream;

use crate::transport::Transport;

/// Which side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// The client's, with the source.
    Near,
    /// The server's, with the sink.
    Far,
}

/// What a side has to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SideSpec {
    /// Which it is.
    pub end: End,
    /// What carries.
    pub transport: Transport,
    /// What is carried.
    pub stream: Stream,
    /// For so long, in milliseconds.
    pub time_ms: u64,
    /// Deadline of a frame, in milliseconds.
    pub latency_ms: u64,
    /// Packets of each frame; the sink needs none of it.
    pub packets: Vec<u16>,
    /// The number of links.
    pub links: usize,
    /// The version of IP over them.
    pub family: Family,
    /// Whether the links have radios.
    pub radios: bool,
    /// The `squall-lab` program.
    pub lab: PathBuf,
    /// The `squall` program.
    pub squall: PathBuf,
    /// Where both sides leave what they have to say.
    pub folder: PathBuf,
}
