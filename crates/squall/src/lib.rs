//! Multipath QUIC for real-time media: blocks with deadlines, priorities and a reliability class, sent
//! over every network a device has.
//!
//! A server listens, a client connects over several interfaces, and both send and receive [`Block`]s:
//!
//! ```
//! use squall::{Block, BlockOptions, Config, Connect, Endpoint, Identity, Priority, Trust};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let identity = Identity::self_signed("localhost")?;
//!     let server = Endpoint::listen("127.0.0.1:0", &identity.server_tls()?, Config::default())?;
//!
//!     let request = Connect::to(server.local_addrs()[0])
//!         .trust(Trust::Pinned(identity.fingerprint()))
//!         .over(["127.0.0.2".parse()?, "127.0.0.3".parse()?]);
//!     let client = squall::connect(request).await?;
//!     client.send(Block::with("hello", BlockOptions::new().priority(Priority::FIRST))).await?;
//!
//!     let session = server.accept().await.ok_or("closed")?;
//!     let block = session.recv().await?.ok_or("closed")?;
//!     assert_eq!(block.data, "hello");
//!     Ok(())
//! }
//! ```
//!
//! Everything runs on [tokio]: one task per endpoint, or several ([`EndpointConfig::workers`]),
//! drive its sockets. The [`Scheduler`](sched::Scheduler) decides which path carries each byte.
//! Select one by name through [`scheduler`], or write your own ([`Config::scheduler`]).

#![forbid(unsafe_code)]

mod endpoint;
mod error;
mod identity;
mod net;
mod part;
mod session;
mod shared;

use std::sync::{Arc, LazyLock};

pub use endpoint::{
    Endpoint, WorkerStats,
    config::EndpointConfig,
    connect,
    request::{Connect, Trust},
};
pub use error::{ConnectError, EndpointError, IdentityError, ListenError, NotConnector, UnknownInterface};
pub use identity::{Identity, load_certificates};
pub use net::{
    interfaces::{Interfaces, UnusedInterface},
    network::Network,
};
pub use session::{
    FinishError, Session,
    arrival::{Arrival, Arrivals, Growth, MissedBlock, Receiver},
    follow::follow_radios,
    interface::InterfaceHandle,
    writer::BlockWriter,
};
pub use shared::{
    handle::BlockHandle,
    path::{PathChange, PathEvent, PathInfo},
    quotas::{QuotaState, Quotas},
};
pub use squall_proto::{
    AcceptFilter, AdmissionStats, Block, BlockOptions, CancelReason, Capacity, Channel, CloseReason, Config,
    CongestionControl, DecisionLog, Depends, Fingerprint, FingerprintError, Limit, LossLog, MAX_WORKERS,
    Missed, NetPath, OpenError, OptionError, Outcome, PacketFate, Part, PathCapacity, PathHint, PathStats,
    PredictionStats, Priority, RateLimit, Reasons, Received, RefuseReason, Role, SchedulerFactory, SendError,
    ServerTls, SessionStats, StreamsFactory, TlsError, TransportError, WeightError, WriteError,
    congestion::{self, UnknownController},
    destination_id, pki_types, quic_lb,
    quota::{Period, Quota},
    rustls,
    sched::{self, BlockId, BuildError, PathId},
    signal,
};

/// Selects a scheduler by name, with options, for [`Config::scheduler`]: `minrtt`, `sp(path=1)`.
/// All schedulers of a process share one registry, so schedulers that use observations of other
/// sessions use those of the whole process.
///
/// # Errors
/// If no scheduler has this name, or it does not accept an option.
pub fn scheduler(description: &str) -> Result<SchedulerFactory, BuildError> {
    static REGISTRY: LazyLock<sched::Registry> = LazyLock::new(registry);
    let description = description.to_owned();
    // Report mistakes before there is a session.
    REGISTRY.build(&description)?;
    Ok(Arc::new(move || REGISTRY.build(&description).expect("the same description was built before")))
}

/// Returns the schedulers for [`scheduler`]; with the feature `papers`, including those of
/// published systems.
pub fn registry() -> sched::Registry {
    #[cfg(feature = "papers")]
    return squall_papers::registry();
    #[cfg(not(feature = "papers"))]
    sched::Registry::standard()
}

/// Selects the congestion controller of all paths by name, for [`Config::congestion`]: `steady`,
/// `cubic`.
///
/// # Errors
/// If no controller has this name.
pub fn congestion_control(name: &str) -> Result<CongestionControl, UnknownController> {
    controllers().build(name)
}

/// Returns the congestion controllers for [`congestion_control`]; with the feature `papers`,
/// including those of published systems.
pub fn controllers() -> congestion::Registry {
    #[cfg(feature = "papers")]
    return squall_papers::controllers();
    #[cfg(not(feature = "papers"))]
    congestion::Registry::standard()
}

/// Compiles the examples of both READMEs, of `docs/library.md` and of `docs/scaling.md`.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../README.md")]
    struct Own;
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/library.md")]
    struct Library;
    #[doc = include_str!("../../../docs/scaling.md")]
    struct Scaling;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedulers_are_picked_by_name() {
        assert!(scheduler("rr").is_ok());
        let error = scheduler("fastest").err().map(|e| e.to_string());
        assert!(error.is_some_and(|e| e.contains("'fastest'")));
    }
}
