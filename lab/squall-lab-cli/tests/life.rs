//! Three virtual hours of faults: the last hour uses as much as the second.

use std::process::Command;

use serde_json::Value;

#[test]
fn the_third_hour_takes_no_more_than_the_second() {
    squall_testkit::in_real_time(|| {
        let program = env!("CARGO_BIN_EXE_squall-lab");
        let output = Command::new(program).args(["bench", "life", "--hours", "3", "--json", "-"]).output();
        let output = output.expect("starts");
        let parts: Vec<Value> = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        let grown: Vec<&str> = parts
            .iter()
            .flat_map(|part| part["grown"].as_array().expect("is a list"))
            .map(|line| line.as_str().expect("is text"))
            .collect();
        let (slow, grown): (Vec<&str>, Vec<&str>) =
            grown.into_iter().partition(|line| line.contains("processor time"));
        assert!(grown.is_empty(), "{grown:?}");
        assert_eq!(parts.len(), 2);
        let [long, restarts] = &parts[..] else { panic!("there are two parts") };
        assert_eq!(long["sessions"], 1, "one session lives through all hours");
        assert!(long["last_block"].as_u64().is_some_and(|id| id > 3 * 3600 * 79), "{}", long["last_block"]);
        assert!(
            restarts["sessions"].as_u64().is_some_and(|sessions| sessions >= 3 * 6),
            "{}",
            restarts["sessions"]
        );
        for seen in parts.iter().flat_map(|part| part["seen"].as_array().expect("is a list")) {
            assert_eq!(seen["times"], 3, "{seen}");
            assert!(seen["frames"].as_u64() > seen["lost"].as_u64(), "{seen}");
        }
        squall_testkit::assert_duration!(slow.is_empty(), "{slow:?}");
    });
}
