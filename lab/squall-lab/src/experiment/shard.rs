//! Parts of a study, to distribute it over several machines.

use std::{fmt, str::FromStr};

/// One of several equal parts of the runs of a study: `2/4` is the second of four.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    number: usize,
    of: usize,
}

impl Shard {
    /// `true` if the run with this index, from 0, is in the part.
    pub(super) fn has(self, index: usize) -> bool {
        index % self.of == self.number - 1
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts =
            text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match parts {
            Some((number, of)) if (1..=of).contains(&number) => Ok(Self { number, of }),
            _ => Err("expected NUMBER/PARTS with a number from 1 to PARTS, such as 2/4".into()),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_is_in_one_part() {
        let shards = ["1/3", "2/3", "3/3"].map(|text| text.parse::<Shard>().expect(text));
        for index in 0..20 {
            assert_eq!(shards.iter().filter(|shard| shard.has(index)).count(), 1, "{index}");
        }
        for text in ["0/3", "4/3", "1/0", "1", "a/b", "-1/2", "1/2/3", ""] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
        assert_eq!(shards[1].to_string(), "2/3");
    }
}
