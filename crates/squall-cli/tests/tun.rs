//! IP packets through a tunnel between network namespaces, where that is permitted: see `tun.py`.

#![cfg(target_os = "linux")]

use std::{path::Path, process::Command};

use squall_testkit::{assert_duration, in_real_time};

/// Runs tests of the script.
fn run(tests: &[&str]) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tun.py");
    let mut command = Command::new("python3");
    let Ok(output) = command.arg(script).arg(env!("CARGO_BIN_EXE_squall")).args(tests).output() else {
        return squall_testkit::skipped("there is no python3");
    };
    let printed = String::from_utf8_lossy(&output.stdout);
    println!("{printed}");
    let last = printed.lines().last().unwrap_or_default();
    match output.status.code() {
        Some(0) => assert!(printed.ends_with("all as it should be\n")),
        Some(75) => assert_duration!(false, "{last}"),
        Some(77) => squall_testkit::skipped(last.trim_start_matches("skipped: ")),
        code => panic!("code {code:?}\n{printed}{}", String::from_utf8_lossy(&output.stderr)),
    }
}

#[test]
fn packets_pass_between_namespaces() {
    run(&[
        "test_echoes_pass_in_both_families",
        "test_ports_select_classes",
        "test_foreign_sources_are_dropped",
        "test_a_hostile_exit_reaches_nothing_else",
        "test_a_hostile_entry_reaches_no_group",
        "test_entries_have_their_own_addresses",
        "test_a_reload_changes_peers",
        "test_large_packets_are_answered",
        "test_all_traffic_takes_the_tunnel",
        "test_without_the_right_there_is_one_line",
    ]);
}

#[test]
fn a_transfer_uses_two_links_and_survives_one() {
    in_real_time(|| run(&["test_a_transfer_survives_a_link"]));
}

#[test]
fn datagrams_overtake_a_transfer() {
    in_real_time(|| run(&["test_datagrams_overtake_a_transfer"]));
}
