//! Control of a running tunnel over a Unix socket: JSON-RPC 2.0, one request and one answer per
//! line.
//!
//! [`request`] parses the requests, [`methods`] executes them.

mod methods;
pub(crate) mod request;

use std::{
    fs,
    fs::{OpenOptions, Permissions},
    io::{
        self,
        ErrorKind::{AddrInUse, AlreadyExists, ConnectionRefused, NotFound, WouldBlock},
    },
    mem,
    os::unix::{
        fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
        net::{SocketAddr, UnixListener as Listener},
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::{
    fs::{FlockOperation, OFlags, flock},
    io::Errno,
};
use serde_json::Value;
use squall_observe::{
    journal::Journal,
    places::Places,
    supervise::{self, Supervised},
    web::Source,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, copy, sink},
    net::{UnixListener, UnixStream},
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    task::spawn_blocking,
    time::timeout,
};

use self::request::{Call, Failure, MAX_REQUEST, Request, answer, code, parse};
use crate::{
    config::ControlConfig,
    shared::{ControlError, ExitState},
};

/// Maximum number of simultaneous connections that wait for their client; a new connection
/// displaces the one that has been silent for longest. The same number of requests is processed at
/// a time; further connections wait in the kernel.
const CONNECTIONS: usize = 8;

/// Maximum time between two requests of a connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum time for an answer to be read.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum time that other starting processes may hold the lock next to the socket.
const TURN_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum number of bytes of an oversized request that are read before the connection is closed.
const MAX_DISCARDED: u64 = 1 << 20;

/// The server. Dropping it removes its socket.
#[derive(Debug)]
pub(crate) struct Control {
    path: PathBuf,
    /// Inode of the socket file, to detect that another process has replaced it.
    inode: u64,
    _task: Supervised,
}

impl Drop for Control {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|file| file.ino() == self.inode) {
            // Fails without permission; the next start replaces the file.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The tunnel under control.
#[derive(Clone)]
pub(crate) struct Controlled {
    pub(crate) source: Arc<dyn Source>,
    /// State of the exit; `None` at an entry.
    pub(crate) exit: Option<Arc<ExitState>>,
    pub(crate) journal: Arc<Journal>,
}

/// Serves the control socket.
pub(crate) async fn serve(config: &ControlConfig, tunnel: Controlled) -> Result<Control, ControlError> {
    let path = config.path.clone();
    let failed = |source| ControlError { path: path.clone(), source };
    let listener = listen(&path, config.mode.bits()).await.map_err(failed)?;
    let inode = fs::symlink_metadata(&path).map_err(failed)?.ino();
    let listener = Arc::new(UnixListener::from_std(listener).map_err(failed)?);
    let (journal, is_private) = (tunnel.journal.clone(), config.mode.is_private());
    let run = move || accept(listener.clone(), tunnel.clone(), is_private);
    let task = supervise::restarting(journal, "the control socket", run);
    Ok(Control { path, inode, _task: task })
}

/// Binds a socket that is never accessible to others: it is created in a folder that only this user
/// can enter, and moved to its path once it has its mode. Replaces the socket of a process that has
/// ended.
async fn listen(path: &Path, mode: u32) -> io::Result<Listener> {
    // Clients could not connect to a path that is too long.
    SocketAddr::from_pathname(path)?;
    let beside = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let _turn = take_turn(path).await?;
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == NotFound => {}
        Err(error) => return Err(error),
        Ok(file) if !file.file_type().is_socket() => {
            return Err(io::Error::new(AlreadyExists, "a file that is no socket is there"));
        }
        Ok(_) => check_gone(path).await?,
    }
    let mut private = tempfile::Builder::new();
    private.prefix(".").permissions(Permissions::from_mode(0o700));
    let private = private.tempdir_in(beside)?;
    // Relative like the path, and short, because the paths of sockets are limited in length.
    let new = beside.join(private.path().file_name().unwrap_or_default()).join("s");
    let listener = Listener::bind(&new)?;
    fs::set_permissions(&new, Permissions::from_mode(mode))?;
    fs::rename(&new, path)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Lock of a socket, a file next to it. Dropping it removes the file.
#[derive(Debug)]
struct Turn {
    path: PathBuf,
    _file: fs::File,
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Remove the file before it is unlocked: afterwards it may be the lock of another process.
        let _ = fs::remove_file(&self.path);
    }
}

/// Takes the lock of a socket, so that of several starting processes only one at a time checks and
/// replaces the socket. Only this user can hold the lock. `None` where there are no locks, or if
/// another user has a file of that name.
async fn take_turn(socket: &Path) -> io::Result<Option<Turn>> {
    let name = socket.file_name().unwrap_or_default().to_string_lossy();
    let path = socket.with_file_name(format!(".{name}.lock"));
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32);
    let begin = Instant::now();
    loop {
        let Ok(file) = options.open(&path) else { return Ok(None) };
        let own = file.metadata()?;
        if own.uid() != rustix::process::geteuid().as_raw() || own.mode() & 0o077 != 0 {
            return Ok(None);
        }
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            // The previous holder may have removed the file.
            Ok(()) if fs::symlink_metadata(&path).is_ok_and(|there| there.ino() == own.ino()) => {
                return Ok(Some(Turn { path, _file: file }));
            }
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) if begin.elapsed() < TURN_TIMEOUT => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Err(Errno::WOULDBLOCK) => {
                let problem = format!("another process keeps {} locked", path.display());
                return Err(io::Error::new(WouldBlock, problem));
            }
            Err(_) => return Ok(None),
        }
    }
}

