//! The hello: the first data of each side, on a stream of its own.

use noq_proto::Dir;

use super::{Connection, Entry};

/// Longest hello that is accepted, in bytes.
const MAX_HELLO: usize = 256;

impl<P, S: Entry> Connection<P, S> {
    /// Reads the peer's first stream; `Some` when it is complete.
    pub(super) fn read_hello(&mut self) -> Option<Result<Vec<u8>, &'static str>> {
        let _ = self.inner.streams().accept(Dir::Uni);
        let side = match self.inner.side() {
            noq_proto::Side::Client => noq_proto::Side::Server,
            noq_proto::Side::Server => noq_proto::Side::Client,
        };
        let id = noq_proto::StreamId::new(side, Dir::Uni, 0);
        let mut stream = self.inner.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return None };
        let whole = loop {
            match chunks.next(MAX_HELLO) {
                Ok(Some(chunk)) if self.hello.len() + chunk.bytes.len() <= MAX_HELLO => {
                    self.hello.extend_from_slice(&chunk.bytes);
                }
                Ok(Some(_)) => break Some(Err("the hello is too long")),
                Ok(None) => break Some(Ok(std::mem::take(&mut self.hello))),
                Err(noq_proto::ReadError::Blocked) => break None,
                Err(noq_proto::ReadError::Reset(_)) => break Some(Err("the hello was broken off")),
            }
        };
        let _ = chunks.finalize();
        whole
    }

    /// Sends our hello, reliably, on a stream of its own.
    pub(crate) fn send_hello(&mut self, hello: &[u8]) {
        if let Some(id) = self.inner.streams().open(Dir::Uni) {
            let mut stream = self.inner.send_stream(id);
            // The first 256 bytes of the first stream always fit the initial flow control.
            let _ = stream.write(hello);
            let _ = stream.finish();
        }
    }
}
