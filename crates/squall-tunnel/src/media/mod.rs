//! Finds the frames that datagrams belong to, and their classes.

mod align;
mod annexb;
mod auto;
mod av1;
mod bits;
mod chain;
mod class;
mod codec;
mod descriptor;
mod doubt;
mod formats;
mod h264;
mod h265;
mod packet;
mod pes;
mod picture;
mod psi;
mod rtp;
#[cfg(any(test, fuzzing))]
pub(crate) mod samples;
mod sections;
mod sources;
mod ts;
mod vp8;
mod vp9;

use squall_units::Time;

pub use self::class::{Class, Media};
use self::{
    auto::Auto,
    doubt::{Fit, Row},
    rtp::RtpCutter,
    ts::TsCutter,
};
pub(crate) use self::{chain::Chain, class::Cut, doubt::Problem};

/// Finds frames in a flow's datagrams. Time is an argument: `now` is the arrival of a datagram.
#[derive(Debug)]
pub(crate) struct Cutter {
    configured: Media,
    format: Format,
    /// Detector for datagrams that do not fit the format.
    auto: Auto,
    /// Consecutive datagrams of another format.
    strange: Row,
    /// Consecutive datagrams of the format in which no video is found.
    useless: Row,
    /// The format is open, and datagrams count as plain until one is detected.
    is_plain: bool,
    problem: Option<Problem>,
}

/// Format that datagrams are parsed as.
#[derive(Debug)]
enum Format {
    Plain,
    Rtp(Box<RtpCutter>),
    Ts(Box<TsCutter>),
}

impl Cutter {
    pub(crate) fn new(media: Media) -> Self {
        Self {
            configured: media,
            format: match media {
                Media::Udp | Media::Auto => Format::Plain,
                Media::Ts => Format::Ts(Box::default()),
                other => Format::Rtp(Box::new(RtpCutter::new(other))),
            },
            auto: Auto::default(),
            strange: Row::default(),
            useless: Row::default(),
            is_plain: media == Media::Udp,
            problem: None,
        }
    }

    /// Parses the next datagram.
    pub(crate) fn cut(&mut self, now: Time, datagram: &[u8]) -> Cut {
        if self.configured == Media::Udp {
            return Cut::apart(Class::Data);
        }
        let (cut, fit) = self.read(now, datagram);
        match fit {
            Fit::Neutral => return cut,
            Fit::Strange => {
                self.strange.add(now);
                let found = self.auto.look(datagram);
                if let Some(media) = found.filter(|_| self.is_open(now)) {
                    return self.change(now, media, datagram);
                }
                self.is_plain |= matches!(self.format, Format::Plain) && self.strange.is_long(now);
            }
            Fit::Good | Fit::Blind(_) => (self.strange, self.auto) = Default::default(),
        }
        if fit == Fit::Good {
            (self.useless, self.problem) = Default::default();
            return cut;
        }
        self.useless.add(now);
        if self.useless.lasts(now) {
            self.problem = Some(Problem { media: self.media(), fit, seen: self.auto.seen() });
        }
        cut
    }

    fn read(&mut self, now: Time, datagram: &[u8]) -> (Cut, Fit) {
        if datagram.is_empty() {
            return (Cut::aside(), Fit::Neutral);
        }
        let (cut, fit) = match &mut self.format {
            Format::Plain => (Cut::apart(Class::Data), Fit::Strange),
            Format::Rtp(rtp) => rtp.cut(now, datagram),
            Format::Ts(ts) => (ts.cut(datagram), Fit::of(ts.finds_no_video())),
        };
        (cut, if fit == Fit::Strange && rtp::is_signalling(datagram) { Fit::Neutral } else { fit })
    }

    /// `true` if another format may be detected. A short burst does not end the current one.
    fn is_open(&self, now: Time) -> bool {
        self.configured == Media::Auto && (matches!(self.format, Format::Plain) || self.strange.is_long(now))
    }

    /// Changes to another format, detected with this datagram.
    fn change(&mut self, now: Time, media: Media, datagram: &[u8]) -> Cut {
        let ts = self.auto.take_ts();
        (self.strange, self.useless, self.auto, self.problem) = Default::default();
        if let (Media::Ts, Some((ts, cut))) = (media, ts) {
            self.format = Format::Ts(ts);
            return cut;
        }
        self.format = Format::Rtp(Box::new(RtpCutter::new(Media::Rtp)));
        self.read(now, datagram).0
    }

    /// `true` if the frames of several sources alternate, so that none refers to the one before it.
    pub(crate) fn is_mixed(&self) -> bool {
        matches!(&self.format, Format::Rtp(rtp) if rtp.is_mixed())
    }

    /// Returns the detected media format.
    pub(crate) fn media(&self) -> Media {
        match &self.format {
            Format::Plain if self.is_plain => Media::Udp,
            Format::Plain => Media::Auto,
            Format::Rtp(rtp) => rtp.media(),
            Format::Ts(_) => Media::Ts,
        }
    }

    /// Returns the reason why no video is found, once that has lasted a second.
    pub(crate) fn problem(&self) -> Option<Problem> {
        self.problem
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Arbitrary datagrams cause neither a panic nor an error.
        #[test]
        fn no_datagram_is_too_strange(
            datagrams in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..400), 0..20),
            as_rtp in any::<bool>(),
            as_ts in any::<bool>(),
        ) {
            let mut now = 0;
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
                    now += 20_000;
                    cutter.cut(Time::from_micros(now), &datagram);
                }
            }
        }

        /// Arbitrary packets in a transport stream with valid tables.
        #[test]
        fn no_video_packet_is_too_strange(
            kind in prop::sample::select(vec![0x02, 0x1b, 0x24, 0x06]),
            packets in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 184)), 1..20),
        ) {
            let mut cutter = Cutter::new(Media::Ts);
            cutter.cut(Time::EPOCH, &table(0, 0, &[0, 1, 0xe1, 0]));
            cutter.cut(Time::EPOCH, &table(0x100, 2, &[0xe1, 1, 0xf0, 0, kind, 0xe1, 1, 0xf0, 0]));
            let mut seen = 0;
            for (n, (starts, body)) in packets.iter().enumerate() {
                let mut packet = vec![0x47, u8::from(*starts) << 6 | 1, 1, 0x10 | n as u8 & 0x0f];
                // Some have an adaptation field with arbitrary content.
                packet[3] |= body[0] & 0x20;
                packet.extend(body);
                seen += usize::from(!cutter.cut(Time::EPOCH, &packet).apart);
            }
            // All are parsed if they are video.
            prop_assert_eq!(seen, if kind == 0x06 { 0 } else { packets.len() });
        }
    }

    /// Builds a packet with a table: for the first program, a map on PID 0x100.
    fn table(pid: u16, id: u8, body: &[u8]) -> Vec<u8> {
        samples::alone(pid, 0, &[&samples::section(id, body)]).remove(0)
    }
}
