//! Has the shared library stay loaded: its threads run until the process ends, also after `dlclose`.

use std::env::{var, var_os};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if var_os("CARGO_CFG_UNIX").is_some() && var("CARGO_CFG_TARGET_VENDOR").as_deref() != Ok("apple") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
