//! Story of a block: the scheduler's decisions, the losses, and the outcome.

use std::{collections::VecDeque, sync::Arc};

use squall_observe::status::{StepStatus, StoryStatus};
use squall_units::{Span, Time};

use crate::{
    flow::reorder::{Absence, Absent},
    media::Class,
};

/// Maximum number of steps of a story.
const MAX_STEPS: usize = 24;

/// Number of stories kept per flow: separately for slow blocks and others, so that slow ones do not
/// displace others.
const KEPT: usize = 64;

/// Number of stories kept that end within one [`SPAN`], so that an outage does not displace the
/// stories before it.
const KEPT_PER_SPAN: u32 = 16;

/// Length of a span, see [`KEPT_PER_SPAN`].
const SPAN: Span = Span::from_secs(5);

/// Event of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Fresh,
    Repair,
    Copy,
    Parity,
    /// A packet was lost.
    Lost,
    /// The path was rebound, and the fate of a packet is unknown.
    Unknown,
    /// The scheduler cancelled the block.
    Cancel,
}

impl What {
    pub(super) fn name(self) -> &'static str {
        ["fresh", "repair", "copy", "parity", "lost", "unknown", "cancel"][self as usize]
    }

    fn is_loss(self) -> bool {
        matches!(self, Self::Lost | Self::Unknown)
    }

    fn is_sending(self) -> bool {
        matches!(self, Self::Fresh | Self::Repair | Self::Copy | Self::Parity)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) at: Time,
    pub(super) until: Time,
    pub(super) what: What,
    pub(super) path: Option<Arc<str>>,
    pub(super) bytes: u64,
    pub(super) reason: &'static str,
    pub(super) expected: Option<Time>,
}

/// The story of a block that has not ended.
#[derive(Clone, Debug)]
pub(super) struct Story {
    pub(super) class: Class,
    /// Time at which its first datagram entered.
    pub(super) stamp: Time,
    /// Latency of the flow.
    pub(super) latency: Span,
    pub(super) session: u64,
    pub(super) block: Option<u64>,
    steps: Vec<Step>,
    omitted: u64,
}

impl Story {
    pub(super) fn new(class: Class, stamp: Time, latency: Span, session: u64, block: Option<u64>) -> Self {
        Self { class, stamp, latency, session, block, steps: Vec::new(), omitted: 0 }
    }

    /// Adds a step. Merges it into an earlier step with the same event, path and reason, if only
    /// decisions, or only losses, lie between them.
    pub(super) fn add(&mut self, step: Step) {
        let of_kind = self.steps.iter_mut().rev().take_while(|one| one.what.is_loss() == step.what.is_loss());
        let mut same = of_kind.filter(|one| {
            one.what == step.what && one.path == step.path && std::ptr::eq(one.reason, step.reason)
        });
        if let Some(one) = same.next() {
            (one.until, one.bytes, one.expected) = (step.at, one.bytes + step.bytes, step.expected);
        } else if self.steps.len() < MAX_STEPS {
            self.steps.push(step);
        } else {
            self.omitted += 1;
        }
    }

    fn bytes(&self, of: fn(What) -> bool) -> u64 {
        self.steps.iter().filter(|step| of(step.what)).map(|step| step.bytes).sum()
    }

