//! Silences of the sender, which are no sign of the path's rate.

use std::collections::VecDeque;

use squall_sched::Span;

/// Largest number of silences that are remembered separately. A path that carries feedback alone
/// has one before each packet, and no arrivals.
pub(super) const MAX_SILENCES: usize = 256;

/// Packets before which the sender was silent and whose arrival is open: number, and length of the
/// silence.
#[derive(Clone, Debug, Default)]
pub struct Silences(pub(super) VecDeque<(u64, Span)>);

impl Silences {
    /// Records a packet that leaves after a silence.
    pub fn add(&mut self, packet: u64, silence: Span) {
        if self.0.len() == MAX_SILENCES
            && let Some((_, oldest)) = self.0.pop_front()
            && let Some((_, next)) = self.0.front_mut()
        {
            *next += oldest;
        }
        self.0.push_back((packet, silence));
    }

    /// Takes the silences up to this packet, and returns their sum.
    pub fn take_until(&mut self, packet: u64) -> Span {
        let mut sum = Span::ZERO;
        while let Some(&(before, silence)) = self.0.front()
            && before <= packet
        {
            sum += silence;
            self.0.pop_front();
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use squall_units::short::us;

    use super::*;

    #[test]
    fn few_are_remembered_and_none_is_lost() {
        let mut silences = Silences::default();
        let all = 3 * MAX_SILENCES as u64;
        (0..all).for_each(|packet| silences.add(packet, us(10)));
        assert_eq!(silences.0.len(), MAX_SILENCES);
        assert_eq!(silences.take_until(all - 2), us(10 * (all - 1)));
        assert_eq!((silences.take_until(all), silences.take_until(all)), (us(10), us(0)));
    }
}
