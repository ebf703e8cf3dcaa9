//! Colours, patterns and words of the picture, as parts of an SVG file.
//!
//! Blocks differ by lightness, pattern and number as well as by colour. There is one set of colours, on
//! white, so that the picture looks the same in any document.

use std::fmt::Write as _;

/// Width of the picture in pixels.
pub(super) const WIDTH: f64 = 900.0;

/// Where times are drawn: from 0 to the end of the axis.
pub(super) const LEFT: f64 = 34.0;
pub(super) const RIGHT: f64 = 882.0;

/// Patterns and styles; class `b0` to `b2` is a block, `c` a copy.
pub(super) const DEFINITIONS: &str = "\
<style>
text{font:12px system-ui,\"Segoe UI\",\"Liberation Sans\",sans-serif;fill:#1b1f24}
.h{font-size:18px;font-weight:600}.n{font-size:13px;font-weight:700}.m{fill:#57606a}
.s{font-size:11px;fill:#57606a}.t{font-size:10px;fill:#57606a}.e{text-anchor:end}.c{text-anchor:middle}
.i{font-size:10px;font-weight:700;text-anchor:middle;paint-order:stroke;stroke:#fff;stroke-width:3px}
.b0{fill:#1f5fa8}.b1{fill:url(#p1)}.b2{fill:url(#p2)}
.f0{fill:#1f5fa8}.f1{fill:#c96a00}.f2{fill:#2f8f63}
.k0{stroke:#1f5fa8}.k1{stroke:#c96a00}.k2{stroke:#2f8f63}
.lane{fill:#f4f5f7}.gone{fill:#f7d9d3}.grid{stroke:#dfe3e8}.rule{stroke:#b9c0c9}
.life{stroke-width:2}.due{stroke:#1b1f24;stroke-width:1.6}.mark{fill:#1b1f24}
.x{stroke:#b3261e;stroke-width:2;fill:none}.bad{fill:#b3261e}.dim{opacity:.4}
</style>
<defs>
<pattern id=\"p1\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
<rect width=\"5\" height=\"5\" fill=\"#f0a03c\"/><rect width=\"2\" height=\"5\" fill=\"#c96a00\"/></pattern>
<pattern id=\"p2\" width=\"4\" height=\"4\" patternUnits=\"userSpaceOnUse\">\
<rect width=\"4\" height=\"4\" fill=\"#bfe6d0\"/><rect width=\"4\" height=\"1.3\" fill=\"#2f8f63\"/></pattern>
</defs>
";

/// Puts text with a class at a place.
pub(super) fn write(svg: &mut String, class: &str, (x, y): (f64, f64), words: &str) {
    let words = escape(words);
    push(svg, format_args!("<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{words}</text>\n"));
}

/// A line of a class between two points.
pub(super) fn line(svg: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    let ((x1, y1), (x2, y2)) = (from, to);
    push(
        svg,
        format_args!(
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>\n"
        ),
    );
}

/// A filled rectangle of a class.
pub(super) fn rectangle(svg: &mut String, class: &str, (x, y): (f64, f64), (width, height): (f64, f64)) {
    push(
        svg,
        format_args!(
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>\n"
        ),
    );
}

/// A cross around a point, as for what is lost.
pub(super) fn cross(svg: &mut String, (x, y): (f64, f64), r: f64) {
    let d = 2.0 * r;
    let (x, y) = (x - r, y - r);
    push(svg, format_args!("<path class=\"x\" d=\"M{x:.1} {y:.1}l{d} {d}m-{d} 0l{d} -{d}\"/>\n"));
}

/// A disc of a class around a point.
pub(super) fn disc(svg: &mut String, class: &str, (x, y): (f64, f64)) {
    push(svg, format_args!("<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>\n"));
}

/// Appends to the file.
pub(super) fn push(svg: &mut String, part: std::fmt::Arguments<'_>) {
    svg.write_fmt(part).expect("a string takes everything");
}

/// Words as the text of an element.
pub(super) fn escape(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
