//! The whole picture: what is given, how to read it, and a panel for each scheduler.

use super::{
    axis::Axis,
    ink::{DEFINITIONS, LEFT, WIDTH, cross, disc, line, push, rectangle, write},
    panel,
    play::Play,
    scene::{BLOCKS, LANES, LOSS_US},
};

const MARGIN: f64 = 20.0;
const TITLE: &str = "What each scheduler does with the same three blocks";

/// Height of what stands above the panels.
const HEAD: f64 = 178.0;

/// The picture as an SVG file.
pub(super) fn draw(plays: &[Play]) -> String {
    let axis = Axis::over(plays);
    let height = HEAD + panel::HEIGHT * plays.len() as f64 + MARGIN;
    let (full, half) = (WIDTH + 2.0 * MARGIN, MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{full}\" height=\"{height}\" \
         viewBox=\"-{half} 0 {full} {height}\" role=\"img\" aria-labelledby=\"title\">\n\
         <title id=\"title\">{TITLE}</title>\n{DEFINITIONS}\
         <rect x=\"-{half}\" width=\"{full}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    draw_given(&mut svg);
    draw_key(&mut svg, 138.0);
    for (index, play) in plays.iter().enumerate() {
        panel::draw(&mut svg, play, &axis, HEAD + panel::HEIGHT * index as f64);
    }
    svg.push_str("</svg>\n");
    svg
}

/// The blocks and the paths.
fn draw_given(svg: &mut String) {
    write(svg, "h", (0.0, 30.0), TITLE);
    let (from, to) = (LOSS_US.start / 1_000, LOSS_US.end / 1_000);
    write(svg, "m", (0.0, 52.0), "At 0 ms these are handed over, in this order (0 is the highest priority):");
    for (block, given) in BLOCKS.iter().enumerate() {
        let y = 72.0 + 17.0 * block as f64;
        rectangle(svg, &format!("b{block}"), (0.0, y - 10.0), (22.0, 12.0));
        write(svg, "i", (11.0, y - 0.4), &(block + 1).to_string());
        let class = if given.reliable { "reliable" } else { "unreliable" };
        let words = format!(
            "{}: {} kB, {class}, priority {}, deadline {} ms",
            given.name,
            given.size / 1_000,
            given.priority,
            given.deadline_us / 1_000
        );
        write(svg, "", (LEFT, y), &words);
    }
    let x = 470.0;
    write(svg, "m", (x, 52.0), "Paths:");
    for (index, lane) in LANES.iter().enumerate() {
        let y = 72.0 + 17.0 * index as f64;
        write(svg, "n", (x, y), lane.name);
        write(svg, "", (x + 18.0, y), lane.words);
    }
    let words = format!("From {from} to {to} ms every packet that ends on path A is lost.");
    write(svg, "", (x, 106.0), &words);
}

/// What the marks mean.
fn draw_key(svg: &mut String, y: f64) {
    line(svg, "rule", (0.0, y - 18.0), (WIDTH - 18.0, y - 18.0));
    let middle = y - 4.0;
    rectangle(svg, "b0", (0.0, y - 12.0), (5.0, 16.0));
    write(svg, "s", (11.0, y), "a packet, as long as it occupies the link");
    rectangle(svg, "b0", (246.0, y - 4.0), (5.0, 8.0));
    write(svg, "s", (257.0, y), "a copy of what is in flight");
    rectangle(svg, "b0", (412.0, y - 10.0), (5.0, 14.0));
    push(svg, format_args!("<path class=\"mark\" d=\"M411.5 {}h6l-3 5z\"/>\n", y - 14.0));
    write(svg, "s", (423.0, y), "a repair");
    cross(svg, (488.0, middle), 3.0);
    write(svg, "s", (497.0, y), "lost");
    line(svg, "life k0", (535.0, middle), (553.0, middle));
    disc(svg, "f0", (553.0, middle));
    write(svg, "s", (562.0, y), "whole at the receiver");
    line(svg, "due", (694.0, middle - 5.0), (694.0, middle + 5.0));
    write(svg, "s", (701.0, y), "deadline");
    cross(svg, (768.0, middle), 3.5);
    write(svg, "s", (777.0, y), "given up");
}
