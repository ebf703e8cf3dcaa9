//! Network namespaces: one for a test, and others connected to it. Needs util-linux and iproute2.

use std::{
    env,
    fs::{self, File},
    os::fd::AsFd as _,
    process::{Child, Command},
    thread,
    time::Duration,
};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Variable set in the process that runs a test in a network namespace of its own.
const INSIDE: &str = "SQUALL_TEST_NAMESPACE";

/// Runs the calling test, which has this name, in a process and a network namespace of its own,
/// with the loopback interface up. Skips the test if that is not permitted.
///
/// # Panics
/// If the test fails.
pub fn alone(name: &str, test: impl FnOnce()) {
    if env::var_os(INSIDE).is_some() {
        run("ip link set lo up");
        return test();
    }
    let this = env::current_exe().expect("is known");
    let mut inside = Command::new("unshare");
    inside.args(["-r", "-n"]).arg(this).args(["--exact", name, "--nocapture"]);
    let output = match inside.env(INSIDE, "1").output() {
        Ok(output) => output,
        Err(error) => return crate::skipped(&format!("there is no unshare (util-linux): {error}")),
    };
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    if text.contains("unshare failed") {
        return crate::skipped("network namespaces are not permitted here");
    }
    println!("{text}");
    assert!(output.status.success() && text.contains("1 passed"), "{}", output.status);
}

/// Runs a command, whose words are separated by one space.
///
/// # Panics
///
/// If the command fails.
pub fn run(command: &str) {
    let mut words = command.split(' ');
    let program = words.next().expect("a program");
    let status = Command::new(program).args(words).status().expect("it can be started");
    assert!(status.success(), "{command}");
}

/// Another network namespace, until it is dropped.
#[derive(Debug)]
pub struct Namespace(Child);

impl Namespace {
    /// Creates a namespace.
    ///
    /// # Panics
    ///
    /// If that is not permitted.
    #[expect(clippy::new_without_default, reason = "it has an effect on the system")]
    pub fn new() -> Self {
        let child = Command::new("unshare").args(["-n", "sleep", "300"]).spawn().expect("unshare starts");
        let made = Self(child);
        let namespace = |id: &str| fs::read_link(format!("/proc/{id}/ns/net")).ok();
        while namespace(&made.id()).is_none_or(|other| Some(other) == namespace("self")) {
            thread::sleep(Duration::from_millis(1));
        }
        made
    }

    fn id(&self) -> String {
        self.0.id().to_string()
    }

    /// Runs a command in the namespace, like [`run`].
    pub fn run(&self, command: &str) {
        run(&format!("nsenter -t {} -n {command}", self.id()));
    }

    /// Moves an interface into the namespace.
    pub fn take(&self, interface: &str) {
        run(&format!("ip link set {interface} netns {}", self.id()));
    }

    /// Runs `make` on a thread in the namespace and returns its result: sockets stay where they
    /// were opened.
    ///
    /// # Panics
    ///
    /// If `make` does.
    pub fn enter<T: Send + 'static>(&self, make: impl FnOnce() -> T + Send + 'static) -> T {
        let namespace = File::open(format!("/proc/{}/ns/net", self.id())).expect("is there");
        let made = thread::spawn(move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).expect("may move");
            make()
        });
        made.join().expect("ends")
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
