//! Explicit congestion notification (ECN, RFC 3168): the field of a packet, and routers that
//! mistreat it.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// The ECN field of an IP packet (RFC 3168 §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ecn {
    /// Not-ECT: the sender does not use ECN.
    #[default]
    NotCapable,
    /// ECT: a router may mark the packet instead of dropping it.
    Capable,
    /// CE: a router has detected congestion.
    Congestion,
}

/// Treatment of packets whose sender uses ECN, independent of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EcnTreatment {
    /// Passes them as they are.
    Pass,
    /// Sets CE on all of them.
    Mark,
    /// Drops them.
    Drop,
    /// Sets Not-ECT on all of them, as many networks do.
    #[default]
    Clear,
}

impl EcnTreatment {
    const ALL: [(&'static str, Self); 4] =
        [("pass", Self::Pass), ("mark", Self::Mark), ("drop", Self::Drop), ("clear", Self::Clear)];

    /// Returns the field of a packet behind the link; `None` if the packet is dropped.
    pub(crate) fn apply(self, ecn: Ecn) -> Option<Ecn> {
        match self {
            _ if ecn == Ecn::NotCapable => Some(ecn),
            Self::Pass => Some(ecn),
            Self::Mark => Some(Ecn::Congestion),
            Self::Drop => None,
            Self::Clear => Some(Ecn::NotCapable),
        }
    }
}

impl FromStr for EcnTreatment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.iter().find(|(name, _)| *name == text);
        known
            .map(|(_, treatment)| *treatment)
            .ok_or_else(|| format!("\"{text}\" is not pass, mark, drop or clear"))
    }
}

impl fmt::Display for EcnTreatment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(_, treatment)| treatment == self).map_or("?", |(name, _)| name);
        f.write_str(name)
    }
}
