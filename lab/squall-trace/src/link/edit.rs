//! Another link made of a recorded one: a part of it, over and over, or faster and slower.

use crate::{Event, MAX_ROWS, Row};
use squall_units::Micros;

use super::{
    Column, Gaps, MAX_OPPORTUNITIES, Recording,
    recording::{Content, List, Table},
};

/// Why there is no such part.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// It would begin after the end.
    #[error("it has {} s, so that nothing is left after {} s", seconds(*.duration), seconds(*.start))]
    After {
        /// How long the recording is.
        duration: Micros,
        /// Where the part begins.
        start: Micros,
    },
    /// It would have more rows or opportunities than a recording may have.
    #[error("{} s of it are too much", seconds(*.0))]
    TooLong(Micros),
}

fn seconds(time: Micros) -> f64 {
    time as f64 / 1e6
}

impl Recording {
    /// The part from `start` on, at most `length` long; its time begins at 0. If the recording is shorter than
    /// that and `repeat`, it begins again from its own start until the length is reached.
    ///
    /// # Errors
    /// If nothing is left, or a repeated recording becomes too long.
    pub fn part(&self, start: Micros, length: Option<Micros>, repeat: bool) -> Result<Self, EditError> {
        let duration = self.duration();
        if start >= duration || length == Some(0) {
            return Err(EditError::After { duration, start });
        }
        let rest = duration - start;
        let length = length.map_or(rest, |length| if repeat { length } else { length.min(rest) });
        let rounds = 1 + length.saturating_sub(rest) / duration;
        let size = match &self.content {
            Content::Table(table) => (table.rows.len() as u64, MAX_ROWS as u64),
            Content::List(list) => (list.millis.len() as u64, MAX_OPPORTUNITIES),
        };
        if rounds > 1 && rounds.saturating_mul(size.0) > size.1 {
            return Err(EditError::TooLong(length));
        }
        let mut pieces = vec![(0, start..duration.min(start + length))];
        let mut filled = rest.min(length);
        while filled < length {
            let piece = duration.min(length - filled);
            pieces.push((filled, 0..piece));
            filled += piece;
        }
        let content = match &self.content {
            Content::Table(table) => {
                let mut rows = Vec::new();
                for (offset, piece) in pieces {
                    push_rows(&mut rows, table, piece, offset);
                }
                Content::Table(Table { rows, end: length, step: table.step })
            }
            Content::List(list) => Content::List(list_of(list, pieces, length)),
        };
        Ok(Self { content, ..self.clone() })
    }

    /// The link with every rate multiplied by a factor above 0. Of opportunities, evenly chosen ones are left out
    /// or given several times.
    pub fn scaled(&self, factor: f64) -> Self {
        let content = match &self.content {
            Content::Table(table) => {
                let times = |rate: Option<f64>| rate.map(|rate| (rate * factor * 1e6).round() / 1e6);
                let row = |row: &Row| Row {
                    down_mbps: times(row.down_mbps),
                    up_mbps: times(row.up_mbps),
                    ..row.clone()
                };
                Content::Table(Table { rows: table.rows.iter().map(row).collect(), ..table.clone() })
            }
            Content::List(list) => {
                // Exact to a billionth, so that a million opportunities do not add up to a mistake.
                let billionths = (factor * 1e9).round() as u128;
                let until = |count: usize| count as u128 * billionths / 1_000_000_000;
                let copies = |(index, &millis): (usize, &u64)| {
                    std::iter::repeat_n(millis, (until(index + 1) - until(index)) as usize)
                };
                let millis = list.millis.iter().enumerate().flat_map(copies).collect();
                Content::List(List { millis, ..list.clone() })
            }
        };
        Self { content, ..self.clone() }
    }
}

/// The rows of a piece, moved so that it begins at `offset`. What holds at its beginning stands there.
fn push_rows(rows: &mut Vec<Row>, table: &Table, piece: std::ops::Range<Micros>, offset: Micros) {
    let inside = table.rows.iter().filter(|row| piece.contains(&row.at));
    if inside.clone().next().is_none_or(|first| first.at > piece.start) {
        let rate = |column: Column| {
            let bps = table.supply(column, Gaps::Hold)?.rate_at(piece.start)?;
            Some(bps as f64 / 1e6)
        };
        let before = table.rows.iter().take_while(|row| row.at <= piece.start).last();
        let tech = before.map(|row| row.tech.clone()).unwrap_or_default();
        rows.push(Row {
            at: offset,
            down_mbps: rate(Column::Down),
            up_mbps: rate(Column::Up),
            tech,
            ..Row::default()
        });
    }
    // At the seam of two rounds nothing was missed.
    let seam = |row: &Row| row.at == piece.start && offset > 0;
    rows.extend(inside.map(|row| {
        let mut moved = Row { at: row.at - piece.start + offset, ..row.clone() };
        moved.events.retain(|event| !(seam(row) && *event == Event::Gap));
        moved
    }));
}

fn list_of(list: &List, pieces: Vec<(Micros, std::ops::Range<Micros>)>, length: Micros) -> List {
    let (mut millis, mut rtts) = (Vec::new(), Vec::new());
    for (offset, piece) in pieces {
        // An opportunity ends the time in which its bytes were sent; one at 0 is of the first round's beginning,
        // and in later rounds comes with the end of the one before.
        let inside = list.millis.iter().map(|millis| millis * 1_000);
        let inside =
            inside.filter(|at| (*at > piece.start && *at <= piece.end) || (*at == 0 && piece.start == 0));
        millis.extend(inside.map(|at| (at - piece.start + offset).div_ceil(1_000)));
        let heard = list.rtts.iter().filter(|(at, _)| piece.contains(at));
        rtts.extend(heard.map(|&(at, rtt)| (at - piece.start + offset, rtt)));
    }
    List { millis, end: length, rtts }
}

#[cfg(test)]
mod tests {
    use crate::Input;
    use proptest::prelude::*;

    use super::*;
    use crate::link::{Supply, Wishes};

    const SECOND: Micros = 1_000_000;

    fn read(text: &str) -> Recording {
        Recording::parse(Input { name: "log".into(), text: text.into() }, &Wishes::default()).unwrap()
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
        assert_eq!(drive.part(0, Some(u64::MAX), true), Err(EditError::TooLong(u64::MAX)));
        let list = read("0\n10\n30\n");
        let again = list.part(10_000, Some(70_000), true).unwrap();
        assert_eq!(
            again.supply(Gaps::Hold),
            Some(Supply::of_opportunities(vec![20, 20, 30, 50, 50, 60], 70_000))
        );
    }

    #[test]
    fn scaling_thins_out_or_multiplies() {
        let scaled = |text: &str, factor| read(text).scaled(factor).supply(Gaps::Hold).unwrap();
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
