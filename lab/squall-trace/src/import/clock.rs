//! Times of day in logs. Time zones are ignored: only differences count.

use crate::{TraceError, sheet::Cells};

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Parses the date and time in a cell, such as `2018.01.27_13.58.29`, as microseconds since 1970.
///
/// # Errors
/// If it is not a date and time.
pub(super) fn date(cells: Cells<'_>, column: &str) -> Result<i64, TraceError> {
    let text = cells.text(column);
    let seconds =
        numbers(text).ok_or_else(|| cells.fault(column, format!("{text:?} is not a date and time")))?;
    Ok(seconds * 1_000_000)
}

/// Parses the date and time in a cell in the format of `date`: `Thu Aug 11 13:42:06 UTC 2022`.
///
/// # Errors
/// If it is not a date and time.
pub(super) fn date_in_words(cells: Cells<'_>, column: &str) -> Result<i64, TraceError> {
    let text = cells.text(column);
    let fault =
        || cells.fault(column, format!("{text:?} is not a time such as Thu Aug 11 13:42:06 UTC 2022"));
    Ok(in_words(text).ok_or_else(fault)? * 1_000_000)
}

/// Parses year, month, day, hour, minute and second separated by any non-digits, such as
/// `2018.01.27_13.58.29` and `2019-12-05 09:02:32`, as seconds since 1970.
fn numbers(text: &str) -> Option<i64> {
    let mut parts = text.trim().split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().ok());
    let mut next = || parts.next().flatten();
    let seconds = seconds([next()?, next()?, next()?, next()?, next()?, next()?])?;
    parts.next().is_none().then_some(seconds)
}

fn in_words(text: &str) -> Option<i64> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [_, month, day, time, _, year] = words[..] else { return None };
    let month = MONTHS.iter().position(|known| *known == month)? as i64 + 1;
    let time: Vec<i64> = time.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [hour, minute, second] = time[..] else { return None };
    seconds([year.parse().ok()?, month, day.parse().ok()?, hour, minute, second])
}

fn seconds([year, month, day, hour, minute, second]: [i64; 6]) -> Option<i64> {
    let within = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..=60).contains(&second);
    within.then(|| ((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second)
}

/// Returns the days since 1970-01-01 in the Gregorian calendar. Years are counted from March, so
/// that a leap day is the last of its year and the months before it have lengths of a fixed
/// pattern: five months have 153 days.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    // From 0000-03-01 to 1970-01-01.
    365 * year + leap_days + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_since_1970() {
        assert_eq!(numbers("1970.01.01_00.00.00"), Some(0));
        assert_eq!(numbers("2018.01.27_13.58.29"), Some(1_517_061_509));
        assert_eq!(numbers("2000-02-29 23:59:59"), Some(951_868_799));
        assert_eq!(numbers("2000-03-01 00:00:00"), Some(951_868_800));
        assert_eq!(in_words("Thu Aug 11 13:42:06 UTC 2022"), Some(1_660_225_326));
    }

    #[test]
    fn other_text_is_no_time() {
        for text in ["", "2018.01.27", "2018.13.27_13.58.29", "2018.01.27_13.58.29.5", "2018.01.27_24.00.00"]
        {
            assert_eq!(numbers(text), None, "{text}");
        }
        for text in ["", "Thu Aug 11 13:42 UTC 2022", "Thu Agu 11 13:42:06 UTC 2022", "Aug 11 13:42:06 2022"]
        {
            assert_eq!(in_words(text), None, "{text}");
        }
    }
}
