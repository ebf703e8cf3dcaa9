//! What became of blocks over time: a row for each fate, with marks of its own shape where blocks were offered.

use plotters::style::text_anchor::HPos;

use crate::report::axis::Frame;
use crate::report::canvas::{Area, DrawError, bold, line, polyline, px, text, write};
use crate::report::panels::{seconds, show_ms};
use crate::report::style::Role;
use crate::result::{FlowResult, LostReason, RunResult};

const TITLE: i32 = 26;
const ROW: i32 = 14;

/// Marks of a row are at least so far from each other, in CSS pixels.
const APART: i32 = 5;

/// How to read the drawing.
pub(super) const CAPTION: &str = "At the foot, what became of the blocks of each flow, where they were offered: one mark \
    for all that lie together.";

/// What becomes of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    InTime,
    Late,
    Lost(LostReason),
}

impl Fate {
    const ALL: [Self; 6] = [
        Self::InTime,
        Self::Late,
        Self::Lost(LostReason::Expired),
        Self::Lost(LostReason::Cancelled),
        Self::Lost(LostReason::Refused),
        Self::Lost(LostReason::Closed),
    ];

    fn words(self) -> &'static str {
        match self {
            Self::InTime => "in time",
            Self::Late => "late",
            Self::Lost(LostReason::Expired) => "expired",
            Self::Lost(LostReason::Cancelled) => "cancelled",
            Self::Lost(LostReason::Refused) => "refused",
            Self::Lost(LostReason::Closed) => "closed",
        }
    }
}

/// Height of the drawing in CSS pixels.
pub(super) fn height(run: &RunResult) -> i32 {
    run.flows
        .iter()
        .map(|flow| rows(flow).len() as i32)
        .filter(|rows| *rows > 0)
        .map(|rows| TITLE + ROW * rows)
        .sum()
}

/// Draws them below the upper edge of `place`, with the time below; returns the last frame.
pub(super) fn draw(area: &Area<'_>, place: Frame, run: &RunResult) -> Result<Frame, DrawError> {
    let mut frame = place;
    for flow in &run.flows {
        let rows = rows(flow);
        if rows.is_empty() {
            continue;
        }
        let top = frame.bottom + px(TITLE);
        frame = Frame { top, bottom: top + px(ROW) * rows.len() as i32, ..place };
        frame.draw_x_grid(area, 10)?;
        let title = (frame.left, top - px(11));
        write(area, &title_of(flow), &bold(Role::Ink, 12, HPos::Left), title)?;
        for (index, (fate, at_us)) in rows.iter().enumerate() {
            let y = top + px(ROW) * index as i32 + px(ROW / 2);
            write(area, fate.words(), &text(Role::Muted, 11, HPos::Right), (frame.left - px(7), y))?;
            let mut free_from = i32::MIN;
            for x in at_us.iter().map(|us| frame.x_at(seconds(*us))) {
                if x >= free_from {
                    mark(area, *fate, (x, y))?;
                    free_from = x + px(APART);
                }
            }
        }
    }
    Ok(frame)
}

fn title_of(flow: &FlowResult) -> String {
    let deadline =
        flow.deadline_us.map_or(String::new(), |us| format!(", deadline {}", show_ms(us as f64 / 1e3)));
    let waited = flow.total.offered_blocks - flow.total.open_blocks;
    format!("{}{deadline}: {} of {waited} blocks in time", flow.name, flow.total.in_time_blocks)
}

/// The fates that blocks of the flow had, with the times at which they were offered.
fn rows(flow: &FlowResult) -> Vec<(Fate, Vec<u64>)> {
    let arrived = flow.latencies.iter().map(|point| {
        let timely = flow.deadline_us.is_none_or(|deadline| point.latency_us <= deadline);
        (if timely { Fate::InTime } else { Fate::Late }, point.at_us)
    });
    let unknown = std::iter::repeat(&LostReason::Expired);
    let missing = flow.missing_at_us.iter().zip(flow.missing_why.iter().chain(unknown));
    let all: Vec<(Fate, u64)> =
        arrived.chain(missing.map(|(at_us, why)| (Fate::Lost(*why), *at_us))).collect();
    let of = |fate: Fate| -> Vec<u64> {
        all.iter().filter(|(one, _)| *one == fate).map(|(_, at_us)| *at_us).collect()
    };
    Fate::ALL.into_iter().map(|fate| (fate, of(fate))).filter(|(_, at_us)| !at_us.is_empty()).collect()
}

/// A stroke for what came in time, a caret for what was late, a cross for what expired, a bar for what was
/// cancelled, a plus for what was refused and a corner for what the end of the session took.
fn mark(area: &Area<'_>, fate: Fate, (x, y): (i32, i32)) -> Result<(), DrawError> {
    let r = if fate == Fate::InTime { px(2) } else { px(3) };
    let strokes: &[[(i32, i32); 2]] = match fate {
        Fate::InTime => &[[(0, -1), (0, 1)]],
        Fate::Late => &[[(-1, -1), (0, 1)], [(0, 1), (1, -1)]],
        Fate::Lost(LostReason::Expired) => &[[(-1, -1), (1, 1)], [(-1, 1), (1, -1)]],
        Fate::Lost(LostReason::Cancelled) => &[[(-1, 0), (1, 0)]],
        Fate::Lost(LostReason::Refused) => &[[(-1, 0), (1, 0)], [(0, -1), (0, 1)]],
        Fate::Lost(LostReason::Closed) => &[[(-1, -1), (-1, 1)], [(-1, 1), (1, 1)]],
    };
    let role = if fate == Fate::InTime { Role::Muted } else { Role::Bad };
    strokes.iter().try_for_each(|ends| {
        let points = ends.iter().map(|(dx, dy)| (x + dx * r, y + dy * px(4))).collect();
        polyline(area, points, line(role, 1.4))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::sample::run;

    #[test]
    fn every_block_is_in_the_row_of_its_fate() {
        let run = run("minrtt", 1);
        let rows = rows(&run.flows[0]);
        let fates: Vec<Fate> = rows.iter().map(|(fate, _)| *fate).collect();
        assert_eq!(fates, [Fate::InTime, Fate::Late, Fate::Lost(LostReason::Expired)]);
        let count = |nth: usize| rows[nth].1.len() as u64;
        let total = run.flows[0].total;
        assert_eq!((count(0), count(0) + count(1)), (total.in_time_blocks, total.delivered_blocks));
        assert_eq!(height(&run), TITLE + 3 * ROW);
    }
}
