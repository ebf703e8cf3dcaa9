//! Scheduling decisions: which bytes of which block go on which path, now.
//!
//! A [`Scheduler`] sees the [`BlockQueue`] (every unfinished block with its fresh, sent, lost and
//! acknowledged ranges) and one [`PathView`] per path, and answers with one [`Decision`] at a time.
//! It sees no packets, no sockets and no clock: `now` is part of the [`Context`]. The same scheduler
//! therefore runs in virtual time and on real networks.
//!
//! ```
//! use squall_sched::{Assignment, Context, Decision, Scheduler};
//!
//! /// Everything on the path with the most room left in its window.
//! struct Roomiest;
//!
//! impl Scheduler for Roomiest {
//!     fn next(&mut self, cx: &Context<'_>) -> Decision {
//!         let Some(path) = cx.paths.iter().filter(|p| p.has_room()).max_by_key(|p| p.room()) else {
//!             return Decision::idle();
//!         };
//!         match cx.queue.next_in_line() {
//!             Some(work) => Decision::Send(Assignment::new(work, path.id, "most room")),
//!             None => Decision::idle(),
//!         }
//!     }
//! }
//! ```
//!
//! The [`schedulers`] are one file each, opening with its source. They are picked by name, with options,
//! from a [`Registry`].

#![forbid(unsafe_code)]

pub mod allocation;
mod block;
mod budget;
pub mod capacity;
mod dependencies;
mod duplicate;
mod multiplexer;
mod multiplexers;
mod parity;
mod path;
mod path_set;
mod queue;
mod registry;
mod scheduler;
pub mod schedulers;
mod segment;
mod sharing;
mod streams;
mod usual;
mod weighted_round_robin;
mod work;

pub use block::{Block, BlockId, BlockMeta, MAX_BLOCK, PRIORITIES};
pub use budget::Cap;
pub(crate) use budget::Capped;
pub use duplicate::Duplicates;
pub use multiplexer::{Message, Multiplexer};
pub use parity::{MAX_DATA_SYMBOLS, Parity, ParityFate, parity_symbols};
pub use path::{PathId, PathState, PathView};
pub use path_set::PathSet;
pub use queue::{BlockQueue, MAX_RUN};
pub use registry::{BuildError, COMMON_OPTIONS, DEFAULT_SCHEDULER, Entry, OptionSpec, Options, Registry};
pub use scheduler::{Assignment, Context, Decision, Forecast, Profile, SchedEvent, Scheduler};
pub use segment::{Segment, SegmentState};
pub use sharing::Sharing;
pub use squall_units::{Span, Time};
pub use streams::{Fifo, MAX_WEIGHT, StreamScheduler, Turn, Waiting};
pub use weighted_round_robin::WeightedRoundRobin;
pub use work::{Work, WorkKind};

/// Largest number of concurrent paths of a session; a [`PathId`] is below it.
pub const MAX_PATHS: usize = 8;

/// Compiles and runs the examples of the manual.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/schedulers.md")]
struct Manual;

/// Compiles and runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
