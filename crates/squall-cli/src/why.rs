//! `squall why`: causes of late and lost blocks of a flow, and its bytes by path and reason.

use std::{fmt::Write as _, net::SocketAddr, path::PathBuf, process::ExitCode};

use clap::Args;
use squall_observe::status::{StepStatus, StoryStatus, WhyStatus};
use squall_terminal::{
    error::usage,
    output,
    wrap::{self, wrap},
};

use crate::{
    fetch,
    table::{Table, millis, span},
};

/// Number of blocks that are explained without `--last`.
pub(crate) const LAST: usize = 10;

/// Explains why blocks of a flow were late or lost, and where its bytes went.
///
/// A block is a frame, or a single datagram. The end where the flow enters has all decisions, the
/// other end has the blocks that arrived too late.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  squall why cam\n  squall why cam 127.0.0.1:9471 --last 3\n  \
                        squall why cam --json - | jq '.stories[].cause'\n\n\
                        The tunnel must serve its status: see `metrics` in docs/tunnel.md.")]
pub(crate) struct WhyArgs {
    /// Name of the flow
    flow: String,
    /// Address of metrics and status of the tunnel
    #[arg(default_value = "127.0.0.1:9464", value_name = "ADDR:PORT", value_parser = crate::arguments::parse_address)]
    address: SocketAddr,
    /// Number of blocks to explain, the latest ones
    #[arg(long, value_name = "N", default_value_t = LAST)]
    last: usize,
    /// Write all available data as JSON; - for standard output
    #[arg(long, value_name = "FILE", conflicts_with = "last")]
    json: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &WhyArgs) -> anyhow::Result<ExitCode> {
    let status = fetch::status(args.address)?;
    if !status.flows.iter().any(|flow| flow.name == args.flow) {
        let names: Vec<&str> = status.flows.iter().map(|flow| flow.name.as_str()).collect();
        let names = if names.is_empty() { "it has none".to_owned() } else { names.join(", ") };
        return Err(usage(format!("the tunnel on {} has no flow '{}': {names}", args.address, args.flow)));
    }
    let why = fetch::why(args.address, &args.flow)?;
    match &args.json {
        Some(file) => output::write(file, &format!("{}\n", serde_json::to_string_pretty(&why)?))?,
        None => output::print(&text(&why, args.last, wrap::width()))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Formats the answer as text: bytes by path and reason, then the stories of the last blocks,
/// latest last.
pub(crate) fn text(why: &WhyStatus, last: usize, width: Option<usize>) -> String {
    let WhyStatus { flow, stories, .. } = why;
    let state = if flow.attached { "carried" } else { "waiting for a session" };
    let mut text =
        format!("{}, {} {}, {} ms, {state}\n\n", flow.name, flow.end, flow.address, flow.latency_ms);
    if flow.shares.is_empty() {
        text.push_str("nothing was sent from here in the last five minutes\n\n");
    } else {
        let _ = writeln!(text, "{}", shares(why).fit(width.unwrap_or(usize::MAX)).text());
    }
    if stories.is_empty() {
        text.push_str("no block was slow, late or lost\n");
        return text;
    }
    let shown = &stories[stories.len().saturating_sub(last)..];
    let _ =
        writeln!(text, "the last {} of {} blocks that were slow, late or lost:", shown.len(), flow.stories);
    for story in shown {
        text.push('\n');
        text.push_str(&self::story(story, why.uptime_s, width));
    }
    text
}

fn shares(why: &WhyStatus) -> Table {
    let shares = &why.flow.shares;
    let sum = shares.iter().map(|share| share.bytes).sum::<u64>().max(1);
    let row = |share: &squall_observe::status::ShareStatus| {
        vec![
            share.path.clone(),
            share.kind.clone(),
            share.reason.clone(),
            size(share.bytes),
            format!("{:.1} %", share.bytes as f64 / sum as f64 * 100.0),
        ]
    };
    Table {
        head: vec!["path", "kind", "reason", "bytes", "share"],
        rows: shares.iter().map(row).collect(),
        left: 3,
        spare: &["bytes"],
    }
}

fn story(story: &StoryStatus, now: f64, width: Option<usize>) -> String {
    let mut about = Vec::new();
    about.extend(story.block.map(|block| format!("block {block}")));
    about.extend((!story.class.is_empty()).then(|| story.class.clone()));
    about.extend((story.bytes > 0).then(|| size(story.bytes)));
    let head = format!("{} ago", span((now - story.at_s).max(0.0)));
    let words = format!("{}: {}: {}", about.join(", "), story.outcome, story.cause);
    let mut text = wrap(&format!("{head}  "), 4, &words, width);
    if story.steps.is_empty() && story.took_us == 0 {
        return text;
    }
    let mut line =
        |at: String, words: &str| text.push_str(&wrap(&format!("{at:>16} ms  "), 21, words, width));
    let latency = match story.latency_ms {
        0 => String::new(),
        latency => format!(", {latency} ms to arrive"),
    };
    line("0.0".to_owned(), &format!("entered{latency}"));
    for step in &story.steps {
        line(when(step), &words_of(step));
    }
    if story.omitted > 0 {
        line("…".to_owned(), &format!("{} further steps", story.omitted));
    }
    let is_here = ["slow", "late"].contains(&story.outcome.as_str());
    let end = if is_here { "arrived" } else { &story.outcome };
    line(millis(story.took_us), end);
    text
}

/// Formats the time of a step, or of a series of merged steps.
fn when(step: &StepStatus) -> String {
    if step.until_us > step.at_us + 50 {
        format!("{}–{}", millis(step.at_us), millis(step.until_us))
    } else {
        millis(step.at_us)
    }
}

fn words_of(step: &StepStatus) -> String {
    let verb = match step.what.as_str() {
        "fresh" => "sent",
        "repair" => "sent again",
        "copy" => "copied",
        "parity" => "parity sent",
        "unknown" => "fate unknown, as the path moved",
        "cancel" => "cancelled",
        other => other,
    };
    let mut words = verb.to_owned();
    if step.bytes > 0 {
        words.push_str(&format!(" {}", size(step.bytes)));
    }
    if !step.path.is_empty() {
        words.push_str(&format!(" on {}", step.path));
    }
    if !step.reason.is_empty() {
        words.push_str(&format!(": {}", step.reason));
    }
    if let Some(expected) = step.expected_us {
        words.push_str(&format!(", expected at {} ms", millis(expected)));
    }
    words
}

fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use squall_observe::status::{FlowStatus, ShareStatus};

    use super::*;

    #[test]
    fn a_story_is_a_line_per_step() {
        let step = |at_us, until_us, what: &str, reason: &str, expected_us| StepStatus {
            at_us,
            until_us,
            what: what.to_owned(),
            path: "wlan0".to_owned(),
            bytes: 41_000,
            reason: reason.to_owned(),
            expected_us,
        };
        let story = StoryStatus {
            number: 3,
            at_s: 10.0,
            session: 1,
            block: Some(812),
            class: "key".to_owned(),
            bytes: 41_000,
            latency_ms: 300,
            outcome: "expired".to_owned(),
            cause: "41.0 kB lost on wlan0; it was not sent again in time".to_owned(),
            took_us: 300_000,
            steps: vec![
                step(200, 12_000, "fresh", "lowest RTT", Some(21_000)),
                step(90_000, 90_000, "lost", "", None),
            ],
            omitted: 0,
        };
        let share = ShareStatus {
            path: "wlan0".to_owned(),
            kind: "fresh".to_owned(),
            reason: "lowest RTT".to_owned(),
            bytes: 41_000,
        };
        let flow = FlowStatus {
            name: "cam".to_owned(),
            end: "in".to_owned(),
            address: "127.0.0.1:5000".to_owned(),
            attached: true,
            latency_ms: 300,
            shares: vec![share],
            stories: 7,
            ..FlowStatus::default()
        };
        let why = WhyStatus { uptime_s: 25.0, flow, stories: vec![story] };
        let expected = "\
cam, in 127.0.0.1:5000, 300 ms, carried

path   kind   reason        bytes    share
wlan0  fresh  lowest RTT  41.0 kB  100.0 %

the last 1 of 7 blocks that were slow, late or lost:

15.0 s ago  block 812, key, 41.0 kB: expired: 41.0 kB lost on wlan0; it was not sent again in time
             0.0 ms  entered, 300 ms to arrive
        0.2–12.0 ms  sent 41.0 kB on wlan0: lowest RTT, expected at 21.0 ms
            90.0 ms  lost 41.0 kB on wlan0
           300.0 ms  expired
";
        assert_eq!(text(&why, 10, None), expected);
        let quiet = text(&WhyStatus::default(), 10, None);
        assert!(quiet.contains("nothing was sent") && quiet.ends_with("no block was slow, late or lost\n"));
    }
}
