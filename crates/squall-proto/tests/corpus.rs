//! The fuzz targets' checks, on their corpus and on random input, without a fuzzer.

use std::path::Path;

use proptest::prelude::*;

#[path = "../../../fuzz/harness/inbox.rs"]
mod inbox;
#[path = "../../../fuzz/harness/wire.rs"]
mod wire;

fn replay(target: &str, check: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files = std::fs::read_dir(&corpus).unwrap_or_else(|e| panic!("{}: {e}", corpus.display()));
    let mut inputs = 0;
    for file in files {
        let path = file.expect("a directory entry").path();
        check(&std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())));
        inputs += 1;
    }
    assert!(inputs >= 100, "only {inputs} inputs in {}", corpus.display());
}

#[test]
fn corpus_of_wire() {
    replay("wire", wire::check);
}

#[test]
fn corpus_of_inbox() {
    replay("inbox", inbox::check);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_datagram(input in prop::collection::vec(any::<u8>(), 0..200)) {
        wire::check(&input);
    }

    #[test]
    fn any_operations(input in prop::collection::vec(any::<u8>(), 0..800)) {
        inbox::check(&input);
    }

    /// Two ordered channels of few small blocks, so that blocks become whole and order matters.
    #[test]
    fn operations_that_meet(ops in prop::collection::vec(
        (0..8u8, 0..16u8, any::<u8>(), 0..3u8, 0..3u8), 0..150,
    )) {
        const BACK: u8 = 3 << 3;
        let bytes = ops.into_iter().flat_map(|(op, id, flags, offset, len)| {
            let back = if id < 2 { 0 } else { 2 };
            let parity = if flags & 8 != 0 { 3 << 5 } else { 0 };
            match op {
                0..=3 => vec![op | BACK | parity, id, back, flags & 0xef | (id & 1) << 4, 2, offset, len],
                4 => vec![op | BACK, id, back, flags],
                5 => vec![op, flags & 0x1f],
                _ => vec![op],
            }
        });
        inbox::check(&bytes.collect::<Vec<_>>());
    }
}
