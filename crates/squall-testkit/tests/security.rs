//! Checks that the promises of `SECURITY.md` have tests, and that the code that programs link has
//! no unsafe blocks.

use std::{
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(file: impl AsRef<Path>) -> String {
    fs::read_to_string(root().join(&file))
        .unwrap_or_else(|error| panic!("{}: {error}", file.as_ref().display()))
}

/// Returns number and tests of each row in the table of promises.
fn promises(page: &str) -> Vec<(usize, Vec<(&str, &str)>)> {
    let section = page.split("\n## ").find(|section| section.starts_with("Promises\n")).expect("is there");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    let numbered = rows.filter_map(|(number, rest)| Some((number.parse().ok()?, rest)));
    numbered
        .map(|(number, row)| {
            let names = row.split('`').skip(1).step_by(2).filter_map(|name| name.split_once("::"));
            (number, names.filter(|(file, _)| file.ends_with(".rs")).collect())
        })
        .collect()
}

/// `true` if a file has a test of that name: a function, in plain Rust or within `proptest!`, after
/// `#[test]` or `#[tokio::test]`.
fn has_test(text: &str, name: &str) -> bool {
    let mut after_attribute = false;
    for line in text.lines().map(str::trim) {
        if ["#[test]", "#[tokio::test]"].contains(&line) {
            after_attribute = true;
        } else if let Some(rest) = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ") {
            if after_attribute && rest.split('(').next() == Some(name) {
                return true;
            }
            after_attribute = false;
        }
    }
    false
}

#[test]
fn every_promise_has_tests() {
    let page = read("SECURITY.md");
    let promises = promises(&page);
    assert!(promises.len() >= 20, "only {} promises are found", promises.len());
    let mut missing = Vec::new();
    for (at, (number, tests)) in promises.iter().enumerate() {
        assert_eq!(*number, at + 1, "promises are numbered");
        if tests.is_empty() {
            missing.push(format!("{number}: names no test"));
        }
        for (file, name) in tests {
            if !has_test(&read(file), name) {
                missing.push(format!("{number}: {file} has no test {name}"));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn attackers_are_referred_to_promises_that_exist() {
    let page = read("SECURITY.md");
    let most = promises(&page).len();
    for link in page.split("](#promises)").filter_map(|before| before.rsplit('[').next()) {
        if let Ok(number) = link.parse::<usize>() {
            assert!((1..=most).contains(&number), "there is no promise {number}");
        }
    }
}

#[test]
fn only_tests_with_that_attribute_count() {
    let text = "#[test]\n#[ignore]\nfn one() {}\nfn two() {}\n    #[test]\n    fn three(at in 0..1) {\n";
    assert!(has_test(text, "one") && has_test(text, "three"));
    assert!(!has_test(text, "two") && !has_test(text, "on"));
}

#[test]
fn crates_of_the_product_forbid_unsafe_code() {
    for entry in fs::read_dir(root().join("crates")).expect("can be listed") {
        let folder = entry.expect("can be listed").path();
        let source = ["src/lib.rs", "src/main.rs"].map(|file| folder.join(file));
        let source = source.into_iter().find(|file| file.exists()).expect("has a source");
        let text = fs::read_to_string(&source).expect("is text");
        let forbids = text.contains("#![forbid(unsafe_code)]");
        assert!(forbids, "{} does not forbid unsafe code", source.display());
        assert!(!folder.join("build.rs").exists(), "{} has a build script", folder.display());
    }
}
