//! HTML page: headings, tables and figures, without scripts and external resources.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use squall_lab::table::{Column, Table};

use crate::style::{PAGE_CSS, drawing_css, plain};
use crate::surface::Figure;

/// Returns the page around a body.
pub(crate) fn page(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width,initial-scale=1";
                title { (title) }
                style { (PreEscaped(drawing_css())) (PreEscaped(PAGE_CSS)) }
            }
            body { main { h1 { (title) } (body) } }
        }
    };
    // Names come from files and may contain control characters.
    plain(&page.into_string()) + "\n"
}

/// Renders a table with a caption; the first cell of a row is its header. Empty without rows.
pub(crate) fn table(table: &Table) -> Markup {
    let class = |column: &Column, text: &str| match (column.numeric, text) {
        (true, _) => Some("number"),
        (false, "FAIL") => Some("fail"),
        (false, _) => None,
    };
    html! {
        @if !table.rows.is_empty() {
            div class="scroll" {
                table {
                    caption { (table.title) }
                    thead {
                        tr {
                            @for column in &table.columns {
                                th scope="col" class=[class(column, "")] {
                                    (column.name)
                                    @if !column.unit.is_empty() { span { (column.unit) } }
                                }
                            }
                        }
                    }
                    tbody {
                        @for row in &table.rows {
                            tr {
                                @for (index, (text, column)) in row.iter().zip(&table.columns).enumerate() {
                                    @if index == 0 {
                                        th scope="row" class=[class(column, text)] { (text) }
                                    } @else {
                                        td class=[class(column, text)] { (text) }
                                    }
                                }
                            }
                            "\n"
                        }
                    }
                }
            }
        }
    }
}

/// Renders a figure under its own heading.
pub(crate) fn figure(figure: &Figure, id: &str) -> Markup {
    html! {
        section {
            h3 { (figure.title) }
            figure {
                (figure.inline(id))
                @if !figure.caption.is_empty() { figcaption { (figure.caption) } }
            }
        }
    }
}

/// Renders a remark.
pub(crate) fn note(words: &str) -> Markup {
    html! { p class="note" { (words) } }
}

/// Reduces a text to letters, digits and single dashes.
pub(crate) fn file_name(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_lowercase()
}
