//! Drawing surface of SVG elements in CSS pixels, with roles instead of colours, and the axes of a
//! plot.

use maud::{Markup, PreEscaped, html};

use crate::style::{Role, drawing_css, plain};

/// Width of figures that fill the page.
pub(crate) const WIDTH: f64 = 1_080.0;

/// Left margin for labels of the vertical axis.
pub(crate) const LEFT: f64 = 74.0;

/// Right margin.
pub(crate) const RIGHT: f64 = 14.0;

/// A position on the surface, from its upper left corner.
pub(crate) type Point = (f64, f64);

/// Alignment of text at its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// Elements drawn so far.
#[derive(Debug, Default)]
pub(crate) struct Surface(String);

impl Surface {
    fn push(&mut self, element: Markup) {
        self.0.push_str(&element.into_string());
        self.0.push('\n');
    }

    /// Draws a line through points, of this width.
    pub(crate) fn line(&mut self, points: impl IntoIterator<Item = Point>, role: Role, width: f64) {
        self.push(html! { polyline class=(role.stroke()) points=(list(points)) fill="none" stroke-width=(width) {} });
    }

    /// Draws a filled area between corners.
    pub(crate) fn area(&mut self, corners: impl IntoIterator<Item = Point>, role: Role, opacity: f64) {
        self.push(html! { polygon class=(role.fill()) points=(list(corners)) opacity=(opacity) {} });
    }

    /// Draws a filled rectangle between two corners, at least half a pixel wide.
    pub(crate) fn rect(&mut self, [from, to]: [Point; 2], role: Role, opacity: f64) {
        let (width, height) = ((to.0 - from.0).max(0.5), to.1 - from.1);
        self.push(html! {
            rect class=(role.fill()) x=(short(from.0)) y=(short(from.1)) width=(short(width)) height=(short(height))
                opacity=(opacity) {}
        });
    }

    /// Draws text, vertically centred at its position.
    pub(crate) fn text(&mut self, at: Point, words: &str, role: Role, size: u8, anchor: Anchor) {
        self.write(at, words, (role, size, anchor), None);
    }

    /// Like [`text`](Self::text), in bold.
    pub(crate) fn bold(&mut self, at: Point, words: &str, role: Role, size: u8, anchor: Anchor) {
        self.write(at, words, (role, size, anchor), Some("bold"));
    }

    fn write(&mut self, at: Point, words: &str, style: (Role, u8, Anchor), weight: Option<&str>) {
        let (role, size, anchor) = style;
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.push(html! {
            text class=(role.fill()) x=(short(at.0)) y=(short(at.1)) dy=".35em" font-size=(size) text-anchor=(anchor)
                font-weight=[weight] { (plain(words)) }
        });
    }

    /// Draws the marker of a series, whose shape differs from that of its neighbours.
    pub(crate) fn marker(&mut self, series: usize, at: Point) {
        let class = Role::Solid(series).fill();
        self.push(match outline(series, at, 4.0) {
            Some(corners) => html! { polygon class=(class) points=(list(corners)) {} },
            None => html! { circle class=(class) cx=(short(at.0)) cy=(short(at.1)) r="4" {} },
        });
    }

    /// Draws a larger, open marker: a published number.
    pub(crate) fn open_marker(&mut self, series: usize, at: Point) {
        let class = format!("{} {}", Role::Page.fill(), Role::Solid(series).stroke());
        self.push(match outline(series, at, 5.0) {
            Some(corners) => html! { polygon class=(class) points=(list(corners)) stroke-width="1.8" {} },
            None => {
                html! { circle class=(class) cx=(short(at.0)) cy=(short(at.1)) r="5" stroke-width="1.8" {} }
            }
        });
    }
}

/// Returns the corners of a series' marker with this radius; `None` for the circle.
fn outline(series: usize, (x, y): Point, r: f64) -> Option<Vec<Point>> {
    Some(match series % 5 {
        0 => return None,
        1 => vec![(x - r, y - r), (x + r, y - r), (x + r, y + r), (x - r, y + r)],
        2 => vec![(x, y - r), (x + r, y + r), (x - r, y + r)],
        3 => vec![(x, y - r), (x + r, y), (x, y + r), (x - r, y)],
        _ => vec![(x, y + r), (x + r, y - r), (x - r, y - r)],
    })
}

/// Rounds a length to a tenth of a pixel.
fn short(length: f64) -> f64 {
    (length * 10.0).round() / 10.0 + 0.0
}

