//! Entry to a side of a running shell from another terminal.
//!
//! The namespaces have no names, so a side is found by its thread: `squall-client` or
//! `squall-server` of a process of the same user.

use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    os::{fd::OwnedFd, unix::fs::MetadataExt as _},
    path::{Path, PathBuf},
    sync::mpsc::channel,
};

use nix::sched::{CloneFlags, setns, unshare};
use rustix::{
    event::{PollFd, PollFlags, poll},
    fd::AsFd,
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open},
};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM},
    iterator::Signals,
};

use crate::{error::ShellError, side};

/// Prefix of the variables that a shell sets for programs behind the links.
const VARIABLES: &str = "SQUALL_";

/// Exit code for a program that was killed.
const KILLED: u8 = 137;

/// End of the links to enter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The client's side.
    Near,
    /// The server's side.
    Far,
}

/// A side of a running shell that this process has entered.
#[derive(Debug)]
pub struct Joined {
    /// Process descriptor that is readable once the shell has ended.
    shell: OwnedFd,
    /// Variables that the shell has set for its own programs.
    variables: Vec<(String, String)>,
}

/// A running shell.
#[derive(Debug)]
struct Running {
    pid: u32,
    /// Id of the thread in the client's namespace.
    client: u32,
    /// Id of the thread in the server's namespace.
    server: u32,
}

/// Enters a side of the shell with this process id, or of the only one that this user runs. The
/// process must have a single thread. Programs that [`Joined::run`] starts end with the shell.
///
/// # Errors
///
/// [`ShellError::Join`] if there is no such shell, if several run and no id is set, or if the
/// system refuses.
pub fn join(end: End, pid: Option<u32>) -> Result<Joined, ShellError> {
    let shell = choose(running()?, pid)?;
    let refused = |problem: io::Error| ShellError::Join(format!("process {}: {problem}", shell.pid));
    // First, so that the id refers to the process that was found.
    let alive =
        Pid::from_raw(shell.pid.cast_signed()).ok_or_else(|| refused(io::ErrorKind::NotFound.into()))?;
    let alive = pidfd_open(alive, PidfdFlags::empty()).map_err(|error| refused(error.into()))?;
    let thread = if end == End::Near { shell.client } else { shell.server };
    let folder = task(shell.pid, thread);
    let variables = variables(&task(shell.pid, shell.client)).unwrap_or_default();
    enter(&folder.join("ns")).map_err(refused)?;
    Ok(Joined { shell: alive, variables })
}

impl Joined {
    /// Runs a program on the side and returns its exit code, as with
    /// [`Side::start`](crate::Side::start): `init` is the program that becomes its init process.
    /// Returns 137 if the shell ended first.
    ///
    /// # Errors
    ///
    /// If the init process cannot be started.
    pub fn run(self, init: Vec<OsString>, command: Vec<OsString>) -> Result<u8, ShellError> {
        let (reader, alive) = io::pipe()?;
        // Signals of the keyboard reach the program without help; this process waits for its end.
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM])?;
        // A thread cannot be started once children belong to another process namespace.
        let (to_terminate, init_to_terminate) = channel();
        let (to_kill, init_to_kill) = channel();
        thread("squall-signals", move || {
            let Ok(init) = init_to_terminate.recv() else { return };
            let asked = signals.forever().filter(|signal| matches!(*signal, SIGTERM | SIGHUP));
            asked.for_each(|_| side::terminate(init));
        })?;
        let shell = self.shell;
        thread("squall-joined", move || {
            let Ok(init) = init_to_kill.recv() else { return };
            wait_for(&shell);
            kill(init);
        })?;
        unshare(CloneFlags::CLONE_NEWPID).map_err(io::Error::from)?;
        let mut child = side::start_init(init, command, self.variables, &reader, |mut start| start.spawn())?;
        // Both threads run as long as this process.
        let _ = (to_terminate.send(child.id()), to_kill.send(child.id()));
        let code = child.wait()?.code();
        drop(alive);
        Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(KILLED))
    }
}

fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}

/// Returns when the process has ended.
fn wait_for(process: &OwnedFd) {
    while poll(&mut [PollFd::new(process, PollFlags::IN)], None).is_err() {}
}

