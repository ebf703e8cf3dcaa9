//! What is swept.

use serde::Serialize;
use squall_net::{RadioConfig, radio::Lead};
use squall_units::Span;

/// A number of a radio. Leads and lateness are in milliseconds, noise in dB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Parameter {
    /// How long before the link the reports follow the levels.
    Lead,
    /// Standard deviation of what is reported.
    Noise,
    /// From asking the radio to its answer.
    Late,
}

impl Parameter {
    /// All, in the order in which they are shown.
    pub const ALL: [Self; 3] = [Self::Lead, Self::Noise, Self::Late];

    /// Its name in scenario files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lead => "lead",
            Self::Noise => "noise",
            Self::Late => "late",
        }
    }

    /// What it is, for headings.
    pub fn title(self) -> &'static str {
        match self {
            Self::Lead => "lead of the radio before the link",
            Self::Noise => "noise of the reports",
            Self::Late => "lateness of the reports",
        }
    }

    /// The values of a full study, in order.
    pub fn values(self) -> &'static [f64] {
        match self {
            Self::Lead => &[-1_000.0, -500.0, 0.0, 100.0, 200.0, 300.0, 500.0, 1_000.0, 2_000.0],
            Self::Noise => &[0.0, 1.0, 2.0, 4.0, 8.0],
            Self::Late => &[0.0, 50.0, 100.0, 200.0, 300.0, 500.0, 1_000.0],
        }
    }

    /// A few of them.
    pub fn few(self) -> &'static [f64] {
        match self {
            Self::Lead => &[-500.0, 0.0, 300.0, 1_000.0],
            Self::Noise => &[8.0],
            Self::Late => &[300.0],
        }
    }

    /// A value with its unit.
    pub fn show(self, value: f64) -> String {
        // A minus as long as the digits are wide.
        let sign = if value < 0.0 { "−" } else { "" };
        let size = value.abs();
        match self {
            Self::Noise => format!("{sign}{size} dB"),
            _ if size >= 1_000.0 => format!("{sign}{} s", size / 1e3),
            _ => format!("{sign}{size} ms"),
        }
    }

    /// A value in few letters, for a place where [`Self::unit`] stands nearby.
    pub(super) fn short(self, value: f64) -> String {
        let sign = if value < 0.0 { "−" } else { "" };
        match self {
            Self::Noise => format!("{sign}{}", value.abs()),
            Self::Lead | Self::Late => format!("{sign}{}", value.abs() / 1e3),
        }
    }

    /// The unit of [`Self::short`].
    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::Noise => "dB",
            Self::Lead | Self::Late => "s",
        }
    }

    /// What a radio has.
    pub(super) fn of(self, radio: &RadioConfig) -> f64 {
        match self {
            Self::Lead => radio.lead.micros() as f64 / 1e3,
            Self::Noise => radio.noise,
            Self::Late => radio.late.micros() as f64 / 1e3,
        }
    }

    /// Gives a radio this value.
    pub(super) fn set(self, radio: &mut RadioConfig, value: f64) {
        match self {
            Self::Lead => radio.lead = Lead::from_micros((value * 1e3).round() as i64),
            Self::Noise => radio.noise = value,
            Self::Late => radio.late = Span::from_micros((value * 1e3).round() as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_net::radio::{Source, Walk};

    #[test]
    fn what_is_set_is_there() {
        let mut radio = RadioConfig::new(Source::Walk(Walk::default()));
        for parameter in Parameter::ALL {
            for value in parameter.values().iter().chain(parameter.few()) {
                parameter.set(&mut radio, *value);
                assert_eq!(parameter.of(&radio), *value);
            }
            assert!(parameter.values().is_sorted() && parameter.few().is_sorted());
        }
        radio.check().expect("within the bounds of scenario files");
    }

    #[test]
    fn values_have_units() {
        assert_eq!(Parameter::Lead.show(-500.0), "−500 ms");
        assert_eq!(Parameter::Late.show(1_000.0), "1 s");
        assert_eq!(Parameter::Noise.show(1.5), "1.5 dB");
    }
}
