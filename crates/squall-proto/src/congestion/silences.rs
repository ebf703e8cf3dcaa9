//! Silences of the sender, which are no sign of the path's rate.

use std::collections::VecDeque;

use squall_sched::Micros;

/// Silences that are remembered at most; their packets are long lost then.
pub(super) const MAX_SILENCES: usize = 1 << 12;

/// Packets before which the sender was silent, of those whose arrival is open: number, and length of the silence.
#[derive(Clone, Debug, Default)]
pub(super) struct Silences(pub(super) VecDeque<(u64, Micros)>);

impl Silences {
    /// A packet leaves after a silence.
    pub(super) fn add(&mut self, packet: u64, silence: Micros) {
        if self.0.len() == MAX_SILENCES {
            self.0.pop_front();
        }
        self.0.push_back((packet, silence));
    }

    /// Takes the silences up to this packet, and returns their sum.
    pub(super) fn take_until(&mut self, packet: u64) -> Micros {
        let mut sum = 0;
        while let Some(&(before, silence)) = self.0.front()
            && before <= packet
        {
            sum += silence;
            self.0.pop_front();
        }
        sum
    }
}
