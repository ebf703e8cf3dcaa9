//! IP packets through a tunnel between network namespaces, where that is permitted: see `tun.py`.

#![cfg(target_os = "linux")]

use std::{path::Path, process::Command};

#[test]
fn packets_of_a_tun_device_pass_between_namespaces() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tun.py");
    let Ok(output) = Command::new("python3").arg(script).arg(env!("CARGO_BIN_EXE_squall")).output() else {
        return squall_testing::skipped("there is no python3");
    };
    let printed = String::from_utf8_lossy(&output.stdout);
    println!("{printed}");
    match output.status.code() {
        Some(0) => assert!(printed.ends_with("all as it should be\n")),
        // The last line says why.
        Some(77) => {
            let why = printed.lines().last().unwrap_or_default();
            squall_testing::skipped(why.trim_start_matches("skipped: "));
        }
        code => panic!("code {code:?}\n{printed}{}", String::from_utf8_lossy(&output.stderr)),
    }
}
