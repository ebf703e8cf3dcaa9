//! Network namespaces, each with a thread in it.

use std::{
    ffi::OsString,
    io::{self, PipeWriter, Write as _},
    os::fd::AsRawFd as _,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, Sender, channel},
    thread::JoinHandle,
};

use nix::sched::{CloneFlags, unshare};

use crate::error::ShellError;

/// One end of the links: a network namespace, and a thread that runs tasks in it.
#[derive(Debug)]
pub struct Side {
    name: &'static str,
    /// `None` once the side is dropped.
    work: Option<Sender<Task>>,
    thread: Option<JoinHandle<()>>,
    /// Its end signals to init processes that the shell has ended.
    alive: PipeWriter,
    reader: io::PipeReader,
}

type Task = Box<dyn FnOnce() + Send>;

/// A program to run on a side, by its init process.
#[derive(Debug, Clone)]
pub struct Program {
    /// The program that becomes the init process and the arguments that make it one; it must pass
    /// the arguments after them to [`init::run`](crate::init::run). Usually the running program
    /// itself.
    pub init: Vec<OsString>,
    /// The program to run and its arguments.
    pub command: Vec<OsString>,
    /// Environment variables in addition to those of the shell.
    pub variables: Vec<(String, String)>,
    /// The program has the shell's standard input; without, its own is empty. If two programs read
    /// the same input, each gets a part of it.
    pub reads_input: bool,
}

impl Side {
    /// Opens a new namespace with only a loopback device, which is down.
    pub(crate) fn open(name: &'static str) -> Result<Self, ShellError> {
        let (work, tasks) = channel::<Task>();
        let (reader, alive) = io::pipe()?;
        let thread =
            std::thread::Builder::new().name(format!("squall-{name}")).spawn(move || serve(&tasks))?;
        let side = Self { name, work: Some(work), thread: Some(thread), alive, reader };
        // The process namespace applies to children: the first program started here becomes its
        // init process.
        let flags = CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWPID;
        side.within(move || unshare(flags))
            .map_err(|errno| ShellError::Privilege { problem: errno.into() })?;
        Ok(side)
    }

    /// Returns the name of the side: `client` or `server`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Runs a task in the namespace: sockets and devices opened by it stay there. The task cannot
    /// start threads.
    ///
    /// # Panics
    ///
    /// If the task does.
    pub fn within<R: Send + 'static>(&self, task: impl FnOnce() -> R + Send + 'static) -> R {
        let (answer, done) = channel();
        let task = move || {
            // The caller waits for the result.
            let _ = answer.send(task());
        };
        let work = self.work.as_ref().expect("the thread is there until the side is dropped");
        work.send(Box::new(task)).expect("the thread ends when its side is dropped");
        done.recv().expect("the task has ended without an answer: it has panicked")
    }

    /// Requests the end of this side's program; `init` is the process id of its init process, which
    /// may have ended already.
    pub fn terminate(&self, init: u32) {
        // An init process that does not yet receive signals reads this byte before it starts its
        // program.
        let _ = (&self.alive).write(&[0]);
        terminate(init);
    }

    /// Starts the one program of this side, with the shell's standard output and error. The program
    /// and its descendants are killed when its init process ends.
    ///
    /// # Errors
    ///
    /// If the init process cannot be started, for example because this is the second program. If
    /// the program itself cannot be started, the init process reports it.
    pub fn start(&self, program: Program) -> Result<Child, ShellError> {
        let Program { init, command, variables, reads_input } = program;
        start_init(init, command, variables, &self.reader, |mut start| {
            if !reads_input {
                start.stdin(Stdio::null());
            }
            self.within(move || start.spawn())
        })
    }
}

/// Starts an init process for a command, by `spawn`. It detects the end of its shell by the end of
/// the pipe that `alive` reads.
pub(crate) fn start_init(
    init: Vec<OsString>,
    command: Vec<OsString>,
    variables: Vec<(String, String)>,
    alive: &io::PipeReader,
    spawn: impl FnOnce(Command) -> io::Result<Child>,
) -> Result<Child, ShellError> {
    let mut words = init.into_iter();
    let program = words.next().unwrap_or_default();
    let mut start = Command::new(&program);
    start.args(words).arg(alive.as_raw_fd().to_string()).args(command).envs(variables);
    // The init process inherits the descriptor.
    rustix::io::fcntl_setfd(alive, rustix::io::FdFlags::empty()).map_err(io::Error::from)?;
    let child = spawn(start).map_err(|problem| ShellError::Program { program, problem });
    rustix::io::fcntl_setfd(alive, rustix::io::FdFlags::CLOEXEC).map_err(io::Error::from)?;
    child
}

impl Drop for Side {
    fn drop(&mut self) {
        self.work = None;
        if let Some(thread) = self.thread.take() {
            // If a task has panicked, so has its caller.
            let _ = thread.join();
        }
    }
}

fn serve(tasks: &Receiver<Task>) {
    while let Ok(task) = tasks.recv() {
        task();
    }
}

/// Requests the end of an init process's program, by the process id of an init process that
/// receives signals; see [`Side::terminate`].
pub fn terminate(init: u32) {
    if let Some(pid) = rustix::process::Pid::from_raw(init.cast_signed()) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}
