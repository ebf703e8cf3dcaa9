//! Fuzzer inputs as sequences of choices.

/// Rest of an input; zeros after its end, except for [`Input::byte`].
#[derive(Debug)]
pub struct Input<'a>(pub &'a [u8]);

impl Input<'_> {
    /// Returns the next byte, unless the input has ended.
    pub fn byte(&mut self) -> Option<u8> {
        self.0.split_off_first().copied()
    }

    /// Returns the next byte; 0 after the end.
    pub fn or_zero(&mut self) -> u8 {
        self.byte().unwrap_or(0)
    }

    /// Returns the next two bytes as a number.
    pub fn number(&mut self) -> u32 {
        u32::from(self.or_zero()) << 8 | u32::from(self.or_zero())
    }

    /// Returns a number whose magnitude is chosen too: large numbers are as likely as small ones.
    pub fn any_number(&mut self) -> u64 {
        let shift = u32::from(self.or_zero()) % 56;
        u64::from(self.number()) << shift >> 8
    }

    /// Returns at most this many bytes.
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let (bytes, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        bytes.to_vec()
    }
}