fn is_used() -> io::Error {
    io::Error::new(AddrInUse, "another process answers there")
}

/// Checks that the process of a socket has ended. Does not wait for a stopped process.
async fn check_gone(path: &Path) -> io::Result<()> {
    match UnixStream::connect(path).await {
        Ok(_) => Err(is_used()),
        Err(error) => match error.kind() {
            ConnectionRefused | NotFound => Ok(()),
            // The connection queue of the process is full.
            WouldBlock => Err(is_used()),
            kind => {
                let problem = format!("whether another process answers there is unknown: {error}");
                Err(io::Error::new(kind, problem))
            }
        },
    }
}

async fn accept(listener: Arc<UnixListener>, tunnel: Controlled, is_private: bool) -> Result<(), String> {
    let permits = Arc::new(Semaphore::new(2 * CONNECTIONS));
    let places = Places::new(CONNECTIONS, CONNECTIONS);
    loop {
        let Ok(permit) = permits.clone().acquire_owned().await else { return Ok(()) };
        let Ok((stream, _)) = listener.accept().await else {
            // For instance, no file descriptor is free.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        if is_private && !is_own(&stream) {
            continue;
        }
        let (tunnel, places) = (tunnel.clone(), places.clone());
        supervise::spawn(tunnel.journal.clone(), "a connection to the control socket", async move {
            let displaced = Arc::new(Notify::new());
            tokio::select! {
                // A client that disconnects gets no answer.
                _ = serve_connection(stream, &tunnel, &places, &displaced) => {}
                () = displaced.notified() => {}
            }
            drop(permit);
        });
    }
}

/// `true` if the peer is the user of this process, or root. Some systems ignore the mode of a
/// socket.
fn is_own(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| [0, own].contains(&peer.uid()))
}