fn list(points: impl IntoIterator<Item = Point>) -> String {
    let shown = |(x, y): Point| format!("{},{}", short(x), short(y));
    points.into_iter().map(shown).collect::<Vec<_>>().join(" ")
}

/// A drawing with its texts.
#[derive(Debug, Clone)]
pub(crate) struct Figure {
    /// Short name, used for its file.
    pub(crate) name: String,
    /// One line for readers who cannot see the drawing.
    pub(crate) title: String,
    /// Content of the drawing and instructions for reading it.
    pub(crate) caption: String,
    size: (f64, f64),
    elements: String,
}

impl Figure {
    /// Draws on an empty surface of this width and height.
    pub(crate) fn draw(
        name: String,
        title: String,
        caption: impl Into<String>,
        size: (f64, f64),
        draw: impl FnOnce(&mut Surface),
    ) -> Self {
        let mut surface = Surface::default();
        draw(&mut surface);
        Self { name, title, caption: caption.into(), size, elements: surface.0 }
    }

    /// Returns the drawing as an element of a page that has the style; `id` must be unique in the
    /// page.
    pub(crate) fn inline(&self, id: &str) -> Markup {
        self.element(id, None)
    }

    /// Returns the drawing as a separate file.
    pub(crate) fn standalone(&self) -> String {
        let css = format!("{}\nsvg{{background:var(--page)}}", drawing_css());
        self.element("title", Some(&css)).into_string() + "\n"
    }

    fn element(&self, id: &str, css: Option<&str>) -> Markup {
        let view = format!("0 0 {} {}", self.size.0, self.size.1);
        html! {
            svg xmlns="http://www.w3.org/2000/svg" viewBox=(view) role="img" aria-labelledby=(id) {
                title id=(id) { (plain(&self.title)) }
                @if let Some(css) = css { style { (PreEscaped(css)) } }
                (PreEscaped(&self.elements))
            }
        }
    }
}

/// A scale of values along an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Scale {
    /// Linear scale between two values.
    Linear { from: f64, to: f64 },
    /// Logarithmic scale between two values above 0.
    Log { from: f64, to: f64 },
}

impl Scale {
    /// Returns the position of a value, 0 to 1; values beyond an end are clamped to it.
    pub(crate) fn share(self, value: f64) -> f64 {
        let share = match self {
            Scale::Linear { from, to } => (value - from) / (to - from),
            Scale::Log { from, to } => (value.max(from) / from).log10() / (to / from).log10(),
        };
        share.clamp(0.0, 1.0)
    }

    /// Returns about `count` values at 1, 2 and 5 of each decade within the scale.
    pub(crate) fn ticks(self, count: usize) -> Vec<f64> {
        match self {
            Scale::Linear { from, to } => {
                let rough = (to - from) / count.max(1) as f64;
                let decade = 10f64.powf(rough.log10().floor());
                let step =
                    [1.0, 2.0, 5.0, 10.0].map(|m| m * decade).into_iter().find(|s| *s >= rough * 0.999);
                let step = step.unwrap_or(rough);
                let first = (from / step).ceil();
                let all = (0..1_000).map(|n| (first + f64::from(n)) * step);
                all.take_while(|tick| *tick <= to * 1.000_001).collect()
            }
            Scale::Log { from, to } => {
                let within = |multiples: &[f64]| -> Vec<f64> {
                    let decades = from.log10().floor() as i32..=to.log10().ceil() as i32;
                    let all = decades.flat_map(|d| multiples.iter().map(move |m| m * 10f64.powi(d)));
                    all.filter(|tick| (from * 0.999_999..=to * 1.000_001).contains(tick)).collect()
                };
                let choices = [within(&[1.0, 2.0, 5.0]), within(&[1.0, 3.0])];
                choices.into_iter().find(|ticks| ticks.len() <= count + 2).unwrap_or_else(|| within(&[1.0]))
            }
        }
    }
}

/// Frame of a plot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) right: f64,
    pub(crate) bottom: f64,
    pub(crate) x: Scale,
    pub(crate) y: Scale,
}

impl Frame {
    /// Creates a frame over the whole width, `height` high from `top` on.
    pub(crate) fn wide(top: f64, height: f64, x: Scale, y: Scale) -> Self {
        Self { left: LEFT, top, right: WIDTH - RIGHT, bottom: top + height, x, y }
    }

