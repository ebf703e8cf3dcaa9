//! The parts of a file with several recordings.

use super::input::Input;
use crate::{
    TraceError,
    sheet::{Cells, Layout, Sheet},
};

/// Returns the name of the requested part of a table with all of these columns.
pub(super) fn part(
    input: &Input,
    columns: &[&str],
    name: impl Fn(Cells<'_>) -> String,
    wish: Option<&str>,
) -> Result<String, TraceError> {
    let mut sheet = Sheet::open(&input.name, &input.text, Layout::Delimited)?;
    sheet.need(columns)?;
    let mut parts: Vec<String> = Vec::new();
    while let Some(cells) = sheet.next()? {
        let part = name(cells);
        if parts.last() != Some(&part) && !parts.contains(&part) {
            parts.push(part);
        }
    }
    chosen(&input.name, &parts, wish)
}

/// Selects the requested part of a file.
fn chosen(file: &str, parts: &[String], wish: Option<&str>) -> Result<String, TraceError> {
    let problem = match (wish, parts) {
        (Some(wish), _) if parts.iter().any(|part| part == wish) => return Ok(wish.to_owned()),
        (Some(wish), _) => format!("there is no part \"{wish}\""),
        (None, [only]) => return Ok(only.clone()),
        (None, []) => return Err(TraceError::file(file, "has no rows")),
        (None, _) => "choose a part".to_owned(),
    };
    Err(TraceError::Request(format!("{file}: {problem}; its parts are {}", parts.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_must_be_one_of_those_there_are() {
        let parts = ["a".to_owned(), "b".to_owned()];
        assert_eq!(chosen("f", &parts, Some("b")).as_deref(), Ok("b"));
        assert_eq!(chosen("f", &parts[..1], None).as_deref(), Ok("a"));
        let refused = |parts: &[String], wish| chosen("f", parts, wish).expect_err("is refused").to_string();
        assert_eq!(refused(&parts, None), "f: choose a part; its parts are a, b");
        assert_eq!(refused(&parts, Some("c")), "f: there is no part \"c\"; its parts are a, b");
        assert_eq!(refused(&[], None), "f: has no rows");
    }
}