    /// Returns the paths of the selected steps, for messages.
    fn paths(&self, of: fn(What) -> bool) -> String {
        let mut names: Vec<&str> = Vec::new();
        for step in self.steps.iter().filter(|step| of(step.what)) {
            let name = step.path.as_deref().unwrap_or("?");
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names.join(" and ")
    }

    /// Describes the cause of the outcome in one sentence.
    fn cause(&self, outcome: &str, bytes: u64, took: Span) -> String {
        match outcome {
            "unsent" => return "its latency passed before a session took it".to_owned(),
            "overflow" => {
                return "more blocks were in transit, or more bytes queued, than allowed".to_owned();
            }
            "closed" => return "the session ended first".to_owned(),
            "refused" => return "the other end had no room for it".to_owned(),
            "cancelled" => {
                let cancel = self.steps.iter().rev().find(|step| step.what == What::Cancel);
                let reason = cancel.map_or("the tunnel withdrew it", |step| step.reason);
                return format!("cancelled: {reason}");
            }
            _ => {}
        }
        let is_first = |what| what == What::Fresh;
        let (sent, lost) = (self.bytes(is_first), self.bytes(What::is_loss));
        let Some(first) = self.steps.iter().find(|step| step.what.is_sending()) else {
            return format!("no path took any of it in {}", millis(took));
        };
        // Events after the deadline are not the cause.
        let time = took.min(self.latency);
        let waited = first.at - self.stamp;
        let last = self.steps.iter().filter(|step| step.what == What::Fresh).map(|step| step.until).max();
        let drained = last.map_or(Span::ZERO, |last| last - self.stamp);
        if lost > 0 {
            let again = self.steps.iter().find(|step| matches!(step.what, What::Repair | What::Copy));
            let again = again.map_or("was not sent again in time".to_owned(), |step| {
                format!("was sent again {} after the block entered", millis(step.at - self.stamp))
            });
            return format!("{} lost on {}; it {again}", size(lost), self.paths(What::is_loss));
        }
        if sent < bytes {
            return format!("the paths took only {} of {} in time", size(sent), size(bytes));
        }
        if waited * 2 > time {
            return format!("no path took any of it for {}", millis(waited));
        }
        if drained * 2 > time {
            return format!("its last byte waited {} for a path", millis(drained));
        }
        let (paths, drained) = (self.paths(What::is_sending), millis(drained));
        if matches!(outcome, "slow" | "late") {
            return format!(
                "all of it left within {drained}; {paths} confirmed it only after {}",
                millis(took)
            );
        }
        format!("all of it left within {drained}, but {paths} did not confirm it in time")
    }

    /// Converts the story to its stored form.
    fn end(self, outcome: &str, bytes: u64, at: Time) -> StoryStatus {
        let took = at - self.stamp;
        let cause = self.cause(outcome, bytes, took);
        let since = |at: Time| (at - self.stamp).micros();
        let steps = self.steps.iter().map(|step| StepStatus {
            at_us: since(step.at),
            until_us: since(step.until),
            what: step.what.name().to_owned(),
            path: step.path.as_deref().unwrap_or_default().to_owned(),
            bytes: step.bytes,
            reason: step.reason.to_owned(),
            expected_us: step.expected.map(since),
        });
        StoryStatus {
            number: 0,
            at_s: self.stamp.since_epoch().as_secs_f64(),
            session: self.session,
            block: self.block,
            class: self.class.name().to_owned(),
            bytes,
            latency_ms: self.latency / Span::from_millis(1),
            outcome: outcome.to_owned(),
            cause,
            took_us: took.micros(),
            steps: steps.collect(),
            omitted: self.omitted,
        }
    }
}

fn millis(span: Span) -> String {
    format!("{:.1} ms", span.micros() as f64 / 1e3)
}

fn size(bytes: u64) -> String {
    if bytes < 10_000 { format!("{bytes} B") } else { format!("{:.1} kB", bytes as f64 / 1e3) }
}

/// Stories of a flow that are kept.
#[derive(Debug, Default)]
pub(super) struct Stories {
    slow: Kept,
    others: Kept,
    count: u64,
}

#[derive(Debug, Default)]
struct Kept {
    stories: VecDeque<StoryStatus>,
    span: u64,
    in_span: u32,
}

impl Kept {
    /// `true` if one more story that ends now is kept.
    fn has_room(&mut self, at: Time) -> bool {
        let span = at.since_epoch() / SPAN;
        if span != self.span {
            (self.span, self.in_span) = (span, 0);
        }
        self.in_span += 1;
        self.in_span <= KEPT_PER_SPAN
    }

