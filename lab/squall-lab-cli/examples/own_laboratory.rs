//! The laboratory with a custom scheduler, stream scheduler and multiplexer: `cargo run --example
//! own_laboratory -- run scenarios/metered.toml --scheduler 'minrtt,thrifty,thrifty(margin=50)'
//! --report out/thrifty.html`.

use std::process::ExitCode;

use squall_lab_cli::sched::{
    Assignment, Context, Decision, Entry, Message, Multiplexer, OptionSpec, PathView, Scheduler, Span,
    StreamScheduler, Time, Turn, Waiting,
};

/// Uses metered paths only for data that the unmetered paths cannot deliver in time.
struct Thrifty {
    /// Minimum time between the expected arrival of a block and its deadline.
    margin: Span,
}

impl Thrifty {
    /// Returns the arrival of the last byte if `bytes` were given to `path` now.
    fn arrival(now: Time, path: &PathView, bytes: u32) -> Time {
        let ahead = path.waiting + u64::from(bytes);
        let window = if path.has_room() { Span::ZERO } else { path.srtt };
        now + window + Span::from_micros(ahead * 8_000_000 / path.bandwidth.max(1)) + path.owd
    }
}

impl Scheduler for Thrifty {
    fn next(&mut self, cx: &Context<'_>) -> Decision {
        let Some(work) = cx.queue.next_in_line() else { return Decision::idle() };
        let Some(block) = cx.queue.get(work.block) else { return Decision::idle() };
        let latest = block.meta().deadline.map(|deadline| deadline - self.margin);
        let arrival = |path: &PathView| Self::arrival(cx.now, path, block.unsent_bytes());
        let free =
            cx.paths.iter().filter(|path| path.is_open() && !path.metered).min_by_key(|path| arrival(path));
        match free {
            Some(path) if latest.is_none_or(|latest| arrival(path) <= latest) => match path.has_room() {
                true => Decision::Send(Assignment::new(work, path.id, "in time, and free")),
                // An acknowledgement opens the window; otherwise the metered path takes over in
                // time.
                false => Decision::Idle { wake: Some(cx.now + Span::from_millis(5)) },
            },
            _ => match cx.fastest_with_room() {
                Some(path) => Decision::Send(Assignment::new(work, path.id, "late over unmetered paths")),
                None => Decision::idle(),
            },
        }
    }
}

/// Selects the channel whose oldest block has the fewest bytes left: `[streams]`, `scheduler =
/// "shortest"`.
struct Shortest;

impl StreamScheduler for Shortest {
    fn next(&self, waiting: &Waiting<'_>) -> Option<Turn> {
        let (channel, _) = waiting.iter().min_by_key(|(_, block)| block.unsent_bytes())?;
        Some(Turn { channel, bytes: u32::MAX })
    }
}

/// Two channels, one for large messages and one for small ones: `[[flow]]`, `channels = "by-size"`.
struct BySize {
    large: u64,
}

impl Multiplexer for BySize {
    fn channels(&self) -> u16 {
        2
    }

    fn channel(&mut self, message: &Message) -> u16 {
        u16::from(message.bytes >= self.large)
    }
}

fn main() -> ExitCode {
    let mut registry = squall_lab_cli::registry();
    let entry = Entry {
        name: "shortest",
        summary: "the channel whose oldest block has the fewest bytes left",
        source: "an example",
        options: &[],
        signal: false,
    };
    registry.register_streams(entry, |_| Ok(Box::new(Shortest)));
    let entry = Entry {
        name: "by-size",
        summary: "two ordered channels, one for large messages",
        source: "an example",
        options: &[OptionSpec { name: "large", default: "10000", help: "bytes of a large message at least" }],
        signal: false,
    };
    registry.register_multiplexer(entry, |options| {
        Ok(Box::new(BySize { large: options.take("large", 10_000)? }))
    });
    registry.register(
        Entry {
            name: "thrifty",
            summary: "metered paths carry only what the others would deliver late",
            source: "an example",
            options: &[OptionSpec {
                name: "margin",
                default: "20",
                help: "ms before the deadline, 0 to 1000",
            }],
            signal: false,
        },
        |options| {
            Ok(Box::new(Thrifty { margin: Span::from_millis(options.take_in("margin", 20, 0..=1_000)?) }))
        },
    );
    squall_lab_cli::main(registry)
}
