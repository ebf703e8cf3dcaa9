//! Connection ids that identify the worker which issued them, and with QUIC-LB the server too.

use std::time::Duration;

use noq_proto::{ConnectionId, ConnectionIdGenerator, HashedConnectionIdGenerator, InvalidCid};
use ring::hmac;

use crate::{quic_lb::QuicLbServer, worker::Worker};

/// Ids that can be recognised as our own without a table, by a keyed hash, and whose first byte
/// identifies the worker.
pub(super) struct WorkerIds {
    key: u64,
    hashed: HashedConnectionIdGenerator,
    worker: Worker,
}

impl WorkerIds {
    pub(super) fn new(key: u64, worker: Worker) -> Self {
        Self { key, hashed: HashedConnectionIdGenerator::from_key(key), worker }
    }
}

impl Clone for WorkerIds {
    fn clone(&self) -> Self {
        Self::new(self.key, self.worker)
    }
}

impl ConnectionIdGenerator for WorkerIds {
    /// The first byte is random, so the average number of attempts is the number of workers.
    fn generate_cid(&mut self) -> ConnectionId {
        loop {
            let id = self.hashed.generate_cid();
            if self.worker.has(&id) {
                return id;
            }
        }
    }

    /// Rejects foreign ids, for which no connection is reset: a worker does not end the sessions of
    /// another.
    fn validate(&self, id: ConnectionId) -> Result<(), InvalidCid> {
        if !self.worker.has(&id) {
            return Err(InvalidCid);
        }
        self.hashed.validate(id)
    }

    fn cid_len(&self) -> usize {
        self.hashed.cid_len()
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        self.hashed.cid_lifetime()
    }
}

/// Ids of QUIC-LB, whose five free bits identify the worker. Among the numbers that identify it one
/// is drawn for each id, so that the bits reveal nothing else.
#[derive(Clone)]
pub(super) struct ServerIds {
    server: QuicLbServer,
    /// Secret of all workers.
    secret: hmac::Key,
    worker: Worker,
    /// Number of ids that this worker has issued.
    issued: u64,
    /// First nonce.
    start: u128,
}

impl ServerIds {
    pub(super) fn new(server: QuicLbServer, secret: hmac::Key, worker: Worker) -> Self {
        let start = hmac::sign(&secret, b"first nonce");
        let start = start.as_ref().first_chunk().map_or(0, |bytes| u128::from_be_bytes(*bytes));
        Self { server, secret, worker, issued: 0, start }
    }

    /// Returns the nonce of the id of this number, over all workers. Encrypted nonces count up from
    /// a random one, so that none is used twice; readable ones are a keyed hash of the number, so
    /// that they show no order (§9.6 of the draft).
    fn nonce(&self, number: u64, hash: &[u8]) -> [u8; MAX_NONCE] {
        let mut nonce = [0; MAX_NONCE];
        if self.server.format().is_encrypted() {
            let count = self.start.wrapping_add(number.into());
            nonce[MAX_NONCE - size_of::<u128>()..].copy_from_slice(&count.to_be_bytes());
        } else {
            nonce.copy_from_slice(&hash[1..][..MAX_NONCE]);
        }
        nonce
    }
}

/// Largest length of a nonce in bytes.
const MAX_NONCE: usize = 18;

impl ConnectionIdGenerator for ServerIds {
    fn generate_cid(&mut self) -> ConnectionId {
        let number = self.issued * self.worker.count as u64 + self.worker.index as u64;
        self.issued += 1;
        let hash = hmac::sign(&self.secret, &number.to_be_bytes());
        let hash = hash.as_ref();
        let nonce = self.nonce(number, hash);
        let format = self.server.format();
        let nonce = &nonce[MAX_NONCE - format.nonce_len()..];
        let id = format.encode(self.worker.low_bits(hash[0]), &self.server.id(), nonce);
        ConnectionId::new(&id[..format.id_len()])
    }

    /// The reset tokens of servers with one certificate are the same, so only the server that
    /// issued an id may use its token (draft-ietf-quic-load-balancers-21 §9.5).
    fn validate(&self, id: ConnectionId) -> Result<(), InvalidCid> {
        let is_own = self.server.format().server_id(&id) == Some(self.server.id());
        if is_own && self.worker.has(&id) { Ok(()) } else { Err(InvalidCid) }
    }

    fn cid_len(&self) -> usize {
        self.server.format().id_len()
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::quic_lb::QuicLb;

    #[test]
    fn ids_of_quic_lb_name_server_and_worker_and_never_repeat() {
        for key in [None, Some([9; 16])] {
            for nonce_len in [4, 6, 18] {
                let format = QuicLb::new(3, 1, nonce_len, key).unwrap();
                let server = QuicLbServer::new(format.clone(), "a7".parse().unwrap()).unwrap();
                let other = QuicLbServer::new(format.clone(), "a8".parse().unwrap()).unwrap();
                let secret = hmac::Key::new(hmac::HMAC_SHA256, b"a secret");
                let mut seen = HashSet::new();
                let mut first = HashSet::new();
                for index in 0..3 {
                    let worker = Worker { index, count: 3 };
                    let mut ids = ServerIds::new(server.clone(), secret.clone(), worker);
                    let others = ServerIds::new(other.clone(), secret.clone(), worker);
                    for _ in 0..500 {
                        let id = ids.generate_cid();
                        assert_eq!(format.server_id(&id), Some(server.id()));
                        assert!(worker.has(&id) && ids.validate(id).is_ok() && others.validate(id).is_err());
                        assert!(seen.insert(id[1..].to_vec()), "{id}");
                        first.insert(id[0]);
                    }
                }
                assert_eq!((seen.len(), first.len()), (1500, 32), "all five bits are used");
            }
        }
    }

    #[test]
    fn every_worker_issues_ids_of_its_own() {
        for count in [1, 2, 3, 32] {
            for index in 0..count {
                let mut ids = WorkerIds::new(7, Worker { index, count });
                for _ in 0..50 {
                    let id = ids.generate_cid();
                    assert_eq!(id.len(), ids.cid_len());
                    let takes = |index| WorkerIds::new(7, Worker { index, count }).validate(id).is_ok();
                    assert_eq!((0..count).filter(|one| takes(*one)).collect::<Vec<_>>(), [index]);
                    assert!(WorkerIds::new(8, Worker { index, count }).validate(id).is_err());
                }
            }
        }
    }
}
