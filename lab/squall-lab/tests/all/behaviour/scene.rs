//! Paths and flows in the format of scenario files.

/// Returns a path; `more` contains further fields, one per line.
pub(crate) fn path(name: &str, rate: &str, delay: &str, more: &str) -> String {
    format!("[[path]]\nname = {name:?}\nrate = {rate:?}\ndelay = {delay:?}\n{more}\n")
}

/// Reliable blocks without a deadline, from the first second on.
pub(crate) fn blocks(name: &str, size: &str, interval: &str) -> String {
    format!(
        "[[flow]]\nname = {name:?}\nkind = \"blocks\"\nsize = {size:?}\ninterval = {interval:?}\nstart = \"1s\"\n"
    )
}

/// Returns an `events` line with a change at each of these times, in milliseconds.
pub(crate) fn events(at_ms: &[u64], change: &str) -> String {
    let events: Vec<_> = at_ms.iter().map(|ms| format!("{{ at = \"{ms}ms\", {change} }}")).collect();
    format!("events = [{}]", events.join(", "))
}
