//! Lines that fit a terminal.

use std::io::{IsTerminal as _, stdout};

use textwrap::{Options, WordSeparator, WordSplitter};

/// Breaks words into lines of at most `width` characters, if given. The first line begins with
/// `first`, the others with `indent` spaces. A longer word gets a line of its own.
pub fn wrap(first: &str, indent: usize, words: &str, width: Option<usize>) -> String {
    let indent = " ".repeat(indent);
    let options = Options::new(width.unwrap_or(usize::MAX))
        .initial_indent(first)
        .subsequent_indent(&indent)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        .break_words(false);
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    textwrap::fill(&words, options) + "\n"
}

/// Returns the number of columns of the terminal; `None` in a pipe or a file, where lines are not
/// wrapped.
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
