//! Arms of a comparison at an exit: schedulers, one of which each client is assigned at random.

use std::collections::BTreeSet;

use ring::hmac::{HMAC_SHA256, Key, sign};
use serde::Deserialize;

use super::{
    flow::{MAX_NAME, bounded},
    text::Mistake,
};

/// Maximum number of arms.
pub const MAX_ARMS: usize = 16;

/// Largest weight of an arm.
const MAX_WEIGHT: u32 = 1_000;

/// Arms of an exit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArmsConfig {
    /// Two or more arms, or none.
    pub list: Vec<ArmConfig>,
    /// Seed of the assignment; another seed reassigns all clients. Exits with the same arms and
    /// seed assign them alike. Default: 0.
    pub seed: u64,
}

/// An arm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArmConfig {
    /// Name in the status, the log and the metrics.
    pub name: String,
    /// Scheduler with its options, for the data that the exit sends.
    pub scheduler: String,
    /// Share of the clients, relative to the other arms. Default: 1.
    pub weight: u32,
}

impl ArmsConfig {
    /// Returns the arm of a client, which never changes; `None` without arms.
    ///
    /// The arm is a keyed hash of properties that the client cannot choose. It does not depend on
    /// the session: otherwise a client that reconnects, as clients on bad networks do, would move
    /// its time from one arm to another, and could repeat that until it gets a preferred arm.
    pub(crate) fn assign(&self, client: &[u8]) -> Option<&ArmConfig> {
        let hash = sign(&Key::new(HMAC_SHA256, &self.seed.to_be_bytes()), client);
        let hash = u64::from_be_bytes(hash.as_ref()[..8].try_into().expect("SHA-256 has 32 bytes"));
        let sum: u64 = self.list.iter().map(|arm| u64::from(arm.weight)).sum();
        // Position of this hash in the range of hashes, in units of the weights.
        let mut place = ((u128::from(hash) * u128::from(sum)) >> 64) as u64;
        self.list.iter().find(|arm| {
            let is_here = place < u64::from(arm.weight);
            place = place.saturating_sub(arm.weight.into());
            is_here
        })
    }
}

/// `[[arm]]` as written in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ArmTable {
    name: String,
    scheduler: String,
    weight: Option<u32>,
}

/// Checks the arms of a file.
pub(super) fn check(
    tables: Vec<ArmTable>,
    seed: Option<u64>,
    is_entry: bool,
    scheduler: Option<&str>,
) -> Result<ArmsConfig, Mistake> {
    let problem = match tables.len() {
        0 if seed.is_some() => return Err(Mistake::new("arm_seed", "there is no [[arm]]")),
        0 => return Ok(ArmsConfig::default()),
        _ if is_entry => "only an exit has arms: its clients are assigned to them",
        _ if scheduler.is_some() => "scheduler has no effect beside [[arm]], which has one for each client",
        1 => "a comparison has at least two arms",
        2..=MAX_ARMS => "",
        _ => "there are more than 16 arms",
    };
    if !problem.is_empty() {
        return Err(Mistake::new("arm", problem));
    }
    let (mut list, mut names) = (Vec::new(), BTreeSet::new());
    for (index, table) in tables.into_iter().enumerate() {
        let arm = table.check().map_err(|mistake| mistake.within(&format!("arm.{index}")))?;
        if !names.insert(arm.name.clone()) {
            return Err(Mistake::new(
                format!("arm.{index}.name"),
                format!("there are two arms '{}'", arm.name),
            ));
        }
        list.push(arm);
    }
    Ok(ArmsConfig { list, seed: seed.unwrap_or(0) })
}

