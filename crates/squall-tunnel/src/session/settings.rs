//! Settings of the sessions of a tunnel.

use std::time::Duration;

use crate::{
    config::{Config, FlowConfig},
    shared::{MAX_UNAUTHENTICATED, StartError},
    wire::control::HELLO_TIMEOUT,
};

/// Maximum size of a block: the largest configurable frame, with some reserve.
const MAX_BLOCK: u32 = (8 << 20) + (1 << 20);

/// Maximum unacknowledged bytes of all flows together.
const QUEUED: u64 = 32 << 20;

/// Maximum bytes of incomplete incoming blocks.
const REASSEMBLY: u64 = 32 << 20;

/// Silence after which a session ends, and the entry reconnects.
const IDLE_TIMEOUT: Duration = Duration::from_secs(8);

/// Interval of keep-alives on an idle path.
const KEEP_ALIVE: Duration = Duration::from_secs(1);

/// Timeout of an attempt to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);

/// Minimum silence after which a path is suspected; bridges pauses of a machine.
const MIN_SILENCE: Duration = Duration::from_millis(50);
/// Maximum silence after which a path is suspected; for flows whose latency does not matter.
const MAX_SILENCE: Duration = Duration::from_millis(200);

/// Returns the settings of the sessions of a tunnel.
pub(crate) fn session_config(config: &Config) -> Result<squall::Config, StartError> {
    let scheduler = squall::scheduler(config.first_scheduler())
        .map_err(|error| StartError::Scheduler(error.to_string()))?;
    Ok(squall::Config::default()
        .scheduler(scheduler)
        .congestion(config.congestion.clone())
        .quic_lb(config.quic_lb.clone())
        .idle_timeout(IDLE_TIMEOUT)
        .keep_alive(KEEP_ALIVE)
        .connect_timeout(CONNECT_TIMEOUT)
        .silence(silence(&config.all_flows()))
        .announce_timeout(HELLO_TIMEOUT)
        .distrust(true)
        .max_block(MAX_BLOCK)
        .queued_bytes(QUEUED)
        .reassembly(REASSEMBLY)
        .open_blocks(16_384)
        .handshakes(64)
        // Half of the limit, so that a flood from the address of an entry takes a second to
        // displace its handshake.
        .handshakes_per_host(32)
        // In addition to the tunnels: sessions without a token, and the same number being accepted
        // or closed.
        .max_sessions(config.max_sessions + 2 * MAX_UNAUTHENTICATED))
}

/// Returns the silence after which a path is suspected: a third of the shortest latency, which
/// leaves two thirds for retransmissions, within bounds.
pub(crate) fn silence(flows: &[FlowConfig]) -> Duration {
    let shortest = flows.iter().map(FlowConfig::latency_or_default).min();
    (shortest.unwrap_or(FlowConfig::DEFAULT_LATENCY) / 3).clamp(MIN_SILENCE, MAX_SILENCE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::End;

    #[test]
    fn the_shortest_latency_sets_the_silence() {
        let flow = |ms: Option<u64>| FlowConfig {
            latency: ms.map(Duration::from_millis),
            ..FlowConfig::new("f", End::In("127.0.0.1:5000".parse().expect("an address")))
        };
        let silence = |flows: &[_]| super::silence(flows).as_millis();
        assert_eq!(silence(&[]), 100, "the default latency is 300 ms");
        assert_eq!(silence(&[flow(None), flow(Some(240)), flow(Some(2_000))]), 80);
        assert_eq!(silence(&[flow(Some(60))]), 50);
        assert_eq!(silence(&[flow(Some(2_000))]), 200);
    }
}
