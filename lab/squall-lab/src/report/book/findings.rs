//! The tables of claims: what was to be expected, what was found, and whether it holds.

use super::{Book, Chapter, contents::anchor};
use crate::experiment::{Finding, Verdict};
use crate::report::html::escape;

/// All findings, and how many there are of each kind.
pub(super) fn of_book(book: &Book) -> String {
    let all: Vec<Finding> = book.chapters.iter().flat_map(Chapter::findings).collect();
    if all.is_empty() {
        return String::new();
    }
    format!("<h2 id=\"findings\">Findings</h2>\n<p>{}</p>\n{}", sum(&all), table(&all, true))
}

/// The findings of one experiment.
pub(super) fn of_chapter(chapter: &Chapter) -> String {
    let findings = chapter.findings();
    if findings.is_empty() { String::new() } else { table(&findings, false) }
}

/// How many there are of each kind.
fn sum(findings: &[Finding]) -> String {
    let count = |kind| findings.iter().filter(|finding| finding.verdict == kind).count();
    let parts: Vec<String> = Verdict::ALL
        .into_iter()
        .filter(|kind| count(*kind) > 0)
        .map(|kind| format!("{} {}", count(kind), badge(kind, kind.of(count(kind)))))
        .collect();
    let plural = if findings.len() == 1 { "" } else { "s" };
    format!("{} claim{plural}: {}.", findings.len(), parts.join(", "))
}

fn table(findings: &[Finding], named: bool) -> String {
    let name_head = if named { "<th scope=\"col\">experiment</th>" } else { "" };
    let rows: String = findings.iter().map(|finding| row(finding, named)).collect();
    format!(
        "<div class=\"scroll\"><table class=\"claims\">\n<thead><tr>{name_head}<th scope=\"col\">claim</th>\
         <th scope=\"col\">claimed</th><th scope=\"col\">here</th><th scope=\"col\">verdict</th></tr></thead>\n\
         <tbody>\n{rows}</tbody>\n</table></div>\n"
    )
}

fn row(finding: &Finding, named: bool) -> String {
    let name = if named {
        format!("<td><a href=\"#{}\">{}</a></td>", anchor(&finding.experiment), escape(&finding.experiment))
    } else {
        String::new()
    };
    let reason = if finding.finding.trim().is_empty() {
        String::new()
    } else {
        format!("<p>In full runs: {}</p>", escape(finding.finding.trim()))
    };
    format!(
        "<tr>{name}<th scope=\"row\">{}{reason}</th><td>{}</td><td>{}</td><td>{}</td></tr>\n",
        escape(&finding.says),
        escape(&finding.expected),
        escape(&finding.found),
        badge(finding.verdict, finding.verdict.as_str())
    )
}

/// A verdict in these words, with a sign that differs in shape.
fn badge(verdict: Verdict, words: &str) -> String {
    let (class, sign) = match verdict {
        Verdict::Holds => ("holds", '●'),
        Verdict::DirectionOnly => ("partly", '◐'),
        Verdict::DoesNotHold => ("fails", '○'),
        Verdict::Unclear => ("open", '?'),
        Verdict::NotMeasured => ("open", '–'),
    };
    format!("<span class=\"verdict {class}\">{sign}&nbsp;{}</span>", words.replace(' ', "&nbsp;"))
}
