//! Description of one side of a run for the program that runs it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use squall_shell::Family;
use squall_versus_stream::Stream;

use crate::transport::Transport;

/// Side of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// The client's side, with the source.
    Near,
    /// The server's side, with the sink.
    Far,
}

/// Tasks of a side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SideSpec {
    /// The side.
    pub end: End,
    /// Transport that carries the stream.
    pub transport: Transport,
    /// Stream to carry.
    pub stream: Stream,
    /// Length of the stream in milliseconds.
    pub time_ms: u64,
    /// Deadline of a frame, in milliseconds.
    pub latency_ms: u64,
    /// Packets of each frame; empty for the sink.
    pub packets: Vec<u16>,
    /// Number of links.
    pub links: usize,
    /// Version of IP over the links.
    pub family: Family,
    /// The links have radios.
    pub radios: bool,
    /// The `squall-lab` program.
    pub lab: PathBuf,
    /// The `squall` program.
    pub squall: PathBuf,
    /// Folder in which both sides leave their results.
    pub folder: PathBuf,
}
