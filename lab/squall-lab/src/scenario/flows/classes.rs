//! Fields that have a value for each class of frames.

use std::collections::BTreeMap;

use super::reader::Reader;
use crate::flow::FrameType;
use crate::scenario::place::Problem;

/// `sizes`: of I, P and B frames, in any unit.
#[derive(Debug, Clone, Copy, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(non_snake_case, reason = "frame types are capital letters, in files too")]
pub(super) struct FrameSizes {
    #[serde(default = "intra")]
    I: f64,
    #[serde(default = "predicted")]
    P: f64,
    #[serde(default = "between")]
    B: f64,
}

/// Those of STORM's microbenchmark (§5.2) are not printed; these give its groups of pictures the rate that is.
impl Default for FrameSizes {
    fn default() -> Self {
        Self { I: intra(), P: predicted(), B: between() }
    }
}

fn intra() -> f64 {
    120.0
}

fn predicted() -> f64 {
    60.0
}

fn between() -> f64 {
    37.5
}

impl FrameSizes {
    pub(super) fn checked(self, reader: &Reader<'_>) -> Result<[f64; 3], Problem> {
        let sizes = [self.I, self.P, self.B];
        match sizes.iter().find(|size| !(1e-6..=1e9).contains(*size)) {
            Some(size) => Err(reader.at("sizes", format!("sizes: {size} is not within 0.000001 and 1e9"))),
            None => Ok(sizes),
        }
    }
}

/// `priorities`: by the name of a class.
#[derive(Debug, Default, serde::Deserialize)]
pub(super) struct Priorities(BTreeMap<String, u8>);

impl Priorities {
    /// Of I, P and B frames; 0, 1 and 2 unless it says otherwise.
    pub(super) fn of_types(&self, reader: &Reader<'_>) -> Result<[u8; 3], Problem> {
        let priorities =
            self.of(FrameType::ALL.map(|frame| frame.letter().to_string()).as_slice(), reader)?;
        Ok([priorities[0], priorities[1], priorities[2]])
    }

    /// Of so many layers `L0`, `L1`, …; 0, 1 and so on unless it says otherwise.
    pub(super) fn of_layers(&self, layers: u8, reader: &Reader<'_>) -> Result<Vec<u8>, Problem> {
        let names: Vec<String> = (0..layers).map(|layer| format!("L{layer}")).collect();
        self.of(&names, reader)
    }

    fn of(&self, names: &[String], reader: &Reader<'_>) -> Result<Vec<u8>, Problem> {
        if let Some(name) = self.0.keys().find(|name| !names.contains(name)) {
            let words = format!("priorities: {name:?} is none of {}", names.join(", "));
            return Err(reader.at("priorities", words));
        }
        (0u8..)
            .zip(names)
            .map(|(place, name)| reader.priority("priorities", self.0.get(name).copied(), place))
            .collect()
    }
}
