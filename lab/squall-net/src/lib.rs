//! Emulated links: rate, trace, delay, queue, loss and outages, in virtual time and in real time.
//!
//! The stages of a packet in a [`Link`], which is one direction of a path: [`Link::push`] drops
//! packets that exceed the MTU or arrive during an outage. Other packets enter the queue
//! ([`QueueConfig`], with drop-tail, drop-head or CoDel). The serialiser takes them from there at
//! the link's rate ([`RateConfig`]: fixed, in steps, or by a mahimahi trace). After that a packet
//! may be lost ([`LossConfig`]) or duplicated, is in flight for the delay and its jitter
//! ([`DelayConfig`], [`JitterConfig`]), and leaves at [`Link::poll`]. A script ([`LinkEvent`])
//! changes these parameters at given times, and a radio ([`RadioConfig`]) continuously.
//!
//! A link has no clock and no sockets: time is an argument, and the same seed and pushes give the same result.
//! [`Network`] drives the two links of each of several paths in virtual time, [`Live`] in real time, [`Relay`] between
//! UDP sockets. [`capacity`] computes what a network could carry before anything is sent.

pub mod capacity;
mod codel;
pub mod config;
mod damage;
mod delay;
mod ecn;
mod error;
mod form;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod link;
pub mod live;
pub mod log;
mod loss;
mod network;
mod opportunities;
mod policer;
mod queue;
pub mod radio;
mod rate;
pub mod relay;
mod script;
pub mod series;
mod stall;
mod time;

pub use crate::{
    config::{Direction, LinkConfig, PathConfig, PathEvent},
    damage::Damage,
    delay::{DelayConfig, JitterConfig, JitterShape},
    ecn::{Ecn, EcnTreatment},
    error::{ConfigError, EventError},
    link::{Delivery, Link, LinkState, PushOutcome},
    live::{Inbox, Live, LiveReport, Outcome, PathReport, PathSnapshot, Ports, SlipReport},
    log::{DropReason, LinkStats},
    loss::{GilbertElliott, LossConfig},
    network::{Arrival, Network},
    policer::PolicerConfig,
    queue::{CodelConfig, DropEnd, Limit, QueueConfig},
    radio::RadioConfig,
    rate::RateConfig,
    relay::{Relay, RelayReport},
    script::{LinkEvent, OutageMode},
    stall::{MAX_STALLS, StallConfig, StallLength},
};
