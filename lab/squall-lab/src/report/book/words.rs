//! Measures, subjects and cells as readers call them.

use crate::experiment::{Axis, Point};
use crate::measure::{Count, Measure, Quantile, Subject, Times};

/// A measure in words.
pub(super) fn measure(measure: Measure) -> String {
    match measure {
        Measure::Time(quantile, times) => match quantile {
            Quantile::Mean => format!("mean {}", plain(&times.to_string())),
            Quantile::P50 => format!("median {}", plain(&times.to_string())),
            Quantile::Max => format!("longest {}", plain(&times.to_string())),
            other => format!("{}, {}", plain(&times.to_string()), self::quantile(other)),
        },
        Measure::Count(Count::InTimeRatio) => "blocks in time".into(),
        Measure::Count(Count::InTimeBytesRatio) => "bytes in time".into(),
        Measure::Count(Count::InTimeBitrate) => "goodput in time".into(),
        Measure::Count(Count::MeanFps) => "pictures a second".into(),
        Measure::Count(Count::BelowSmoothRatio) => "seconds below 24 pictures".into(),
        Measure::Count(Count::Efficiency) => "in time, of what was delivered".into(),
        Measure::Count(Count::RetransmissionRatio) => "sent again".into(),
        Measure::Count(Count::PathRatio) => "share of the path".into(),
        Measure::Count(Count::PerceivedRatio) => "user-perceived ratio".into(),
        Measure::Count(Count::Psnr) => "mean PSNR".into(),
        Measure::Count(Count::MedianPsnr) => "median PSNR".into(),
        Measure::Count(Count::P5Psnr) => "PSNR, worst 5 %".into(),
        Measure::Count(_) => plain(&measure.to_string()),
    }
}

/// A percentile in words.
pub(super) fn quantile(quantile: Quantile) -> String {
    match quantile {
        Quantile::Mean => "mean",
        Quantile::P50 => "median",
        Quantile::P90 => "90 %",
        Quantile::P95 => "95 %",
        Quantile::P99 => "99 %",
        Quantile::P999 => "99.9 %",
        Quantile::P9999 => "99.99 %",
        Quantile::Max => "longest",
    }
    .into()
}

/// The times that all of these measures are of.
pub(super) fn common_times(measures: &[Measure]) -> Option<Times> {
    let times = |measure: &Measure| match measure {
        Measure::Time(_, times) => Some(*times),
        Measure::Count(_) => None,
    };
    let first = times(measures.first()?)?;
    measures.iter().all(|measure| times(measure) == Some(first)).then_some(first)
}

/// Times in words.
pub(super) fn times(times: Times) -> String {
    plain(&times.to_string())
}

/// What a subject is, in words with a comma before them; nothing for the whole run.
pub(super) fn subject(subject: &Subject) -> String {
    let Subject { flow, class, path } = subject;
    let class = class.as_ref().map(|class| format!(", class {class}"));
    let flow = flow.as_ref().map(|flow| format!(", {flow}"));
    let path = path.as_ref().map(|path| format!(", path {path}"));
    [flow, class, path].into_iter().flatten().collect()
}

/// A cell: `rtt 120 ms, setting 1`.
pub(super) fn cell(point: &Point, axes: &[Axis]) -> String {
    let of = |axis: &Axis| {
        let name = point.get(&axis.name)?;
        // A name with letters, such as "3 s", has its own unit.
        let bare = !axis.unit.is_empty() && !name.chars().any(char::is_alphabetic);
        let unit = if bare { format!(" {}", axis.unit) } else { String::new() };
        Some(format!("{} {name}{unit}", axis.name))
    };
    axes.iter().filter_map(of).collect::<Vec<_>>().join(", ")
}

fn plain(name: &str) -> String {
    name.replace('_', " ")
}
