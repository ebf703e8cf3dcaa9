//! Memory of this process.

/// Bytes that are resident, where the system tells: `/proc/self/statm` counts pages.
pub(crate) fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * PAGE)
}

/// Bytes of a page on the machines that Linux counts so on; 64-bit ARM may be set to larger ones.
const PAGE: u64 = 4096;
