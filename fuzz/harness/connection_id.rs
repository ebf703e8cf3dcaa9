//! Routing of packets at a load balancer.

use squall_proto::{destination_id, quic_lb::QuicLb, worker_of};

/// Routes a packet: the first bytes of the input select the format of the ids, the rest is the
/// packet. Panics if the server id does not fit the format, or if there is one without a connection
/// id.
pub(crate) fn check(input: &[u8]) {
    let Some(([config, server_id, nonce, keyed, workers], packet)) = input.split_first_chunk() else {
        return;
    };
    let (server_id, nonce) = (usize::from(*server_id), usize::from(*nonce));
    let key = (keyed % 2 == 1).then_some([*keyed; 16]);
    let Ok(format) = QuicLb::new(*config, server_id, nonce, key) else { return };
    let id = destination_id(packet, format.id_len());
    let found = format.route(packet);
    assert!(found.is_none_or(|found| found.as_bytes().len() == server_id && id.is_some()));
    let workers = usize::from(*workers % 32) + 1;
    assert!(worker_of(packet, workers) < workers);
}
