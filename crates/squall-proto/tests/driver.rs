//! The example of a driver.

#[path = "../examples/driver.rs"]
mod driver;

#[test]
fn a_driver_on_plain_sockets_carries_blocks_and_ends() {
    driver::main().expect("both ends end");
}
