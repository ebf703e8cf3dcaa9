//! What the fuzz targets check of recorded links: each function panics when a promise is broken. See `fuzz/README.md`.

use squall_signal::trace::Input;

use crate::{
    PathConfig,
    trace::{Format, Gaps, Recording, Survey, Wishes},
};

/// The first byte chooses a format of recordings, or none; the rest is the text. An error is one line; of what is read
/// all figures can be made.
pub fn link_trace(input: &[u8]) {
    let Some((choice, text)) = input.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let format = Format::ALL.get(usize::from(*choice) % (Format::ALL.len() + 1)).copied();
    let wishes = Wishes { format, column: None };
    match Recording::parse(Input { name: "fuzz".into(), text: text.into() }, &wishes) {
        Err(error) => one_line(&error.to_string()),
        Ok(recording) => {
            let survey = Survey::of(&recording, Gaps::default());
            assert!(!format!("{survey:?}").contains("NaN"), "{survey:?}");
            recording.rtts().windows(2).for_each(|pair| assert!(pair[0].0 <= pair[1].0));
        }
    }
}

/// Any text as a link of the shell's options: an error is one line.
pub fn link_line(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match text.parse::<PathConfig>() {
        Err(error) => one_line(&error.to_string()),
        Ok(path) => {
            if let Err(error) = path.check() {
                one_line(&error.to_string());
            }
        }
    }
}

fn one_line(words: &str) {
    assert!(!words.is_empty() && !words.contains('\n'), "{words:?}");
}

#[cfg(test)]
mod tests {
    use squall_testing::replay;

    #[test]
    fn corpora() {
        replay("link_trace", super::link_trace);
        replay("link_line", super::link_line);
    }
}
