//! The `squall-lab` program, with the schedulers of this repository.

use std::process::ExitCode;

use squall_lab_cli::{main as run, sched::Registry};

/// As the `squall` program has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    run(Registry::standard())
}
