//! Memory of this process.

/// Resident bytes, if the system reports them: `/proc/self/statm` counts pages.
#[cfg(unix)]
pub(crate) fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// See above.
#[cfg(not(unix))]
pub(crate) fn resident() -> Option<u64> {
    None
}
