//! Detection of datagrams that do not fit the media format of their flow, and the response.

use std::fmt;

use squall_units::{Span, Time};

use super::class::Media;

/// Reason why no frames are found in a transport stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoVideo {
    #[error(
        "no packets of MPEG-TS, with a byte 0x47 every 188, 192 or 204 bytes; `media` has to name what is sent"
    )]
    Packets,
    #[error("MPEG-TS without program tables; the encoder has to repeat PAT and PMT, as each 100 ms")]
    Tables,
    #[error("no program has video of a format that is recognised (docs/tunnel.md, Transport streams)")]
    Format,
    #[error("the program map names video, and no packet with its PID comes")]
    Silent,
}

/// Agreement of a datagram with the media format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// It fits the format, with the expected content.
    Good,
    /// It fits the format, but no video was found; for MPEG-TS with the reason.
    Blind(Option<NoVideo>),
    /// It does not fit the format.
    Strange,
    /// It may accompany any format.
    Neutral,
}

impl Fit {
    /// Returns the agreement of an MPEG-TS datagram.
    pub(super) fn of(no_video: Option<NoVideo>) -> Self {
        match no_video {
            None => Self::Good,
            Some(NoVideo::Packets) => Self::Strange,
            reason => Self::Blind(reason),
        }
    }
}

/// Consecutive datagrams of one kind.
#[derive(Debug, Default)]
pub(super) struct Row {
    count: u32,
    since: Time,
}

impl Row {
    /// Minimum number of datagrams of a row that is long by its duration.
    const FEW: u32 = 4;
    /// Number of datagrams that makes a row long regardless of its duration.
    const MANY: u32 = 64;
    /// Duration that makes a row of at least [`Self::FEW`] datagrams long.
    const LONG: Span = Span::from_secs(1);

    pub(super) fn add(&mut self, now: Time) {
        if self.count == 0 {
            self.since = now;
        }
        self.count = self.count.saturating_add(1);
    }

    /// `true` if the row is more than a short burst.
    pub(super) fn is_long(&self, now: Time) -> bool {
        self.count >= Self::MANY || self.lasts(now)
    }

    /// `true` if the row has lasted a second.
    pub(super) fn lasts(&self, now: Time) -> bool {
        self.count >= Self::FEW && now - self.since >= Self::LONG
    }
}

/// Reason why a flow is not cut into frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Expected media format.
    pub(super) media: Media,
    /// Agreement of the datagrams with it.
    pub(super) fit: Fit,
    /// Media format that the datagrams seem to have instead.
    pub(super) seen: Option<Media>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let media = self.media.name();
        match (self.fit, self.media, self.seen) {
            (Fit::Blind(Some(reason)), ..) => write!(f, "no video is found: {reason}"),
            (Fit::Blind(None), ..) => write!(
                f,
                "no {media} is found in its RTP: set media to its codec, or media=rtp if that is unknown or encrypted"
            ),
            (_, Media::Auto | Media::Udp, _) => f.write_str(
                "neither MPEG-TS nor RTP is found, and each datagram is sent on its own: set media=ts for MPEG-TS in datagrams of \
                 less than three packets (ffmpeg: pkt_size=1316 makes larger ones), or media=udp for other formats",
            ),
            (_, Media::Ts, Some(_)) => {
                f.write_str("RTP is found, not MPEG-TS: set media to its codec, or media=auto")
            }
            (_, Media::Ts, None) => f.write_str(
                "no MPEG-TS is found, with a byte 0x47 every 188, 192 or 204 bytes: set media=auto for other formats",
            ),
            (_, _, Some(Media::Ts)) => {
                write!(f, "MPEG-TS is found, not {media} in RTP: set media=ts or media=auto")
            }
            _ => f.write_str("no RTP is found: set media=auto, or media=udp for other formats"),
        }
    }
}
