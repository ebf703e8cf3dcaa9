//! What the fuzz targets check that need a whole session. See `fuzz/README.md`.

mod connection_id;
mod session;

pub use connection_id::connection_id;
pub use session::session;

#[cfg(test)]
mod tests {
    #[test]
    fn corpora() {
        squall_testing::replay("session", super::session);
        squall_testing::replay("connection_id", super::connection_id);
    }
}
