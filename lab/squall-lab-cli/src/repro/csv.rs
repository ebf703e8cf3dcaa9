//! What runs measured as a table: one number a row, in the units of docs/lab.md.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use squall_lab::{
    experiment::Record,
    measure::{Measure, Subject, View},
};

/// All numbers of all runs. Times are in microseconds, rates in bits per second, sizes in bytes, shares from 0 to 1.
pub(super) fn text(records: &[Record]) -> String {
    let axes: BTreeSet<&str> =
        records.iter().flat_map(|record| record.point.keys().map(String::as_str)).collect();
    let mut text = String::from("experiment,");
    for axis in &axes {
        text.push_str(&quoted(axis));
        text.push(',');
    }
    text.push_str("scheduler,seed,flow,class,path,measure,value\n");
    for record in records {
        let mut head = quoted(&record.experiment) + ",";
        for axis in &axes {
            head.push_str(&quoted(record.point.get(*axis).map_or("", String::as_str)));
            head.push(',');
        }
        let _ = write!(head, "{},{}", quoted(&record.run.scheduler), record.run.seed);
        for subject in Subject::all(&record.run) {
            let of = |name: &Option<String>| quoted(name.as_deref().unwrap_or(""));
            let of = [of(&subject.flow), of(&subject.class), of(&subject.path)].join(",");
            for measure in Measure::all().filter(|measure| subject.has(*measure)) {
                if let Some(value) = subject.measure(measure, View::default(), &record.run) {
                    let _ = writeln!(text, "{head},{of},{measure},{value}");
                }
            }
        }
    }
    text
}

/// As RFC 4180 has it.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_commas_are_quoted() {
        assert_eq!(quoted("rr(a=1,b=2)"), "\"rr(a=1,b=2)\"");
        assert_eq!(quoted("say \"hi\""), "\"say \"\"hi\"\"\"");
        assert_eq!(quoted("plain"), "plain");
    }
}
