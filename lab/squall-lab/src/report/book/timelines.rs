//! Single runs, to look into why.

use super::styles::Styles;
use super::{Chapter, Timeline, contents};
use crate::report::canvas::Figure;
use crate::report::{html, timeline};

const DIFFERS: &str = "Run again for this page; the numbers are not those of the results above, which are of another \
    program or another state of the file.";

/// The runs, folded.
pub(super) fn text(chapter: &Chapter, styles: &Styles) -> String {
    let mut text = String::new();
    let mut number = 0;
    for shown in &chapter.timelines {
        let figures = figures(chapter, styles, shown);
        let Some(seed) = shown.runs.first().map(|run| run.seed).filter(|_| !figures.is_empty()) else {
            continue;
        };
        let at = html::escape(&contents::at(chapter, &shown.point));
        text.push_str(&format!("<details><summary>Single runs{at}, seed {seed}</summary>\n"));
        text.push_str(&format!("<p class=\"note\">{}</p>\n", html::escape(&timeline::caption())));
        if !shown.as_recorded {
            text.push_str(&format!("<p class=\"note\">{DIFFERS}</p>\n"));
        }
        for figure in &figures {
            number += 1;
            text.push_str(&html::figure(figure, &format!("{}-run{number}", contents::anchor(&chapter.name))));
        }
        text.push_str("</details>\n");
    }
    text
}

/// All of its drawings.
pub(super) fn drawn(chapter: &Chapter, styles: &Styles) -> Vec<Figure> {
    chapter.timelines.iter().flat_map(|shown| figures(chapter, styles, shown)).collect()
}

fn figures(chapter: &Chapter, styles: &Styles, shown: &Timeline) -> Vec<Figure> {
    let style = |scheduler: &str| styles.number(chapter, scheduler);
    shown.runs.iter().filter_map(|run| timeline::figure(style(&run.scheduler), run)).collect()
}
