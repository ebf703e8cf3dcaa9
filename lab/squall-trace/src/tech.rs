//! Names of radio technologies in recordings.

use std::{fmt, sync::Arc};

use squall_signal::Technology;

/// Maximum length of a name.
const MAX_LENGTH: usize = 24;

/// Name of the radio technology in a recording. Names are finer than [`Technology`] and differ
/// between sources; the empty name means unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tech(Arc<str>);

impl Tech {
    /// Creates a name of at most 24 letters, digits and `+-./_`.
    ///
    /// # Errors
    /// A description of the valid names.
    pub fn new(word: &str) -> Result<Self, String> {
        let fits = |c: char| c.is_ascii_alphanumeric() || "+-./_".contains(c);
        if word.len() > MAX_LENGTH || !word.chars().all(fits) {
            return Err(format!("{word:?} is not at most {MAX_LENGTH} of letters, digits and +-./_"));
        }
        Ok(Self(word.into()))
    }

    /// Creates a name from a valid literal.
    pub(crate) fn of(word: &'static str) -> Self {
        Self(word.into())
    }

    /// Returns the name.
    pub fn word(&self) -> &str {
        &self.0
    }

    /// Returns `true` if the name is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the technology that the name stands for.
    pub fn technology(&self) -> Technology {
        Technology::of_word(&self.0)
    }
}

impl From<Technology> for Tech {
    /// Returns the name used in Squall's own recordings.
    fn from(technology: Technology) -> Self {
        let word = match technology {
            Technology::Unknown => "",
            Technology::Wifi => "WiFi",
            Technology::Gsm => "GSM",
            Technology::Umts => "UMTS",
            Technology::Lte => "LTE",
            Technology::NrNsa => "5G-NSA",
            Technology::Nr => "5G-SA",
        };
        Self(word.into())
    }
}

impl fmt::Display for Tech {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_recordings_are_known() {
        let known = [
            ("", Technology::Unknown),
            ("cellular", Technology::Unknown),
            ("5G-or-LTE", Technology::Unknown),
            ("5G", Technology::NrNsa),
            ("5G-n78", Technology::NrNsa),
            ("5G-mmWave", Technology::NrNsa),
            ("5G-SA", Technology::Nr),
            ("LTE-A", Technology::Lte),
            ("HSPA+", Technology::Umts),
            ("HSUPA", Technology::Umts),
            ("EDGE", Technology::Gsm),
            ("WiFi-6G", Technology::Wifi),
        ];
        for (word, technology) in known {
            assert_eq!(Tech::new(word).expect("is a word").technology(), technology, "{word}");
        }
        for technology in Technology::ALL {
            assert_eq!(Tech::from(technology).technology(), technology);
        }
    }

    #[test]
    fn what_would_break_a_file_is_no_word() {
        for word in ["a,b", "a>b", "a;b", "a b", "\n", "Überall", "x-23456789-123456789-12345"] {
            assert!(Tech::new(word).is_err(), "{word}");
        }
    }
}
