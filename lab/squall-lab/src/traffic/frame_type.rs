//! Types of frames, and reliability by frame type.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};

use super::fields::{Checked, Invalid, priority, require};
use crate::offer::Class;

/// Coding type of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FrameType {
    /// Intra: a key frame, independent of others.
    I,
    /// Predicted from the previous I or P frame.
    P,
    /// Predicted from the I or P frames on both sides; no other frame depends on it.
    B,
}

impl FrameType {
    /// All types, in the order of their classes.
    pub const ALL: [FrameType; 3] = [FrameType::I, FrameType::P, FrameType::B];

    /// Parses `I`, `P` or `B`.
    pub fn of(letter: char) -> Option<Self> {
        Self::ALL.into_iter().find(|frame| frame.letter() == letter)
    }

    /// Returns `I`, `P` or `B`.
    pub fn letter(self) -> char {
        ['I', 'P', 'B'][self as usize]
    }

    /// `true` if other frames depend on it.
    pub fn is_reference(self) -> bool {
        self != FrameType::B
    }
}

/// Reliability of the frames of a video: in a file `"all"` or `true`, `"reference"`, `"key"`,
/// `"none"` or `false`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ReliableFrames {
    /// Every frame is repaired until it arrives.
    #[default]
    All,
    /// Frames that others depend on are repaired, the rest may be lost.
    Reference,
    /// Key frames are repaired, delta frames may be lost.
    Key,
    /// No frame is repaired; a frame that misses its deadline is dropped.
    None,
}

impl ReliableFrames {
    /// `true` if a frame of this type is reliable.
    pub fn covers(self, frame: FrameType) -> bool {
        match self {
            ReliableFrames::All => true,
            ReliableFrames::Reference => frame.is_reference(),
            ReliableFrames::Key => frame == FrameType::I,
            ReliableFrames::None => false,
        }
    }

    /// Default for kinds with disposable frames.
    pub(super) fn reference() -> Self {
        Self::Reference
    }

    /// Requires a value that is valid for blocks that are not frames.
    pub(super) fn check_blocks(self) -> Checked {
        let plain = matches!(self, ReliableFrames::All | ReliableFrames::None);
        require(plain, "reliable", "only a video has key frames, expected true or false")
    }

    /// Class of blocks that are not frames.
    pub(super) fn class(self, name: &str, priority: u8) -> Vec<Class> {
        vec![Class::new(name, self == ReliableFrames::All, priority)]
    }

    /// Classes `key` and `delta` of a stream of key frames and frames that each depend on the one
    /// before.
    pub(super) fn key_and_delta(self, [key, delta]: [u8; 2]) -> Vec<Class> {
        let class = |name, frame, priority| Class::new(name, self.covers(frame), priority);
        vec![class("key", FrameType::I, key), class("delta", FrameType::P, delta)]
    }
}

impl<'de> Deserialize<'de> for ReliableFrames {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;

        impl Visitor<'_> for Words {
            type Value = ReliableFrames;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false, \"all\", \"reference\", \"key\" or \"none\"")
            }

            fn visit_bool<E: de::Error>(self, all: bool) -> Result<ReliableFrames, E> {
                Ok(if all { ReliableFrames::All } else { ReliableFrames::None })
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<ReliableFrames, E> {
                match word {
                    "all" => Ok(ReliableFrames::All),
                    "reference" => Ok(ReliableFrames::Reference),
                    "key" => Ok(ReliableFrames::Key),
                    "none" => Ok(ReliableFrames::None),
                    _ => Err(E::invalid_value(de::Unexpected::Str(word), &self)),
                }
            }
        }

        deserializer.deserialize_any(Words)
    }
}

/// Priorities by the name of a class: `I`, `P` and `B`, or `L0`, `L1` and so on. A class without an
/// entry has its index among the classes as priority.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize)]
pub struct Priorities(BTreeMap<String, u8>);

impl Priorities {
    /// Names of the classes: of `layers` layers, or of the frame types.
    fn names(layers: Option<u8>) -> Vec<String> {
        match layers {
            None => FrameType::ALL.map(|frame| frame.letter().to_string()).into(),
            Some(layers) => (0..layers).map(|layer| format!("L{layer}")).collect(),
        }
    }

    /// Requires valid names and priorities within the range of sessions.
    pub(super) fn check(&self, layers: Option<u8>) -> Checked {
        let names = Self::names(layers);
        if let Some(name) = self.0.keys().find(|name| !names.contains(name)) {
            let words = format!("priorities: {name:?} is none of {}", names.join(", "));
            return Err(Invalid { field: "priorities", words });
        }
        self.0.values().try_for_each(|value| priority("priorities", *value))
    }

    /// Returns the classes. For layers, only the base counts as a reference.
    pub(super) fn classes(&self, layers: Option<u8>, reliable: ReliableFrames) -> Vec<Class> {
        let class = |(place, name): (u8, String)| {
            let like = match (layers, place) {
                (None, _) => FrameType::ALL[usize::from(place)],
                (Some(_), 0) => FrameType::P,
                (Some(_), _) => FrameType::B,
            };
            let priority = self.0.get(&name).copied().unwrap_or(place);
            Class::new(&name, reliable.covers(like), priority)
        };
        (0..).zip(Self::names(layers)).map(class).collect()
    }
}
