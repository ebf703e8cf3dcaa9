//! Programs to run, including this crate's relays.

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

    /// Creates one from the words of a command, of which there is at least one.
    pub(super) fn of(mut words: Vec<String>) -> Self {
        Self { program: words.remove(0).into(), arguments: words }
    }

    /// Creates one that runs a relay of this crate.
    pub(super) fn relay(lab: &Path, relay: Relay, end: RelayEnd) -> anyhow::Result<Self> {
        let words = serde_json::to_string(&(relay, end)).context("a path that is no UTF-8")?;
        Ok(Self::new(lab, ["versus-relay".to_owned(), words]))
    }
}

/// Relays that this crate implements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Relay {
    /// Relay over a Multipath TCP connection.
    Mptcp,
    /// Relay over a connection of the QUIC implementation under Squall.
    Noq,
    /// Relay of datagrams, in order of arrival.
    Udp,
}

/// End of a relay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RelayEnd {
    /// Client side, over one or more links.
    Client {
        /// Number of links.
        links: usize,
        /// Version of IP over the links.
        family: Family,
        /// File with the certificate that the server must present.
        certificate: PathBuf,
    },
    /// Server side.
    Server {
        /// Version of IP over the links.
        family: Family,
        /// File to which the server writes its certificate.
        certificate: PathBuf,
    },
}

impl RelayEnd {
    /// Returns the version of IP over the links.
    pub(super) fn family(&self) -> Family {
        match self {
            Self::Client { family, .. } | Self::Server { family, .. } => *family,
        }
    }
}
