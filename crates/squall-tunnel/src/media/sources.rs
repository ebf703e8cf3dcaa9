//! RTP sources of a flow, by SSRC and payload type: video, audio, or repair of others.
//!
//! No session description is available. The payload shows the codec, the clock of the timestamps
//! shows audio, and repair packets name the packets that they repair.

use rtp_types::RtpPacket;
use squall_units::{Span, Time};

use super::{class::Media, codec};

/// Maximum number of sources. A further one replaces the source that has been silent for longest.
const MAX_SOURCES: usize = 8;

/// Bound of a score: packets for minus packets against a property.
const MAX_SCORE: i8 = 8;

/// Score of fitting packets at which a source counts as the video of its flow.
const ESTABLISHED: i8 = 4;

/// Time after its latest packet in which video counts as present; it may pause while its picture
/// does not change.
const LATELY: Span = Span::from_secs(10);

/// Score of parity packets that proves parity.
const SURE: i8 = 2;

/// Maximum distance of a retransmission to the latest packet of its source, in packets.
const MAX_BEHIND: u16 = 1024;
/// Maximum distance of a retransmission to the latest packet of its source, in units of its
/// timestamps.
const MAX_AGE: u32 = 2 * 90_000;
/// Maximum distance of the first packet that parity protects to the latest packet of its source, in
/// packets.
const MAX_PROTECTED: u16 = 256;

/// Positions of the first protected sequence number in the header of parity: SMPTE 2022-1 §8.4 and
/// RFC 2733 §4, RFC 5109 §7.3, RFC 8627 §4.2.2, and earlier drafts.
const BASES: [usize; 4] = [0, 2, 8, 16];

/// Measured clock rates in Hz that indicate audio: 8 kHz to 48 kHz, with a margin for jitter. Video
/// has 90 kHz.
const AUDIO_CLOCKS: std::ops::RangeInclusive<u64> = 6_000..=65_000;

/// Minimum number of packets for a measurement of the clock.
const MIN_PACKETS: u32 = 4;
/// Minimum duration of the first measurement.
const FIRST_SPAN: Span = Span::from_millis(60);
/// Minimum duration of later measurements.
const SPAN: Span = Span::from_millis(200);

/// Content of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Video of the configured codec, or anything if none is configured.
    Video,
    /// Possibly video: there is no other.
    Unknown,
    Audio,
    /// Retransmissions or parity.
    Repair,
    /// None of these, in addition to video.
    Other,
}

/// Identifier of a source: SSRC and payload type.
pub(super) type Key = (u32, u8);

/// The sources.
#[derive(Debug, Default)]
pub(super) struct Sources {
    /// Sources, latest first.
    all: Vec<Source>,
    /// Arrival of the latest packet.
    now: Time,
}

#[derive(Debug)]
struct Source {
    key: Key,
    sequence: u16,
    timestamp: u32,
    packets: u32,
    /// Arrival of its latest packet.
    latest: Time,
    /// Score of packets whose payload fits the codec.
    fits: i8,
    /// Score of retransmissions.
    again: i8,
    /// Score of parity, which is less distinct.
    parity: i8,
    bases: [Option<u16>; BASES.len()],
    clock: Clock,
}

impl Sources {
    /// Processes a packet with a non-empty payload. Returns the role of its source, and `true` if
    /// the source existed before.
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

    /// `true` if video of the codec has arrived within [`LATELY`].
    pub(super) fn has_video(&self) -> bool {
        self.all.iter().any(|one| one.fits >= ESTABLISHED && self.now - one.latest < LATELY)
    }

    /// Returns the role of a source, if it exists.
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
            // Duplicate from the network.
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

    /// `true` if a packet is a retransmission of a packet of another source (RFC 4588 §4): it has
    /// the timestamp of that packet, and its payload begins with the sequence number, which differs
    /// each time. `None` for the first packet, which shows nothing. A source with repair sends
    /// fewer packets than the repaired one.
    fn is_again(&self, timestamp: u32, payload: &[u8], others: &[Self]) -> Option<bool> {
        let (before, sequence) = (self.bases[0]?, number(payload, 0)?);
        let mut repaired = others.iter().filter(|other| other.packets > self.packets);
        let is_of = |other: &Self| {
            other.sequence.wrapping_sub(sequence) < MAX_BEHIND
                && other.timestamp.wrapping_sub(timestamp) <= MAX_AGE
        };
        Some(sequence != before && repaired.any(is_of))
    }

    /// `true` if a packet is parity over packets of another source: its header names the first
    /// protected packet, which advances. `None` if it names the same packet as before, as
    /// consecutive parity over the same packets does.
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

    /// Returns the role of the source. `has_video` if video of the codec is present.
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

/// Reads a number of two bytes at this position.
fn number(payload: &[u8], at: usize) -> Option<u16> {
    payload.get(at..at + 2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
}

/// `true` for static payload types of audio (RFC 3551 §6). Types above 95 are dynamic.
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

/// Measurement of the clock of a source's timestamps.
#[derive(Debug, Default)]
struct Clock {
    /// Start of the measurement, with the timestamp at that time.
    since: Option<(Time, u32)>,
    packets: u32,
    /// Several packets had the same timestamp, as the packets of a picture do.
    shares: bool,
    /// Result of the measurement. A different result must repeat, as the network may have paused.
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
