//! The beginning of the page, and of each experiment.

use std::collections::BTreeSet;

use squall_units::format;

use super::{Book, Chapter, findings, words};
use crate::report::html::escape;

/// How to read it, the findings, and what there is.
pub(super) fn text(book: &Book) -> String {
    if book.chapters.is_empty() {
        return String::new();
    }
    let entries: String = book.chapters.iter().map(entry).collect();
    format!(
        "<p class=\"note\">{}</p>\n{}<h2 id=\"contents\">Experiments</h2>\n<ul class=\"contents\">\n{entries}</ul>\n",
        escape(HOW),
        findings::of_book(book)
    )
}

const HOW: &str = "Each value is the mean over the seeds, with its 95 % confidence interval (Student’s t) as a band \
    or a whisker; distributions have a band from the lowest to the highest run. Open markers are numbers that the paper states in words or tables; ticks are what a claim asks for, \
    reckoned from what was measured of the other side; the dotted line is the clairvoyant bound, which no scheduler \
    can surpass, not even one that knows the future of the network. Schedulers differ by marker and dash as well as by \
    colour.";

fn entry(chapter: &Chapter) -> String {
    let (from, what) = chapter.experiment.as_ref().map_or_else(Default::default, |experiment| {
        let source = format!("{} {}", experiment.source.paper, experiment.source.place);
        (source.trim().to_owned(), experiment.scenario.description.clone())
    });
    let from = if from.is_empty() { String::new() } else { format!(" ({})", escape(&from)) };
    let what = if what.is_empty() { String::new() } else { format!(": {}", escape(&what)) };
    format!("<li><a href=\"#{}\">{}</a>{from}{what}</li>\n", anchor(&chapter.name), escape(&chapter.name))
}

/// Heading, source and set-up of an experiment.
pub(super) fn chapter_head(chapter: &Chapter) -> String {
    let mut head = format!("<h2 id=\"{}\">{}</h2>\n", anchor(&chapter.name), escape(&chapter.name));
    if let Some(experiment) = &chapter.experiment {
        head.push_str(&format!("<p class=\"lead\">{}</p>\n", escape(&experiment.scenario.description)));
        let source = format!("{} {}", experiment.source.paper, experiment.source.place);
        let setup = experiment.source.setup.split_whitespace().collect::<Vec<_>>().join(" ");
        if !source.trim().is_empty() {
            head.push_str(&format!("<p>From: {}. {}</p>\n", escape(source.trim()), escape(&setup)));
        }
    }
    head + &format!("<p class=\"note\">{}</p>\n", escape(&extent(chapter)))
}

/// How much was run.
fn extent(chapter: &Chapter) -> String {
    let Some(first) = chapter.records.first().map(|record| &record.run) else { return String::new() };
    let seeds: BTreeSet<u64> = chapter.records.iter().map(|record| record.run.seed).collect();
    let cells: BTreeSet<_> = chapter.records.iter().map(|record| &record.point).collect();
    let seeds = seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let axes = chapter.axes();
    let varied: Vec<&str> = axes.iter().map(|axis| axis.name.as_str()).collect();
    let varied = if varied.is_empty() { String::new() } else { format!(" ({})", varied.join(" × ")) };
    let plural = if cells.len() == 1 { "cell" } else { "cells" };
    format!(
        "{} runs of {} each: {} {plural}{varied}, seeds {seeds}, congestion control {}, squall {}.",
        chapter.records.len(),
        format::time(first.duration_us),
        cells.len(),
        first.congestion,
        first.version
    )
}

/// The name of an experiment in addresses.
pub(super) fn anchor(name: &str) -> String {
    crate::report::file_name(name)
}

/// A cell as the end of a heading.
pub(super) fn at(chapter: &Chapter, point: &crate::experiment::Point) -> String {
    let words = words::cell(point, &chapter.axes());
    if words.is_empty() { String::new() } else { format!(" at {words}") }
}
