//! What outlives a restart, in the folder `tenants_state`. Files are replaced whole, so that a crash leaves the old one or
//! the new one.

use std::{
    collections::BTreeMap,
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::config::{Period, TenantLimits};

/// Largest of these files in bytes: the largest list of tenants, which JSON may write twice as long.
const MAX_FILE: u64 = 4 << 20;

/// The folder.
#[derive(Clone, Debug)]
pub(crate) struct StateFolder(PathBuf);

/// Bytes of a tenant in a period.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Usage {
    /// The period: see [`Date::period`](super::calendar::Date::period).
    pub(crate) period: String,
    /// Bytes of datagrams, both directions together.
    pub(crate) bytes: u64,
}

impl Usage {
    /// Whether it is that of a day or of a month.
    pub(super) fn kind(&self) -> Period {
        if self.period.matches('-').count() > 1 { Period::Day } else { Period::Month }
    }

    /// Begins a period unless it has begun already. A clock that goes back continues the later period.
    pub(super) fn enter(&mut self, period: &str) -> bool {
        let is_new = self.period.len() != period.len() || self.period.as_str() < period;
        if is_new {
            *self = Self {
                period: period.to_owned(),
                bytes: if self.period.is_empty() { self.bytes } else { 0 },
            };
        }
        is_new
    }
}

/// Changes over the control socket.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Changes {
    /// Added tenants, with the keys of `[[tenant]]`.
    pub(crate) added: BTreeMap<String, serde_json::Value>,
    /// Limits that replace those of a tenant's source.
    pub(crate) limits: BTreeMap<String, TenantLimits>,
}

/// The last good list of a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeptList {
    pub(crate) url: String,
    /// The entity tag of the list (RFC 9110, section 8.8.3), if the server sent one.
    pub(crate) etag: Option<String>,
    pub(crate) text: String,
}

/// A file of the folder, by name.
pub(crate) trait Kept: Serialize + DeserializeOwned + Default {
    const FILE: &str;
}

impl Kept for BTreeMap<String, Usage> {
    const FILE: &str = "usage.json";
}

impl Kept for Changes {
    const FILE: &str = "changes.json";
}

impl Kept for KeptList {
    const FILE: &str = "list.json";
}

/// A file of the folder that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", file.display())]
pub(crate) struct StateError {
    file: PathBuf,
    problem: String,
}

impl StateFolder {
    /// Creates the folder if it does not exist. Only its owner can read what is created.
    pub(crate) fn open(folder: &Path) -> Result<Self, StateError> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        let failed = |error: io::Error| StateError { file: folder.to_owned(), problem: error.to_string() };
        builder.create(folder).map_err(failed)?;
        Ok(Self(folder.to_owned()))
    }

    /// Reads a file; the default if it does not exist.
    pub(crate) fn load<T: Kept>(&self) -> Result<T, StateError> {
        let file = self.0.join(T::FILE);
        let failed = |problem| StateError { file: file.clone(), problem };
        match squall_file::read_text(&file, MAX_FILE) {
            Ok(text) => serde_json::from_str(&text)
                .map_err(|error| failed(format!("{error}; restore the file, or delete it to begin without"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(T::default()),
            Err(error) => Err(failed(error.to_string())),
        }
    }

    /// Writes a file.
    pub(crate) fn save<T: Kept>(&self, value: &T) -> Result<(), StateError> {
        let file = self.0.join(T::FILE);
        let write = || -> io::Result<()> {
            let mut new = tempfile::NamedTempFile::new_in(&self.0)?;
            new.write_all(&serde_json::to_vec(value)?)?;
            new.as_file().sync_all()?;
            new.persist(&file).map_err(|error| error.error).map(drop)
        };
        write().map_err(|error| StateError { file: file.clone(), problem: error.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_kept_and_mistakes_name_them() {
        let parent = tempfile::tempdir().expect("is made");
        let folder = StateFolder::open(&parent.path().join("a/b")).expect("is created");
        assert_eq!(folder.load::<Changes>().expect("none yet"), Changes::default());
        let usage: BTreeMap<_, _> =
            [("acme".to_owned(), Usage { period: "2026-11".to_owned(), bytes: 7 })].into();
        folder.save(&usage).expect("is written");
        folder.save(&usage).expect("is replaced");
        let again = StateFolder::open(&parent.path().join("a/b")).expect("is there");
        assert_eq!(again.load::<BTreeMap<String, Usage>>().expect("is read"), usage);
        assert_eq!(
            fs::read_dir(parent.path().join("a/b")).expect("is listed").count(),
            1,
            "no temporary file stays"
        );
        fs::write(parent.path().join("a/b/usage.json"), "{\"acme\":").expect("is written");
        let error = again.load::<BTreeMap<String, Usage>>().expect_err("is cut").to_string();
        assert!(error.contains("usage.json: EOF while parsing") && !error.contains('\n'), "{error}");
    }

    #[test]
    fn a_period_begins_once() {
        let mut usage = Usage { period: String::new(), bytes: 5 };
        assert!(usage.enter("2026-11"));
        assert_eq!(usage.bytes, 5, "counted before the first date");
        assert!(!usage.enter("2026-11") && !usage.enter("2026-10"));
        assert!(usage.enter("2026-12"));
        assert_eq!(usage.bytes, 0);
        assert!(usage.enter("2026-12-01") && usage.enter("2026-12"), "another kind of period");
    }
}
