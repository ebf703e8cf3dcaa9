//! What is known of a frame, and of each of its datagrams.

use serde::{Deserialize, Serialize};

/// What a flow carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// Datagrams that have nothing to do with each other.
    Udp,
    /// What the first datagrams show: MPEG-TS, RTP, or else plain datagrams.
    Auto,
    /// RTP of a codec that is not known: frames, but not their kind.
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
    Audio,
    /// MPEG-TS, as it is or in RTP (RFC 2250).
    Ts,
}

impl Media {
    /// All of them by name; `opus` (RFC 7587) is [`Media::Audio`].
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

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().rev().find(|(_, media)| *media == self).map_or("udp", |(name, _)| name)
    }
}

/// What a frame is to others. The order is that in which a frame's datagrams decide: the strongest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// No other frame needs it.
    Disposable = 0,
    /// Others may need it, or it cannot be told.
    Reference = 1,
    /// Decoding can begin with it, or it says how to decode.
    Key = 2,
    /// Sound.
    Audio = 3,
    /// A datagram by itself.
    Data = 4,
}

impl Class {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Key, Self::Reference, Self::Disposable, Self::Audio, Self::Data];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Disposable => "disposable",
            Self::Reference => "reference",
            Self::Key => "key",
            Self::Audio => "audio",
            Self::Data => "data",
        }
    }

    /// By its number on the wire.
    pub(crate) fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|class| *class as u8 == number)
    }

    /// How much less urgent it is than what matters most in its flow.
    pub(crate) fn rank(self) -> u8 {
        match self {
            Self::Key | Self::Audio | Self::Data => 0,
            Self::Reference => 1,
            Self::Disposable => 2,
        }
    }
}

/// Where a datagram stands among frames, and what it says of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cut {
    /// It is carried by itself: what is open ends before it.
    pub(crate) apart: bool,
    /// A frame begins with it: the one before is over.
    pub(crate) starts: bool,
    /// Its frame ends with it.
    pub(crate) ends: bool,
    /// It belongs to no frame, but keeps its place among them.
    pub(crate) aside: bool,
    /// What it says of its frame, if anything.
    pub(crate) class: Option<Class>,
}

impl Cut {
    /// A datagram that is carried by itself.
    pub(crate) fn apart(class: Class) -> Self {
        Self { apart: true, class: Some(class), ..Self::default() }
    }

    /// A datagram that belongs to no frame, but keeps its place among them.
    pub(crate) fn aside() -> Self {
        Self { aside: true, ..Self::default() }
    }
}
