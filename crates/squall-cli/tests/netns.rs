//! Transfers between network namespaces, where that is permitted: see `netns.sh`.

use std::{path::Path, process::Command};

#[test]
fn transfers_between_namespaces_survive_the_loss_of_a_link() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/netns.sh");
    let output =
        Command::new("sh").arg(script).arg(env!("CARGO_BIN_EXE_squall")).output().expect("there is a shell");
    let printed = String::from_utf8_lossy(&output.stdout);
    println!("{printed}");
    match output.status.code() {
        Some(0) => assert!(printed.ends_with("all as it should be\n")),
        // The printed line gives the reason.
        Some(77) => squall_testkit::skipped(printed.trim_start_matches("skipped: ")),
        code => panic!("code {code:?}\n{printed}{}", String::from_utf8_lossy(&output.stderr)),
    }
}
