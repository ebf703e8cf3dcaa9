//! A stream that continues while children of fork() end, and start their own elements.

use std::{
    process,
    time::{Duration, Instant},
};

use gstreamer::{self as gst, prelude::*};
use gstreamer_check::Harness;

/// Objects of the parent.
struct Stream {
    source: Harness,
    sink: Harness,
    number: u64,
    address: String,
}

fn element(name: &str) -> gst::Element {
    gst::ElementFactory::make(name).build().expect("is registered")
}

impl Stream {
    fn start() -> Self {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("binds");
        let address = socket.local_addr().expect("has one").to_string();
        drop(socket);
        let (source, sink) = (element("squallsrc"), element("squallsink"));
        source.set_property("listen", &address);
        sink.set_property("address", &address);
        sink.set_property("insecure", true);
        sink.set_property("sync", false);
        sink.set_property("async", false);
        let (mut source, mut sink) = (
            Harness::with_element(&source, None, Some("src")),
            Harness::with_element(&sink, Some("sink"), None),
        );
        source.use_systemclock();
        source.play();
        sink.set_src_caps_str("application/x-rtp, media=(string)video");
        sink.play();
        Self { source, sink, number: 0, address }
    }

    /// Sends a buffer every 10 ms until `count` have arrived; returns `false` after five seconds.
    fn goes_on(&mut self, mut count: u32) -> bool {
        let begun = Instant::now();
        while count > 0 && begun.elapsed() < Duration::from_secs(5) {
            let mut buffer = gst::Buffer::from_slice(vec![0; 500]);
            buffer
                .get_mut()
                .expect("is the only one")
                .set_pts(gst::ClockTime::from_mseconds(self.number * 10));
            self.number += 1;
            let _ = self.sink.push(buffer);
            std::thread::sleep(Duration::from_millis(10));
            while count > 0 && self.source.try_pull().is_some() {
                count -= 1;
            }
        }
        count == 0
    }
}

/// The code of a child; returns `true` on success.
type Child = fn(&Stream) -> bool;

const CHILDREN: [(&str, Child); 4] = [
    ("ends", |_| true),
    ("listens", |_| {
        let source = element("squallsrc");
        source.set_property("listen", "127.0.0.1:0");
        source.set_state(gst::State::Paused).is_ok() && source.set_state(gst::State::Null).is_ok()
    }),
    ("connects", |stream| {
        // A receiver, like the element that it connects to, which refuses it: a sender would
        // replace the parent's.
        let source = element("squallsrc");
        source.set_property("address", &stream.address);
        source.set_property("insecure", true);
        let started = source.set_state(gst::State::Paused).is_ok();
        std::thread::sleep(Duration::from_millis(300));
        started && source.set_state(gst::State::Null).is_ok()
    }),
    ("reads the counters of its parent", |stream| {
        let is_connected = |harness: &Harness| {
            let element = harness.element().expect("has one");
            element.property::<gst::Structure>("stats").get::<bool>("connected")
        };
        is_connected(&stream.source) == Ok(false) && is_connected(&stream.sink) == Ok(false)
    }),
];

#[expect(unsafe_code, reason = "it is the test of fork()")]
fn fork(child: Child, stream: &Stream) -> libc::pid_t {
    // SAFETY: the child runs code made for it, and exits.
    let id = unsafe { libc::fork() };
    if id == 0 {
        // SAFETY: it accesses no memory.
        unsafe { libc::alarm(10) };
        process::exit(if child(stream) { 0 } else { 1 });
    }
    assert!(id > 0, "has processes left");
    id
}

#[expect(unsafe_code, reason = "it is the test of fork()")]
fn status(child: libc::pid_t) -> Option<libc::c_int> {
    let mut status = 0;
    // SAFETY: it points to a variable.
    let ended = unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) };
    (ended != 0).then_some(status)
}

fn main() {
    gst::init().expect("starts");
    gstsquall::plugin_register_static().expect("is registered");
    let mut stream = Stream::start();
    assert!(stream.goes_on(20), "does not begin");
    for (name, child) in CHILDREN {
        let id = fork(child, &stream);
        let status = loop {
            stream.goes_on(1);
            if let Some(status) = status(id) {
                break status;
            }
        };
        assert_eq!(status, 0, "the child that {name}");
        assert!(stream.goes_on(50), "stalls after a child that {name}");
        println!("a child that {name}: ok");
    }
}
