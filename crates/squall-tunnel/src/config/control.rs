//! Control socket.

use std::{path::PathBuf, str::FromStr};

/// Control socket of a tunnel, on systems with Unix sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlConfig {
    /// Path of the socket.
    pub path: PathBuf,
    /// Permissions of the socket. Default: [`SocketMode::Owner`].
    pub mode: SocketMode,
}

/// Permissions of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SocketMode {
    /// The user of the process and root may connect: `0600`.
    #[default]
    Owner,
    /// The group of the process may connect as well: `0660`.
    Group,
}

impl SocketMode {
    /// Returns the permission bits in the file system.
    pub(crate) fn bits(self) -> u32 {
        match self {
            Self::Owner => 0o600,
            Self::Group => 0o660,
        }
    }

    /// `true` if only the user of the process and root may connect.
    pub(crate) fn is_private(self) -> bool {
        self == Self::Owner
    }
}

impl FromStr for SocketMode {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "0600" => Ok(Self::Owner),
            "0660" => Ok(Self::Group),
            _ => Err("expected \"0600\" (the user of the tunnel, and root) or \"0660\" (also its group)"),
        }
    }
}
