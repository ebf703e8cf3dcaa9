//! The frames of a film that was encoded before.

use std::sync::Arc;

use super::source::{Outcome, Source};
use super::{Frame, Offer};
use crate::flow::{Class, Cue, Encoded};

/// The film, and when its frames arrived.
#[derive(Debug)]
pub(super) struct Screening {
    cues: Arc<[Cue]>,
    classes: Vec<Class>,
    next: usize,
    arrivals_us: Vec<Option<u64>>,
}

impl Screening {
    pub(super) fn new(film: &Encoded, classes: Vec<Class>) -> Self {
        Self { cues: film.cues.clone(), classes, next: 0, arrivals_us: vec![None; film.cues.len()] }
    }
}

impl Source for Screening {
    fn next(&mut self) -> Option<Offer> {
        let cue = self.cues.get(self.next)?;
        self.next += 1;
        Some(Offer {
            deadline_us: Some(cue.due_us - cue.at_us),
            frame: Some(Frame { picture: cue.picture, base: true, needs: cue.needs }),
            ..Offer::new(cue.at_us, cue.size, cue.class, &self.classes[usize::from(cue.class)])
        })
    }

    fn on_delivered(&mut self, index: u64, at_us: u64) {
        if let Some(arrival) = self.arrivals_us.get_mut(index as usize) {
            arrival.get_or_insert(at_us);
        }
    }

    fn outcome(&self, _end_us: u64) -> Outcome {
        Outcome { arrivals_us: self.arrivals_us.clone(), ..Outcome::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_film_is_offered_once_and_remembers_arrivals() {
        let cue =
            |at_us, due_us, class, picture, needs| Cue { at_us, due_us, size: 9, class, picture, needs };
        let film = Encoded {
            cues: [
                cue(40, 100, 0, 0, [None; 2]),
                cue(80, 180, 0, 2, [Some(0), None]),
                cue(120, 140, 1, 1, [Some(1), Some(0)]),
            ]
            .into(),
            classes: vec![Class::new("needed", true, 0), Class::new("disposable", false, 1)],
            latency_us: 100,
            interval_us: 40,
        };
        let mut screening = Screening::new(&film, film.classes.clone());
        let offers: Vec<Offer> = std::iter::from_fn(|| screening.next()).collect();
        let told =
            |offer: &Offer| (offer.at_us, offer.deadline_us, offer.reliable, offer.frame.map(|f| f.picture));
        assert_eq!(told(&offers[1]), (80, Some(100), true, Some(2)));
        assert_eq!(told(&offers[2]), (120, Some(20), false, Some(1)));
        assert_eq!(offers.len(), 3);

        screening.on_delivered(1, 150);
        screening.on_delivered(1, 160);
        screening.on_delivered(7, 160);
        assert_eq!(screening.outcome(500).arrivals_us, [None, Some(150), None]);
    }
}
