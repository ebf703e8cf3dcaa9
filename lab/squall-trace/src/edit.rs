//! Editing of recordings: cutting, repeating, and scaling of rates.

use std::ops::Range;

use crate::{
    Event, Gaps, MAX_OPPORTUNITIES, MAX_ROWS, Micros, Quantity, Recording, RecordingError, Row, Supply,
    recording::closed,
};

impl Recording {
    /// Returns the part from `start` on, at most `length` long; its time begins at 0. If the
    /// recording is shorter than that and `repeat` is set, it restarts from its own beginning until
    /// the length is reached.
    ///
    /// # Errors
    /// If the part is empty, or a repeated recording becomes too long.
    pub fn part(&self, start: Micros, length: Option<Micros>, repeat: bool) -> Result<Self, RecordingError> {
        let duration = self.duration();
        if start >= duration || length == Some(0) {
            let (duration, start) = (duration as f64 / 1e6, start as f64 / 1e6);
            return Err(RecordingError::After { duration, start });
        }
        let rest = duration - start;
        let length = length.map_or(rest, |length| if repeat { length } else { length.min(rest) });
        let rounds = 1 + length.saturating_sub(rest) / duration;
        let (size, most) = match &self.opportunities {
            None => (self.rows.len(), MAX_ROWS as u64),
            Some(millis) => (millis.len(), MAX_OPPORTUNITIES),
        };
        if rounds > 1 && rounds.saturating_mul(size as u64) > most {
            return Err(RecordingError::TooLong(length as f64 / 1e6));
        }
        let mut pieces = vec![(0, start..duration.min(start + length))];
        let mut filled = rest.min(length);
        while filled < length {
            let piece = duration.min(length - filled);
            pieces.push((filled, 0..piece));
            filled += piece;
        }
        let mut rows = Vec::new();
        let supplies = Quantity::RATES
            .map(|rate| Some((rate, Supply::of_rows(&self.rows, self.end, self.step, rate, Gaps::Hold)?)));
        for (offset, piece) in &pieces {
            if self.opportunities.is_none() {
                rows.extend(self.holding(&supplies, piece, *offset));
            }
            rows.extend(self.moved(piece, *offset));
        }
        let opportunities = self.opportunities.as_ref().map(|millis| {
            pieces
                .into_iter()
                .flat_map(|(offset, piece)| moved_opportunities(millis, piece, offset))
                .collect()
        });
        let rows = if opportunities.is_none() { closed(rows, length) } else { rows };
        Ok(Self { rows, opportunities, end: length, ..self.clone() })
    }

    /// Returns a row with the values valid at the beginning of a piece, if none starts there.
    fn holding(
        &self,
        supplies: &[Option<(Quantity, Supply)>],
        piece: &Range<Micros>,
        offset: Micros,
    ) -> Option<Row> {
        let next = self.rows.partition_point(|row| row.at < piece.start);
        if self.rows.get(next).is_some_and(|row| row.at == piece.start) {
            return None;
        }
        let before = next.checked_sub(1).map(|before| &self.rows[before]);
        let mut row =
            Row { tech: before.map(|row| row.tech.clone()).unwrap_or_default(), ..Row::new(offset) };
        for (rate, supply) in supplies.iter().flatten() {
            row[*rate] = supply.rate_at(piece.start).map(|bps| bps as f64 / 1e6);
        }
        Some(row)
    }

    /// Returns the rows of a piece, shifted so that it begins at `offset`. A gap at the seam of two
    /// rounds is removed.
    fn moved(&self, piece: &Range<Micros>, offset: Micros) -> impl Iterator<Item = Row> {
        self.rows.iter().filter(|row| piece.contains(&row.at)).map(move |row| {
            let mut moved = Row { at: row.at - piece.start + offset, ..row.clone() };
            let is_seam = row.at == piece.start && offset > 0;
            moved.events.retain(|event| !is_seam || *event != Event::Gap);
            moved
        })
    }

    /// Multiplies every rate of the link by a factor above 0. Opportunities are dropped or repeated
    /// evenly.
    ///
    /// # Errors
    /// If a resulting rate is out of its bounds.
    pub fn scaled(&self, factor: f64) -> Result<Self, RecordingError> {
        // Exact to a billionth, so that errors do not accumulate over a million opportunities.
        let billionths = (factor * 1e9).round() as u128;
        let until = |count: usize| count as u128 * billionths / 1_000_000_000;
        let copies = |(index, &millis): (usize, &u64)| {
            std::iter::repeat_n(millis, (until(index + 1) - until(index)) as usize)
        };
        let opportunities =
            self.opportunities.as_ref().map(|millis| millis.iter().enumerate().flat_map(copies).collect());
        let mut rows = self.rows.clone();
        for (index, row) in rows.iter_mut().enumerate() {
            for rate in Quantity::RATES {
                row[rate] = row[rate].map(|rate| (rate * factor * 1e6).round() / 1e6);
            }
            row.check(0).map_err(|problem| RecordingError::Row { row: index + 1, problem })?;
        }
        Ok(Self { rows, opportunities, ..self.clone() })
    }
}

