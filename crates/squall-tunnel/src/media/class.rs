//! Media format of a flow, class of a frame, and position of a datagram among frames.

use serde::{Deserialize, Serialize};

/// Media format of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Media {
    /// Independent datagrams.
    Udp,
    /// Automatic detection: MPEG-TS, RTP, or else plain datagrams. Detection starts again when
    /// datagrams no longer fit.
    Auto,
    /// RTP of an unknown codec: frames without a class.
    Rtp,
    /// H.264 in RTP (RFC 6184).
    H264,
    /// H.265 in RTP (RFC 7798).
    H265,
    /// VP8 in RTP (RFC 7741).
    Vp8,
    /// VP9 in RTP (RFC 9628).
    Vp9,
    /// AV1 in RTP (AOMedia's payload format).
    Av1,
    /// Audio in RTP, of any codec.
    #[serde(alias = "opus")]
    Audio,
    /// MPEG-TS, plain or in RTP (RFC 2250).
    Ts,
}

impl Media {
    /// All media formats by name; `opus` (RFC 7587) is [`Media::Audio`].
    pub const ALL: &[(&str, Self)] = &[
        ("udp", Self::Udp),
        ("auto", Self::Auto),
        ("rtp", Self::Rtp),
        ("h264", Self::H264),
        ("h265", Self::H265),
        ("vp8", Self::Vp8),
        ("vp9", Self::Vp9),
        ("av1", Self::Av1),
        ("opus", Self::Audio),
        ("audio", Self::Audio),
        ("ts", Self::Ts),
    ];

    /// Returns the name of the format.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().rev().find(|(_, media)| *media == self).map_or("udp", |(name, _)| name)
    }
}

/// Importance of a frame for others. A frame has the highest class of its datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// No other frame depends on it.
    Disposable = 0,
    /// Others may depend on it, or its class is unknown.
    Reference = 1,
    /// Decoding can begin with it, or it contains parameters of the decoder.
    Key = 2,
    /// Audio.
    Audio = 3,
    /// A single datagram.
    Data = 4,
}

impl Class {
    /// All classes.
    pub const ALL: [Self; 5] = [Self::Key, Self::Reference, Self::Disposable, Self::Audio, Self::Data];

    /// Returns the name of the class.
    pub fn name(self) -> &'static str {
        match self {
            Self::Disposable => "disposable",
            Self::Reference => "reference",
            Self::Key => "key",
            Self::Audio => "audio",
            Self::Data => "data",
        }
    }

    /// Returns the class with this number on the wire.
    pub(crate) fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|class| *class as u8 == number)
    }

    /// Returns the difference in priority to the most important class of its flow.
    pub(crate) fn rank(self) -> u8 {
        match self {
            Self::Key | Self::Audio | Self::Data => 0,
            Self::Reference => 1,
            Self::Disposable => 2,
        }
    }
}

/// Position of a datagram among frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cut {
    /// It forms a separate block, and ends the open frame.
    pub(crate) apart: bool,
    /// A frame begins with it, and the open frame ends.
    pub(crate) starts: bool,
    /// It ends its frame.
    pub(crate) ends: bool,
    /// It belongs to no frame, but keeps its place among them.
    pub(crate) aside: bool,
    /// Class that the datagram shows.
    pub(crate) class: Option<Class>,
}

impl Cut {
    /// Returns the position of a datagram that forms a separate block.
    pub(crate) fn apart(class: Class) -> Self {
        Self { apart: true, class: Some(class), ..Self::default() }
    }

    /// Returns the position of a datagram that belongs to no frame, but keeps its place among them.
    pub(crate) fn aside() -> Self {
        Self { aside: true, ..Self::default() }
    }

    /// Returns [`Self::aside`] for a datagram without content, for instance with null packets only.
    pub(crate) fn spare() -> Self {
        Self { class: Some(Class::Disposable), ..Self::aside() }
    }
}