/// Kills an init process, and with it everything in its process namespace.
fn kill(init: u32) {
    if let Some(pid) = Pid::from_raw(init.cast_signed()) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Enters the user namespace and the network namespace of a thread.
fn enter(namespaces: &Path) -> io::Result<()> {
    let [user, network] = ["user", "net"].map(|name| File::open(namespaces.join(name)));
    let user = user?;
    if user.metadata()?.ino() != fs::metadata("/proc/self/ns/user")?.ino() {
        setns(user.as_fd(), CloneFlags::CLONE_NEWUSER)?;
    }
    Ok(setns(network?.as_fd(), CloneFlags::CLONE_NEWNET)?)
}

/// Finds the shells of this user.
fn running() -> io::Result<Vec<Running>> {
    let own = fs::metadata("/proc/self")?.uid();
    let mut shells: Vec<Running> = fs::read_dir("/proc")?
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let is_own = entry.metadata().is_ok_and(|of| of.uid() == own);
            let thread = |name: &str| thread_called(pid, name).filter(|_| is_own);
            Some(Running { pid, client: thread("squall-client")?, server: thread("squall-server")? })
        })
        .collect();
    shells.sort_unstable_by_key(|shell| shell.pid);
    Ok(shells)
}

fn choose(shells: Vec<Running>, pid: Option<u32>) -> Result<Running, ShellError> {
    let pids: Vec<String> = shells.iter().map(|shell| shell.pid.to_string()).collect();
    let mut wanted: Vec<Running> =
        shells.into_iter().filter(|shell| pid.is_none_or(|pid| pid == shell.pid)).collect();
    let words = match (wanted.len(), pid) {
        (1, _) => return Ok(wanted.remove(0)),
        (0, Some(pid)) if pids.is_empty() => format!("process {pid} is no shell of this user, and none runs"),
        (0, Some(pid)) => format!("process {pid} is no shell of this user; there are {}", pids.join(", ")),
        (0, None) => "no shell of this user runs; start one with --link or --scenario".to_owned(),
        _ => format!("several shells run: name one with --pid ({})", pids.join(", ")),
    };
    Err(ShellError::Join(words))
}

fn task(pid: u32, thread: u32) -> PathBuf {
    format!("/proc/{pid}/task/{thread}").into()
}

fn thread_called(pid: u32, name: &str) -> Option<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    let is_called = |thread: &u32| {
        fs::read_to_string(task(pid, *thread).join("comm")).is_ok_and(|comm| comm.trim_end() == name)
    };
    threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok()).find(is_called)
}

/// Returns the variables that the shell set for the program that this thread started; `None` if the
/// kernel does not list children.
fn variables(thread: &Path) -> Option<Vec<(String, String)>> {
    let children = fs::read_to_string(thread.join("children")).ok()?;
    let init = children.split_whitespace().next()?;
    let all = fs::read_to_string(format!("/proc/{init}/environ")).ok()?;
    let all = all.split('\0').filter_map(|variable| variable.split_once('='));
    Some(
        all.filter(|(name, _)| name.starts_with(VARIABLES))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shells(pids: &[u32]) -> Vec<Running> {
        pids.iter().map(|&pid| Running { pid, client: pid + 1, server: pid + 2 }).collect()
    }

    #[test]
    fn a_shell_must_be_named_where_several_run() {
        let chosen =
            |pids: &[u32], pid| choose(shells(pids), pid).map(|shell| shell.pid).map_err(|e| e.to_string());
        assert_eq!(chosen(&[7], None), Ok(7));
        assert_eq!(chosen(&[7, 8], Some(8)), Ok(8));
        assert_eq!(
            chosen(&[7, 8], None),
            Err("--join: several shells run: name one with --pid (7, 8)".into())
        );
        assert_eq!(
            chosen(&[7], Some(9)),
            Err("--join: process 9 is no shell of this user; there are 7".into())
        );
        assert!(
            chosen(&[], None).is_err_and(|words| words.starts_with("--join: no shell of this user runs"))
        );
    }
}
