//! Random loss after the serialiser: a lost packet has used its share of the link.

use std::path::PathBuf;

use rand_pcg::{Pcg64Mcg, rand_core::Rng};
use serde::Deserialize;
use squall_units::{Ratio, Span, UnitError};

use crate::{
    form::{TextOrTable, text_or_table},
    series::{Series, SeriesTable},
    time::{Nanos, micros_before},
};

/// Random loss of a link. Default: none.
///
/// In files: `"0.1%"` (independent), `"2%/5"` (2 % on the average, in bursts of 5 on the average),
/// `{ to_bad = "1%", to_good = "20%", loss_good = 0, loss_bad = 1 }`, `{ list = [3, 7] }`,
/// `{ steps = [["0s", "0%"], ["5s", "3%"]] }` or `{ csv = "drive.csv", column = "loss" }`.
#[derive(Debug, Clone, PartialEq)]
pub enum LossConfig {
    /// Each packet independently with this probability.
    Bernoulli(Ratio),
    /// Bursts: a good and a bad state, see [`GilbertElliott`].
    GilbertElliott(GilbertElliott),
    /// Each packet independently with a probability that changes over time.
    Series(Series<Ratio>),
    /// Exactly these packets, counted from 0 as they leave the serialiser.
    List(Vec<u64>),
}

/// Two-state loss after Gilbert (1960) and Elliott (1963): for each packet the state first changes
/// with the probability of leaving it, then the packet is lost with the probability of the new
/// state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GilbertElliott {
    /// From good to bad, for each packet.
    pub to_bad: Ratio,
    /// From bad to good, for each packet: bad states last the inverse of this, in packets.
    pub to_good: Ratio,
    /// Loss in the good state. Default 0.
    pub loss_good: Ratio,
    /// Loss in the bad state. Default 1.
    pub loss_bad: Ratio,
}

impl GilbertElliott {
    /// Creates bursts in which every packet is lost, `burst` packets long on average, that lose the
    /// share `average` of all packets. `None` if no chain does that: a burst shorter than 1 or an
    /// average of 1.
    pub fn with_burst(average: Ratio, burst: f64) -> Option<Self> {
        let to_good = Ratio::from_f64(1.0 / burst)?;
        let share = average.as_f64();
        let to_bad = Ratio::from_f64(share * to_good.as_f64() / (1.0 - share))?;
        Some(Self { to_bad, to_good, loss_good: Ratio::ZERO, loss_bad: Ratio::ONE })
    }

    /// Returns the long-term share of lost packets.
    pub fn average(&self) -> f64 {
        let (to_bad, to_good) = (self.to_bad.as_f64(), self.to_good.as_f64());
        let bad = if to_bad == 0.0 { 0.0 } else { to_bad / (to_bad + to_good) };
        bad * self.loss_bad.as_f64() + (1.0 - bad) * self.loss_good.as_f64()
    }
}

