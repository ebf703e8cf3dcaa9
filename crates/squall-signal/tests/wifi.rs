//! Wi-Fi on the kernel that runs the tests, with or without an interface.

#![cfg(target_os = "linux")]

use squall_signal::{SourceError, WifiSource, wifi_interfaces};

#[test]
fn what_is_no_wifi_is_refused_by_the_real_kernel() {
    let Err(error) = WifiSource::open("lo") else { panic!("the loopback has no antenna") };
    let words = error.to_string();
    assert!(error.is_lasting() && words.starts_with("lo: "), "{words}");
    assert!(
        words.contains("is no Wi-Fi interface") || words.contains("the kernel has no nl80211"),
        "{words}"
    );
    let Err(error) = WifiSource::open("no-such0") else { panic!("there is none") };
    assert_eq!(error.to_string(), "no-such0: there is no such interface");
}

#[test]
fn the_real_kernel_lists_its_interfaces_or_says_that_there_are_none() {
    match wifi_interfaces() {
        Ok(names) => {
            assert!(!names.is_empty());
            for name in names {
                assert!(WifiSource::open(&name).is_ok(), "{name}");
            }
        }
        Err(error) => {
            assert!(matches!(error, SourceError::Missing { .. }), "{error}");
            assert!(error.to_string().starts_with("Wi-Fi: "), "{error}");
        }
    }
}
