//! Files that a command reads.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use crate::error::usage;

/// Folders of shipped files and of results.
const FOLDERS: [&str; 4] = ["scenarios", "scenarios/papers", "scenarios/traces", "out"];

/// Similarity from which on a name counts as a typing error.
const ALIKE: f64 = 0.85;

/// Checks that a file exists, so that every command answers a wrong name in the same way: with exit
/// code 2, and the file that was probably meant.
///
/// # Errors
/// Names the file, and the error of the system.
pub fn check(file: &Path) -> anyhow::Result<()> {
    let Err(error) = fs::metadata(file) else { return Ok(()) };
    let meant = meant(file).map_or_else(String::new, |meant| format!("; did you mean {}?", meant.display()));
    Err(usage(format!("{}: {error}{meant}", file.display())))
}

/// Returns the file in the same folder, or among the shipped ones, with the most similar name.
fn meant(file: &Path) -> Option<PathBuf> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folders: Vec<&Path> = folder
        .map_or_else(|| [""].into_iter().chain(FOLDERS).map(Path::new).collect(), |folder| vec![folder]);
    let near = folders.into_iter().flat_map(|folder| {
        let listed = fs::read_dir(if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
        listed.into_iter().flatten().flatten().map(|entry| folder.join(entry.file_name()))
    });
    let near = near.filter_map(|other| Some((likeness(file, &other)?, other)));
    near.max_by(|(a, first), (b, second)| a.total_cmp(b).then_with(|| second.cmp(first)))
        .map(|(_, other)| other)
}

/// Returns the similarity of two names, from 0.85 to 1; `None` below.
fn likeness(file: &Path, other: &Path) -> Option<f64> {
    let text = |name: Option<&OsStr>| name.map(|name| name.to_string_lossy().into_owned());
    let (wanted, stem) = (text(file.file_name())?, text(other.file_stem())?);
    if wanted.starts_with('.') || stem.is_empty() {
        return None;
    }
    if wanted == stem {
        return Some(1.0);
    }
    let alike = strsim::jaro_winkler(&wanted, &text(other.file_name())?);
    Some(alike).filter(|alike| *alike >= ALIKE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_meant() {
        let folder = tempfile::tempdir().expect("there is room");
        for name in ["fading.toml", "film.toml", "repro-quick", "walking.toml"] {
            fs::write(folder.path().join(name), "").expect("can be written");
        }
        let of =
            |name: &str| meant(&folder.path().join(name)).map(|meant| meant.file_name().map(OsStr::to_owned));
        for (name, meant) in
            [("fading", "fading.toml"), ("fadng.toml", "fading.toml"), ("repro", "repro-quick")]
        {
            assert_eq!(of(name), Some(Some(meant.into())), "{name}");
        }
        assert_eq!(of("nothing-like-it.csv"), None);
        let error = check(&folder.path().join("fadng.toml")).expect_err("is not there").to_string();
        assert!(error.contains("No such file") && error.ends_with("fading.toml?"), "{error}");
    }
}
