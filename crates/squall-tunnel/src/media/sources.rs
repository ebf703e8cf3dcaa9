//! The sources in the RTP of a flow, by SSRC and payload type: which is video, which is audio, and which only repairs others.
//!
//! There is no session description. The payload shows the codec, the clock of the timestamps shows audio, and what repairs a
//! source names its packets.

use rtp_types::RtpPacket;
use squall_units::{Span, Time};

use super::{class::Media, codec};

/// Sources that are kept; a further one takes the place of the one that was silent for longest.
const MAX_SOURCES: usize = 8;

/// Packets for and against a property that count.
const MAX_SCORE: i8 = 8;

/// Fitting packets after which a source is the video of its flow.
const ESTABLISHED: i8 = 4;

/// How long after its latest packet video is there: it may pause while its picture does not change.
const LATELY: Span = Span::from_secs(10);

/// Packets of parity in a row, or nearly, that prove it.
const SURE: i8 = 2;

/// How far behind the latest packet of a source a retransmission may be, in packets and in units of its timestamps; and the
/// first packet that parity protects.
const MAX_BEHIND: u16 = 1024;
const MAX_AGE: u32 = 2 * 90_000;
const MAX_PROTECTED: u16 = 256;

/// Where the header of parity has the first sequence number that it protects: SMPTE 2022-1 §8.4 and RFC 2733 §4, RFC 5109
/// §7.3, RFC 8627 §4.2.2, and the drafts before that.
const BASES: [usize; 4] = [0, 2, 8, 16];

/// Units of timestamps in a second, if they are audio: from 8 kHz to 48 kHz, measured with jitter. Video has 90 kHz.
const AUDIO_CLOCKS: std::ops::RangeInclusive<u64> = 6_000..=65_000;

/// Packets, and time, that a measurement of the clock takes at least: the first, and the later ones.
const MIN_PACKETS: u32 = 4;
const FIRST_SPAN: Span = Span::from_millis(60);
const SPAN: Span = Span::from_millis(200);

/// What a source carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Video of the codec that is looked for, or anything if none is.
    Video,
    /// Perhaps video: there is no other.
    Unknown,
    Audio,
    /// Retransmissions or parity.
    Repair,
    /// Nothing of these, beside the video.
    Other,
}

/// A source, by SSRC and payload type.
pub(super) type Key = (u32, u8);

/// The sources.
#[derive(Debug, Default)]
pub(super) struct Sources {
    /// The latest first.
    all: Vec<Source>,
    /// When the latest packet came.
    now: Time,
}

#[derive(Debug)]
struct Source {
    key: Key,
    sequence: u16,
    timestamp: u32,
    packets: u32,
    /// When its latest packet came.
    latest: Time,
    /// Packets whose payload fits the codec, less those that do not.
    fits: i8,
    /// Retransmissions, less others; and the same of parity, which shows less clearly.
    again: i8,
    parity: i8,
    bases: [Option<u16>; BASES.len()],
    clock: Clock,
}

impl Sources {
    /// The next packet, whose payload is not empty. Returns its source's role, and whether that source was there before.
    pub(super) fn next(&mut self, now: Time, media: Media, packet: &RtpPacket<'_>) -> (Role, bool) {
        self.now = now;
        let key = key(packet);
        let at = self.all.iter().position(|source| source.key == key);
        let mut source = match at {
            Some(at) => self.all.remove(at),
            None => {
                self.all.truncate(MAX_SOURCES - 1);
                Source::new(key)
            }
        };
        source.next(now, media, packet, &self.all);
        let role = source.role(media, self.has_video());
        self.all.insert(0, source);
        (role, at.is_some())
    }

    /// Whether there has been video of the codec lately.
    pub(super) fn has_video(&self) -> bool {
        self.all.iter().any(|one| one.fits >= ESTABLISHED && self.now - one.latest < LATELY)
    }

    /// The role of a source, if it is there.
    pub(super) fn role(&self, key: Key, media: Media) -> Option<Role> {
        self.all.iter().find(|source| source.key == key).map(|source| source.role(media, self.has_video()))
    }
}

pub(super) fn key(packet: &RtpPacket<'_>) -> Key {
    (packet.ssrc(), packet.payload_type())
}

impl Source {
    fn new(key: Key) -> Self {
        let (bases, clock) = ([None; BASES.len()], Clock::default());
        Self {
            key,
            sequence: 0,
            timestamp: 0,
            packets: 0,
            latest: Time::EPOCH,
            fits: 0,
            again: 0,
            parity: 0,
            bases,
            clock,
        }
    }

