//! Events at rows of a recording.

use std::{fmt, str::FromStr};

use crate::Tech;

/// An event at the time of a row, in addition to its numbers.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// `ho`: the serving cell differs from that of the previous row.
    Handover,
    /// `ho_start`: a signalled handover begins. Such a row has no rate.
    HandoverStart,
    /// `ho_end`: a signalled handover ends. Such a row has no rate.
    HandoverEnd,
    /// `tech:A>B`: the radio technology changed.
    Changed {
        /// Previous technology.
        from: Tech,
        /// Technology of this row.
        to: Tech,
    },
    /// `outage`: the rate was near zero for longer than the source's threshold; set on each row of
    /// that period.
    Outage,
    /// `gap`: no row for more than three usual steps before this one.
    Gap,
    /// `app_idle`: the sending application paused; the rate is empty.
    Idle,
    /// `loss=x`: the share of packets lost in this step, 0…1.
    Loss(f64),
    /// `lost`: this probe was not answered.
    Lost,
    /// `pingloss=x`: the share of lost pings in a burst, 0…1.
    PingLoss(f64),
    /// `retx=n`: TCP retransmits in this step.
    Retransmits(u32),
    /// `disassoc`: the Wi-Fi station was not connected.
    Disconnected,
}

/// Events without a value.
const PLAIN: [(&str, Event); 8] = [
    ("ho", Event::Handover),
    ("ho_start", Event::HandoverStart),
    ("ho_end", Event::HandoverEnd),
    ("outage", Event::Outage),
    ("gap", Event::Gap),
    ("app_idle", Event::Idle),
    ("lost", Event::Lost),
    ("disassoc", Event::Disconnected),
];

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed { from, to } => write!(f, "tech:{from}>{to}"),
            Self::Loss(share) => write!(f, "loss={share}"),
            Self::PingLoss(share) => write!(f, "pingloss={share}"),
            Self::Retransmits(count) => write!(f, "retx={count}"),
            plain => f.write_str(PLAIN.iter().find(|(_, event)| event == plain).map_or("", |(word, _)| word)),
        }
    }
}

impl FromStr for Event {
    type Err = String;

    fn from_str(token: &str) -> Result<Self, String> {
        if let Some(change) = token.strip_prefix("tech:") {
            let (from, to) = change.split_once('>').ok_or_else(|| format!("{token:?} is not tech:A>B"))?;
            return Ok(Self::Changed { from: Tech::new(from)?, to: Tech::new(to)? });
        }
        let Some((name, value)) = token.split_once('=') else {
            let plain = PLAIN.into_iter().find(|(word, _)| *word == token);
            return plain.map(|(_, event)| event).ok_or_else(|| unknown(token));
        };
        let share = || {
            let share = value.parse().ok().filter(|share| (0.0..=1.0).contains(share));
            share.ok_or_else(|| format!("{token:?}: {name} is a share, 0 to 1"))
        };
        match name {
            "loss" => share().map(Self::Loss),
            "pingloss" => share().map(Self::PingLoss),
            "retx" => value.parse().map(Self::Retransmits).map_err(|_| format!("{token:?}: retx is a count")),
            _ => Err(unknown(token)),
        }
    }
}

fn unknown(token: &str) -> String {
    let words = PLAIN.map(|(word, _)| word).join(", ");
    format!("{token:?} is not an event; there are {words}, tech:A>B, loss=x, pingloss=x, retx=n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_mean_events() {
        let tech = |word| Tech::new(word).expect("is a word");
        let change = Event::Changed { from: tech("LTE"), to: tech("5G") };
        for (token, event) in [
            ("ho", Event::Handover),
            ("tech:LTE>5G", change),
            ("loss=0.25", Event::Loss(0.25)),
            ("pingloss=1", Event::PingLoss(1.0)),
            ("retx=18", Event::Retransmits(18)),
            ("disassoc", Event::Disconnected),
        ] {
            assert_eq!(token.parse(), Ok(event.clone()));
            assert_eq!(event.to_string(), token);
        }
    }

    #[test]
    fn other_tokens_are_refused() {
        for (token, expected) in [
            ("loss=1.5", "loss is a share"),
            ("pingloss=", "pingloss is a share"),
            ("loss=NaN", "loss is a share"),
            ("retx=-1", "retx is a count"),
            ("tech:LTE", "is not tech:A>B"),
            ("handover", "there are ho, "),
            ("rain=1", "there are ho, "),
            ("", "there are ho, "),
        ] {
            let error = token.parse::<Event>().expect_err(token);
            assert!(error.contains(expected), "{error}");
        }
    }
}
