//! What the fuzz targets check that need a whole session. See `fuzz/README.md`.

mod session;

pub use session::session;

#[cfg(test)]
mod tests {
    #[test]
    fn corpora() {
        squall_testing::replay("session", super::session);
    }
}
