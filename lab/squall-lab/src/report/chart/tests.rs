use super::spread::{Curve, Side, Spread};
use super::*;

fn chart(at: [Option<f64>; 2]) -> Chart {
    let some = |mean: f64| Some(Estimate { mean, half: Some(0.05) });
    let row = |series: usize, name: &str, values: [f64; 2]| Row {
        series,
        name: name.into(),
        values: values.map(some).into(),
        paper: vec![Some(0.999), None],
        asked: vec![vec![], vec![0.4, 0.3]],
    };
    Chart {
        name: "c".into(),
        title: "Completion by <rate>".into(),
        caption: String::new(),
        what: "in time".into(),
        unit: Unit::Ratio,
        log: None,
        along: "bandwidth, Mbps".into(),
        places: ["20+25", "5+10"]
            .into_iter()
            .zip(at)
            .map(|(name, at)| PlaceLabel { name: name.into(), at })
            .collect(),
        rows: vec![row(0, "minrtt", [0.9, 0.2]), row(1, "dams", [0.8, 0.5])],
        bound: vec![Some(1.0), Some(0.7)],
    }
}

fn drawn(chart: &Chart) -> String {
    chart.figure().expect("has values").standalone()
}

#[test]
fn numbers_are_lines_with_bands_and_names_are_stems() {
    let lines = drawn(&chart([Some(45.0), Some(15.0)]));
    assert_eq!(lines.matches("s-series s-series0").count(), 2, "the line and its key");
    assert_eq!(lines.matches("opacity=\"0.16\"").count(), 3, "two bands and the key");
    let dots = drawn(&chart([None, None]));
    assert_eq!(dots.matches("s-series s-series0").count(), 0);
    assert_eq!(dots.matches("opacity=\"0.22\"").count(), 4, "a stem for each value");
    for words in
        ["20+25", "told by the paper", "what claims ask for", "limit for any scheduler", "bandwidth, Mbps"]
    {
        assert!(lines.contains(words) && dots.contains(words), "{words} in {lines}");
    }
    assert!(lines.contains("Completion by &lt;rate&gt;"));
}

#[test]
fn the_order_of_the_file_is_that_of_the_axis() {
    let chart = chart([Some(45.0), Some(15.0)]);
    let frame = frame::frame(&chart, 0, 100);
    let places = Places::of(&chart, &frame);
    assert_eq!(places.in_order(), [0, 1], "45 is left of 15, as the file has it");
    assert!(places.center(0) < places.center(1));
}

#[test]
fn one_place_names_the_schedulers_below() {
    let mut chart = chart([None, None]);
    chart.places.truncate(1);
    for row in &mut chart.rows {
        row.values.truncate(1);
        row.paper.truncate(1);
        row.asked.truncate(1);
    }
    chart.bound.truncate(1);
    chart.rows[0].name = "storm(alpha=0.5)+late".into();
    let svg = drawn(&chart);
    for part in ["storm", "(alpha=0.5)", "+late"] {
        assert!(svg.contains(&format!(">\n{part}\n<")), "{part}");
    }
}

#[test]
fn scales_suit_the_values() {
    let mut chart = chart([None, None]);
    chart.unit = Unit::Time;
    for row in &mut chart.rows {
        (row.paper, row.asked) = (vec![None; 2], vec![Vec::new(); 2]);
    }
    chart.bound.clear();
    let set = |chart: &mut Chart, means: [f64; 2]| {
        for row in &mut chart.rows {
            row.values = means.map(|mean| Some(Estimate { mean, half: None })).into();
        }
        drawn(chart)
    };
    assert!(set(&mut chart, [10_000.0, 900_000.0]).contains("(logarithmic)"));
    assert!(set(&mut chart, [290_000.0, 294_000.0]).contains("(not from 0 on)"));
    let plain = set(&mut chart, [10_000.0, 90_000.0]);
    assert!(!plain.contains("(logarithmic)") && !plain.contains("(not from 0 on)"));
    assert!(set(&mut chart, [0.0, 0.0]).contains("<svg"));
}

#[test]
fn nothing_is_drawn_of_nothing() {
    let mut chart = chart([None, None]);
    for row in &mut chart.rows {
        row.values = vec![None, None];
    }
    assert!(chart.figure().is_none());
}

#[test]
fn the_same_chart_is_the_same_bytes() {
    assert_eq!(drawn(&chart([None, None])), drawn(&chart([None, None])));
}

#[test]
fn distributions_have_bands_over_the_runs() {
    let run = |scale: u64| vec![(10_000 * scale, 1.0), (20_000 * scale, 0.5), (90_000 * scale, 0.01)];
    let spread = |side| Spread {
        name: "t".into(),
        title: "Latency".into(),
        side,
        deadline_us: Some(100_000),
        curves: vec![Curve { series: 2, name: "dams".into(), runs: vec![run(1), run(2)] }],
    };
    for side in [Side::Longer, Side::Within] {
        let svg = spread(side).figure().expect("has blocks").standalone();
        assert!(svg.contains("opacity=\"0.13\"") && svg.contains("deadline 100 ms") && svg.contains("dams"));
    }
    let mut empty = spread(Side::Longer);
    empty.curves[0].runs = vec![Vec::new()];
    assert!(empty.figure().is_none());
}
