//! First process of a side's process namespace: when it ends, the kernel kills all others there.
//!
//! Therefore no program that was started behind the links outlives them, even in the background. If
//! the shell is killed, the kernel kills its init processes.

use std::{
    ffi::OsString,
    fs::OpenOptions,
    io::{self, ErrorKind, Read as _},
    os::{fd::RawFd, unix::fs::OpenOptionsExt as _},
    process::Command,
};

use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
    sys::{
        prctl::set_pdeathsig,
        signal::{Signal, kill},
        wait::{WaitStatus, wait},
    },
    unistd::{Pid, close},
};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM},
    iterator::Signals,
};

/// Exit code of POSIX shells for a program that was not found.
const NOT_FOUND: i32 = 127;
/// Exit code of POSIX shells for a program that may not be executed.
const NOT_EXECUTABLE: i32 = 126;
/// Value that POSIX shells add to the number of a signal.
const BY_SIGNAL: i32 = 128;

/// Runs a program and waits for it, as the last act of a process.
/// [`Side::start`](crate::Side::start) appends `alive` and `command` to the arguments of the init
/// process. Returns the program's exit code, 128 plus the signal's number if a signal ended it, or
/// 127 if there is no such program.
pub fn run(alive: RawFd, command: &[OsString]) -> u8 {
    u8::try_from(wait_for(alive, command)).unwrap_or(1)
}

fn wait_for(alive: RawFd, command: &[OsString]) -> i32 {
    let signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM]);
    // The kernel kills this process when the shell ends. If the shell ended, or requested this
    // process's end, before this call, end now.
    if set_pdeathsig(Signal::SIGKILL).is_err() || is_over(alive) {
        return BY_SIGNAL + Signal::SIGKILL as i32;
    }
    let _ = close(alive);
    show_own_processes();
    let Some((program, arguments)) = command.split_first() else { return 0 };
    let child = match Command::new(program).args(arguments).spawn() {
        Ok(child) => Pid::from_raw(child.id().cast_signed()),
        Err(problem) => {
            eprintln!("squall-lab: {}: {problem}", program.display());
            return if problem.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE };
        }
    };
    if let Ok(mut signals) = signals {
        std::thread::spawn(move || {
            for signal in signals.forever() {
                // Signals of the keyboard reach the program without help.
                if let (SIGTERM | SIGHUP, Ok(signal)) = (signal, Signal::try_from(signal)) {
                    let _ = kill(child, signal);
                }
            }
        });
    }
    // Also reap orphans.
    loop {
        match wait() {
            Ok(WaitStatus::Exited(pid, code)) if pid == child => return code,
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == child => return BY_SIGNAL + signal as i32,
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(_) => return 1,
        }
    }
}

/// `true` if the shell has closed the other end of the pipe, or has written to it.
fn is_over(alive: RawFd) -> bool {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(format!("/proc/self/fd/{alive}"));
    let read = opened.and_then(|mut pipe| pipe.read(&mut [0]));
    !matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

/// Mounts a `/proc` of this process namespace. If the system refuses (in some containers), the
/// shell's `/proc` stays, and only process lists are wrong.
fn show_own_processes() {
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    let none: Option<&str> = None;
    let _ = unshare(CloneFlags::CLONE_NEWNS)
        .and_then(|()| mount(none, "/", none, private, none))
        .and_then(|()| mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), none));
}
