//! Checks of the fuzz targets for recordings: each function panics on a violation. See
//! `fuzz/README.md`.

use crate::{Format, Gaps, Input, LinkSurvey, Quantity, Recording, Wishes};

/// The formats selected by the first byte, in the orders of the corpora.
const LINKS: &[Format] = Format::ALL.split_at(11).0;
const RADIOS: [Format; 9] = [
    Format::Ucc,
    Format::Kingston,
    Format::Mtu,
    Format::Cicv,
    Format::Sigcomm,
    Format::Plain,
    Format::Feup,
    Format::Perama,
    Format::Csv,
];

/// The first byte selects a format of recordings, or none; the rest is the text. An error is one
/// line; all figures of a recording that is read can be calculated.
pub fn link_trace(input: &[u8]) {
    let Some((choice, text)) = input.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let format = LINKS.get(usize::from(*choice) % (LINKS.len() + 1)).copied();
    let wishes = Wishes { format, ..Wishes::default() };
    let read = Recording::parse(&[Input::new("fuzz", text)], &wishes);
    match read.and_then(|recording| recording.checked_length("fuzz")) {
        Err(error) => one_line(&error.to_string()),
        Ok(recording) => {
            let survey = LinkSurvey::of(&recording, Gaps::default());
            assert!(!format!("{survey:?}").contains("NaN"), "{survey:?}");
            in_order(&recording);
        }
    }
}

/// The first byte selects a format of measurement logs, or Squall's own; the rest is the text of
/// one file. An error is one line; rows that are read are in order.
pub fn radio_trace(input: &[u8]) {
    let Some((choice, text)) = input.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let format = RADIOS[usize::from(*choice) % RADIOS.len()];
    let part =
        |number: usize| if format.files() == 1 { text } else { text.split('\0').nth(number).unwrap_or("") };
    let inputs: Vec<Input> = (0..format.files()).map(|n| Input::new(format!("fuzz{n}"), part(n))).collect();
    match Recording::parse(&inputs, &Wishes { format: Some(format), ..Wishes::default() }) {
        Err(error) => one_line(&error.to_string()),
        Ok(recording) => in_order(&recording),
    }
}

fn in_order(recording: &Recording) {
    assert!(recording.rows().is_sorted_by_key(|row| row.at), "rows are out of order");
    for rate in Quantity::RATES {
        recording.numbers(rate).for_each(|(_, mbps)| assert!(mbps.is_finite() && mbps >= 0.0));
    }
}

fn one_line(words: &str) {
    assert!(!words.is_empty() && !words.contains('\n'), "{words:?}");
}

#[cfg(test)]
mod tests {
    use squall_testkit::replay;

    #[test]
    fn corpora() {
        replay("link_trace", super::link_trace);
        replay("radio_trace", super::radio_trace);
    }
}
