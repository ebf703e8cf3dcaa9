//! Assignment of messages to channels: MAppLE's stream multiplexer (NineTails, §III). The
//! laboratory builds one for each flow.

use squall_units::Span;

/// Spreads the messages of a flow over channels.
///
/// ```
/// use squall_sched::{Message, Multiplexer};
///
/// /// Small messages do not wait for large ones.
/// struct BySize;
///
/// impl Multiplexer for BySize {
///     fn channels(&self) -> u16 {
///         2
///     }
///
///     fn channel(&mut self, message: &Message) -> u16 {
///         u16::from(message.bytes > 10_000)
///     }
/// }
/// ```
pub trait Multiplexer: Send {
    /// Returns the number of channels that it uses, 1 to 1,024, counted from the first channel of
    /// the flow. With 1,024 it uses all channels of the session: from the first channel of the flow
    /// to the last, then from 0.
    fn channels(&self) -> u16;

    /// Returns the channel of a message, below [`Self::channels`]. Called once for each message.
    fn channel(&mut self, message: &Message) -> u16;

    /// Called when a message of this many bytes on a channel was delivered or cancelled. Default:
    /// nothing.
    fn on_ended(&mut self, _channel: u16, _bytes: u64) {}

    /// Returns `true` if a message is delivered after the earlier ones on its channel. Default:
    /// `true`.
    fn is_ordered(&self) -> bool {
        true
    }
}

/// A message that is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its number in the flow, from 0.
    pub index: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Time from the hand-over to its deadline; `None` for no deadline.
    pub deadline: Option<Span>,
    /// 0 (most important) to 7.
    pub priority: u8,
    /// Lost bytes are sent again.
    pub reliable: bool,
}
