//! Long-term test in virtual time: video and audio over two paths for hours, with faults that
//! repeat every hour.
//!
//! The hours are alike, so anything that a session or an endpoint accumulates shows as a difference
//! between two hours. The caller, `squall-lab bench life`, owns the allocator and the clock and
//! measures the cost of a minute.

use std::time::Duration;

use squall_net::PathConfig;
use squall_proto::{
    Block, BlockOptions, Channel, Config, Event, Priority,
    sched::{BlockId, PathState},
};
use squall_trace::Micros;

use crate::world::{Side, World, WorldError};

/// Microseconds per second.
const SECOND: Micros = 1_000_000;
/// Microseconds per minute.
const MINUTE: Micros = 60 * SECOND;
/// Microseconds per hour.
const HOUR: Micros = 60 * MINUTE;

/// Interval of video frames.
const FRAME: Micros = 33_333;
/// Interval of audio packets.
const AUDIO: Micros = 20_000;

/// Deadline of video frames.
const FRAME_DEADLINE: Duration = Duration::from_millis(200);
/// Deadline of audio packets.
const AUDIO_DEADLINE: Duration = Duration::from_millis(100);

/// Bytes of a video frame.
const SIZE: usize = 700;
/// Bytes of every sixtieth video frame.
const KEY_SIZE: usize = 6_000;
/// Bytes of an audio packet.
const AUDIO_SIZE: usize = 160;
/// Bytes of a message.
const MESSAGE_SIZE: usize = 200;

const VIDEO: Channel = Channel::new(1);
const SOUND: Channel = Channel::new(2);
const MESSAGES: Channel = Channel::new(3);
const GROWING: Channel = Channel::new(4);

/// Course of an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// Links fail, addresses and settings change; a single session persists through all hours.
    OneSession,
    /// Either end restarts, closes, or is unreachable for longer than the idle timeout of a session.
    /// The client reconnects at once.
    Restarts,
}

/// Action of an end at a second of the hour.
#[derive(Clone, Copy, Debug)]
enum Act {
    RemoveInterface,
    AddInterface,
    /// Sets whether the first path is metered and has a budget.
    Metered(bool),
    /// Sets whether the receiver's application takes events.
    Hold(bool),
    Restart(Side),
    Close(Side),
}

/// A fault: its name, its second in the hour, and the actions that it consists of.
struct Fault {
    name: &'static str,
    second: u64,
    acts: &'static [(u64, Act)],
}

const fn fault(name: &'static str, minute: u64, acts: &'static [(u64, Act)]) -> Fault {
    Fault { name, second: minute * 60, acts }
}

impl Course {
    /// Faults of an hour. The first entry stands for the time before any fault.
    fn faults(self) -> &'static [Fault] {
        const QUIET: Fault = fault("none", 0, &[]);
        const LINKS: &[Fault] = &[
            QUIET,
            fault("one link out for 3 s", 5, &[]),
            fault("the other link out for 3 s", 10, &[]),
            fault("address change on one link", 15, &[]),
            fault("address change on the other link", 20, &[]),
            fault("both links out for 2 s", 25, &[]),
            fault("an interface gone for 20 s", 30, &[(0, Act::RemoveInterface), (20, Act::AddInterface)]),
            fault("a link at 1 Mbps for 60 s", 35, &[]),
            fault("5 % loss on both links for 60 s", 40, &[]),
            fault("one direction of a link out for 3 s", 45, &[]),
            fault(
                "a link metered with a budget for 60 s",
                50,
                &[(0, Act::Metered(true)), (60, Act::Metered(false))],
            ),
            fault("the receiver does not read for 1 s", 55, &[(0, Act::Hold(true)), (1, Act::Hold(false))]),
        ];
        const ENDS: &[Fault] = &[
            QUIET,
            fault("the client restarts", 5, &[(0, Act::Restart(Side::Client))]),
            fault("the server restarts", 15, &[(0, Act::Restart(Side::Server))]),
            fault("the server closes the session", 25, &[(0, Act::Close(Side::Server))]),
            fault("both links out for 40 s", 35, &[]),
            fault(
                "both ends restart",
                45,
                &[(0, Act::Restart(Side::Server)), (1, Act::Restart(Side::Client))],
            ),
            fault("the client closes the session", 55, &[(0, Act::Close(Side::Client))]),
        ];
        match self {
            Self::OneSession => LINKS,
            Self::Restarts => ENDS,
        }
    }

    /// Links of an hour.
    fn links(self) -> Vec<PathConfig> {
        let (one, other) = match self {
            Self::OneSession => (
                "{ at = '300s', outage = '3s' }, { at = '900s', rebind = true }, { at = '1500s', outage = '2s' },
                 { at = '2100s', rate = '1mbps' }, { at = '2160s', rate = '12mbps' },
                 { at = '2400s', loss = '5%' }, { at = '2460s', loss = '0%' },
                 { at = '2700s', outage = '3s', direction = 'down' }",
                "{ at = '600s', outage = '3s' }, { at = '1200s', rebind = true }, { at = '1500s', outage = '2s' },
                 { at = '2400s', loss = '5%' }, { at = '2460s', loss = '0%' }",
            ),
            Self::Restarts => ("{ at = '2100s', outage = '40s' }", "{ at = '2100s', outage = '40s' }"),
        };
        let link = |name: &str, rate: &str, delay: &str, events: &str| {
            let text = format!("name = '{name}'\nrate = '{rate}'\ndelay = '{delay}'\nevents = [{events}]");
            toml::from_str(&text).expect("the text above is a path")
        };
        vec![link("wifi", "12mbps", "20ms", one), link("lte", "8mbps", "45ms", other)]
    }
}