    fn push(&mut self, story: StoryStatus) {
        if self.stories.len() == KEPT {
            self.stories.pop_front();
        }
        self.stories.push_back(story);
    }
}

impl Stories {
    /// Adds the story of a block that ended late, slowly or undelivered.
    pub(super) fn end(&mut self, story: Story, outcome: &str, bytes: u64, at: Time) {
        self.count += 1;
        let kept = if outcome == "slow" { &mut self.slow } else { &mut self.others };
        if kept.has_room(at) {
            kept.push(StoryStatus { number: self.count, ..story.end(outcome, bytes, at) });
        }
    }

    /// Adds a story about blocks of the other end that did not leave here.
    pub(super) fn absent(&mut self, now: Time, session: u64, latency: Span, absence: Absence) {
        self.count += 1;
        if !self.others.has_room(now) {
            return;
        }
        let Absence { number: first, count, class, why } = absence;
        let them = if count == 1 { "it".to_owned() } else { format!("{count} blocks from this one on") };
        let (outcome, bytes, at, cause) = match why {
            Absent::Late { bytes, came_in } => {
                let at = came_in.unwrap_or(now);
                let took = millis(now - at);
                ("late", bytes, at, format!("it arrived {took} after it entered, and later blocks had left"))
            }
            Absent::Reported if class.is_some() => {
                ("missing", 0, now, "the other end dropped the rest of it".to_owned())
            }
            Absent::Reported => ("missing", 0, now, format!("the other end dropped {them}")),
            Absent::TimedOut => ("missing", 0, now, format!("{them} did not arrive within the latency")),
        };
        self.others.push(StoryStatus {
            number: self.count,
            at_s: at.since_epoch().as_secs_f64(),
            session,
            block: Some(first),
            class: class.map_or("", Class::name).to_owned(),
            bytes: bytes as u64,
            latency_ms: latency / Span::from_millis(1),
            outcome: outcome.to_owned(),
            cause,
            took_us: (now - at).micros(),
            ..StoryStatus::default()
        });
    }

    /// Returns the kept stories, oldest first.
    pub(super) fn status(&self) -> Vec<StoryStatus> {
        let mut all: Vec<_> = self.slow.stories.iter().chain(&self.others.stories).cloned().collect();
        all.sort_by_key(|story| story.number);
        all
    }

    /// Returns the number of stories so far, including those that are not kept.
    pub(super) fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use squall_units::short::{at_ms, at_us, ms};

    use super::*;

    fn step(at: Time, what: What, path: &str, bytes: u64) -> Step {
        let path = Some(path.into());
        Step { at, until: at, what, path, bytes, reason: "lowest RTT", expected: None }
    }

    fn story() -> Story {
        Story::new(Class::Key, at_ms(1), ms(300), 1, Some(7))
    }

    #[test]
    fn like_steps_are_one_until_something_else_happens() {
        let mut story = story();
        for at in 0..1_000 {
            story.add(step(at_us(2_000 + at), What::Fresh, ["wlan0", "usb0"][at as usize % 2], 1_000));
        }
        story.add(step(at_ms(90), What::Lost, "wlan0", 2_000));
        story.add(step(at_ms(91), What::Fresh, "wlan0", 1_000));
        let ended = story.end("expired", 1_001_000, at_ms(301));
        let steps: Vec<_> = ended.steps.iter().map(|step| (&*step.what, &*step.path, step.bytes)).collect();
        let expected = [
            ("fresh", "wlan0", 500_000),
            ("fresh", "usb0", 500_000),
            ("lost", "wlan0", 2_000),
            ("fresh", "wlan0", 1_000),
        ];
        assert_eq!(steps, expected);
        assert_eq!((ended.steps[0].at_us, ended.steps[0].until_us, ended.took_us), (1_000, 1_998, 300_000));
        assert_eq!(ended.cause, "2000 B lost on wlan0; it was not sent again in time");
    }

