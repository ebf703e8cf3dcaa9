//! Programs on both sides, and their termination.

use std::{
    env,
    ffi::OsString,
    process::{Child, ExitStatus},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use squall_shell::{Addresses, Family, Prepared, Program, Shell, ShellError, Side};
use squall_signal::external::FOLDER;

use squall_terminal::{interrupt::Interrupts, note};

/// Time for programs to end after a termination request.
const GRACE: Duration = Duration::from_secs(3);

/// Time for the server's program to end by itself after the client's. Many programs do so, and
/// print a last message.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Programs of both sides.
pub(super) struct Programs {
    variables: Vec<(String, String)>,
    /// Events from the threads that wait for the programs and signals.
    events: Receiver<Event>,
    notify: Sender<Event>,
    /// Process id of the client side's init process while it runs.
    client: Option<u32>,
    /// Process id of the server side's init process while it runs.
    server: Option<u32>,
}

enum Event {
    Client(ExitStatus),
    Server(ExitStatus),
    Interrupt,
}

/// Reason of the end.
pub(super) enum Ended {
    /// The client's program ended with this exit code.
    Client(u8),
    /// The user interrupted the shell.
    Interrupted,
}

impl Programs {
    /// Prepares programs whose environment contains the interfaces, their addresses, and the folder
    /// with the radio readings.
    pub(super) fn new(prepared: &Prepared) -> Self {
        let (interfaces, families) = (prepared.interfaces(), prepared.families());
        let mut variables = vec![("SQUALL_LINKS".to_owned(), interfaces.join(","))];
        let mut add = |family: Family, version: &str| {
            let clients = (0..interfaces.len()).map(|path| Addresses::of(path).client(family).to_string());
            let clients = clients.collect::<Vec<_>>().join(",");
            variables.push((format!("SQUALL_SERVER{version}"), squall_shell::server(family).to_string()));
            variables.push((format!("SQUALL_CLIENT{version}"), clients));
        };
        families.iter().take(1).for_each(|first| add(*first, ""));
        families.iter().filter(|family| **family == Family::V6).for_each(|v6| add(*v6, "6"));
        let radios = prepared.radios();
        variables.extend(radios.map(|folder| (FOLDER.to_owned(), folder.display().to_string())));
        let (notify, events) = channel();
        Self { variables, events, notify, client: None, server: None }
    }

    /// Starts the server's program in a shell, without input, which belongs to the client.
    pub(super) fn start_server(&mut self, side: &Side, command: &str) -> Result<(), ShellError> {
        let child = side.start(self.program(by_shell(command), false))?;
        self.server = Some(child.id());
        self.watch(child, Event::Server)
    }

    /// Starts the client's program: a command for a shell, a program, or an interactive shell.
    pub(super) fn start_client(
        &mut self,
        side: &Side,
        command: Option<&str>,
        program: &[OsString],
    ) -> Result<(), ShellError> {
        let command = match command {
            Some(command) => by_shell(command),
            None => program_or_shell(program),
        };
        let child = side.start(self.program(command, true))?;
        self.client = Some(child.id());
        self.watch(child, Event::Client)
    }

    fn program(&self, command: Vec<OsString>, reads_input: bool) -> Program {
        Program { init: init(), command, variables: self.variables.clone(), reads_input }
    }

    fn watch(&self, mut child: Child, event: fn(ExitStatus) -> Event) -> Result<(), ShellError> {
        let notify = self.notify.clone();
        std::thread::Builder::new().name("squall-wait".to_owned()).spawn(move || {
            if let Ok(status) = child.wait() {
                // The receiver may already be closed.
                let _ = notify.send(event(status));
            }
        })?;
        Ok(())
    }

    /// Waits for the client's program, a time limit or Ctrl-C, then asks all programs to end.
    pub(super) fn wait(mut self, time: Option<Duration>, shell: &Shell) -> anyhow::Result<Ended> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let (notify, mut interrupts) = (self.notify.clone(), Interrupts::listen()?);
        runtime.spawn(async move {
            loop {
                interrupts.next().await;
                if notify.send(Event::Interrupt).is_err() {
                    return;
                }
            }
        });
        let deadline = time.map(|time| Instant::now() + time);
        let ended = loop {
            match self.next(deadline).context("the programs")? {
                Some(Event::Client(status)) => {
                    self.client = None;
                    self.last_words()?;
                    break Ended::Client(code(status));
                }
                Some(Event::Server(status)) => {
                    self.server = None;
                    if !status.success() {
                        note!("squall-lab: the server's program has ended with {}", code(status));
                    }
                }
                Some(Event::Interrupt) => break Ended::Interrupted,
                None => break Ended::Client(0),
            }
        };
        self.end(shell)?;
        runtime.shutdown_background();
        Ok(ended)
    }

    /// Waits briefly for the server's program to end by itself.
    fn last_words(&mut self) -> anyhow::Result<()> {
        let deadline = Some(Instant::now() + LAST_WORDS);
        while self.server.is_some() {
            match self.next(deadline)? {
                Some(Event::Server(_)) => self.server = None,
                Some(Event::Client(_)) => {}
                Some(Event::Interrupt) | None => break,
            }
        }
        Ok(())
    }

    /// Asks all programs to end and waits for them. A second Ctrl-C stops the waiting.
    fn end(&mut self, shell: &Shell) -> anyhow::Result<()> {
        for (side, init) in [(shell.client(), self.client), (shell.server(), self.server)] {
            if let Some(init) = init {
                side.terminate(init);
            }
        }
        let deadline = Some(Instant::now() + GRACE);
        while self.client.is_some() || self.server.is_some() {
            match self.next(deadline)? {
                Some(Event::Client(_)) => self.client = None,
                Some(Event::Server(_)) => self.server = None,
                Some(Event::Interrupt) | None => break,
            }
        }
        Ok(())
    }

    fn next(&self, deadline: Option<Instant>) -> anyhow::Result<Option<Event>> {
        let Some(deadline) = deadline else { return Ok(Some(self.events.recv()?)) };
        match self.events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(event) => Ok(Some(event)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns the program, or an interactive shell if none is given.
pub(super) fn program_or_shell(program: &[OsString]) -> Vec<OsString> {
    if program.is_empty() {
        vec![env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into())]
    } else {
        program.to_vec()
    }
}

/// Command of an init process. `/proc/self/exe` refers to the running program even if its file has
/// been replaced.
pub(super) fn init() -> Vec<OsString> {
    vec!["/proc/self/exe".into(), "shell-init".into()]
}

fn by_shell(command: &str) -> Vec<OsString> {
    ["/bin/sh", "-c", command].map(OsString::from).to_vec()
}

/// Returns the exit code. Init processes return one even if their program was killed by a signal.
fn code(status: ExitStatus) -> u8 {
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