impl ArmTable {
    fn check(self) -> Result<ArmConfig, Mistake> {
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if self.name.is_empty() || self.name.len() > MAX_NAME || !self.name.chars().all(fits) {
            let problem = format!("a name has 1 to {MAX_NAME} letters, digits, '-', '_' and '.'");
            return Err(Mistake::new("name", problem));
        }
        squall::scheduler(&self.scheduler).map_err(|error| Mistake::new("scheduler", error.to_string()))?;
        let weight = bounded("weight", self.weight, 1..=MAX_WEIGHT, 1)?;
        Ok(ArmConfig { name: self.name, scheduler: self.scheduler, weight })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Config;

    fn arms(weights: &[u32], seed: u64) -> ArmsConfig {
        let arm = |(index, weight): (usize, &u32)| ArmConfig {
            name: format!("arm{index}"),
            scheduler: "minrtt".to_owned(),
            weight: *weight,
        };
        ArmsConfig { list: weights.iter().enumerate().map(arm).collect(), seed }
    }

    fn index(arms: &ArmsConfig, client: u32) -> usize {
        let arm = arms.assign(&client.to_be_bytes()).expect("there are arms");
        arms.list.iter().position(|one| one == arm).expect("is one of them")
    }

    #[test]
    fn shares_of_clients_follow_the_weights() {
        const CLIENTS: u32 = 20_000;
        for (weights, seed) in [(&[1, 1, 1][..], 0), (&[1, 1], 7), (&[1, 9], 1), (&[3, 2, 5, 1_000], 2)] {
            let arms = arms(weights, seed);
            let mut counts = vec![0_u32; weights.len()];
            (0..CLIENTS).for_each(|client| counts[index(&arms, client)] += 1);
            let sum: u32 = weights.iter().sum();
            for (weight, count) in weights.iter().zip(counts) {
                let share = f64::from(*weight) / f64::from(sum);
                // Four standard deviations of the binomial distribution: one of 16,000 differs by more.
                let bound = 4.0 * (f64::from(CLIENTS) * share * (1.0 - share)).sqrt() + 1.0;
                let error = f64::from(count) - f64::from(CLIENTS) * share;
                assert!(error.abs() <= bound, "{weights:?}: {count} with weight {weight}, bound {bound}");
            }
        }
    }

    #[test]
    fn a_client_stays_in_its_arm_until_the_seed_changes() {
        let (one, other) = (arms(&[1, 1], 5), arms(&[1, 1], 6));
        let moved = (0..1_000).filter(|&client| index(&one, client) != index(&other, client)).count();
        assert!((400..600).contains(&moved), "independent of the other seed: {moved} of 1000");
        assert!((0..1_000).all(|client| index(&one, client) == index(&arms(&[1, 1], 5), client)));
        assert_eq!(ArmsConfig::default().assign(b"anyone"), None);
    }

    #[test]
    fn mistakes_name_their_place() {
        let exit = "token = 'a long secret'\n";
        let arm = |name: &str| format!("[[arm]]\nname = '{name}'\nscheduler = 'minrtt'\n");
        let listen = "[listen]\naddress = '127.0.0.1:4433'\n";
        let parse = |text: String| Config::parse("x.toml", &text, Path::new(""));
        let good = parse(format!("{exit}arm_seed = 3\n{}{}weight = 2\n{listen}", arm("a"), arm("b")));
        let arms = good.expect("is right").arms;
        assert_eq!((arms.seed, arms.list[0].weight, arms.list[1].weight), (3, 1, 2));
        for (text, problem) in [
            (format!("{exit}{}{listen}", arm("a")), "at least two arms"),
            (format!("{exit}{}{}{listen}", arm("a"), arm("a")), "there are two arms 'a'"),
            (format!("{exit}{}{}{listen}", arm("a"), arm("b c")), "a name has 1 to"),
            (format!("{exit}{}{}weight = 0\n{listen}", arm("a"), arm("b")), "weight"),
            (format!("{exit}scheduler = 'ecf'\n{}{}{listen}", arm("a"), arm("b")), "scheduler has no effect"),
            (format!("{exit}arm_seed = 3\n{listen}"), "there is no [[arm]]"),
            (format!("{exit}{}[[arm]]\nname = 'b'\nscheduler = 'minrt'\n{listen}", arm("a")), "minrt"),
            (
                format!("{exit}{}{}[connect]\nto = 'a:1'\npin = '{}'\n", arm("a"), arm("b"), "0".repeat(64)),
                "only an exit has arms",
            ),
        ] {
            let error = parse(text.clone()).expect_err(&text).to_string();
            assert!(
                error.starts_with("x.toml:") && error.contains(problem) && error.lines().count() == 1,
                "{error}"
            );
        }
    }
}
