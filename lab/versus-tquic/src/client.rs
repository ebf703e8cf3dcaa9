//! End of the relay that sends frames.

use std::{cell::RefCell, collections::VecDeque, net::SocketAddr, path::Path, rc::Rc};

use anyhow::bail;
use bytes::Bytes;
use squall_versus_stream::{Frame, frames};
use tokio::sync::mpsc;
use tquic::{Connection, TlsConfig, TransportHandler};

use crate::{
    certificate,
    relay::{self, Relay},
};

/// TQUIC gives all frames the same urgency, and sends them in sequence.
const URGENCY: u8 = 3;

pub(crate) fn run(
    scheduler: &str,
    certificate: &Path,
    server: SocketAddr,
    locals: &[SocketAddr],
) -> anyhow::Result<()> {
    certificate::wait_for(certificate)?;
    let mut tls = TlsConfig::new_client_config(vec![relay::PROTOCOL.to_vec()], false)?;
    tls.set_ca_certs(certificate::text(certificate)?)?;
    tls.set_verify(true);
    let config = relay::config(scheduler, tls)?;
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(send(config, server, locals))
}

async fn send(config: tquic::Config, server: SocketAddr, locals: &[SocketAddr]) -> anyhow::Result<()> {
    let life = Rc::new(RefCell::new(Life::Handshake));
    let handler = Box::new(Watch(Rc::clone(&life)));
    let (mut relay, locals) = Relay::new(config, false, handler, locals).await?;
    let connection = relay.endpoint.connect(locals[0], server, Some(certificate::NAME), None, None, None)?;
    let frames = frames()?;
    // A separate thread reads the queue, because reading blocks.
    let (give, mut take) = mpsc::channel(1);
    std::thread::spawn(move || frames.into_iter().try_for_each(|frame| give.blocking_send(frame)));
    let (mut outgoing, mut opened) = (Outgoing::default(), 1);
    loop {
        let is_ready = outgoing.is_empty() && matches!(*life.borrow(), Life::Established);
        let next = async { if is_ready { take.recv().await } else { std::future::pending().await } };
        match relay.step(next).await? {
            Some(Some(frame)) => outgoing.add(frame),
            Some(None) => bail!("the source's socket is closed"),
            None => {}
        }
        if let Life::Closed(why) = &*life.borrow() {
            bail!("{why}");
        }
        let Some(connection) = relay.endpoint.conn_get_mut(connection) else { continue };
        if connection.is_established() {
            open(connection, &locals, server, &mut opened)?;
            outgoing.write(connection)?;
        }
    }
}

/// Opens the paths for which the server has issued connection ids.
fn open(
    connection: &mut Connection,
    locals: &[SocketAddr],
    server: SocketAddr,
    opened: &mut usize,
) -> anyhow::Result<()> {
    while *opened < locals.len() && connection.dcid_iter().count() > *opened {
        connection.add_path(locals[*opened], server)?;
        *opened += 1;
    }
    Ok(())
}

/// Frames to write into the connection; the first may be partly written.
#[derive(Default)]
struct Outgoing {
    waiting: VecDeque<Frame>,
    /// Stream and remaining bytes of the partly written frame.
    begun: Option<(u64, Bytes)>,
}

impl Outgoing {
    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.begun.is_none()
    }

    fn add(&mut self, frame: Frame) {
        self.waiting.push_back(frame);
    }

    /// Writes as much as the connection accepts.
    fn write(&mut self, connection: &mut Connection) -> anyhow::Result<()> {
        loop {
            let (stream, mut rest) = match self.begun.take() {
                Some(begun) => begun,
                None if self.waiting.is_empty() => return Ok(()),
                None => match connection.stream_uni_new(URGENCY, false) {
                    Ok(stream) => (stream, self.waiting.pop_front().unwrap_or_default().into()),
                    // The connection has as many streams as the server allows.
                    Err(tquic::Error::StreamLimitError) => return Ok(()),
                    Err(error) => return Err(error.into()),
                },
            };
            let written = match connection.stream_write(stream, rest.clone(), true) {
                Ok(written) => written,
                Err(tquic::Error::Done) => 0,
                Err(error) => return Err(error.into()),
            };
            if written < rest.len() {
                let _ = rest.split_to(written);
                self.begun = Some((stream, rest));
                return Ok(());
            }
        }
    }
}

/// State of the connection.
enum Life {
    Handshake,
    Established,
    /// Reason of the end.
    Closed(String),
}

struct Watch(Rc<RefCell<Life>>);

impl TransportHandler for Watch {
    fn on_conn_created(&mut self, _: &mut Connection) {}

    fn on_conn_established(&mut self, _: &mut Connection) {
        *self.0.borrow_mut() = Life::Established;
    }

    fn on_conn_closed(&mut self, connection: &mut Connection) {
        let why = match (connection.peer_error(), connection.local_error()) {
            (Some(error), _) => format!("the server has closed the connection: {error:?}"),
            (_, Some(error)) => format!("the connection has failed: {error:?}"),
            _ => "the connection has ended".to_owned(),
        };
        *self.0.borrow_mut() = Life::Closed(why);
    }

    fn on_stream_created(&mut self, _: &mut Connection, _: u64) {}

    fn on_stream_readable(&mut self, _: &mut Connection, _: u64) {}

    fn on_stream_writable(&mut self, _: &mut Connection, _: u64) {}

    fn on_stream_closed(&mut self, _: &mut Connection, _: u64) {}

    fn on_new_token(&mut self, _: &mut Connection, _: Vec<u8>) {}
}
