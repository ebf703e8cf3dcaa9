//! The page: headings, tables, figures, no script and nothing loaded.

use super::canvas::Figure;
use super::style::{PAGE_CSS, drawing_css};
use crate::summary::{Column, Table};

/// Text for an element or an attribute in double quotes.
pub(super) fn escape(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut escaped, c| {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if c.is_control() && c != '\n' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
        escaped
    })
}

/// A number without trailing zeros.
pub(super) fn trim(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The page around a body.
pub(super) fn page(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>{title}</title>\n\
         <style>\n{}{PAGE_CSS}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n{body}</main>\n</body>\n</html>\n",
        drawing_css()
    )
}

/// A table with a caption; the first cell of a row names it.
pub(super) fn table(table: &Table) -> String {
    let head: String = table.columns.iter().map(heading).collect();
    let rows: String = table
        .rows
        .iter()
        .map(|row| {
            let cells: String = row
                .iter()
                .zip(&table.columns)
                .enumerate()
                .map(|(n, (text, column))| cell(n, text, column))
                .collect();
            format!("<tr>{cells}</tr>\n")
        })
        .collect();
    format!(
        "<div class=\"scroll\"><table>\n<caption>{}</caption>\n<thead><tr>{head}</tr></thead>\n\
         <tbody>\n{rows}</tbody>\n</table></div>\n",
        escape(&table.title)
    )
}

fn heading(column: &Column) -> String {
    let class = if column.numeric { " class=\"number\"" } else { "" };
    let unit =
        if column.unit.is_empty() { String::new() } else { format!("<span>{}</span>", escape(&column.unit)) };
    format!("<th scope=\"col\"{class}>{}{unit}</th>", escape(&column.name))
}

fn cell(index: usize, text: &str, column: &Column) -> String {
    let class = match (column.numeric, text) {
        (true, _) => " class=\"number\"",
        (false, "FAIL") => " class=\"fail\"",
        (false, _) => "",
    };
    let text = escape(text);
    if index == 0 {
        format!("<th scope=\"row\"{class}>{text}</th>")
    } else {
        format!("<td{class}>{text}</td>")
    }
}

/// A figure under a heading of its own.
pub(super) fn figure(figure: &Figure, id: &str) -> String {
    let caption = if figure.caption.is_empty() {
        String::new()
    } else {
        format!("<figcaption>{}</figcaption>\n", escape(&figure.caption))
    };
    format!(
        "<section><h3>{}</h3>\n<figure>\n{}\n{caption}</figure></section>\n",
        escape(&figure.title),
        figure.inline(id)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_escapes() {
        assert_eq!(escape("<a href=\"x\">'&\u{1b}"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;\u{fffd}");
    }

    #[test]
    fn trims_zeros() {
        assert_eq!([100.0, 0.1, 0.001].map(trim), ["100", "0.1", "0.001"]);
    }
}