async fn serve_connection(
    stream: UnixStream,
    tunnel: &Controlled,
    places: &Arc<Places<Arc<Notify>>>,
    displaced: &Arc<Notify>,
) -> io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    let mut place = places.take(displaced);
    loop {
        line.clear();
        let mut bounded = (&mut reader).take(MAX_REQUEST as u64 + 1);
        if timeout(IDLE_TIMEOUT, bounded.read_until(b'\n', &mut line)).await.map_err(io::Error::other)?? == 0
        {
            return Ok(());
        }
        let is_too_long = line.len() > MAX_REQUEST;
        let (answer, _held) = if is_too_long {
            (Some(too_long()), None)
        } else {
            // A change may wait for the disk, and the async threads carry media.
            let (tunnel, line) = (tunnel.clone(), mem::take(&mut line));
            drop(place);
            let answered = spawn_blocking(move || respond(&tunnel, &line)).await.map_err(io::Error::other)?;
            place = places.take(displaced);
            answered
        };
        if let Some(answer) = answer {
            timeout(WRITE_TIMEOUT, writer.write_all(answer.as_bytes())).await.map_err(io::Error::other)??;
        }
        if is_too_long {
            // If the socket had unread data, the kernel would drop the answer.
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

/// Returns the answer to a request, if it has one. While the returned permit is held, a draining
/// exit does not end, so that the answer can be sent.
fn respond(tunnel: &Controlled, line: &[u8]) -> (Option<String>, Option<OwnedSemaphorePermit>) {
    match parse(line) {
        Ok(Request { id, call }) => {
            let exit = tunnel.exit.as_ref().filter(|_| call == Call::Drain);
            let held = exit.and_then(|exit| exit.any_permit());
            let result = methods::run(tunnel, call);
            (id.map(|id| answer(&id, result)), held)
        }
        Err((id, failure)) => (id.map(|id| answer(&id, Err(failure))), None),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        os::unix::net::{UnixDatagram, UnixStream as Stream},
        sync::atomic::{AtomicBool, Ordering::Relaxed},
    };

    use super::*;

    async fn refusal(path: &Path) -> String {
        let before = fs::symlink_metadata(path).expect("is there").ino();
        let error = listen(path, 0o600).await.expect_err("is not replaced").to_string();
        assert_eq!(fs::symlink_metadata(path).expect("is there").ino(), before);
        error
    }

    #[tokio::test]
    async fn only_the_socket_of_a_process_that_is_gone_is_replaced() {
        let folder = tempfile::tempdir().expect("is made");
        let path = folder.path().join("c.sock");
        let first = listen(&path, 0o660).await.expect("is bound");
        assert_eq!(refusal(&path).await, "another process answers there");
        drop(first);
        let _second = listen(&path, 0o660).await.expect("is replaced");
        let names: Vec<_> = fs::read_dir(folder.path()).expect("is listed").flatten().collect();
        assert_eq!(names.len(), 1, "no other file stays: {names:?}");
        assert_eq!(fs::metadata(&path).expect("is there").mode() & 0o777, 0o660);
    }

    #[test]
    fn of_processes_that_start_at_once_one_has_the_socket() {
        let folder = tempfile::tempdir().expect("is made");
        let path = folder.path().join("c.sock");
        let start = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(listen(&path, 0o600))
        };
        for round in 0..300 {
            if round % 2 == 0 {
                let _ = fs::remove_file(&path);
            }
            let started: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(start)).collect();
                threads.into_iter().map(|thread| thread.join().expect("ends")).collect()
            });
            let won: Vec<_> = started.into_iter().filter_map(Result::ok).collect();
            assert_eq!(won.len(), 1, "in round {round}");
            Stream::connect(&path).expect("it answers");
        }
    }

    #[tokio::test]
    async fn nothing_that_other_users_can_lock_prevents_the_start() {
        let folder = tempfile::tempdir().expect("is made");
        let (path, lock) = (folder.path().join("c.sock"), folder.path().join(".c.sock.lock"));
        let locked = |path: &Path| {
            let file = fs::File::open(path).expect("is there");
            flock(&file, FlockOperation::NonBlockingLockExclusive).expect("is free");
            file
        };
        let of_folder = locked(folder.path());
        drop(listen(&path, 0o600).await.expect("is bound"));
        drop(of_folder);
        // A file that others may open is not from this program.
        fs::write(&lock, "").expect("is written");
        fs::set_permissions(&lock, Permissions::from_mode(0o644)).expect("is set");
        let _of_file = locked(&lock);
        drop(listen(&path, 0o600).await.expect("is bound"));
    }

    #[tokio::test]
    async fn a_lock_that_stays_is_not_waited_for() {
        let folder = tempfile::tempdir().expect("is made");
        let path = folder.path().join("c.sock");
        let turn = take_turn(&path).await.expect("is free").expect("has locks");
        assert_eq!(fs::metadata(&turn.path).expect("is there").mode() & 0o777, 0o600);
        let error = listen(&path, 0o600).await.expect_err("is locked").to_string();
        assert!(
            error.starts_with("another process keeps ") && error.ends_with(".c.sock.lock locked"),
            "{error}"
        );
        drop(turn);
        assert_eq!(fs::read_dir(folder.path()).expect("is listed").count(), 0);
    }

    #[tokio::test]
    async fn a_name_that_clients_cannot_use_is_refused() {
        let folder = tempfile::tempdir().expect("is made");
        let path = folder.path().join("x".repeat(120));
        let error = listen(&path, 0o600).await.expect_err("is too long").to_string();
        assert!(error.contains("SUN_LEN"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).expect("is listed").count(), 0);
    }

    #[tokio::test]
    async fn a_socket_has_its_mode_before_others_can_reach_it() {
        let folder = tempfile::tempdir().expect("is made");
        let (path, done) = (folder.path().join("c.sock"), Arc::new(AtomicBool::new(false)));
        let (watched, is_done) = (folder.path().to_owned(), done.clone());
        let watcher = std::thread::spawn(move || {
            let mut modes = BTreeSet::new();
            while !is_done.load(Relaxed) {
                let files = fs::read_dir(&watched).into_iter().flatten().flatten();
                let files = files.filter_map(|file| fs::symlink_metadata(file.path()).ok());
                modes.extend(files.map(|file| (file.file_type().is_socket(), file.mode() & 0o777)));
            }
            modes
        });
        for _ in 0..300 {
            drop(listen(&path, 0o660).await.expect("is bound"));
        }
        done.store(true, Relaxed);
        let modes = watcher.join().expect("ends");
        // The socket, the folder in which it gets its mode, and the lock.
        let expected = [(true, 0o660), (false, 0o700), (false, 0o600)];
        assert!(modes.iter().all(|mode| expected.contains(mode)), "{modes:?}");
    }

    #[tokio::test]
    async fn a_socket_that_cannot_be_asked_stays() {
        let folder = tempfile::tempdir().expect("is made");
        let path = folder.path().join("c.sock");
        let _other = UnixDatagram::bind(&path).expect("is bound");
        let error = refusal(&path).await;
        assert!(error.starts_with("whether another process answers there is unknown: "), "{error}");
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_process_that_accepts_nothing_is_not_waited_for() {
        let folder = tempfile::tempdir().expect("is made");
        let path = folder.path().join("c.sock");
        let stopped = Listener::bind(&path).expect("is bound");
        socket2::SockRef::from(&stopped).listen(0).expect("has room for one");
        let _waiting = Stream::connect(&path).expect("waits");
        let refused = timeout(Duration::from_secs(30), refusal(&path)).await.expect("does not wait");
        assert_eq!(refused, "another process answers there");
    }
}
