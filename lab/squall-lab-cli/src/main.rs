//! The `squall-lab` program, with the schedulers of this repository.

use std::process::ExitCode;

use squall_lab_cli::{main as run, registry};

fn main() -> ExitCode {
    run(registry())
}
