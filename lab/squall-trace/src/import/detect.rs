//! Detection of the format.

use super::{cicv, feup, gnettrack, mtu, perama, plain, sigcomm};
use crate::{
    Format,
    own::TIME,
    sheet::{lines, names},
};

impl Format {
    /// Detects the format of a text by its first line. `None` if it is none of these.
    pub fn detect(text: &str) -> Option<Self> {
        let (_, first) = lines(text).next()?;
        match first.as_bytes()[0] {
            b'[' => return text.contains("\"bandwidth_kbps\"").then_some(Self::Sabre),
            b'{' => return perama::is_its(first).then_some(Self::Perama),
            _ => {}
        }
        let number = |word: &str| word.parse::<f64>().is_ok();
        let words: Vec<&str> = first.split_whitespace().collect();
        let all_numbers = words.iter().all(|word| number(word));
        let (cells, _) = names(first);
        match words[..] {
            _ if cells.iter().any(|name| name.eq_ignore_ascii_case(TIME)) => return Some(Self::Csv),
            ["INCOMING" | "OUTGOING", ..] => return Some(Self::Saturatr),
            [cicv::SENT, ..] => return Some(Self::Cicv),
            [only] if only.bytes().all(|byte| byte.is_ascii_digit()) => return Some(Self::Mahimahi),
            [_, _, _, _, _, _] if all_numbers => return Some(Self::Hsdpa),
            _ => {}
        }
        if plain::is_its(first) {
            return Some(Self::Plain);
        }
        let tables = [
            (Self::Ucc, gnettrack::UCC),
            (Self::Kingston, gnettrack::KINGSTON),
            (Self::Mtu, mtu::MARKS),
            (Self::Sigcomm, sigcomm::MARKS),
            (Self::Feup, feup::MARKS),
        ];
        let is_there = |name: &&str| cells.iter().any(|cell| cell.eq_ignore_ascii_case(name));
        tables.into_iter().find(|(_, names)| names.iter().all(is_there)).map(|(format, _)| format)
    }
}
