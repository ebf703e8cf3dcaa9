//! Numbers with units in readable form: three or four significant digits.

/// Formats microseconds as `850 µs`, `42.3 ms` or `1.25 s`.
pub fn time(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{} ms", digits(us as f64 / 1e3)),
        _ => format!("{} s", digits(us as f64 / 1e6)),
    }
}

/// Formats bits per second as `19.8 Mbps`.
pub fn rate(bps: f64) -> String {
    scaled(bps, &[("bps", 1.0), ("kbps", 1e3), ("Mbps", 1e6), ("Gbps", 1e9)])
}

/// Formats bytes as `75.0 kB`.
pub fn size(bytes: f64) -> String {
    scaled(bytes, &[("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9)])
}

/// Formats a number with as many decimals as leave about three significant digits.
pub fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 || size == 0.0 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn scaled(value: f64, units: &[(&str, f64)]) -> String {
    let (unit, factor) = units.iter().rev().find(|(_, factor)| value >= *factor).unwrap_or(&units[0]);
    format!("{} {unit}", digits(value / factor))
}

/// Returns `true` for characters that must be removed from a foreign text before it enters a log, a
/// terminal or the name of a file: line ends, control characters and invisible ones. They are the
/// categories Cc, Cf, Zl and Zp of Unicode 16.
pub fn is_hidden(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}'
            | '\u{8e2}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2064}'
            | '\u{2066}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}'
            | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0001}'
            | '\u{e0020}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_unit() {
        assert_eq!(time(850), "850 µs");
        assert_eq!(time(42_345), "42.3 ms");
        assert_eq!(time(1_250_000), "1.25 s");
        assert_eq!(rate(19_800_000.0), "19.8 Mbps");
        assert_eq!(rate(0.0), "0 bps");
        assert_eq!(size(75_000.0), "75.0 kB");
    }
}