    /// Creates a frame of the same width, `gap` below this one and `height` high.
    pub(crate) fn below(self, gap: f64, height: f64, y: Scale) -> Self {
        let top = self.bottom + gap;
        Self { top, bottom: top + height, y, ..self }
    }

    /// Returns the position of a point.
    pub(crate) fn at(&self, (x, y): Point) -> Point {
        (self.x_at(x), self.y_at(y))
    }

    pub(crate) fn x_at(&self, x: f64) -> f64 {
        self.left + self.x.share(x) * (self.right - self.left)
    }

    pub(crate) fn y_at(&self, y: f64) -> f64 {
        self.bottom - self.y.share(y) * (self.bottom - self.top)
    }

    /// Returns a line across the frame at this height.
    pub(crate) fn level(&self, y: f64) -> [Point; 2] {
        [(self.left, y), (self.right, y)]
    }

    /// Returns a line down the frame.
    pub(crate) fn upright(&self, x: f64) -> [Point; 2] {
        [(x, self.top), (x, self.bottom)]
    }

    /// Draws grid lines and labels of the vertical axis.
    pub(crate) fn draw_y(&self, surface: &mut Surface, count: usize, show: impl Fn(f64) -> String) {
        for tick in self.y.ticks(count) {
            let y = self.y_at(tick);
            surface.line(self.level(y), Role::Grid, 1.0);
            surface.text((self.left - 7.0, y), &show(tick), Role::Muted, 12, Anchor::End);
        }
    }

    /// Draws grid lines and the foot of the horizontal axis.
    pub(crate) fn draw_x_grid(&self, surface: &mut Surface, count: usize) {
        for tick in self.x.ticks(count) {
            surface.line(self.upright(self.x_at(tick)), Role::Grid, 1.0);
        }
        surface.line(self.level(self.bottom), Role::Muted, 1.0);
    }

    /// Draws labels of the horizontal axis, `below` the frame, and its name.
    pub(crate) fn draw_x_labels(
        &self,
        surface: &mut Surface,
        count: usize,
        below: f64,
        name: &str,
        show: impl Fn(f64) -> String,
    ) {
        let y = self.bottom + below + 12.0;
        for tick in self.x.ticks(count) {
            surface.text((self.x_at(tick), y), &show(tick), Role::Muted, 12, Anchor::Middle);
        }
        let middle = f64::midpoint(self.left, self.right);
        surface.text((middle, y + 19.0), name, Role::Ink, 12, Anchor::Middle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(
            Scale::Linear { from: 0.0, to: 20.0 }.ticks(10),
            (0..=10).map(|n| f64::from(n) * 2.0).collect::<Vec<_>>()
        );
        assert_eq!(Scale::Linear { from: 0.0, to: 41.0 }.ticks(4), [0.0, 20.0, 40.0]);
        assert_eq!(
            Scale::Log { from: 8.0, to: 1_200.0 }.ticks(5),
            [10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0]
        );
        assert_eq!(Scale::Log { from: 0.001, to: 1.0 }.ticks(2), [0.001, 0.01, 0.1, 1.0]);
    }

    #[test]
    fn scales_hold_at_their_ends() {
        let scale = Scale::Log { from: 1.0, to: 100.0 };
        assert_eq!([0.0, 1.0, 10.0, 100.0, 1e9].map(|v| scale.share(v)), [0.0, 0.0, 0.5, 1.0, 1.0]);
        assert_eq!(Scale::Linear { from: 0.0, to: 4.0 }.share(1.0), 0.25);
    }

    #[test]
    fn text_and_titles_are_escaped() {
        let figure = Figure::draw("n".into(), "<t>\u{1b}".into(), "", (10.0, 5.0), |surface| {
            surface.text((1.0, 2.04), "<a href=\"x\">&\u{1b}", Role::Ink, 12, Anchor::End);
            surface.marker(1, (0.0, 0.0));
        });
        let svg = figure.standalone();
        assert!(svg.contains("<title id=\"title\">&lt;t&gt;\u{fffd}</title><style>"), "{svg}");
        assert!(svg.contains("&lt;a href=&quot;x&quot;&gt;&amp;\u{fffd}</text>"), "{svg}");
        assert!(
            svg.contains("y=\"2\"") && svg.contains("class=\"f-series1\" points=\"-4,-4 4,-4 4,4 -4,4\"")
        );
        assert!(!figure.inline("x").into_string().contains("<style>"));
    }
}
