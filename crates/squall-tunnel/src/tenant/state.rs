//! State that survives a restart, in the folder `tenants_state`. Files are replaced atomically, so
//! that a crash leaves the old or the new one.

use std::{
    collections::BTreeMap,
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::calendar::Date;
use crate::config::{Period, TenantLimits};

/// Size limit of these files in bytes: the largest list of tenants, which JSON escapes may double.
const MAX_FILE: u64 = 4 << 20;

/// State folder of an exit.
#[derive(Clone, Debug)]
pub(crate) struct StateFolder(PathBuf);

/// Bytes of a tenant in a period.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Usage {
    /// Period, see [`Date::period`].
    pub(crate) period: String,
    /// Bytes of datagrams, both directions together.
    pub(crate) bytes: u64,
    /// Previous period and its bytes, in case the clock returns to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<(String, u64)>,
    /// Count of the other kind of period, which continues after a change of the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) other: Option<Box<Self>>,
}

impl Usage {
    /// Returns the kind of the period: day or month.
    pub(super) fn kind(&self) -> Period {
        if self.period.matches('-').count() > 1 { Period::Day } else { Period::Month }
    }

    /// Counts bytes in both kinds of period.
    pub(super) fn add(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.other.iter_mut().for_each(|other| other.add(bytes));
    }

    /// `true` if no bytes were counted in the period.
    pub(crate) fn is_unused(&self) -> bool {
        self.bytes == 0 && self.other.as_ref().is_none_or(|other| other.bytes == 0)
    }

    /// Continues with the period of a date. Returns `true` if another count applies now.
    pub(super) fn set_date(&mut self, date: Date, kind: Period) -> bool {
        let period = date.period(kind);
        let is_other = self.kind() != kind && !self.period.is_empty() && period.as_str() >= NOT_SET;
        if is_other {
            let other = self.other.take().map_or_else(Self::default, |other| *other);
            self.other = Some(Box::new(std::mem::replace(self, other)));
        }
        if let Some(other) = &mut self.other {
            other.enter(&date.period(other.kind()));
        }
        self.enter(&period) || is_other
    }

    /// Begins a period, unless it has already begun. A clock that is not set begins none, and one
    /// that goes back by less than a period continues the later period. A clock that goes back
    /// further was wrong before: all bytes counted meanwhile belong to this period.
    fn enter(&mut self, period: &str) -> bool {
        if period < NOT_SET {
            return false;
        }
        // The file was damaged: the bytes count in this period, for lack of a better one.
        if !self.period.is_empty() && first_day(&self.period).is_none() {
            period.clone_into(&mut self.period);
            return false;
        }
        if self.period.as_str() < period {
            let period = std::mem::replace(&mut self.period, period.to_owned());
            if !period.is_empty() {
                self.before = Some((period, std::mem::take(&mut self.bytes)));
            }
            return true;
        }
        if self.is_far_beyond(period) {
            let before = self.before.take().filter(|(before, _)| before == period);
            self.bytes = self.bytes.saturating_add(before.map_or(0, |(_, bytes)| bytes));
            period.clone_into(&mut self.period);
        }
        false
    }

    /// `true` if a whole period lies between that of the clock and this later one.
    fn is_far_beyond(&self, period: &str) -> bool {
        let most = if self.kind() == Period::Day { 1 } else { 31 };
        first_day(&self.period).zip(first_day(period)).is_some_and(|(own, other)| own > other + most)
    }
}

/// Years before this show that the clock is not set, as this program did not exist.
const NOT_SET: &str = "2025";

/// Returns the first day of a period, as a number.
fn first_day(period: &str) -> Option<i32> {
    let mut parts = period.split('-');
    let year = parts.next()?.parse().ok()?;
    let month = parts.next()?.parse::<u8>().ok()?;
    let day = parts.next().map_or(Some(1), |day| day.parse().ok())?;
    Some(time::Date::from_calendar_date(year, month.try_into().ok()?, day).ok()?.to_julian_day())
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

/// Last valid list of a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeptList {
    pub(crate) url: String,
    /// Entity tag of the list (RFC 9110, section 8.8.3), if the server sent one.
    pub(crate) etag: Option<String>,
    pub(crate) text: String,
}