    #[test]
    fn the_cause_is_what_took_the_time() {
        let cause = |steps: &[Step], outcome: &str| {
            let mut story = story();
            steps.iter().for_each(|step| story.add(step.clone()));
            story.end(outcome, 5_000, at_ms(301)).cause
        };
        assert_eq!(cause(&[], "expired"), "no path took any of it in 300.0 ms");
        assert_eq!(cause(&[], "unsent"), "its latency passed before a session took it");
        let sent = |at| step(at, What::Fresh, "wlan0", 5_000);
        assert_eq!(cause(&[sent(at_ms(251))], "slow"), "no path took any of it for 250.0 ms");
        assert!(cause(&[sent(at_ms(2))], "expired").starts_with("all of it left within 1.0 ms, but wlan0"));
        let expected = "all of it left within 1.0 ms; wlan0 confirmed it only after 300.0 ms";
        assert_eq!(cause(&[sent(at_ms(2))], "slow"), expected);
        // An end after the deadline does not hide the wait before it.
        let mut late = story();
        late.add(sent(at_ms(200)));
        let late = late.end("late", 5_000, at_ms(601)).cause;
        assert_eq!(late, "no path took any of it for 199.0 ms");
        let partly = step(at_ms(2), What::Fresh, "wlan0", 3_000);
        assert!(cause(&[partly], "expired").starts_with("the paths took only 3000 B of 5000 B"));
        let steps = [
            sent(at_ms(2)),
            step(at_ms(60), What::Lost, "wlan0", 1_000),
            step(at_ms(61), What::Repair, "usb0", 1_000),
        ];
        let expected = "1000 B lost on wlan0; it was sent again 60.0 ms after the block entered";
        assert_eq!(cause(&steps, "slow"), expected);
        let cancel = Step { path: None, reason: "no residual time", ..step(at_ms(3), What::Cancel, "", 0) };
        assert_eq!(cause(&[cancel], "cancelled"), "cancelled: no residual time");
    }

    #[test]
    fn a_receiver_has_the_stories_of_what_did_not_leave() {
        let mut stories = Stories::default();
        let late = Absent::Late { bytes: 900, came_in: Some(at_ms(100)) };
        let absences = [
            Absence { number: 7, count: 1, class: Some(Class::Key), why: late },
            Absence { number: 8, count: 3, class: None, why: Absent::TimedOut },
        ];
        for absence in absences {
            stories.absent(at_ms(450), 1, ms(300), absence);
        }
        let kept = stories.status();
        let shown: Vec<_> =
            kept.iter().map(|one| (one.block, &*one.outcome, &*one.class, one.took_us)).collect();
        assert_eq!(shown, [(Some(7), "late", "key", 350_000), (Some(8), "missing", "", 0)]);
        assert_eq!(kept[0].cause, "it arrived 350.0 ms after it entered, and later blocks had left");
        assert_eq!(kept[1].cause, "3 blocks from this one on did not arrive within the latency");
    }

    #[test]
    fn stories_are_bounded_and_an_outage_does_not_displace_all() {
        let mut stories = Stories::default();
        stories.end(story(), "expired", 1, at_ms(1_000));
        for at in 0..10_000 {
            stories.end(story(), "expired", 1, at_us(20_000_000 + at * 100));
        }
        let kept = stories.status();
        assert_eq!((kept.len(), kept[0].number, stories.count()), (17, 1, 10_001));
        for at in 0..100_000 {
            stories.end(story(), "expired", 1, at_us(30_000_000 + at * 100_000));
        }
        assert_eq!(stories.status().len(), KEPT);
        let end = 30_000_000 + 100_000 * 100_000;
        for at in 0..10_000 {
            stories.end(story(), if at < 9_999 { "slow" } else { "lost" }, 1, at_us(end + at * 100));
        }
        let kept = stories.status();
        assert_eq!(
            kept.last().map(|story| &*story.outcome),
            Some("lost"),
            "slow blocks displace no lost one"
        );
        assert_eq!(kept.len(), KEPT + 16);
        let mut long = story();
        for at in 0..1_000 {
            let what = if at % 2 == 0 { What::Fresh } else { What::Lost };
            long.add(step(at_us(at), what, "wlan0", 1));
        }
        assert!(long.steps.len() == MAX_STEPS && long.omitted > 400);
    }
}
