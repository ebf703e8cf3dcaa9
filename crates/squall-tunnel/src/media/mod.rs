//! What datagrams say of the frames that they are part of.

mod annexb;
mod auto;
mod av1;
mod h264;
mod h265;
mod psi;
mod rtp;
mod ts;
mod vp8;
mod vp9;

use serde::{Deserialize, Serialize};

use self::{auto::Auto, rtp::RtpCutter, ts::TsCutter};

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

/// Finds frames in a flow's datagrams.
#[derive(Debug)]
pub(crate) enum Cutter {
    Udp,
    Auto(Box<Auto>),
    Rtp(RtpCutter),
    Ts(Box<TsCutter>),
}

impl Cutter {
    pub(crate) fn new(media: Media) -> Self {
        match media {
            Media::Udp => Self::Udp,
            Media::Auto => Self::Auto(Box::default()),
            Media::Ts => Self::Ts(Box::default()),
            other => Self::Rtp(RtpCutter::new(other)),
        }
    }

    /// Looks at the next datagram.
    pub(crate) fn cut(&mut self, datagram: &[u8]) -> Cut {
        match self {
            Self::Udp => Cut::apart(Class::Data),
            Self::Rtp(rtp) => rtp.cut(datagram),
            Self::Ts(ts) => ts.cut(datagram),
            Self::Auto(auto) => match auto.look(datagram) {
                None => Cut::apart(Class::Data),
                Some(media) => {
                    *self = Self::new(media);
                    self.cut(datagram)
                }
            },
        }
    }

    /// What is carried, as far as it is known.
    pub(crate) fn media(&self) -> Media {
        match self {
            Self::Udp => Media::Udp,
            Self::Auto(_) => Media::Auto,
            Self::Rtp(rtp) => rtp.media(),
            Self::Ts(_) => Media::Ts,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever comes in, from anyone: nothing but an answer.
        #[test]
        fn no_datagram_is_too_strange(
            datagrams in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..400), 0..20),
            as_rtp in any::<bool>(),
            as_ts in any::<bool>(),
        ) {
            for (_, media) in Media::ALL {
                let mut cutter = Cutter::new(*media);
                for datagram in &datagrams {
                    let mut datagram = datagram.clone();
                    if as_rtp && datagram.len() > 12 {
                        datagram[0] = 0x80;
                    }
                    if as_ts {
                        datagram.resize(376, 0xff);
                        datagram[0] = 0x47;
                        datagram[188] = 0x47;
                    }
                    cutter.cut(&datagram);
                }
            }
        }

        /// A transport stream whose tables are right: whatever its packets hold.
        #[test]
        fn no_video_packet_is_too_strange(
            kind in prop::sample::select(vec![0x02, 0x1b, 0x24, 0x06]),
            packets in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 184)), 1..20),
        ) {
            let mut cutter = Cutter::new(Media::Ts);
            cutter.cut(&table(0, 0, &[0, 1, 0xe1, 0]));
            cutter.cut(&table(0x100, 2, &[0xe1, 1, 0xf0, 0, kind, 0xe1, 1, 0xf0, 0]));
            let mut seen = 0;
            for (n, (starts, body)) in packets.iter().enumerate() {
                let mut packet = vec![0x47, u8::from(*starts) << 6 | 1, 1, 0x10 | n as u8 & 0x0f];
                // Some with an adaptation field, of whatever is in it.
                packet[3] |= body[0] & 0x20;
                packet.extend(body);
                seen += usize::from(!cutter.cut(&packet).apart);
            }
            // All are looked into, if they are video.
            prop_assert_eq!(seen, if kind == 0x06 { 0 } else { packets.len() });
        }
    }

    /// A packet with a table (ISO 13818-1 §2.4.4) on this PID: for the first program, a map on PID 0x100.
    fn table(pid: u16, id: u8, body: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x47, 0x40 | (pid >> 8) as u8, pid as u8, 0x10, 0];
        packet.extend([id, 0xb0, body.len() as u8 + 9, 0, 1, 0xc1, 0, 0]);
        packet.extend(body);
        packet.resize(188, 0xff);
        packet
    }
}
