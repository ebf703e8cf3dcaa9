//! What the fuzz targets check that need a whole session. See `fuzz/README.md`.

mod connection_id;
mod lies;
mod outcomes;
mod pair;
mod session;

use std::sync::LazyLock;

use rustls::pki_types::PrivateKeyDer;

pub use connection_id::connection_id;
pub use pair::pair;
pub use session::session;

use crate::{ClientTls, ServerTls};

/// One identity for all inputs: keys are dear.
static TLS: LazyLock<(ServerTls, ClientTls)> = LazyLock::new(|| {
    let made = rcgen::generate_simple_self_signed(vec!["squall.test".into()]).expect("is made");
    let chain = made.cert.der().clone();
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let server = ServerTls::new(vec![chain.clone()], key).expect("is valid");
    (server, ClientTls::with_roots(&[chain]).expect("is valid"))
});

/// What is left of an input; zeros behind its end, except for [`Input::byte`].
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn or_zero(&mut self) -> u8 {
        self.byte().unwrap_or(0)
    }

    fn number(&mut self) -> u32 {
        u32::from(self.or_zero()) << 8 | u32::from(self.or_zero())
    }

    /// A number whose length is chosen too, so that large ones come up as well as small ones.
    fn any_number(&mut self) -> u64 {
        let shift = u32::from(self.or_zero()) % 56;
        u64::from(self.number()) << shift >> 8
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        let (bytes, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        bytes.to_vec()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        panic,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering::Relaxed},
        },
        thread,
    };

    /// Both ends of the session that noq panics in find it ended, by the checks of [`super::pair`].
    #[test]
    fn a_panic_of_noq_ends_a_session_and_nothing_else() {
        let input = include_bytes!("../../../../fuzz/corpus/pair/moved-twice-and-back");
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
        super::pair(input);
        assert_eq!(count.load(Relaxed), 1, "noq does not panic any more: the panic need not be caught");
    }

    #[test]
    fn corpora() {
        squall_testkit::replay("session", super::session);
        squall_testkit::replay("connection_id", super::connection_id);
        squall_testkit::replay("pair", super::pair);
    }
}
