//! A sender under the control of a test, which may omit or abort messages or send false ones.

use std::{net::SocketAddr, time::Duration};

use squall::{Block, BlockOptions, CloseReason, Config, Connect, Endpoint, Identity, Session, Trust};

/// Returns the header of a file of unknown size.
pub(crate) fn header(transfer: u32, name: &str, token: Option<&str>) -> String {
    let token = token.map_or_else(String::new, |token| format!(r#""token":"{token}","#));
    format!(r#"{{"version":3,"transfer":"{transfer:032x}","from":0,{token}"name":"{name}","size":null}}"#)
}

/// Starts a receiver that answers the first message of a sender with these messages. Returns its
/// address; it ends with the runtime.
pub(crate) fn receiver(runtime: &tokio::runtime::Runtime, answers: &'static [&'static str]) -> SocketAddr {
    let _entered = runtime.enter();
    let tls = Identity::self_signed("localhost").expect("is made").server_tls().expect("is right");
    let endpoint = Endpoint::listen(SocketAddr::from(([127, 0, 0, 1], 0)), &tls, Config::default());
    let endpoint = endpoint.expect("listens");
    let addr = endpoint.local_addrs()[0];
    runtime.spawn(async move {
        while let Some(session) = endpoint.accept().await {
            let _ = session.recv().await;
            for answer in answers {
                let _ = session.send(Block::with(answer.as_bytes(), BlockOptions::new().ordered(true))).await;
            }
            session.closed().await;
        }
    });
    addr
}

/// A session with a `squall recv`.
pub(crate) struct Peer {
    session: Session,
    runtime: tokio::runtime::Runtime,
}

impl Peer {
    pub(crate) fn connect(to: SocketAddr) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("can be made");
        let request = Connect::to(to).trust(Trust::InsecureAnyone).over([[127, 0, 0, 1].into()]);
        let session = runtime.block_on(squall::connect(request)).expect("connects");
        Self { session, runtime }
    }

    /// Sends a message: its kind, and its content.
    pub(crate) fn say(&self, kind: u8, content: impl AsRef<[u8]>) {
        let block = Block::with([&[kind], content.as_ref()].concat(), BlockOptions::new().ordered(true));
        self.runtime.block_on(self.session.send(block)).expect("is taken");
    }

    /// Returns the next message.
    pub(crate) fn next(&self) -> Result<Vec<u8>, CloseReason> {
        let next = async {
            match self.session.recv().await {
                Ok(Some(block)) => Ok(block.data.to_vec()),
                Ok(None) => Err(self.session.closed().await),
                Err(reason) => Err(reason),
            }
        };
        let waited = async { tokio::time::timeout(Duration::from_secs(20), next).await };
        self.runtime.block_on(waited).expect("an answer within 20 s")
    }

    /// Returns the receipt, skipping earlier messages.
    pub(crate) fn receipt(&self) -> Vec<u8> {
        loop {
            let message = self.next().expect("a receipt");
            if message[0] == b'R' {
                return message;
            }
        }
    }

    /// Ends the session.
    pub(crate) fn leave(&self, code: u32, reason: &str) {
        self.session.close(code, reason);
        // The close with its code has then been sent.
        let _ = self.runtime.block_on(self.session.finish(Duration::ZERO));
    }

    /// Returns the reason with which the receiver closed the session.
    pub(crate) fn refusal(&self) -> String {
        loop {
            match self.next() {
                Ok(_) => {}
                Err(CloseReason::ByPeer { reason, .. }) => return reason,
                Err(other) => panic!("closed in another way: {other:?}"),
            }
        }
    }
}
