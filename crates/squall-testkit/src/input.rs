//! Inputs of a fuzzer as choices.

/// The rest of an input; zeros behind its end, except for [`Input::byte`].
#[derive(Debug)]
pub struct Input<'a>(pub &'a [u8]);

impl Input<'_> {
    /// The next byte, unless the input has ended.
    pub fn byte(&mut self) -> Option<u8> {
        self.0.split_off_first().copied()
    }

    /// The next byte.
    pub fn or_zero(&mut self) -> u8 {
        self.byte().unwrap_or(0)
    }

    /// The next two bytes as a number.
    pub fn number(&mut self) -> u32 {
        u32::from(self.or_zero()) << 8 | u32::from(self.or_zero())
    }

    /// A number whose length is chosen too: large ones are as likely as small ones.
    pub fn any_number(&mut self) -> u64 {
        let shift = u32::from(self.or_zero()) % 56;
        u64::from(self.number()) << shift >> 8
    }

    /// At most this many bytes.
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let (bytes, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        bytes.to_vec()
    }
}
