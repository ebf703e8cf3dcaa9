//! Packets of a transport stream (ISO 13818-1 §2.4.3).

/// Bytes of a packet.
pub(super) const LENGTH: usize = 188;

/// Packets without content.
pub(super) const NULL_PID: u16 = 0x1fff;

/// First byte of each packet.
const SYNC: u8 = 0x47;

/// A packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet<'a>(&'a [u8; LENGTH]);

impl<'a> Packet<'a> {
    /// The packet in these bytes, if they are one.
    pub(super) fn new(bytes: &'a [u8]) -> Option<Self> {
        let bytes: &[u8; LENGTH] = bytes.try_into().ok()?;
        (bytes[0] == SYNC).then_some(Self(bytes))
    }

    /// Packet id.
    pub(super) fn pid(self) -> u16 {
        u16::from_be_bytes([self.0[1] & 0x1f, self.0[2]])
    }

    /// Whether a PES packet or a section begins in it.
    pub(super) fn is_unit_start(self) -> bool {
        self.0[1] & 0x40 != 0
    }

    /// The adaptation field behind its length, if there is one (§2.4.3.4).
    pub(super) fn adaptation_field(self) -> Option<&'a [u8]> {
        let has_field = self.0[3] & 0x20 != 0;
        has_field.then(|| self.0.get(5..5 + usize::from(self.0[4]))).flatten()
    }

    /// The payload, if there is any.
    pub(super) fn payload(self) -> Option<&'a [u8]> {
        let start = if self.0[3] & 0x20 != 0 { 5 + usize::from(self.0[4]) } else { 4 };
        let payload = self.0.get(start..).filter(|payload| !payload.is_empty());
        payload.filter(|_| self.0[3] & 0x10 != 0)
    }

    /// Whether decoding can begin here.
    pub(super) fn is_random_access(self) -> bool {
        self.adaptation_field().and_then(|field| field.first()).is_some_and(|flags| flags & 0x40 != 0)
    }

    /// Whether the adaptation field is longer than its content, as in the last packet of a PES packet: the next one begins
    /// in a packet of its own (§2.4.3.3, §2.4.3.5).
    pub(super) fn is_stuffed(self) -> bool {
        let Some(field) = self.adaptation_field() else { return false };
        // A field without flags is one byte of stuffing.
        let Some(flags) = field.first() else { return true };
        // Clock references of six bytes, the splice countdown; private data and extensions have a length.
        let clocks = usize::from(flags & 0x10 != 0) * 6 + usize::from(flags & 0x08 != 0) * 6;
        let mut used = 1 + clocks + usize::from(flags & 0x04 != 0);
        for flag in [0x02, 0x01] {
            if flags & flag != 0 {
                used += 1 + field.get(used).map_or(0, |length| usize::from(*length));
            }
        }
        field.len() > used
    }
}

/// Whether bytes consist of packets.
pub(super) fn is_ts(bytes: &[u8]) -> bool {
    !bytes.is_empty()
        && bytes.len().is_multiple_of(LENGTH)
        && bytes.chunks_exact(LENGTH).all(|packet| packet[0] == SYNC)
}
