//! End of the relay that receives frames.

use std::{collections::HashMap, net::SocketAddr, path::Path};

use squall_versus_stream::Scatter;
use tquic::{Connection, Shutdown, TlsConfig, TransportHandler};

use crate::{
    certificate,
    relay::{self, Relay},
};

/// Maximum size of a frame.
const MAX_FRAME: usize = 4 << 20;

pub(crate) fn run(scheduler: &str, certificate: &Path, at: SocketAddr) -> anyhow::Result<()> {
    let key = certificate::make(certificate)?;
    let tls = TlsConfig::new_server_config(
        certificate::text(certificate)?,
        certificate::text(&key)?,
        vec![relay::PROTOCOL.to_vec()],
        false,
    )?;
    let config = relay::config(scheduler, tls)?;
    let frames = Box::new(Frames { scatter: Scatter::new()?, parts: HashMap::new() });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (mut relay, _) = Relay::new(config, true, frames, &[at]).await?;
        loop {
            relay.step(std::future::pending::<()>()).await?;
        }
    })
}

/// Partly received frames.
struct Frames {
    scatter: Scatter,
    /// Received bytes by stream.
    parts: HashMap<u64, Vec<u8>>,
}

impl TransportHandler for Frames {
    fn on_conn_created(&mut self, _: &mut Connection) {}

    fn on_conn_established(&mut self, _: &mut Connection) {}

    fn on_conn_closed(&mut self, _: &mut Connection) {
        self.parts.clear();
    }

    fn on_stream_created(&mut self, _: &mut Connection, _: u64) {}

    fn on_stream_readable(&mut self, connection: &mut Connection, stream: u64) {
        let mut buffer = [0; 1 << 14];
        // `stream_read` returns an error when there is nothing more to read.
        while let Ok((length, is_last)) = connection.stream_read(stream, &mut buffer) {
            let frame = self.parts.entry(stream).or_default();
            frame.extend(&buffer[..length]);
            if frame.len() > MAX_FRAME {
                let _ = connection.stream_shutdown(stream, Shutdown::Read, 0);
                self.parts.remove(&stream);
                return;
            }
            if is_last {
                self.scatter.take(frame);
                self.parts.remove(&stream);
                return;
            }
        }
    }

    fn on_stream_writable(&mut self, _: &mut Connection, _: u64) {}

    fn on_stream_closed(&mut self, _: &mut Connection, stream: u64) {
        self.parts.remove(&stream);
    }

    fn on_new_token(&mut self, _: &mut Connection, _: Vec<u8>) {}
}
