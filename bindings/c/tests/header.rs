//! Compares `include/squall.h` with the header that cbindgen generates. After an intended change:
//!
//! `SQUALL_UPDATE=1 cargo test -p squall-c --test header`

use std::{fs, path::Path};

fn generated(folder: &Path) -> String {
    let config =
        cbindgen::Config::from_file(folder.join("cbindgen.toml")).expect("cbindgen.toml can be read");
    let sources = ["../core/src/code.rs", "src/types.rs", "src/exports.rs"].map(|file| folder.join(file));
    let builder = cbindgen::Builder::new().with_config(config);
    let builder = sources.into_iter().fold(builder, cbindgen::Builder::with_src);
    let mut header = Vec::new();
    builder.generate().expect("the header can be generated").write(&mut header);
    let header = String::from_utf8(header).expect("the header is UTF-8");
    // cbindgen prefixes each constant with its type's name; the prefixes of these two types are
    // removed.
    header.replace("SQUALL_CODE_", "SQUALL_").replace("SQUALL_EVENT_KIND_", "SQUALL_EVENT_")
}

#[test]
fn the_header_is_what_the_code_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (file, header) = (folder.join("include/squall.h"), generated(folder));
    if std::env::var_os("SQUALL_UPDATE").is_some() {
        fs::write(&file, &header).expect("the header can be written");
    }
    let written = fs::read_to_string(&file).unwrap_or_default();
    let first = written.lines().zip(header.lines()).find(|(written, now)| written != now);
    assert!(
        written == header,
        "include/squall.h differs from the code, first at {first:?}\n\
         if that is intended: SQUALL_UPDATE=1 cargo test -p squall-c --test header"
    );
}

/// Every exported function is in the header, and documents its errors, unless it cannot fail.
#[test]
fn every_function_documents_its_errors() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = fs::read_to_string(folder.join("src/exports.rs")).expect("can be read");
    let header = fs::read_to_string(folder.join("include/squall.h")).expect("can be read");
    let exported = source.split("#[unsafe(no_mangle)]").skip(1);
    let names: Vec<&str> = exported.filter_map(|rest| rest.split_once("fn ")?.1.split('(').next()).collect();
    assert!(names.len() > 20, "{names:?}");
    const CANNOT_FAIL: [&str; 3] = ["squall_version", "squall_last_error", "squall_event_free"];
    for name in names {
        let (before, _) = header.split_once(&format!("{name}(")).expect("the function is in the header");
        let comment = before.rsplit("/**").next().expect("has a comment");
        let has_errors = comment.contains("Errors: ");
        assert_eq!(has_errors, !CANNOT_FAIL.contains(&name), "{name}");
    }
}