    fn next(&mut self, now: Time, media: Media, packet: &RtpPacket<'_>, others: &[Self]) {
        let (sequence, timestamp, payload) = (packet.sequence_number(), packet.timestamp(), packet.payload());
        self.latest = now;
        if self.packets > 0 && sequence == self.sequence {
            // The network has doubled it.
            return;
        }
        let shares = self.packets > 0 && timestamp == self.timestamp;
        let follows = self.packets > 0 && sequence == self.sequence.wrapping_add(1);
        if codec::is_looked_for(media) {
            vote(&mut self.fits, Some(codec::fits(media, payload, follows && !shares)));
        }
        let is_again = self.is_again(timestamp, payload, others);
        let is_parity = self.is_parity(payload, others);
        vote(&mut self.again, is_again);
        vote(&mut self.parity, is_parity);
        self.clock.next(now, timestamp, shares);
        (self.sequence, self.timestamp) = (sequence, timestamp);
        self.packets = self.packets.saturating_add(1);
    }

    /// Whether a packet is a retransmission of one of another source (RFC 4588 §4): with its timestamp, and in front its sequence
    /// number, which is another one each time. The first packet shows nothing. What repairs a source sends less.
    fn is_again(&self, timestamp: u32, payload: &[u8], others: &[Self]) -> Option<bool> {
        let (before, sequence) = (self.bases[0]?, number(payload, 0)?);
        let mut repaired = others.iter().filter(|other| other.packets > self.packets);
        let is_of = |other: &Self| {
            other.sequence.wrapping_sub(sequence) < MAX_BEHIND
                && other.timestamp.wrapping_sub(timestamp) <= MAX_AGE
        };
        Some(sequence != before && repaired.any(is_of))
    }

    /// Whether a packet is parity over packets of one of the other sources: the first of them is named, and moves on. `None` if
    /// it is the same as before, as in several packets of parity over the same.
    fn is_parity(&mut self, payload: &[u8], others: &[Self]) -> Option<bool> {
        let (mut moves, mut stays) = (false, false);
        let bases = BASES.map(|at| number(payload, at));
        for (before, base) in self.bases.iter().zip(bases) {
            let (Some(before), Some(base)) = (before, base) else { continue };
            let mut repaired = others.iter().filter(|other| other.packets > self.packets);
            if repaired.any(|other| other.sequence.wrapping_sub(base) < MAX_PROTECTED) {
                moves |= (1..MAX_PROTECTED).contains(&base.wrapping_sub(*before));
                stays |= base == *before;
            }
        }
        self.bases = bases;
        if stays && !moves { None } else { Some(moves) }
    }

    /// Its role, beside video of the codec or not.
    fn role(&self, media: Media, has_video: bool) -> Role {
        if self.again > 0 && self.again >= self.fits {
            return Role::Repair;
        }
        if is_audio(self.key.1) && self.fits <= 0 || self.clock.is_audio == Some(true) {
            return Role::Audio;
        }
        if self.parity >= SURE && self.fits <= 0 {
            return Role::Repair;
        }
        if !codec::is_looked_for(media) || self.fits > 0 {
            return Role::Video;
        }
        match self.clock.is_audio {
            _ if !has_video => Role::Unknown,
            Some(_) => Role::Repair,
            None => Role::Other,
        }
    }
}

/// The number of two bytes at this place.
fn number(payload: &[u8], at: usize) -> Option<u16> {
    payload.get(at..at + 2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
}

/// Static payload types of audio (RFC 3551 §6). Types above 95 are dynamic.
fn is_audio(kind: u8) -> bool {
    matches!(kind, 0..=18)
}

fn vote(score: &mut i8, vote: Option<bool>) {
    match vote {
        Some(true) => *score = (*score + 1).min(MAX_SCORE),
        Some(false) => *score = (*score - 1).max(-MAX_SCORE),
        None => {}
    }
}

/// The clock of a source's timestamps.
#[derive(Debug, Default)]
struct Clock {
    /// When the measurement began, and the timestamp then.
    since: Option<(Time, u32)>,
    packets: u32,
    /// Whether packets had the same timestamp, as those of a picture have.
    shares: bool,
    /// What was measured. Another result has to repeat: the network may have paused meanwhile.
    is_audio: Option<bool>,
    doubted: bool,
}

impl Clock {
    fn next(&mut self, now: Time, timestamp: u32, shares: bool) {
        self.packets += 1;
        self.shares |= shares;
        let &mut (since, first) = self.since.get_or_insert((now, timestamp));
        let span = now - since;
        let enough = if self.is_audio.is_none() { FIRST_SPAN } else { SPAN };
        if self.packets < MIN_PACKETS || span < enough {
            return;
        }
        let units = u64::from(timestamp.wrapping_sub(first));
        let is_audio = !self.shares && AUDIO_CLOCKS.contains(&(units * 1_000_000 / span.micros()));
        let is_new = self.is_audio.is_some_and(|before| before != is_audio);
        if is_new && !self.doubted {
            self.doubted = true;
        } else {
            (self.is_audio, self.doubted) = (Some(is_audio), false);
        }
        (self.since, self.packets, self.shares) = (Some((now, timestamp)), 0, false);
    }
}
