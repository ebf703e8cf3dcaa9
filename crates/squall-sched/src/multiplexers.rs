//! The multiplexers of this crate.

use crate::{BuildError, Entry, Message, Multiplexer, OptionSpec, Options, Registry};

/// Channels of a session.
const CHANNELS: u16 = 1024;

/// Uses its channels in turn.
#[derive(Clone, Copy, Debug)]
struct InTurn {
    channels: u16,
    is_ordered: bool,
}

impl Multiplexer for InTurn {
    fn channels(&self) -> u16 {
        self.channels
    }

    fn channel(&mut self, message: &Message) -> u16 {
        (message.index % u64::from(self.channels)) as u16
    }

    fn is_ordered(&self) -> bool {
        self.is_ordered
    }
}

const fn entry(name: &'static str, summary: &'static str, options: &'static [OptionSpec]) -> Entry {
    Entry { name, summary, source: "MAppLE (NineTails, §III)", options, signal: false }
}

fn build(channels: u16, is_ordered: bool) -> Result<Box<dyn Multiplexer>, BuildError> {
    Ok(Box::new(InTurn { channels, is_ordered }))
}

/// Adds the multiplexers of this crate.
pub(crate) fn register(registry: &mut Registry) {
    let unordered = entry("unordered", "one channel without order: a message waits for none", &[]);
    registry.register_multiplexer(unordered, |_| build(1, false));
    let one = entry("one", "one ordered channel, as one stream", &[]);
    registry.register_multiplexer(one, |_| build(1, true));
    // A session remembers the last message of each channel, so channels are used in turn, without
    // order: a message that outlives 1,023 others shares its number and still waits for none.
    let own = entry("per-message", "a channel of its own for each message", &[]);
    registry.register_multiplexer(own, |_| build(CHANNELS, false));
    const OPTIONS: &[OptionSpec] =
        &[OptionSpec { name: "channels", default: "2", help: "how many, 1 to 1024" }];
    let spread = entry("spread", "ordered channels in turn", OPTIONS);
    registry.register_multiplexer(spread, |options: &mut Options| {
        build(options.take_in("channels", 2, 1..=CHANNELS)?, true)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_spread_as_the_multiplexer_says() {
        let registry = Registry::standard();
        let spread = |description: &str| {
            let mut built = registry.build_multiplexer(description).expect("is registered");
            let mut channel = |index| {
                let message = Message { index, bytes: 1_000, deadline: None, priority: 2, reliable: false };
                built.channel(&message)
            };
            let channels: Vec<u16> = (0..5).chain(1_022..1_026).map(&mut channel).collect();
            (channels, built.is_ordered())
        };
        assert_eq!(spread("one"), (vec![0; 9], true));
        assert_eq!(spread("unordered"), (vec![0; 9], false));
        assert_eq!(spread("per-message"), (vec![0, 1, 2, 3, 4, 1_022, 1_023, 0, 1], false));
        assert_eq!(spread("spread"), (vec![0, 1, 0, 1, 0, 0, 1, 0, 1], true));
        assert_eq!(spread("spread(channels=3)"), (vec![0, 1, 2, 0, 1, 2, 0, 1, 2], true));
        let error = |description: &str| registry.build_multiplexer(description).err().map(|e| e.to_string());
        assert_eq!(
            error("two").as_deref(),
            Some("unknown multiplexer 'two'; there are one, per-message, spread, unordered")
        );
        assert_eq!(
            error("one(channels=2)").as_deref(),
            Some("multiplexer 'one' has no option 'channels'; it has none")
        );
        assert!(error("spread(channels=0)").is_some_and(|words| words.ends_with("must be from 1 to 1024")));
    }
}
