//! Compiles the C programs of `examples/` and `tests/` with every warning as an error, and runs
//! them: dynamically linked, linked to the static library, and with the sanitizers of the C
//! compiler.

#![cfg(target_os = "linux")]

use std::{
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::OnceLock,
};

use serde_json::Value;
use squall_testkit::{program::Scratch, skipped};

/// System libraries that a static library needs.
const SYSTEM: [&str; 6] = ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"];

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the libraries, `.so` and `.a`. Cargo does not build a library for a test that cannot
/// link it, so this function builds them.
fn libraries() -> &'static [PathBuf] {
    static BUILT: OnceLock<Vec<PathBuf>> = OnceLock::new();
    BUILT.get_or_init(|| {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        // With the features of the whole workspace, so that nothing is built twice.
        build.args(["build", "--workspace", "--lib", "--examples", "--locked", "--message-format", "json"]);
        // Cargo passes variables about this package to its tests. A build script of a dependency
        // would treat them as a change, and half of the workspace would be built again, now and by
        // the next command.
        for (name, _) in std::env::vars_os() {
            if name
                .to_str()
                .is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"))
            {
                build.env_remove(name);
            }
        }
        let output = build.current_dir(folder()).output().expect("cargo runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let lines = String::from_utf8(output.stdout).expect("is UTF-8");
        let messages = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("is JSON"));
        let manifest = folder().join("Cargo.toml");
        let of_this = |message: &Value| {
            message["manifest_path"].as_str().is_some_and(|path| Path::new(path) == manifest)
                && message["reason"] == "compiler-artifact"
        };
        let files = messages.filter(of_this).flat_map(|message| {
            let names = message["filenames"].as_array().cloned().unwrap_or_default();
            names.into_iter().filter_map(|name| name.as_str().map(PathBuf::from)).collect::<Vec<_>>()
        });
        files.collect()
    })
}

fn library(name: &str) -> &'static Path {
    let found = libraries().iter().find(|file| file.ends_with(name));
    found.unwrap_or_else(|| panic!("{name} is not among {:?}", libraries()))
}

/// Build variant of a program.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Plain,
    Static,
    Sanitized(&'static str),
}

/// Runs the C compiler.
fn cc(arguments: &[&str], files: &[&Path]) -> Output {
    Command::new("cc").args(arguments).args(files).output().expect("the C compiler runs")
}

/// Compiles a program of this folder.
fn compile(scratch: &Scratch, source: &str, way: Way) -> PathBuf {
    let program =
        scratch.path(Path::new(source).file_stem().and_then(|name| name.to_str()).expect("has a name"));
    let (source, include) = (folder().join(source), folder().join("include"));
    let mut arguments = vec!["-Wall", "-Wextra", "-Werror", "-pedantic", "-g", "-O1", "-pthread", "-o"];
    let sanitizer;
    if let Way::Sanitized(name) = way {
        sanitizer = format!("-fsanitize={name}");
        arguments.splice(0..0, [sanitizer.as_str(), "-fno-sanitize-recover=all"]);
    }
    let shared = library("libsquall.so").parent().expect("has a folder");
    let rpath = format!("-Wl,-rpath,{}", shared.display());
    let mut files = vec![&*program, Path::new("-I"), &include, &source];
    match way {
        Way::Static => {
            files.push(library("libsquall.a"));
            files.extend(SYSTEM.map(Path::new));
        }
        _ => files.extend([Path::new("-L"), shared, Path::new("-lsquall"), Path::new(&rpath)]),
    }
    let output = cc(&arguments, &files);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// Returns `true` if the compiler has a sanitizer whose programs run on this machine. If not, the
/// test is counted as skipped.
fn has(sanitizer: &str) -> bool {
    let scratch = Scratch::new(&format!("c-has-{sanitizer}"));
    let source = scratch.write("empty.c", b"int main(void) { return 0; }\n");
    let program = scratch.path("empty");
    let output = cc(&[&format!("-fsanitize={sanitizer}"), "-o"], &[&program, &source]);
    let runs = output.status.success()
        && Command::new(&program).output().is_ok_and(|output| output.status.success());
    if !runs {
        skipped(&format!("the C compiler has no working -fsanitize={sanitizer}"));
    }
    runs
}

fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    let suppressions = folder().join("tests/tsan.supp");
    // A forked child of `tests/fork.c` starts its own threads.
    command.env("TSAN_OPTIONS", format!("suppressions={} die_after_fork=0", suppressions.display()));
    command.env("ASAN_OPTIONS", "detect_leaks=1");
    command
}

/// A process that is killed on drop, if its test has failed.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the output of a program. Asserts that it exited with 0 and without a sanitizer's report.
fn run(mut command: Command) -> String {
    let output = command.output().expect("the program runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}: {}\n{printed}{errors}", output.status);
    assert!(!errors.contains("Sanitizer"), "{errors}");
    printed
}

