//! The `squall` program.
fn main() {}
