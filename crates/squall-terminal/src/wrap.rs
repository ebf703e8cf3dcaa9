//! Lines that fit a terminal.

use std::io::{IsTerminal as _, stdout};

/// Breaks words into lines of at most `width` characters, if one is given: the first begins with `first`,
/// the others with as many spaces as `indent`. A word that is longer stands alone on its line.
pub fn wrap(first: &str, indent: usize, words: &str, width: Option<usize>) -> String {
    let width = width.unwrap_or(usize::MAX);
    let mut text = String::new();
    let mut line = first.to_owned();
    // Nothing but the beginning stands on the line yet.
    let mut empty = true;
    for word in words.split_whitespace() {
        let space = usize::from(!empty);
        if !empty && line.chars().count() + space + word.chars().count() > width {
            text.push_str(&line);
            text.push('\n');
            line = " ".repeat(indent);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    text.push_str(&line);
    text.push('\n');
    text
}

/// Columns of the terminal; none in a pipe or a file, where lines are as long as they are.
pub fn width() -> Option<usize> {
    if !stdout().is_terminal() {
        return None;
    }
    terminal_size::terminal_size().map(|(columns, _)| usize::from(columns.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words() {
        assert_eq!(wrap("ab  ", 4, "one two three", Some(12)), "ab  one two\n    three\n");
        assert_eq!(wrap("ab  ", 4, "one two three", None), "ab  one two three\n");
        assert_eq!(wrap("  ", 2, "indivisible µs", Some(4)), "  indivisible\n  µs\n");
        assert_eq!(wrap("", 3, "", Some(9)), "\n");
    }
}