/// Content of a file in the folder.
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
    /// Opens the folder, and creates it if it does not exist. Only the owner can read it.
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
            [("acme".to_owned(), Usage { period: "2026-11".to_owned(), bytes: 7, ..Usage::default() })]
                .into();
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
        let mut usage = Usage { bytes: 5, ..Usage::default() };
        assert!(!usage.enter("1970-01") && usage.bytes == 5, "the clock is not set yet");
        assert!(usage.enter("2026-11"));
        assert_eq!(usage.bytes, 5, "counted before the first date");
        assert!(!usage.enter("2026-11") && !usage.enter("2026-10"));
        assert!(usage.enter("2026-12"));
        assert_eq!(usage.bytes, 0);
    }

    #[test]
    fn a_period_that_no_calendar_has_ends() {
        for damaged in ["x", "2026-99", "2026-11-31-1", "9999-"] {
            let mut usage = Usage { period: damaged.to_owned(), bytes: 5, ..Usage::default() };
            assert!(!usage.enter("2026-11") && usage.bytes == 5, "{damaged}");
            assert!(usage.enter("2026-12") && usage.bytes == 0, "{damaged}");
        }
    }

    #[test]
    fn a_change_of_the_kind_of_period_forgets_nothing() {
        let date = |month, day| Date { year: 2026, month, day };
        let mut usage: Usage = serde_json::from_str(r#"{"period":"2026-11","bytes":900}"#).expect("is read");
        assert!(!usage.set_date(date(11, 28), Period::Month));
        assert!(usage.set_date(date(11, 28), Period::Day));
        usage.add(30);
        assert_eq!((usage.period.as_str(), usage.bytes), ("2026-11-28", 30));
        let text = serde_json::to_string(&usage).expect("is written");
        usage = serde_json::from_str(&text).expect("is read again");
        assert!(usage.set_date(date(11, 29), Period::Day));
        usage.add(4);
        assert!(usage.set_date(date(11, 29), Period::Month));
        assert_eq!((usage.period.as_str(), usage.bytes), ("2026-11", 934));
        assert!(usage.set_date(date(11, 29), Period::Day));
        assert_eq!((usage.period.as_str(), usage.bytes), ("2026-11-29", 4));
        let not_set = Date { year: 1970, month: 1, day: 1 };
        assert!(!usage.set_date(not_set, Period::Month) && usage.bytes == 4);
        // The month continues, and ends.
        assert!(usage.set_date(date(12, 1), Period::Day));
        usage.add(5);
        assert!(usage.set_date(date(12, 1), Period::Month));
        assert_eq!((usage.period.as_str(), usage.bytes), ("2026-12", 5));
    }

    #[test]
    fn a_wrong_clock_neither_loses_what_was_used_nor_keeps_its_period() {
        for [now, wrong, next] in
            [["2026-11", "2027-11", "2026-12"], ["2026-11-30", "2026-12-30", "2026-12-01"]]
        {
            let mut usage = Usage { period: now.to_owned(), bytes: 100, ..Usage::default() };
            for early in ["1970-01", "1970-01-01"] {
                assert!(
                    !usage.enter(early) && usage.bytes == 100,
                    "a device without a battery for its clock"
                );
            }
            assert!(usage.enter(wrong));
            usage.bytes += 7;
            assert!(!usage.enter(now));
            assert_eq!((usage.period.as_str(), usage.bytes), (now, 107));
            // A clock slightly ahead at the turn of a period.
            assert!(usage.enter(next) && !usage.enter(now));
            assert_eq!((usage.period.as_str(), usage.bytes), (next, 0));
        }
    }
}
