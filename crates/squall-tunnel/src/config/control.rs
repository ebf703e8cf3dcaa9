//! The control socket.

use std::{path::PathBuf, str::FromStr};

/// The control socket of a tunnel, on systems with Unix sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlConfig {
    /// Its path.
    pub path: PathBuf,
    /// Who may connect. Default: [`SocketMode::Owner`].
    pub mode: SocketMode,
}

/// Who may connect to a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SocketMode {
    /// The user of the process, and root: `0600`.
    #[default]
    Owner,
    /// Also the group of the process: `0660`.
    Group,
}

impl SocketMode {
    /// Its bits in the file system.
    pub(crate) fn bits(self) -> u32 {
        match self {
            Self::Owner => 0o600,
            Self::Group => 0o660,
        }
    }

    /// Whether only the user of the process and root may connect.
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
