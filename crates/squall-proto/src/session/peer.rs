//! The peer: its hello, our trust in it, and its feedback.

use crate::varint;

/// Version of the hello.
const VERSION: u64 = 1;

/// Bit of the hello: blocks without a length at the start are accepted.
const TAKES_GROWING: u64 = 1;

/// Bit of the hello: packets may be reported together.
const TAKES_JOINT_REPORTS: u64 = 2;

/// Bit of the hello: stalls are to be reported.
const WANTS_STALLED: u64 = 4;

/// Bit of the hello: parity is accepted.
const TAKES_PARITY: u64 = 8;

/// Bit of the hello: the received part of a partial block is handed over.
const TAKES_PARTIAL: u64 = 16;

/// Limits and abilities that each side announces first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    /// Largest block in bytes that it accepts.
    pub(super) block: u32,
    /// Initial credit in bytes of blocks.
    pub(super) credit: u64,
    pub(super) takes_growing: bool,
    pub(super) takes_joint_reports: bool,
    pub(super) wants_stalled: bool,
    pub(super) takes_parity: bool,
    pub(super) takes_partial: bool,
}

impl Hello {
    pub(super) fn encode(&self) -> Vec<u8> {
        let bit = |is_set, bit| if is_set { bit } else { 0 };
        let abilities = bit(self.takes_growing, TAKES_GROWING)
            | bit(self.takes_joint_reports, TAKES_JOINT_REPORTS)
            | bit(self.wants_stalled, WANTS_STALLED)
            | bit(self.takes_parity, TAKES_PARITY)
            | bit(self.takes_partial, TAKES_PARTIAL);
        let mut hello = Vec::new();
        for field in [VERSION, self.block.into(), self.credit >> 10, abilities] {
            varint::write(&mut hello, field);
        }
        hello
    }

    /// # Errors
    /// If it is malformed.
    pub(super) fn decode(mut hello: &[u8]) -> Result<Self, &'static str> {
        let mut field = || varint::read(&mut hello).ok_or("the hello ends within a field");
        if field()? < VERSION {
            return Err("the hello has version 0");
        }
        let (block, credit) = (field()?, field()?.saturating_mul(1024));
        // Peers of versions before the abilities do not write the field.
        let abilities = field().unwrap_or(0);
        Ok(Self {
            block: u32::try_from(block).unwrap_or(u32::MAX),
            credit,
            takes_growing: abilities & TAKES_GROWING != 0,
            takes_joint_reports: abilities & TAKES_JOINT_REPORTS != 0,
            wants_stalled: abilities & WANTS_STALLED != 0,
            takes_parity: abilities & TAKES_PARITY != 0,
            takes_partial: abilities & TAKES_PARTIAL != 0,
        })
    }
}

#[derive(Debug)]
pub(super) struct Peer {
    trust: Trust,
    /// Hello of the peer, once it has arrived.
    hello: Option<Hello>,
    /// Highest sequence number of its feedback.
    feedback: u64,
}

/// Trust in a peer, which only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    /// It has the limits of an untrusted peer.
    Stranger,
    /// It may use all that the limits allow.
    Trusted,
    /// It is trusted, and its endpoint has recorded that.
    Noted,
}

impl Peer {
    /// Creates the server that a client chose.
    pub(super) fn chosen() -> Self {
        Self { trust: Trust::Noted, hello: None, feedback: 0 }
    }

    /// Creates a client that was accepted.
    pub(super) fn accepted(is_trusted: bool) -> Self {
        let trust = if is_trusted { Trust::Trusted } else { Trust::Stranger };
        Self { trust, ..Self::chosen() }
    }

    pub(super) fn is_trusted(&self) -> bool {
        self.trust != Trust::Stranger
    }

    /// Trusts the peer. Returns `true` if it was not trusted before.
    pub(super) fn trust(&mut self) -> bool {
        let is_new = !self.is_trusted();
        if is_new {
            self.trust = Trust::Trusted;
        }
        is_new
    }

    /// Returns `true` once after the peer became trusted, for its endpoint to record.
    pub(super) fn note(&mut self) -> bool {
        let is_new = self.trust == Trust::Trusted;
        if is_new {
            self.trust = Trust::Noted;
        }
        is_new
    }

    pub(super) fn on_hello(&mut self, hello: Hello) {
        self.hello = Some(hello);
    }

    pub(super) fn takes_parity(&self) -> bool {
        self.hello.is_some_and(|hello| hello.takes_parity)
    }

    /// Returns `true` if the peer gets reports of stalls. It must be trusted, because reports use
    /// memory and packets of this side.
    pub(super) fn gets_stalls(&self) -> bool {
        self.is_trusted() && self.hello.is_some_and(|hello| hello.wants_stalled)
    }

    /// Records feedback. Returns `true` if it is newer than all before.
    pub(super) fn on_feedback(&mut self, sequence: u64) -> bool {
        let is_newer = sequence > self.feedback;
        self.feedback = self.feedback.max(sequence);
        is_newer
    }

    pub(super) fn has_given_feedback(&self) -> bool {
        self.feedback > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: Hello = Hello {
        block: 70_000,
        credit: 5 << 20,
        takes_growing: true,
        takes_joint_reports: true,
        wants_stalled: true,
        takes_parity: false,
        takes_partial: false,
    };

    #[test]
    fn a_hello_is_read_as_it_was_written() {
        let written = HELLO.encode();
        assert_eq!(Hello::decode(&written), Ok(HELLO));
        let later = [&written[..], &[7, 7]].concat();
        assert_eq!(Hello::decode(&later), Ok(HELLO), "fields of a later version are skipped");
        let without =
            Hello { takes_growing: false, takes_joint_reports: false, wants_stalled: false, ..HELLO };
        assert_eq!(Hello::decode(&written[..written.len() - 1]), Ok(without));
        assert_eq!(Hello::decode(&written[..2]), Err("the hello ends within a field"));
        assert_eq!(Hello::decode(&[0, 0, 0]), Err("the hello has version 0"));
    }

    #[test]
    fn trust_only_grows_and_is_noted_once() {
        let mut peer = Peer::accepted(false);
        peer.on_hello(HELLO);
        assert!(!peer.is_trusted() && !peer.note() && !peer.gets_stalls());
        assert!(peer.trust() && !peer.trust());
        assert!(peer.gets_stalls() && peer.note() && !peer.note());
        assert!(peer.is_trusted() && !peer.trust());
        assert!(Peer::chosen().is_trusted() && !Peer::chosen().note());
        assert!(Peer::accepted(true).note());
    }

    #[test]
    fn feedback_that_was_overtaken_is_no_news() {
        let mut peer = Peer::chosen();
        assert!(!peer.has_given_feedback() && !peer.on_feedback(0));
        assert!(peer.on_feedback(3) && !peer.on_feedback(2) && !peer.on_feedback(3) && peer.on_feedback(4));
        assert!(peer.has_given_feedback());
    }
}
