//! Checks that every link between the documents leads to a file and a heading, and that
//! `docs/SUMMARY.md`, the contents of the site, lists every page once.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace is there")
}

/// Returns the documents at the root, in `docs/` and its notebook, and beside fuzz targets and films.
fn documents() -> Vec<PathBuf> {
    let folders = ["", "docs", "docs/notebook", "fuzz", "traffic"].map(|folder| root().join(folder));
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("can be listed"));
    let paths = entries.map(|entry| entry.expect("can be listed").path());
    let mut pages: Vec<_> = paths.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    pages.sort();
    pages
}

/// Returns the targets of links in a page, except those on the web.
fn links(page: &str) -> impl Iterator<Item = &str> {
    page.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next()).filter(|to| !to.contains("://"))
}

/// Returns the anchor of a heading, as GitHub forms it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn has_anchor(page: &Path, name: &str) -> bool {
    let text = fs::read_to_string(page).expect("can be read");
    text.lines().filter(|line| line.starts_with('#')).any(|line| anchor(line.trim_start_matches('#')) == name)
}

#[test]
fn every_link_leads_somewhere() {
    let mut broken = Vec::new();
    for page in documents() {
        let text = fs::read_to_string(&page).expect("can be read");
        for link in links(&text) {
            let (file, name) = link.split_once('#').unwrap_or((link, ""));
            let target =
                if file.is_empty() { page.clone() } else { page.parent().expect("has a folder").join(file) };
            if !target.exists() || !name.is_empty() && !has_anchor(&target, name) {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "these lead nowhere:\n{}", broken.join("\n"));
}

/// Returns the files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(folder).expect("can be listed").map(|entry| entry.expect("can be listed").path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn documents_that_code_names_exist() {
    let mut missing = Vec::new();
    for folder in ["crates", "lab", "scenarios", "scripts", "dist"] {
        for file in files(&root().join(folder)) {
            let Ok(text) = fs::read_to_string(&file) else { continue };
            for (at, _) in text.match_indices("docs/") {
                let name =
                    text[at..].split(|c: char| !c.is_ascii_alphanumeric() && !"/._-".contains(c)).next();
                let name = name.unwrap_or_default().trim_end_matches(['.', '-']);
                if name.ends_with(".md") && !root().join(name).exists() {
                    missing.push(format!("{}: {name}", file.display()));
                }
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn tests_that_documents_name_exist() {
    let code = ["crates", "lab", "bindings"].into_iter().flat_map(|folder| files(&root().join(folder)));
    let code = code.filter(|file| file.extension().is_some_and(|end| end == "rs"));
    let text: String = code.map(|file| fs::read_to_string(file).expect("can be read")).collect();
    let functions: BTreeSet<&str> =
        text.split("fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next()).collect();
    let mut missing = Vec::new();
    for page in documents() {
        let text = fs::read_to_string(&page).expect("can be read");
        for name in text.split(".rs::").skip(1).filter_map(|rest| rest.split(['`', ' ']).next()) {
            if !functions.contains(name) {
                missing.push(format!("{}: {name}", page.display()));
            }
        }
    }
    assert!(missing.is_empty(), "no such test:\n{}", missing.join("\n"));
}

#[test]
fn the_summary_lists_every_page_once() {
    let summary = root().join("docs/SUMMARY.md");
    let text = fs::read_to_string(&summary).expect("can be read");
    let listed: Vec<PathBuf> =
        links(&text).filter_map(|link| root().join("docs").join(link).canonicalize().ok()).collect();
    let pages: BTreeSet<&PathBuf> = listed.iter().collect();
    assert_eq!(pages.len(), listed.len(), "a page is listed twice");
    let missing: Vec<_> =
        documents().into_iter().filter(|page| *page != summary && !pages.contains(page)).collect();
    assert!(missing.is_empty(), "not listed: {missing:?}");
}

#[test]
fn every_line_of_the_summary_is_a_heading_or_a_page() {
    let text = fs::read_to_string(root().join("docs/SUMMARY.md")).expect("can be read");
    for line in text.lines().filter(|line| !line.is_empty()) {
        let page = line.trim_start_matches("- ");
        assert!(line.starts_with("# ") || page.starts_with('[') && page.ends_with(".md)"), "{line}");
    }
}
