//! Finds the frames that datagrams belong to, and their classes.

mod align;
mod annexb;
mod auto;
mod av1;
mod bits;
mod chain;
mod class;
mod descriptor;
mod formats;
mod h264;
mod h265;
mod packet;
mod picture;
mod pictures;
mod psi;
mod rtp;
#[cfg(any(test, fuzzing))]
pub(crate) mod samples;
mod sections;
mod ts;
mod vp8;
mod vp9;

pub use self::class::{Class, Media};
use self::{auto::Auto, rtp::RtpCutter, ts::TsCutter};
pub(crate) use self::{chain::Chain, class::Cut};

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

    /// Reads the next datagram.
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

    /// Whether the frames of several sources come in turn, so that none refers to the one before it.
    pub(crate) fn is_mixed(&self) -> bool {
        matches!(self, Self::Rtp(rtp) if rtp.is_mixed())
    }

    /// The detected media.
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

    /// A packet with a table: for the first program, a map on PID 0x100.
    fn table(pid: u16, id: u8, body: &[u8]) -> Vec<u8> {
        samples::alone(pid, 0, &[&samples::section(id, body)]).remove(0)
    }
}
