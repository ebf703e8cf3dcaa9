//! Keeps the shared library loaded after `dlclose`, because its threads run until the process ends.

use std::env::{var, var_os};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if var_os("CARGO_CFG_UNIX").is_some() && var("CARGO_CFG_TARGET_VENDOR").as_deref() != Ok("apple") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