/// Returns the opportunities of a piece, shifted so that it begins at `offset`. An opportunity ends
/// the interval in which its bytes were sent; one at 0 belongs to the beginning of the first round,
/// and in later rounds coincides with the end of the previous one.
fn moved_opportunities(millis: &[u64], piece: Range<Micros>, offset: Micros) -> impl Iterator<Item = u64> {
    let inside = millis.iter().map(|millis| millis * 1_000);
    let start = piece.start;
    let inside = inside.filter(move |at| (*at > start && *at <= piece.end) || (*at == 0 && start == 0));
    inside.map(move |at| (at - start + offset).div_ceil(1_000))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Input, Wishes};

    const SECOND: Micros = 1_000_000;

    fn read(text: &str) -> Recording {
        Recording::parse(&[Input::new("log", text)], &Wishes::default()).unwrap()
    }

    fn csv(recording: &Recording) -> String {
        let text = recording.table(SECOND).unwrap().to_string();
        text.lines().skip(1).map(|line| line.trim_end_matches(',').to_owned() + ";").collect()
    }

    const DRIVE: &str = "time_s,down_mbps,rtt_ms,event\n0,8,,\n2,4,50,\n4,,,app_idle\n6,8,,gap\n7,,,\n";

    #[test]
    fn what_holds_at_the_beginning_of_a_part_stands_there() {
        let drive = read(DRIVE);
        assert_eq!(csv(&drive.part(SECOND, Some(2 * SECOND), false).unwrap()), "0,8;1,4,,50;");
        assert_eq!(csv(&drive.part(5 * SECOND, None, false).unwrap()), "0,6;1,8,,,,,,,,gap;");
        assert_eq!(csv(&drive.part(0, None, true).unwrap()), csv(&drive));
        let error = drive.part(7 * SECOND, None, false).unwrap_err();
        assert_eq!(error.to_string(), "it has 7 s, so that nothing is left after 7 s");
    }

    #[test]
    fn a_short_recording_begins_again() {
        let drive = read("time_s,down_mbps\n0.5,8\n1,4\n1.5,\n");
        assert_eq!(
            csv(&drive.part(SECOND, Some(3 * SECOND), true).unwrap()),
            "0,4;0.5,8;1,8;1.5,4;2,8;2.5,8;"
        );
        assert_eq!(drive.part(0, Some(u64::MAX), true), Err(RecordingError::TooLong(u64::MAX as f64 / 1e6)));
        let list = read("0\n10\n30\n");
        let again = list.part(10_000, Some(70_000), true).unwrap();
        assert_eq!(
            again.supply(Gaps::Hold),
            Some(Supply::of_opportunities(vec![20, 20, 30, 50, 50, 60], 70_000))
        );
    }

    #[test]
    fn scaling_thins_out_or_multiplies() {
        let scaled = |text: &str, factor| read(text).scaled(factor).unwrap().supply(Gaps::Hold).unwrap();
        assert_eq!(scaled("1\n2\n3\n4\n", 0.5), Supply::of_opportunities(vec![2, 4], 4_000));
        assert_eq!(scaled("1\n2\n", 1.5), Supply::of_opportunities(vec![1, 2, 2], 2_000));
        assert_eq!(scaled(DRIVE, 0.25).mean_bps(0..SECOND), 2e6);
    }

    proptest! {
        #[test]
        fn parts_carry_what_the_whole_carries(
            mut millis in prop::collection::vec(0u64..3_000, 2..200),
            cut in 1u64..3_000,
        ) {
            millis.sort_unstable();
            *millis.last_mut().unwrap() = 3_000;
            let text: String = millis.iter().map(|millis| format!("{millis}\n")).collect();
            let whole = read(&text);
            let carried = |recording: &Recording| {
                recording.supply(Gaps::Hold).unwrap().microbits_until(recording.duration())
            };
            let (left, right) = (whole.part(0, Some(cut * 1_000), false), whole.part(cut * 1_000, None, false));
            let parts = [left, right].into_iter().flatten().map(|part| carried(&part)).sum::<u128>();
            prop_assert_eq!(parts, carried(&whole));
        }
    }
}
