//! Packets of a transport stream (ISO 13818-1 §2.4.3).

/// Length of a packet in bytes.
pub(super) const LENGTH: usize = 188;

/// PID of packets without content.
pub(super) const NULL_PID: u16 = 0x1fff;

/// First byte of each packet.
pub(super) const SYNC: u8 = 0x47;

/// A packet, or the beginning of one whose rest is in the next datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet<'a> {
    bytes: &'a [u8],
    /// Number of leading bytes that were already read with its beginning.
    read: usize,
}

impl<'a> Packet<'a> {
    /// Number of bytes that contain the PID and the random access flag.
    pub(super) const HEAD: usize = 6;

    /// Returns the packet in these bytes, if they are one or its beginning. `read` of them were
    /// read before.
    pub(super) fn new(bytes: &'a [u8], read: usize) -> Option<Self> {
        let is_packet = bytes.first() == Some(&SYNC) && (Self::HEAD..=LENGTH).contains(&bytes.len());
        is_packet.then_some(Self { bytes, read: if read < Self::HEAD { 0 } else { read } })
    }

    /// Returns the bytes received so far.
    pub(super) fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the packet id (PID).
    pub(super) fn pid(self) -> u16 {
        u16::from_be_bytes([self.bytes[1] & 0x1f, self.bytes[2]])
    }

    /// `true` if no part of it was read before.
    pub(super) fn is_new(self) -> bool {
        self.read == 0
    }

    /// `true` if it is complete.
    pub(super) fn is_complete(self) -> bool {
        self.bytes.len() == LENGTH
    }

    /// `true` if a PES packet or a section begins in it.
    pub(super) fn is_unit_start(self) -> bool {
        self.bytes[1] & 0x40 != 0
    }

    /// `true` if it has a payload.
    pub(super) fn has_payload(self) -> bool {
        self.bytes[3] & 0x10 != 0 && self.content() < LENGTH
    }

    /// Returns the payload received so far.
    pub(super) fn payload(self) -> &'a [u8] {
        if self.has_payload() { self.bytes.get(self.content()..).unwrap_or_default() } else { &[] }
    }

    /// Returns the bytes of the elementary stream in it that were not read before.
    pub(super) fn elementary(self) -> &'a [u8] {
        let mut from = self.content();
        if self.is_unit_start() {
            // The header of a PES packet has its length in the ninth byte (§2.4.3.6).
            let Some(length) = self.payload().get(8) else { return &[] };
            from += 9 + usize::from(*length);
        }
        let rest = self.bytes.get(from.max(self.read)..);
        rest.filter(|_| self.has_payload()).unwrap_or_default()
    }

    /// `true` if decoding can begin here.
    pub(super) fn is_random_access(self) -> bool {
        self.adaptation_field().and_then(|field| field.first()).is_some_and(|flags| flags & 0x40 != 0)
    }

    /// `true` if the adaptation field of a complete packet is longer than its content, as in the
    /// last packet of a PES packet, because the next PES packet begins in a new packet (§2.4.3.3,
    /// §2.4.3.5).
    pub(super) fn is_stuffed(self) -> bool {
        let Some(field) = self.adaptation_field().filter(|_| self.is_complete()) else { return false };
        // A field without flags is one byte of stuffing.
        let Some(flags) = field.first() else { return true };
        // Clock references of six bytes, the splice countdown; private data and extensions have a
        // length.
        let clocks = usize::from(flags & 0x10 != 0) * 6 + usize::from(flags & 0x08 != 0) * 6;
        let mut used = 1 + clocks + usize::from(flags & 0x04 != 0);
        for flag in [0x02, 0x01] {
            if flags & flag != 0 {
                used += 1 + field.get(used).map_or(0, |length| usize::from(*length));
            }
        }
        field.len() > used
    }

    /// Returns the position of the payload.
    fn content(self) -> usize {
        if self.bytes[3] & 0x20 != 0 { 5 + usize::from(self.bytes[4]) } else { 4 }
    }

    /// Returns the adaptation field after its length byte, if there is one (§2.4.3.4), as received
    /// so far.
    fn adaptation_field(self) -> Option<&'a [u8]> {
        let end = self.content();
        let has_field = self.bytes[3] & 0x20 != 0 && end <= LENGTH;
        has_field.then(|| &self.bytes[5..end.min(self.bytes.len())])
    }
}
