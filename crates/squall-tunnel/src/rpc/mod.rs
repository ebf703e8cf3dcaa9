//! Control of a running tunnel over a Unix socket: JSON-RPC 2.0, one request and one answer per line.
//!
//! [`request`] reads the requests, [`methods`] has what they do.

mod methods;
pub(crate) mod request;

use std::{
    fs, io,
    os::unix::{
        fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
        net::{UnixListener as Listener, UnixStream as Stream},
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, copy, sink},
    net::{UnixListener, UnixStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use self::request::{Call, Failure, MAX_REQUEST, Request, answer, code, parse};
use crate::{
    config::ControlConfig,
    shared::Shared,
    supervise::{self, Supervised},
};

/// Connections at a time; further ones wait in the kernel.
const CONNECTIONS: usize = 8;

/// Longest time between two requests of a connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Longest time for an answer to be read.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of a request that is too long that are read before the connection is closed.
const MAX_DISCARDED: u64 = 1 << 20;

/// A control socket that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("control socket {}: {source}", path.display())]
pub struct ControlError {
    path: PathBuf,
    source: io::Error,
}

/// The server. When it is dropped, its socket is removed.
#[derive(Debug)]
pub(crate) struct Control {
    path: PathBuf,
    /// Number of the socket's file: another process may have put its own there.
    inode: u64,
    _task: Supervised,
}

impl Drop for Control {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|file| file.ino() == self.inode) {
            // Fails without the right to: the next start replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Serves the control socket.
pub(crate) fn serve(config: &ControlConfig, shared: Arc<Shared>) -> Result<Control, ControlError> {
    let path = config.path.clone();
    let failed = |source| ControlError { path: path.clone(), source };
    let listener = listen(&path, config.mode.bits()).map_err(failed)?;
    let inode = fs::symlink_metadata(&path).map_err(failed)?.ino();
    let listener = Arc::new(UnixListener::from_std(listener).map_err(failed)?);
    let (journal, is_private) = (shared.journal.clone(), config.mode.is_private());
    let run = move || accept(listener.clone(), shared.clone(), is_private);
    let task = supervise::restarting(journal, "the control socket", run);
    Ok(Control { path, inode, _task: task })
}

/// Binds a socket that is never open to others: it gets its mode first and its name last. The socket of a
/// process that is gone is replaced.
fn listen(path: &Path, mode: u32) -> io::Result<Listener> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
        Ok(file) if !file.file_type().is_socket() => {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "a file that is no socket is there"));
        }
        Ok(_) if Stream::connect(path).is_ok() => {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another process answers there"));
        }
        Ok(_) => {}
    }
    let mut new = path.as_os_str().to_owned();
    new.push(format!(".{}", std::process::id()));
    let new = PathBuf::from(new);
    // Of an earlier process with this number.
    let _ = fs::remove_file(&new);
    let listener = Listener::bind(&new)?;
    let named =
        fs::set_permissions(&new, fs::Permissions::from_mode(mode)).and_then(|()| fs::rename(&new, path));
    named.inspect_err(|_| drop(fs::remove_file(&new)))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

async fn accept(listener: Arc<UnixListener>, shared: Arc<Shared>, is_private: bool) -> Result<(), String> {
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(permit) = permits.clone().acquire_owned().await else { return Ok(()) };
        let Ok((stream, _)) = listener.accept().await else {
            // For instance because no file descriptor is free.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        if is_private && !is_own(&stream) {
            continue;
        }
        let (shared, journal) = (shared.clone(), shared.journal.clone());
        supervise::spawn(journal, "a connection to the control socket", async move {
            // A client that disconnects gets no answer.
            let _ = serve_connection(stream, &shared).await;
            drop(permit);
        });
    }
}

/// Whether the peer is the user of this process, or root. Some systems ignore the mode of a socket.
fn is_own(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| [0, own].contains(&peer.uid()))
}

async fn serve_connection(stream: UnixStream, shared: &Shared) -> io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut bounded = (&mut reader).take(MAX_REQUEST as u64 + 1);
        if timeout(IDLE_TIMEOUT, bounded.read_until(b'\n', &mut line)).await.map_err(io::Error::other)?? == 0
        {
            return Ok(());
        }
        let is_too_long = line.len() > MAX_REQUEST;
        let (answer, _held) = if is_too_long { (Some(too_long()), None) } else { respond(shared, &line) };
        if let Some(answer) = answer {
            timeout(WRITE_TIMEOUT, writer.write_all(answer.as_bytes())).await.map_err(io::Error::other)??;
        }
        if is_too_long {
            // With unread data in the socket, the kernel would drop the answer.
            writer.shutdown().await?;
            let mut rest = (&mut reader).take(MAX_DISCARDED);
            return timeout(WRITE_TIMEOUT, copy(&mut rest, &mut sink()))
                .await
                .map_err(io::Error::other)?
                .map(drop);
        }
    }
}

fn too_long() -> String {
    let failure = Failure::new(code::REQUEST, format!("a request has at most {MAX_REQUEST} bytes"));
    answer(&Value::Null, Err(failure))
}

/// The answer to a request, if it has one. An exit that drains does not end before the permit is dropped, so that the answer
/// leaves.
fn respond(shared: &Shared, line: &[u8]) -> (Option<String>, Option<OwnedSemaphorePermit>) {
    match parse(line) {
        Ok(Request { id, call }) => {
            let held = if call == Call::Drain { shared.permit() } else { None };
            let result = methods::run(shared, call);
            (id.map(|id| answer(&id, result)), held)
        }
        Err((id, failure)) => (id.map(|id| answer(&id, Err(failure))), None),
    }
}
