//! Time by which a radio is ahead of its link.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, de};

use squall_trace::Micros;
use squall_units::{Span, UnitError};

/// Time by which the radio reports a change of the levels before the link follows it: `"800ms"`;
/// `"-1s"` if the radio is later than the link. At most a minute in either direction. Default: 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lead(i64);

/// Error of a text that is not a lead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LeadError {
    /// Not a duration, optionally with a minus sign.
    #[error(transparent)]
    Span(#[from] UnitError),
    /// Longer than a minute.
    #[error("a lead of {0} is longer than a minute")]
    Long(Span),
}

impl Lead {
    /// The longest lead or lag.
    pub const LIMIT: Span = Span::from_millis(60_000);

    /// Creates a lead from microseconds; negative if the radio is later than the link. Clamped to a
    /// minute.
    pub fn from_micros(micros: i64) -> Self {
        let limit = Self::LIMIT.micros() as i64;
        Self(micros.clamp(-limit, limit))
    }

    /// Returns the microseconds; negative if the radio is later than the link.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// Returns the time that is the lead before `at`, at least 0.
    pub(super) fn before(self, at: Micros) -> Micros {
        at.saturating_add_signed(-self.0)
    }

    /// Returns the time that is the lead after `at`; [`Micros::MAX`] is unchanged.
    pub(super) fn after(self, at: Micros) -> Micros {
        if at == Micros::MAX { at } else { at.saturating_add_signed(self.0) }
    }
}

impl FromStr for Lead {
    type Err = LeadError;

    fn from_str(text: &str) -> Result<Self, LeadError> {
        let text = text.trim();
        let (size, sign) = text.strip_prefix('-').map_or((text, 1), |size| (size, -1));
        let span: Span = size.parse()?;
        if span > Self::LIMIT {
            return Err(LeadError::Long(span));
        }
        // The value is at most 60,000,000.
        Ok(Self(sign * span.micros() as i64))
    }
}

impl fmt::Display for Lead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        f.pad(&format!("{sign}{}", Span::from_micros(self.0.unsigned_abs())))
    }
}

impl<'de> Deserialize<'de> for Lead {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn leads_are_durations_with_a_sign() {
        assert_eq!("800ms".parse(), Ok(Lead(800_000)));
        assert_eq!("-1.5s".parse(), Ok(Lead(-1_500_000)));
        assert_eq!("2min".parse::<Lead>().unwrap_err().to_string(), "a lead of 120s is longer than a minute");
        assert!("soon".parse::<Lead>().unwrap_err().to_string().starts_with("\"soon\" is not a duration"));
        assert_eq!(Lead(300).before(100), 0);
        assert_eq!(Lead(-300).before(100), 400);
        assert_eq!(Lead(-300).after(u64::MAX), u64::MAX);
    }

    proptest! {
        #[test]
        fn printed_leads_read_back(micros in -60_000_000i64..=60_000_000) {
            let lead = Lead::from_micros(micros);
            prop_assert_eq!(lead.to_string().parse(), Ok(lead));
        }
    }
}
