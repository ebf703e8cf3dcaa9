//! A network namespace with a thread in it.

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

/// One end of the links: a network namespace, and the thread that does what is to be done in it.
#[derive(Debug)]
pub struct Side {
    name: &'static str,
    /// `None` when it is over.
    work: Option<Sender<Task>>,
    thread: Option<JoinHandle<()>>,
    /// Init processes detect by its end that the shell is gone.
    alive: PipeWriter,
    reader: io::PipeReader,
}

type Task = Box<dyn FnOnce() + Send>;

/// A program to run on a side, by its init process.
#[derive(Debug, Clone)]
pub struct Program {
    /// The program that becomes the init process and the arguments that make it one; it must hand what follows them to
    /// [`init::run`](crate::init::run). Usually the running program itself.
    pub init: Vec<OsString>,
    /// What to run, and its arguments.
    pub command: Vec<OsString>,
    /// Environment variables beyond those of the shell.
    pub variables: Vec<(String, String)>,
    /// Whether it has the shell's standard input; without, its own is empty. Two that read the same one would each get a
    /// part of it.
    pub reads_input: bool,
}

impl Side {
    /// A new namespace with nothing in it but a loopback device that is down.
    pub(crate) fn open(name: &'static str) -> Result<Self, ShellError> {
        let (work, tasks) = channel::<Task>();
        let (reader, alive) = io::pipe()?;
        let thread =
            std::thread::Builder::new().name(format!("squall-{name}")).spawn(move || serve(&tasks))?;
        let side = Self { name, work: Some(work), thread: Some(thread), alive, reader };
        // The process namespace is that of the first program started here, which is its init process.
        let flags = CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWPID;
        side.within(move || unshare(flags))
            .map_err(|errno| ShellError::Privilege { problem: errno.into() })?;
        Ok(side)
    }

    /// What it is called: `client` or `server`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Does something in the namespace: sockets and devices opened meanwhile are in it for good. Threads cannot be
    /// started meanwhile.
    ///
    /// # Panics
    ///
    /// If the task does.
    pub fn within<R: Send + 'static>(&self, task: impl FnOnce() -> R + Send + 'static) -> R {
        let (answer, done) = channel();
        let task = move || {
            // The caller waits for it.
            let _ = answer.send(task());
        };
        let work = self.work.as_ref().expect("the thread is there until the side is dropped");
        work.send(Box::new(task)).expect("the thread ends when its side is dropped");
        done.recv().expect("the task has ended without an answer: it has panicked")
    }

    /// Asks the program of this side to end, `init` being the process id of its init process. It may not be there any more.
    pub fn terminate(&self, init: u32) {
        // An init process that does not receive signals yet reads this instead, before it starts its program.
        let _ = (&self.alive).write(&[0]);
        terminate(init);
    }

    /// Starts the one program of this side, with the shell's own standard output and error. It and all it starts are
    /// killed when its init process ends.
    ///
    /// # Errors
    ///
    /// If the init process cannot be started, as when this is the second program. That the program itself cannot be started is
    /// for the init process to report.
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

/// Starts an init process for a command, from whichever thread `spawn` starts it. It detects by the end of the pipe that `alive`
/// reads from that its shell is gone.
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
    // The init process inherits it.
    rustix::io::fcntl_setfd(alive, rustix::io::FdFlags::empty()).map_err(io::Error::from)?;
    let child = spawn(start).map_err(|problem| ShellError::Program { program, problem });
    rustix::io::fcntl_setfd(alive, rustix::io::FdFlags::CLOEXEC).map_err(io::Error::from)?;
    child
}

impl Drop for Side {
    fn drop(&mut self) {
        self.work = None;
        if let Some(thread) = self.thread.take() {
            // The caller of a task that has panicked has panicked too.
            let _ = thread.join();
        }
    }
}

fn serve(tasks: &Receiver<Task>) {
    while let Ok(task) = tasks.recv() {
        task();
    }
}

/// Asks the program of an init process that receives signals to end, by its process id; see [`Side::terminate`].
pub fn terminate(init: u32) {
    if let Some(pid) = rustix::process::Pid::from_raw(init.cast_signed()) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}
