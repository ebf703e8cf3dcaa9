//! Properties of this machine and this process.

/// Returns the resident memory of this process in bytes, if the system reports it:
/// `/proc/self/statm` counts pages.
#[cfg(unix)]
pub fn resident_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// Returns the resident memory of this process in bytes, if the system reports it.
#[cfg(not(unix))]
pub fn resident_memory() -> Option<u64> {
    None
}

/// Returns the name of this machine.
#[cfg(unix)]
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Returns the name of this machine.
#[cfg(not(unix))]
pub fn host_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}
