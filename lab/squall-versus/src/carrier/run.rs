//! Programs to run, and the relays of this crate among them.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use squall_shell::Family;

/// A program with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
}

impl Run {
    pub(super) fn new(
        program: impl Into<PathBuf>,
        arguments: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self { program: program.into(), arguments: arguments.into_iter().map(Into::into).collect() }
    }

    /// A command, which is not empty.
    pub(super) fn of(mut words: Vec<String>) -> Self {
        Self { program: words.remove(0).into(), arguments: words }
    }

    /// One of the relays of this crate.
    pub(super) fn relay(lab: &Path, relay: Relay, end: RelayEnd) -> anyhow::Result<Self> {
        let words = serde_json::to_string(&(relay, end)).context("a path that is no UTF-8")?;
        Ok(Self::new(lab, ["versus-relay".to_owned(), words]))
    }
}

/// A relay over something that is no program of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Relay {
    /// A connection of Multipath TCP.
    Mptcp,
    /// A connection of the QUIC that is under Squall.
    Noq,
    /// Datagrams, in order of arrival.
    Udp,
}

/// Which end of a relay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RelayEnd {
    /// On the client side, over a number of links.
    Client {
        /// How many of them.
        links: usize,
        /// The version of IP over them.
        family: Family,
        /// A file with what the server's end must show of itself.
        certificate: PathBuf,
    },
    /// On the server side.
    Server {
        /// The version of IP over the links.
        family: Family,
        /// Where it writes what it shows of itself.
        certificate: PathBuf,
    },
}

impl RelayEnd {
    /// The version of IP over the links.
    pub(super) fn family(&self) -> Family {
        match self {
            Self::Client { family, .. } | Self::Server { family, .. } => *family,
        }
    }
}
