//! Right to create namespaces.

use std::{fs, io};

use nix::{
    sched::{CloneFlags, unshare},
    unistd::{getgid, getuid},
};
use rustix::thread::{CapabilitySet, capabilities};

use crate::error::ShellError;

/// Source of the right to create namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privilege {
    /// The process has the capabilities (as root has).
    Capabilities,
    /// The process has entered a user namespace, in which it appears as root. Files still belong to
    /// the user.
    UserNamespace,
}

/// Acquires the right to create namespaces: uses the capabilities, or else enters a user namespace.
///
/// # Errors
///
/// [`ShellError::Privilege`] if the system allows neither, or if the program already has several threads.
pub fn acquire() -> Result<Privilege, ShellError> {
    let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN;
    if capabilities(None).is_ok_and(|sets| sets.effective.contains(needed)) {
        return Ok(Privilege::Capabilities);
    }
    let (user, group) = (getuid(), getgid());
    let refused = |problem: io::Error| ShellError::Privilege { problem };
    unshare(CloneFlags::CLONE_NEWUSER).map_err(|errno| refused(errno.into()))?;
    // A process that may not set groups may map its own group; see user_namespaces(7).
    for (file, text) in [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("0 {user} 1")),
        ("gid_map", format!("0 {group} 1")),
    ] {
        fs::write(format!("/proc/self/{file}"), text).map_err(refused)?;
    }
    Ok(Privilege::UserNamespace)
}