/// Two ends and their traffic.
pub struct Life {
    world: World,
    course: Course,
    seed: u64,
    next_frame: Micros,
    next_audio: Micros,
    next_second: Micros,
    /// The growing block and the number of its parts so far.
    growing: Option<(BlockId, u32)>,
    viewer: Viewer,
    work: Work,
}

/// Totals of both ends since the beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Blocks that an application submitted.
    pub blocks: u64,
    /// Blocks that arrived at either end.
    pub arrived: u64,
    /// Blocks that were refused for lack of room or of a session.
    pub unsent: u64,
    /// Sessions established at the client.
    pub sessions: u64,
    /// Suspicions of paths at the client.
    pub suspicions: u64,
    /// Latest block id of the client.
    pub last_block: u64,
}

/// Video quality for a kind of fault, from the fault to the next one.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Seen {
    /// The fault.
    pub fault: &'static str,
    /// Number of occurrences.
    pub times: u64,
    /// Frames that the camera made.
    pub frames: u64,
    /// Frames that did not arrive.
    pub lost: u64,
    /// Frames that arrived more than 200 ms after they were made.
    pub late: u64,
    /// Longest time between two frames, in microseconds.
    pub longest_gap_us: Micros,
}

/// Watches the video at the server.
struct Viewer {
    seen: Vec<Seen>,
    /// Index of the current fault.
    now: usize,
    /// Index of the previous fault.
    before: usize,
    /// Start of the current fault.
    since: Micros,
    last: Option<Micros>,
}

impl Viewer {
    fn new(faults: &[Fault]) -> Self {
        let seen = |fault: &Fault| Seen {
            fault: fault.name,
            times: 0,
            frames: 0,
            lost: 0,
            late: 0,
            longest_gap_us: 0,
        };
        Self { seen: faults.iter().map(seen).collect(), now: 0, before: 0, since: 0, last: None }
    }

    fn on_fault(&mut self, now: Micros, index: usize) {
        (self.before, self.now, self.since) = (self.now, index, now);
        self.seen[index].times += 1;
    }

    fn on_frame(&mut self, now: Micros, made: Micros) {
        let of = if made < self.since { self.before } else { self.now };
        let seen = &mut self.seen[of];
        seen.lost = seen.lost.saturating_sub(1);
        seen.late += u64::from(now - made > FRAME_DEADLINE.as_micros() as Micros);
        if let Some(last) = self.last.replace(now) {
            let seen = &mut self.seen[self.now];
            seen.longest_gap_us = seen.longest_gap_us.max(now - last);
        }
    }
}

