//! Lists on the command line.

/// Splits at the commas outside of brackets; those inside belong to options.
pub fn split(list: &str) -> Vec<&str> {
    let mut depth = 0u32;
    let at_comma = |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    };
    list.split(at_comma).map(str::trim).filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_of_options_do_not_split() {
        assert_eq!(split("minrtt, storm(alpha=1,beta=2),,rr"), ["minrtt", "storm(alpha=1,beta=2)", "rr"]);
        assert!(split(" , ").is_empty());
    }
}
