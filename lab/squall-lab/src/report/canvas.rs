//! A drawing surface: plotters with roles for colours and CSS pixels for sizes.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::style::{Role, drawing_css, with_classes};

/// Backend pixels per CSS pixel: plotters draws at whole pixels, which are too coarse at 1.
pub(crate) const FINE: i32 = 2;

/// Width of all figures in CSS pixels.
pub(crate) const WIDTH: i32 = 1_080;

/// Left margin for labels of the vertical axis, in CSS pixels.
pub(crate) const LEFT: i32 = 74;

/// Right margin in CSS pixels.
pub(crate) const RIGHT: i32 = 14;

pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A problem inside plotters; the backend writes to memory, so only a defect causes one.
pub(crate) type DrawError = DrawingAreaErrorKind<std::io::Error>;

/// One drawing with its words.
#[derive(Debug, Clone)]
pub(crate) struct Figure {
    /// Short name, for a file.
    pub(crate) name: String,
    /// One line for people who can't see it.
    pub(crate) title: String,
    /// What it shows and how to read it.
    pub(crate) caption: String,
    svg: String,
}

impl Figure {
    /// Draws on an empty surface of the usual width and this height in CSS pixels.
    pub(crate) fn draw(
        name: String,
        title: String,
        caption: String,
        height: i32,
        draw: impl FnOnce(&Area<'_>) -> Result<(), DrawError>,
    ) -> Self {
        Self::draw_sized(name, title, caption, (WIDTH, height), draw)
    }

    /// Draws on an empty surface of this width and height in CSS pixels.
    pub(crate) fn draw_sized(
        name: String,
        title: String,
        caption: String,
        (width, height): (i32, i32),
        draw: impl FnOnce(&Area<'_>) -> Result<(), DrawError>,
    ) -> Self {
        let mut svg = String::new();
        let size = ((width * FINE) as u32, (height * FINE) as u32);
        {
            let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
            draw(&area).and_then(|()| area.present()).expect("drawing to memory can't fail");
        }
        Self { name, title, caption, svg: with_classes(&svg) }
    }

    /// The drawing as an element of a page that has the style; `id` is unique in the page.
    pub(crate) fn inline(&self, id: &str) -> String {
        let (head, body) = self.svg.split_once('>').expect("plotters opens an svg element");
        let head = without_size(head);
        let title = super::html::escape(&self.title);
        format!("{head} role=\"img\" aria-labelledby=\"{id}\">\n<title id=\"{id}\">{title}</title>{body}")
    }

    /// The drawing as a file of its own.
    pub(crate) fn standalone(&self) -> String {
        let inline = self.inline("title");
        let (head, body) = inline.split_once("</title>").expect("inline adds a title");
        format!("{head}</title><style>{}\nsvg{{background:var(--page)}}</style>{body}", drawing_css())
    }
}

/// The drawing scales with the page: only the view box stays.
fn without_size(head: &str) -> String {
    let start = head.find(" width=").unwrap_or(head.len());
    let end = head.find(" viewBox=").unwrap_or(head.len());
    format!("{}{}", &head[..start], &head[end..])
}

/// CSS pixels to backend pixels.
pub(crate) fn px(css: i32) -> i32 {
    css * FINE
}

/// A line of this role and width in CSS pixels.
pub(crate) fn line(role: Role, width: f64) -> ShapeStyle {
    role.color().stroke_width((width * f64::from(FINE)).round() as u32)
}

/// A text style of this role and size in CSS pixels, anchored at the given side.
pub(crate) fn text(role: Role, size: i32, horizontal: HPos) -> TextStyle<'static> {
    // plotters divides by 1.24 when it writes the size.
    let size = f64::from(px(size)) * 1.24;
    ("sans-serif", size).into_font().color(&role.color()).pos(Pos::new(horizontal, VPos::Center))
}

/// Bold variant of [`text`].
pub(crate) fn bold(role: Role, size: i32, horizontal: HPos) -> TextStyle<'static> {
    let size = f64::from(px(size)) * 1.24;
    let font = ("sans-serif", size).into_font().style(FontStyle::Bold);
    font.color(&role.color()).pos(Pos::new(horizontal, VPos::Center))
}

/// Writes text at a place in backend pixels.
pub(crate) fn write(
    area: &Area<'_>,
    words: &str,
    style: &TextStyle<'_>,
    at: (i32, i32),
) -> Result<(), DrawError> {
    area.draw(&Text::new(words.to_owned(), at, style.clone()))
}

/// A filled rectangle between two corners in backend pixels.
pub(crate) fn fill(
    area: &Area<'_>,
    role: Role,
    opacity: f64,
    corners: [(i32, i32); 2],
) -> Result<(), DrawError> {
    area.draw(&Rectangle::new(corners, role.color().mix(opacity).filled()))
}

/// The marker of a series, around a point in backend pixels.
pub(crate) fn marker(area: &Area<'_>, index: usize, at: (i32, i32)) -> Result<(), DrawError> {
    let style = Role::Solid(index).color().filled();
    match outline(index, at, px(4)) {
        Some(corners) => area.draw(&Polygon::new(corners, style)),
        None => area.draw(&Circle::new(at, px(4), style)),
    }
}

/// The same, larger and open: what others measured.
pub(crate) fn open_marker(area: &Area<'_>, index: usize, at: (i32, i32)) -> Result<(), DrawError> {
    let (inside, edge) = (Role::Page.color().filled(), line(Role::Solid(index), 1.8));
    match outline(index, at, px(5)) {
        Some(mut corners) => {
            area.draw(&Polygon::new(corners.clone(), inside))?;
            corners.push(corners[0]);
            corners.push(corners[1]);
            polyline(area, corners, edge)
        }
        None => {
            area.draw(&Circle::new(at, px(5), inside))?;
            area.draw(&Circle::new(at, px(5), edge))
        }
    }
}

/// Corners of the marker of a series with this radius; none for the circle.
fn outline(index: usize, (x, y): (i32, i32), r: i32) -> Option<Vec<(i32, i32)>> {
    Some(match index % 5 {
        0 => return None,
        1 => vec![(x - r, y - r), (x + r, y - r), (x + r, y + r), (x - r, y + r)],
        2 => vec![(x, y - r), (x + r, y + r), (x - r, y + r)],
        3 => vec![(x, y - r), (x + r, y), (x, y + r), (x - r, y)],
        _ => vec![(x, y + r), (x + r, y - r), (x - r, y - r)],
    })
}

/// A filled area between points in backend pixels.
pub(crate) fn polygon(
    area: &Area<'_>,
    corners: Vec<(i32, i32)>,
    role: Role,
    opacity: f64,
) -> Result<(), DrawError> {
    area.draw(&Polygon::new(corners, role.color().mix(opacity).filled()))
}

/// A polyline through points in backend pixels.
pub(crate) fn polyline(area: &Area<'_>, points: Vec<(i32, i32)>, style: ShapeStyle) -> Result<(), DrawError> {
    area.draw(&PathElement::new(points, style))
}