impl Life {
    /// Creates a run with nothing sent yet.
    ///
    /// # Errors
    /// If the TLS library reports an error.
    pub fn new(course: Course, seed: u64) -> Result<Self, WorldError> {
        let world = World::new(&course.links(), Config::default(), Config::default(), seed)?;
        Ok(Self {
            world,
            course,
            seed,
            next_frame: SECOND,
            next_audio: SECOND,
            next_second: 0,
            growing: None,
            viewer: Viewer::new(course.faults()),
            work: Work::default(),
        })
    }

    /// Runs for one minute.
    ///
    /// # Errors
    /// If a session ends unexpectedly, with the reason.
    pub fn pass_minute(&mut self) -> Result<(), String> {
        let end = self.world.now() / MINUTE * MINUTE + MINUTE;
        loop {
            let next = self.next_frame.min(self.next_audio).min(self.next_second);
            self.run_until(next.min(end))?;
            if next >= end {
                return Ok(());
            }
            if self.next_second == next {
                self.next_second += SECOND;
                self.pass_second(next)?;
            }
            if self.next_frame == next {
                self.next_frame += FRAME;
                self.make_frame(next);
            }
            if self.next_audio == next {
                self.next_audio += AUDIO;
                let options = BlockOptions::new()
                    .channel(SOUND)
                    .priority(Priority::FIRST)
                    .deadline(AUDIO_DEADLINE)
                    .reliable(false);
                self.send(Side::Client, Block::with(vec![2; AUDIO_SIZE], options));
            }
        }
    }

    /// Totals so far.
    pub fn work(&self) -> &Work {
        &self.work
    }

    /// Video quality so far, by kind of fault.
    pub fn seen(&self) -> &[Seen] {
        &self.viewer.seen
    }

    fn run_until(&mut self, end: Micros) -> Result<(), String> {
        let Self { world, viewer, work, course, .. } = self;
        let mut ended = None;
        world.run_until(end, |world, side, event| match (side, event) {
            (_, Event::Received(block)) => {
                work.arrived += 1;
                if side == Side::Server && block.channel == VIDEO {
                    let made = block.data.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
                    viewer.on_frame(world.now(), made);
                }
            }
            (Side::Client, Event::Connected) => work.sessions += 1,
            (Side::Client, Event::Path(_, squall_proto::PathChange::Suspected { .. })) => {
                work.suspicions += 1;
            }
            (Side::Client, Event::Closed(reason)) => {
                if *course == Course::OneSession {
                    ended = Some(format!("the session ended: {reason}"));
                } else if let Err(error) = world.reconnect() {
                    ended = Some(error.to_string());
                }
            }
            _ => {}
        });
        ended.map_or(Ok(()), Err)
    }

    /// Performs the periodic work of the applications and the actions that are due in this second.
    fn pass_second(&mut self, now: Micros) -> Result<(), String> {
        let second = now % HOUR / SECOND;
        if second == 0 && now > 0 {
            let entered = self.world.enter(&self.course.links(), self.seed + now / HOUR);
            entered.map_err(|error| error.to_string())?;
        }
        for (index, fault) in self.course.faults().iter().enumerate() {
            if fault.second == second {
                self.viewer.on_fault(now, index);
            }
            for (_, act) in fault.acts.iter().filter(|(after, _)| fault.second + after == second) {
                self.act(*act).map_err(|error| error.to_string())?;
            }
        }
        self.send(
            Side::Server,
            Block::with(vec![3; MESSAGE_SIZE], BlockOptions::new().channel(MESSAGES).ordered(true)),
        );
        self.grow(second);
        let at = self.world.instant();
        for side in [Side::Client, Side::Server] {
            let Some(session) = self.world.session(side) else { continue };
            let capacity = session.capacity(at).safe;
            let deliverable = session.deliverable(at, Duration::from_millis(100), 0.95);
            let paths = session.path_stats();
            let alive = paths.iter().filter(|(.., stats)| stats.state == PathState::Active).count();
            let _ = std::hint::black_box((capacity, deliverable, alive, session.take_reasons()));
        }
        Ok(())
    }

