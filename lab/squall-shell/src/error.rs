//! What can go wrong, each with what to do about it.

use std::{ffi::OsString, io};

use squall_net::ConfigError;

/// Why there is no shell.
#[derive(Debug, thiserror::Error)]
pub enum ShellError {
    /// The system lets this user make neither network namespaces nor a user namespace.
    #[error(
        "network namespaces need root, or user namespaces, and the system allows neither ({problem}): run it as root, or \
         see the sysctls kernel.unprivileged_userns_clone, user.max_user_namespaces and \
         kernel.apparmor_restrict_unprivileged_userns"
    )]
    Privilege {
        /// What the system says.
        problem: io::Error,
    },
    /// There is no device for tunnels.
    #[error(
        "/dev/net/tun cannot be used ({problem}): load the module tun, or let the container have the device"
    )]
    Tun {
        /// What the system says.
        problem: io::Error,
    },
    /// The end of a link could not be made.
    #[error("the device {name} cannot be made: {problem}")]
    Device {
        /// The device.
        name: String,
        /// What the system says.
        problem: io::Error,
    },
    /// Part of a side could not be set up.
    #[error("{side}: {what}: {problem}")]
    Wiring {
        /// Which side.
        side: &'static str,
        /// What was being done.
        what: String,
        /// What the system says.
        problem: String,
    },
    /// The links cannot be built.
    #[error(transparent)]
    Links(#[from] ConfigError),
    /// A link is too narrow for an interface.
    #[error("link {name}: mtu {mtu}: an interface carries packets of 68 to 65535 bytes")]
    Mtu {
        /// The link.
        name: String,
        /// Its MTU in bytes.
        mtu: u64,
    },
    /// A link is too narrow for IPv6, and nothing else is wanted.
    #[error("link {name}: mtu {mtu}: IPv6 needs packets of 1280 bytes (RFC 8200)")]
    MtuForIpv6 {
        /// The link.
        name: String,
        /// Its MTU in bytes.
        mtu: u64,
    },
    /// IPv6 alone is wanted, and the system has none.
    #[error("this system has no IPv6: see the parameter ipv6.disable of the kernel")]
    NoIpv6,
    /// There is no link, or there are too many.
    #[error("a shell has between 1 and 254 links, not {0}")]
    Count(usize),
    /// A program cannot be started.
    #[error("{}: {problem}", program.display())]
    Program {
        /// The program.
        program: OsString,
        /// What the system says.
        problem: io::Error,
    },
    /// A folder or file for logs cannot be written.
    #[error("{path}: {problem}")]
    Log {
        /// The file or folder.
        path: String,
        /// What the system says.
        problem: io::Error,
    },
    /// A running shell cannot be joined.
    #[error("--join: {0}")]
    Join(String),
    /// The system is out of threads, pipes or the like.
    #[error("{0}")]
    System(#[from] io::Error),
}
