//! What the fuzz targets check of recordings: each function panics when a promise is broken. See `fuzz/README.md`.

use crate::{
    Format, Input, Trace, Wishes, import,
    link::{self, Gaps, Recording},
};

/// The first byte chooses a format of recordings, or none; the rest is the text. An error is one line; of what is read
/// all figures can be made.
pub fn link_trace(input: &[u8]) {
    let Some((choice, text)) = input.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let format = link::Format::ALL.get(usize::from(*choice) % (link::Format::ALL.len() + 1)).copied();
    let wishes = link::Wishes { format, column: None };
    match Recording::parse(Input { name: "fuzz".into(), text: text.into() }, &wishes) {
        Err(error) => one_line(&error.to_string()),
        Ok(recording) => {
            let survey = link::Survey::of(&recording, Gaps::default());
            assert!(!format!("{survey:?}").contains("NaN"), "{survey:?}");
            recording.rtts().windows(2).for_each(|pair| assert!(pair[0].0 <= pair[1].0));
        }
    }
}

/// The first byte chooses a format of measurement logs, or the own one; the rest is the text of one file. An error is one
/// line; what is read is in order and can be written and read again.
pub fn radio_trace(input: &[u8]) {
    let Some((choice, text)) = input.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let format = Format::ALL.get(usize::from(*choice) % (Format::ALL.len() + 1));
    let trace = match format {
        None => Trace::parse("fuzz.csv", text).map_err(|error| error.to_string()),
        Some(format) => {
            let inputs: Vec<Input> = (0..format.files())
                .map(|n| Input { name: format!("fuzz{n}"), text: part(text, n, format.files()).to_owned() })
                .collect();
            import(Some(*format), &inputs, &Wishes::default()).map_err(|error| error.to_string())
        }
    };
    match trace {
        Err(words) => one_line(&words),
        Ok(trace) => {
            assert!(trace.rows().is_sorted_by_key(|row| row.at), "rows are out of order");
            assert!(trace.readings().count() <= trace.rows().len());
            trace.rates().for_each(|(_, mbps)| assert!(mbps.is_finite() && mbps >= 0.0));
        }
    }
}

/// The parts of several files, with a NUL between them.
fn part(text: &str, number: usize, files: usize) -> &str {
    if files == 1 { text } else { text.split('\0').nth(number).unwrap_or("") }
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
        replay("radio_trace", super::radio_trace);
    }
}