impl Default for LossConfig {
    fn default() -> Self {
        Self::Bernoulli(Ratio::ZERO)
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LossTable {
    to_bad: Option<Ratio>,
    to_good: Option<Ratio>,
    loss_good: Option<Ratio>,
    loss_bad: Option<Ratio>,
    list: Option<Vec<u64>>,
    steps: Option<Vec<(Span, Ratio)>>,
    csv: Option<PathBuf>,
    column: Option<String>,
    scale: Option<f64>,
    repeat: Option<Span>,
}

text_or_table!(LossConfig);

impl TextOrTable for LossConfig {
    const EXPECTED: &'static str =
        "a loss such as \"0.1%\" or \"2%/5\", or a table with to_bad and to_good, list, steps or csv";

    type Table = LossTable;

    fn from_text(text: &str) -> Result<Self, String> {
        let ratio = |text: &str| text.parse().map_err(|error: UnitError| error.to_string());
        let Some((average, burst)) = text.split_once('/') else { return ratio(text).map(Self::Bernoulli) };
        let burst: f64 =
            burst.trim().parse().map_err(|_| format!("\"{burst}\" is not a number of packets"))?;
        GilbertElliott::with_burst(ratio(average)?, burst)
            .map(Self::GilbertElliott)
            .ok_or_else(|| format!("\"{text}\": no loss has this average and bursts of this length"))
    }

    fn from_table(table: LossTable) -> Result<Self, String> {
        let LossTable { to_bad, to_good, loss_good, loss_bad, list, steps, csv, column, scale, repeat } =
            table;
        let series = SeriesTable { steps, csv, column, scale, repeat }.series()?;
        let plain = loss_good.is_none() && loss_bad.is_none();
        match (to_bad, to_good, list, series) {
            (Some(to_bad), Some(to_good), None, None) => Ok(Self::GilbertElliott(GilbertElliott {
                to_bad,
                to_good,
                loss_good: loss_good.unwrap_or(Ratio::ZERO),
                loss_bad: loss_bad.unwrap_or(Ratio::ONE),
            })),
            (None, None, Some(list), None) if plain => Ok(Self::List(list)),
            (None, None, None, Some(series)) if plain => Ok(Self::Series(series)),
            _ => Err("a loss is given by one of to_bad and to_good, list, steps or csv".to_owned()),
        }
    }
}

/// Decides loss packet by packet.
#[derive(Debug, Clone)]
pub(crate) struct Loss {
    model: Model,
    random: Pcg64Mcg,
    /// Packets decided so far.
    count: u64,
}

#[derive(Debug, Clone)]
enum Model {
    Bernoulli(Ratio),
    GilbertElliott {
        chain: GilbertElliott,
        bad: bool,
    },
    Series(Series<Ratio>),
    /// Sorted.
    List(Vec<u64>),
}

impl Model {
    fn new(config: &LossConfig) -> Option<Self> {
        match config {
            LossConfig::Bernoulli(ratio) => Some(Self::Bernoulli(*ratio)),
            LossConfig::GilbertElliott(chain) => Some(Self::GilbertElliott { chain: *chain, bad: false }),
            LossConfig::Series(series) if series.unread().is_some() => None,
            LossConfig::Series(series) => Some(Self::Series(series.clone())),
            LossConfig::List(list) => {
                let mut list = list.clone();
                list.sort_unstable();
                Some(Self::List(list))
            }
        }
    }
}

impl Loss {
    /// Returns `None` if a series has not been loaded.
    pub(crate) fn new(config: &LossConfig, random: Pcg64Mcg) -> Option<Self> {
        Some(Self { model: Model::new(config)?, random, count: 0 })
    }

    /// Continues with another model, which must be loaded.
    pub(crate) fn change(&mut self, config: &LossConfig) {
        if let Some(model) = Model::new(config) {
            self.model = model;
        }
    }

    /// Returns `true` if the next packet is lost.
    pub(crate) fn loses(&mut self, now: Nanos) -> bool {
        let number = self.count;
        self.count += 1;
        match &mut self.model {
            Model::Bernoulli(ratio) => chance(&mut self.random, *ratio),
            Model::Series(series) => chance(&mut self.random, series.at(micros_before(now)).0),
            Model::List(list) => list.binary_search(&number).is_ok(),
            Model::GilbertElliott { chain, bad } => {
                let leave = if *bad { chain.to_good } else { chain.to_bad };
                if chance(&mut self.random, leave) {
                    *bad = !*bad;
                }
                chance(&mut self.random, if *bad { chain.loss_bad } else { chain.loss_good })
            }
        }
    }
}

/// Returns `true` with probability `ratio`. Draws no number for 0 and 1.
pub(crate) fn chance(random: &mut Pcg64Mcg, ratio: Ratio) -> bool {
    match ratio {
        Ratio::ZERO => false,
        Ratio::ONE => true,
        // The upper half of 64 random bits times a billion: a number below a billion, uniform to 2^-34.
        ratio => ((random.next_u64() >> 32) * 1_000_000_000) >> 32 < u64::from(ratio.billionths()),
    }
}

#[cfg(test)]
mod tests {
    use rand_pcg::rand_core::SeedableRng;

    use super::*;

    fn outcomes(text: &str, packets: usize) -> Vec<bool> {
        let mut loss = Loss::new(&text.parse().unwrap(), Pcg64Mcg::seed_from_u64(3)).unwrap();
        (0..packets).map(|_| loss.loses(0)).collect()
    }

    fn share(outcomes: &[bool]) -> f64 {
        outcomes.iter().filter(|lost| **lost).count() as f64 / outcomes.len() as f64
    }

    #[test]
    fn bernoulli_loses_its_share() {
        let share = share(&outcomes("2%", 200_000));
        // Three standard deviations of 200,000 draws are 0.094 %.
        assert!((share - 0.02).abs() < 0.00094, "{share}");
    }

    #[test]
    fn bursts_have_their_average_and_length() {
        let outcomes = outcomes("2%/5", 1_000_000);
        assert!((share(&outcomes) - 0.02).abs() < 0.001, "{}", share(&outcomes));
        let bursts = outcomes.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        let length = share(&outcomes) * outcomes.len() as f64 / bursts as f64;
        assert!((length - 5.0).abs() < 0.25, "{length}");
    }

    #[test]
    fn a_general_chain_meets_its_average() {
        let chain = GilbertElliott {
            to_bad: "3%".parse().unwrap(),
            to_good: "17%".parse().unwrap(),
            loss_good: "0.5%".parse().unwrap(),
            loss_bad: "60%".parse().unwrap(),
        };
        let mut loss = Loss::new(&LossConfig::GilbertElliott(chain), Pcg64Mcg::seed_from_u64(3)).unwrap();
        let outcomes: Vec<bool> = (0..1_000_000).map(|_| loss.loses(0)).collect();
        assert!((share(&outcomes) - chain.average()).abs() < 0.003, "{}", share(&outcomes));
    }

    #[test]
    fn a_list_loses_exactly_its_packets() {
        let config = LossConfig::List(vec![4, 1]);
        let mut loss = Loss::new(&config, Pcg64Mcg::seed_from_u64(0)).unwrap();
        let lost: Vec<u64> = (0..9).filter(|_| loss.loses(0)).collect();
        assert_eq!(lost, [1, 4]);
    }

    #[test]
    fn impossible_bursts_are_refused() {
        for text in ["2%/0.5", "100%/2", "2%/x", "2%/nan"] {
            assert!(text.parse::<LossConfig>().is_err(), "{text}");
        }
    }
}
