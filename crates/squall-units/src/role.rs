//! The role of a path in a session: primary, backup or repair.

use std::{fmt, str::FromStr};

/// The use of a path. Each side may declare a role for the paths of its interfaces; the later of
/// the two values in this list applies, so that a path is a backup if either side declares it one.
///
/// The session applies the role, whatever the scheduler: a path that may not carry data now is not
/// usable in the scheduler's view. Probes, acknowledgements and control use every path, so that a
/// path is proven to work before it is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "lowercase"))]
pub enum Role {
    /// Carries data. The default.
    #[default]
    Primary,
    /// Carries data only while no primary path is usable: each is suspected, narrow, deactivated by
    /// its radio, without budget, or gone. A primary path with a full window is usable.
    Backup,
    /// Carries retransmissions, parity and copies; other data only while neither a primary nor a backup path is usable.
    Repair,
}

impl Role {
    /// All roles with their names.
    pub const ALL: [(&'static str, Self); 3] =
        [("primary", Self::Primary), ("backup", Self::Backup), ("repair", Self::Repair)];

    /// Returns the name: `primary`, `backup` or `repair`.
    pub const fn name(self) -> &'static str {
        Self::ALL[self as usize].0
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, role)| *role);
        known.ok_or_else(|| format!("'{name}' is no role of a path; there are primary, backup and repair"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_read_as_it_is_written() {
        for (name, role) in Role::ALL {
            assert_eq!((role.name(), name.parse()), (name, Ok(role)));
        }
        assert!("spare".parse::<Role>().is_err_and(|error| error.contains("'spare'")));
    }
}
