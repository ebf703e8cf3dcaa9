//! `squall-lab signal info`: statistics of traces.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use serde_json::{Value, json};
use squall_signal::{Span, WatermarkConfig};

use squall_terminal::{
    error::{usage, whole},
    input, output,
};
use squall_trace::{Input, Lag, Recording, SignalSurvey, Spread, Wishes};

use crate::trace::{number, seconds};

/// Shows statistics of traces: rates, levels, signal quality, alerts of the watermarks, and the
/// lead of the signal over the rate.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  squall-lab signal info scenarios/traces/drive.csv\n  \
    squall-lab signal info scenarios/traces/*.csv --json - | jq '.[].alerts'\n\n\
    The index is that of docs/signal.md, 0 to 1, from the levels alone. The watermarks get the rows in order, and \
    no losses. The lags are rank correlations (Spearman) of the index with the rate that number of seconds later: where \
    it is highest at a lag above 0, the signal leads.")]
pub(crate) struct InfoArgs {
    /// Recordings of any single-file format
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Write all results as JSON; - for standard output, which replaces the text
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &InfoArgs) -> anyhow::Result<ExitCode> {
    let mut surveys = Vec::new();
    for file in &args.files {
        input::check(file)?;
        let input = Input::load(file).map_err(usage)?;
        let recording = Recording::parse(&[input], &Wishes::default()).map_err(usage)?;
        let survey = SignalSurvey::of(&recording, WatermarkConfig::default()).map_err(whole)?;
        surveys.push((file.as_path(), survey));
    }
    if let Some(file) = &args.json {
        let all: Vec<Value> = surveys.iter().map(|(file, survey)| figures(file, survey)).collect();
        output::write(file, &(serde_json::to_string_pretty(&all)? + "\n"))?;
    }
    if !args.json.as_deref().is_some_and(output::is_stdout) {
        let texts: Vec<String> = surveys.iter().map(|(file, survey)| text(file, survey)).collect();
        output::print(&texts.join("\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn text(file: &Path, survey: &SignalSurvey) -> String {
    let mut text = format!("{}: {} rows, {} s\n", file.display(), survey.rows, seconds(survey.duration));
    let head = ["", "rows", "min", "10 %", "median", "90 %", "max"];
    push_row(&mut text, &head.map(str::to_owned));
    for (what, spread) in &survey.numbers {
        push_spread(&mut text, what.name(), spread, survey.rows);
    }
    if let Some(quality) = &survey.quality {
        push_spread(&mut text, "index", quality, survey.rows);
        push_watermarks(&mut text, survey);
        push_lags(&mut text, survey);
    } else {
        text.push_str("  no levels of a radio\n");
    }
    text
}

fn push_spread(text: &mut String, name: &str, spread: &Spread, rows: usize) {
    let share = format!("{:.0} %", 100.0 * spread.count() as f64 / rows as f64);
    let [min, p10, median, p90, max] = [0.0, 0.1, 0.5, 0.9, 1.0].map(|share| number(spread.at(share)));
    push_row(text, &[name.to_owned(), share, min, p10, median, p90, max]);
}

fn push_row(text: &mut String, cells: &[String; 7]) {
    let [name, rest @ ..] = cells;
    let rest: String = rest.iter().map(|cell| format!(" {cell:>8}")).collect();
    text.push_str(format!("  {name:<10}{rest}").trim_end());
    text.push('\n');
}

fn push_watermarks(text: &mut String, survey: &SignalSurvey) {
    let counts = SignalSurvey::ALERTS.iter().zip(survey.alerts);
    let counts: Vec<String> = counts.map(|(kind, count)| format!("{count} {}", kind.name())).collect();
    let shares: Vec<String> =
        states(survey).map(|(name, share)| format!("{name} {:.1} %", 100.0 * share)).collect();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "  alerts: {}; {:.1} a minute", counts.join(", "), per_minute(survey));
    let _ = writeln!(text, "  states: {}", shares.join(", "));
    if survey.disconnected > 0 {
        let _ = writeln!(text, "  in no network: {} rows", survey.disconnected);
    }
}

fn push_lags(text: &mut String, survey: &SignalSurvey) {
    let Some(best) = survey.best_lag() else {
        text.push_str("  lags: too few rows with both an index and a rate\n");
        return;
    };
    let lag = |lag: &Lag| match lag.correlation {
        Some(correlation) => format!("{:+} s {correlation:.2}", lag.seconds),
        None => format!("{:+} s -", lag.seconds),
    };
    let all: Vec<String> = survey.lags.iter().map(lag).collect();
    let _ = writeln!(text, "  lags: {}; highest at {:+} s", all.join(", "), best.seconds);
}

fn figures(file: &Path, survey: &SignalSurvey) -> Value {
    let spread = |spread: &Spread| {
        let [min, p10, median, p90, max] = [0.0, 0.1, 0.5, 0.9, 1.0].map(|share| spread.at(share));
        json!({ "count": spread.count(), "min": min, "p10": p10, "median": median, "p90": p90, "max": max })
    };
    let numbers: serde_json::Map<String, Value> =
        survey.numbers.iter().map(|(what, one)| (what.name().to_owned(), spread(one))).collect();
    let alerts: serde_json::Map<String, Value> = SignalSurvey::ALERTS
        .iter()
        .zip(survey.alerts)
        .map(|(kind, count)| (kind.name().to_owned(), count.into()))
        .collect();
    let states: serde_json::Map<String, Value> =
        states(survey).map(|(name, share)| (name.to_owned(), share.into())).collect();
    let lags: Vec<Value> = survey
        .lags
        .iter()
        .map(|lag| json!({ "lag_s": lag.seconds, "correlation": lag.correlation, "pairs": lag.pairs }))
        .collect();
    json!({
        "file": file.display().to_string(),
        "rows": survey.rows,
        "duration_s": survey.duration as f64 / 1e6,
        "numbers": numbers,
        "index": survey.quality.as_ref().map(spread),
        "disconnected": survey.disconnected,
        "alerts": alerts,
        "alerts_per_minute": per_minute(survey),
        "states": states,
        "lags": lags,
        "best_lag_s": survey.best_lag().map(|lag| lag.seconds),
    })
}

/// Returns the states with their share of the time.
fn states(survey: &SignalSurvey) -> impl Iterator<Item = (&'static str, f64)> + '_ {
    let all = survey.states.into_iter().sum::<Span>().max(Span::TICK).micros() as f64;
    let names = SignalSurvey::STATES.iter().map(|state| state.name());
    names.zip(survey.states.iter().map(move |time| time.micros() as f64 / all))
}

fn per_minute(survey: &SignalSurvey) -> f64 {
    let minutes = survey.duration as f64 / 60e6;
    if minutes == 0.0 { 0.0 } else { survey.alerts.iter().sum::<usize>() as f64 / minutes }
}