    fn act(&mut self, act: Act) -> Result<(), squall_proto::ConnectError> {
        let now = self.world.instant();
        match act {
            Act::RemoveInterface => self.world.remove_interface(0),
            Act::AddInterface => self.world.add_interface(0),
            Act::Metered(on) => {
                self.world.set_metered(0, on);
                self.world.set_budget(0, on.then_some(100_000_000));
            }
            Act::Hold(on) => self.world.hold_events(Side::Server, on),
            Act::Restart(side) => {
                self.growing = None;
                self.world.restart(side)?;
            }
            Act::Close(side) => {
                if let Some(session) = self.world.session(side) {
                    session.close(now, 0, "restart");
                }
                if side == Side::Client {
                    self.world.reconnect()?;
                }
            }
        }
        Ok(())
    }

    fn make_frame(&mut self, now: Micros) {
        let number = now / FRAME;
        let mut data = vec![1; if number.is_multiple_of(60) { KEY_SIZE } else { SIZE }];
        data[..8].copy_from_slice(&now.to_be_bytes());
        let seen = &mut self.viewer.seen[self.viewer.now];
        seen.frames += 1;
        // Counts as lost until it arrives.
        seen.lost += 1;
        let options = BlockOptions::new()
            .channel(VIDEO)
            .priority(Priority::new(1))
            .deadline(FRAME_DEADLINE)
            .ordered(true);
        self.send(Side::Client, Block::with(data, options));
    }

    fn send(&mut self, side: Side, block: Block) {
        let now = self.world.instant();
        self.work.blocks += 1;
        match self.world.session(side).and_then(|session| session.send(now, block).ok()) {
            Some(id) if side == Side::Client => self.work.last_block = id.0,
            Some(_) => {}
            None => self.work.unsent += 1,
        }
    }

    /// Every ten seconds, writes a block over three seconds. One in six is cancelled before its
    /// end.
    fn grow(&mut self, second: u64) {
        let now = self.world.instant();
        let Some(session) = self.world.session(Side::Client) else { return };
        match self.growing {
            None if second.is_multiple_of(10) => {
                let options = BlockOptions::new().channel(GROWING);
                self.growing = session.open(now, &options).ok().map(|id| (id, 0));
            }
            Some((id, parts)) if parts < 3 => {
                let _ = session.append(id, vec![4; SIZE].into());
                self.growing = Some((id, parts + 1));
            }
            Some((id, _)) => {
                self.growing = None;
                if second % 60 == 4 {
                    session.cancel(now, id);
                } else {
                    let _ = session.finish(now, id);
                }
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_viewer_sees_of_each_fault_what_was_lost_and_for_how_long() {
        let mut viewer = Viewer::new(Course::OneSession.faults());
        viewer.on_fault(0, 0);
        viewer.seen[0].lost = 2;
        viewer.on_frame(10_000, 0);
        viewer.on_fault(20_000, 1);
        viewer.seen[1].lost = 1;
        viewer.on_frame(230_000, 15_000);
        assert_eq!((viewer.seen[0].lost, viewer.seen[0].late, viewer.seen[1].lost), (0, 1, 1));
        assert_eq!(viewer.seen[1].longest_gap_us, 220_000);
    }

    #[test]
    fn one_session_lives_through_a_few_faults() {
        let mut life = Life::new(Course::OneSession, 1).expect("begins");
        for _ in 0..7 {
            life.pass_minute().expect("goes on");
        }
        let (work, seen) = (life.work(), life.seen());
        assert_eq!(work.sessions, 1);
        assert!(work.last_block > 7 * 60 * 70, "{work:?}");
        assert!(seen[0].frames > 8_000 && seen[0].lost == 0 && seen[0].longest_gap_us < 200_000, "{seen:?}");
        assert!(seen[1].times == 1 && work.suspicions > 0, "{seen:?} {work:?}");
    }

    #[test]
    fn a_client_comes_back_after_restarts_of_either_end() {
        let mut life = Life::new(Course::Restarts, 1).expect("begins");
        for _ in 0..17 {
            life.pass_minute().expect("goes on");
        }
        let (work, seen) = (life.work(), life.seen());
        assert_eq!(work.sessions, 3, "{work:?}");
        assert!(seen[2].times == 1 && seen[2].longest_gap_us < 10 * SECOND, "{seen:?}");
        assert!(seen[2].frames - seen[2].lost > 3_000, "frames arrive again: {seen:?}");
    }
}
