//! Errors of a shell, each with its remedy.

use std::{ffi::OsString, io};

use squall_net::ConfigError;

/// Reasons for which a shell cannot be made, joined or logged.
#[derive(Debug, thiserror::Error)]
pub enum ShellError {
    /// The system lets this user create neither network namespaces nor a user namespace.
    #[error(
        "network namespaces need root, or user namespaces, and the system allows neither ({problem}): run it as root, or \
         see the sysctls kernel.unprivileged_userns_clone, user.max_user_namespaces and \
         kernel.apparmor_restrict_unprivileged_userns"
    )]
    Privilege {
        /// Error of the system.
        problem: io::Error,
    },
    /// TUN devices are not available.
    #[error(
        "/dev/net/tun cannot be used ({problem}): load the module tun, or let the container have the device"
    )]
    Tun {
        /// Error of the system.
        problem: io::Error,
    },
    /// The TUN device of a link could not be created.
    #[error("the device {name} cannot be made: {problem}")]
    Device {
        /// Name of the device.
        name: String,
        /// Error of the system.
        problem: io::Error,
    },
    /// Part of a side could not be set up.
    #[error("{side}: {what}: {problem}")]
    Wiring {
        /// `client` or `server`.
        side: &'static str,
        /// Failed step, or the device concerned.
        what: String,
        /// Error of the system.
        problem: String,
    },
    /// The configuration of the links is invalid.
    #[error(transparent)]
    Links(#[from] ConfigError),
    /// The MTU of a link is outside the range of an interface.
    #[error("link {name}: mtu {mtu}: an interface carries packets of 68 to 65535 bytes")]
    Mtu {
        /// Name of the link.
        name: String,
        /// Its MTU in bytes.
        mtu: u64,
    },
    /// The MTU of a link is too small for IPv6, and only IPv6 is requested.
    #[error("link {name}: mtu {mtu}: IPv6 needs packets of 1280 bytes (RFC 8200)")]
    MtuForIpv6 {
        /// Name of the link.
        name: String,
        /// Its MTU in bytes.
        mtu: u64,
    },
    /// Only IPv6 is requested, and the system has none.
    #[error("this system has no IPv6: see the parameter ipv6.disable of the kernel")]
    NoIpv6,
    /// There is no link, or more than 254.
    #[error("a shell has between 1 and 254 links, not {0}")]
    Count(usize),
    /// A program cannot be started.
    #[error("{}: {problem}", program.display())]
    Program {
        /// Path of the program.
        program: OsString,
        /// Error of the system.
        problem: io::Error,
    },
    /// A folder or file for logs cannot be written.
    #[error("{path}: {problem}")]
    Log {
        /// Path of the file or folder.
        path: String,
        /// Error of the system.
        problem: io::Error,
    },
    /// A running shell cannot be joined.
    #[error("--join: {0}")]
    Join(String),
    /// The system is out of threads, pipes or the like.
    #[error("{0}")]
    System(#[from] io::Error),
}