/// Runs the receiver and the sender over two paths.
fn examples_meet(way: Way) {
    let scratch = Scratch::new(&format!("c-examples-{way:?}"));
    let (receive, send) =
        (compile(&scratch, "examples/receive.c", way), compile(&scratch, "examples/send.c", way));
    let mut receive = command(&receive);
    receive.arg("127.0.0.1:0").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut receiver = Running(receive.spawn().expect("the receiver starts"));
    let mut lines = BufReader::new(receiver.0.stdout.take().expect("is piped"));
    let mut line = String::new();
    lines.read_line(&mut line).expect("the receiver listens");
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["listening", address, fingerprint] = words[..] else { panic!("{line}") };

    let mut send = command(&send);
    send.args([address, fingerprint, "rr", "127.0.0.2", "127.0.0.3"]);
    let sent = run(send);
    let mut received = String::new();
    lines.read_to_string(&mut received).expect("is UTF-8");
    let mut errors = String::new();
    receiver.0.stderr.take().expect("is piped").read_to_string(&mut errors).expect("is UTF-8");
    assert!(receiver.0.wait().expect("ends").success(), "{received}{errors}");
    assert!(!errors.contains("Sanitizer"), "{errors}");

    let figures = |text: &str, word: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(word)).map(str::to_owned);
        line.unwrap_or_else(|| panic!("{text}"))
    };
    assert_eq!(figures(&received, "received "), figures(&sent, "sent "));
    assert!(figures(&sent, "sent ").starts_with("300 1200000 "), "{sent}");
    for local in ["path 127.0.0.2:", "path 127.0.0.3:"] {
        let carried = figures(&sent, local);
        let bytes: u64 = carried.split(' ').next_back().and_then(|n| n.parse().ok()).expect("is a number");
        assert!(bytes > 100_000, "{sent}");
    }
}

/// Runs the programs that misuse the library, and those with several threads.
fn contract_holds(way: Way) {
    let scratch = Scratch::new(&format!("c-contract-{way:?}"));
    for source in ["tests/api.c", "tests/threads.c", "tests/fork.c", "tests/again.c"] {
        // GCC's AddressSanitizer does not take the locks of its allocator at fork(): a child waits for
        // ever if a thread of its parent held one.
        if source == "tests/fork.c" && way == Way::Sanitized("address,undefined") {
            continue;
        }
        assert_eq!(run(command(&compile(&scratch, source, way))), "ok\n", "{source}");
    }
}

#[test]
fn examples_send_and_receive_over_two_paths() {
    examples_meet(Way::Plain);
}

#[test]
fn misuse_is_an_error_and_threads_share_a_session() {
    contract_holds(Way::Plain);
}

#[test]
fn the_library_stays_loaded_for_its_threads() {
    let scratch = Scratch::new("c-unload");
    let (program, source) = (scratch.path("unload"), folder().join("tests/unload.c"));
    let output =
        cc(&["-Wall", "-Wextra", "-Werror", "-pedantic", "-o"], &[&program, &source, Path::new("-ldl")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut command = command(&program);
    command.arg(library("libsquall.so"));
    assert_eq!(run(command), "ok\n");
}

#[test]
fn the_static_library_links() {
    contract_holds(Way::Static);
}

#[test]
fn no_memory_error_undefined_behaviour_or_leak() {
    if has("address,undefined") {
        examples_meet(Way::Sanitized("address,undefined"));
        contract_holds(Way::Sanitized("address,undefined"));
    }
}

#[test]
fn no_race_on_the_side_of_c() {
    if has("thread") {
        examples_meet(Way::Sanitized("thread"));
        contract_holds(Way::Sanitized("thread"));
    }
}

/// Each example of the page is the body of a function.
#[test]
fn the_examples_of_the_page_compile() {
    let page = std::fs::read_to_string(folder().join("../../docs/c.md")).expect("can be read");
    let examples: Vec<&str> =
        page.split("```c\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(examples.len(), 2);
    let scratch = Scratch::new("c-page");
    let includes = "#include <poll.h>\n#include <stdio.h>\n#include \"squall.h\"\n";
    let parameters = ["const uint8_t *data, size_t len", "squall_session session"];
    let functions = examples.iter().zip(parameters).zip(["send", "take"]);
    let functions = functions.map(|((body, parameters), name)| {
        format!("void {name}({parameters});\nvoid {name}({parameters}) {{\n{body}}}\n")
    });
    let source = scratch.write("page.c", (includes.to_owned() + &functions.collect::<String>()).as_bytes());
    let arguments = ["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-pedantic"];
    let output = cc(&arguments, &[Path::new("-I"), &folder().join("include"), &source]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The header is valid C++ too.
#[test]
fn the_header_compiles_as_cpp() {
    let scratch = Scratch::new("c-cpp");
    let source = scratch
        .write("a.cpp", b"#include \"squall.h\"\nint main() { return squall_version() == nullptr; }\n");
    let (object, include) = (scratch.path("a.o"), folder().join("include"));
    let arguments = ["-c", "-std=c++11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-o"];
    let output =
        Command::new("c++").args(arguments).args([&*object, Path::new("-I"), &include, &source]).output();
    let output = output.expect("the C++ compiler runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
