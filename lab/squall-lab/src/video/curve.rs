//! SSIM over time, one panel per scheduler on the same axes.

use plotters::style::text_anchor::HPos;

use super::{Accounts, Figures, Seen, Shown};
use crate::report::axis::{Frame, Scale};
use crate::report::canvas::{
    Area, DrawError, FINE, Figure, LEFT, RIGHT, WIDTH, bold, fill, line, polyline, px, text, write,
};
use crate::report::panels::{name_outages, seconds, shade};
use crate::report::style::Role;
use crate::result::Interval;

const TITLE: i32 = 30;
const PLOT: i32 = 104;
const FOOT: i32 = 48;

/// The drawing as an SVG file: the screen of each scheduler, and the encode itself as a thin line; below, in the strip,
/// where the picture froze. The worst moment is marked.
pub fn svg(shown: &Shown) -> String {
    let title = format!("SSIM over time: {} in scenario {}", shown.accounts.film, shown.accounts.scenario);
    let height = (TITLE + PLOT) * shown.seen.len() as i32 + FOOT;
    let drawing = Figure::draw("ssim".into(), title, String::new(), height, |area| draw(area, shown));
    drawing.standalone()
}

fn draw(area: &Area<'_>, shown: &Shown) -> Result<(), DrawError> {
    let accounts = &shown.accounts;
    let interval = 1.0 / accounts.fps;
    let all = shown.seen.iter().flat_map(|seen| &seen.ssim);
    let lowest = all.copied().fold(1.0, f64::min).clamp(0.0, 0.95);
    let mut frame = Frame {
        left: px(LEFT),
        right: px(WIDTH - RIGHT),
        top: 0,
        bottom: 0,
        x: Scale::Linear { from: 0.0, to: accounts.pictures as f64 * interval },
        y: Scale::Linear { from: (lowest * 10.0).floor() / 10.0, to: 1.0 },
    };
    for (index, (seen, account)) in shown.seen.iter().zip(&accounts.schedulers).enumerate() {
        frame.top = px((TITLE + PLOT) * index as i32 + TITLE);
        frame.bottom = frame.top + px(PLOT - 16);
        panel(area, &frame, shown, seen, index)?;
        let title_y = frame.top - px(12);
        write(area, &account.scheduler, &bold(Role::Ink, 14, HPos::Left), (frame.left, title_y))?;
        write(
            area,
            &stats(account.ssim, accounts),
            &text(Role::Ink, 12, HPos::Right),
            (frame.right, title_y),
        )?;
    }
    frame.draw_x_labels(area, 12, px(10), "time at which the picture was taken, s", |tick| format!("{tick}"))
}

fn stats(ssim: Option<Figures>, accounts: &Accounts) -> String {
    let (Some(ssim), Some(encode)) = (ssim, accounts.encode_ssim) else { return String::new() };
    format!(
        "mean {:.3}, worst second {:.3} (without network {:.3}, {:.3})",
        ssim.mean, ssim.worst_second, encode.mean, encode.worst_second
    )
}

fn panel(area: &Area<'_>, frame: &Frame, shown: &Shown, seen: &Seen, index: usize) -> Result<(), DrawError> {
    let interval = 1.0 / shown.accounts.fps;
    let outages: Vec<(&str, Interval)> =
        shown.outages.iter().map(|(name, outage)| (name.as_str(), *outage)).collect();
    shade(area, frame, &outages)?;
    frame.draw_y(area, 3, |tick| format!("{}", (tick * 100.0).round() / 100.0))?;
    frame.draw_x_grid(area, 12)?;
    name_outages(area, frame, &outages)?;
    let curve = |values: &[f64]| -> Vec<(i32, i32)> {
        values.iter().enumerate().map(|(place, ssim)| frame.at(place as f64 * interval, *ssim)).collect()
    };
    polyline(area, curve(&shown.encode.ssim), line(Role::Link, 1.0))?;
    polyline(area, curve(&seen.ssim), line(Role::Solid(index), 1.5))?;
    for still in seen.fresh.iter().enumerate().filter(|(_, fresh)| !**fresh).map(|(place, _)| place) {
        let (from, to) = (frame.x_at(still as f64 * interval), frame.x_at((still + 1) as f64 * interval));
        fill(
            area,
            Role::Bad,
            1.0,
            [(from, frame.bottom + px(2)), (to.max(from + FINE), frame.bottom + px(7))],
        )?;
    }
    let x = frame.x_at(seconds(shown.accounts.moment_us));
    polyline(area, vec![(x, frame.top), (x, frame.bottom)], line(Role::Limit, 1.0))
}
