//! Measurements of runs as a table: one number per row, in the units of docs/lab.md.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use squall_lab::{
    experiment::Record,
    measure::{Measure, Subject, View},
    table::csv_field,
};

/// Formats all numbers of all runs. Times are in microseconds, rates in bits per second, sizes in
/// bytes, shares from 0 to 1.
pub(super) fn text(records: &[Record]) -> String {
    let axes: BTreeSet<&str> =
        records.iter().flat_map(|record| record.point.keys().map(String::as_str)).collect();
    let mut text = String::from("experiment,");
    for axis in &axes {
        text.push_str(&csv_field(axis));
        text.push(',');
    }
    text.push_str("scheduler,seed,flow,class,path,measure,value\n");
    for record in records {
        let mut head = csv_field(&record.experiment).into_owned() + ",";
        for axis in &axes {
            head.push_str(&csv_field(record.point.get(*axis).map_or("", String::as_str)));
            head.push(',');
        }
        let _ = write!(head, "{},{}", csv_field(&record.run.scheduler), record.run.seed);
        for subject in Subject::all(&record.run) {
            let of = [&subject.flow, &subject.class, &subject.path]
                .map(|name| csv_field(name.as_deref().unwrap_or("")))
                .join(",");
            for measure in Measure::all().filter(|measure| subject.has(*measure)) {
                if let Some(value) = subject.measure(measure, View::default(), &record.run) {
                    let _ = writeln!(text, "{head},{of},{measure},{value}");
                }
            }
        }
    }
    text
}
