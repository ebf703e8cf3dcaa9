//! The checks of the fuzz targets, on their corpus and on random input, without a fuzzer.

use std::{
    panic,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

use proptest::prelude::*;
use squall_testkit::replay;

#[path = "../../../fuzz/harness/connection_id.rs"]
mod connection_id;
#[path = "../../../fuzz/harness/inbox.rs"]
mod inbox;
#[path = "../../../fuzz/harness/pair.rs"]
mod pair;
#[path = "../../../fuzz/harness/session.rs"]
mod session;
#[path = "../../../fuzz/harness/wire.rs"]
mod wire;

#[test]
fn corpora() {
    replay("wire", wire::check);
    replay("inbox", inbox::check);
    replay("connection_id", connection_id::check);
}

#[test]
fn corpora_of_sessions() {
    replay("session", session::check);
    replay("pair", pair::check);
}

/// Both ends of the session that noq panics in detect its end, by the checks of [`pair`].
#[test]
fn a_panic_of_noq_ends_a_session_and_nothing_else() {
    let input = include_bytes!("../../../fuzz/corpus/pair/moved-twice-and-back");
    let (own, count) = (thread::current().id(), Arc::new(AtomicUsize::new(0)));
    let (report, counted) = (panic::take_hook(), count.clone());
    panic::set_hook(Box::new(move |panic| {
        let is_noq = panic.location().is_some_and(|at| at.file().contains("noq-proto"));
        if thread::current().id() == own && is_noq {
            counted.fetch_add(1, Relaxed);
        } else {
            report(panic);
        }
    }));
    pair::check(input);
    assert_eq!(count.load(Relaxed), 1, "noq does not panic any more: the panic need not be caught");
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
