//! The elements in a harness: states, errors, and the processing of buffers, events and queries
//! over the loopback interface.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use gstreamer::{self as gst, prelude::*};
use gstreamer_check::Harness;
use squall::{Block, BlockOptions, Channel, CloseReason, Connect, Session, Trust};

fn start() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        gst::init().expect("starts");
        gstsquall::plugin_register_static().expect("is registered");
    });
}

fn element(name: &str) -> gst::Element {
    start();
    gst::ElementFactory::make(name).build().expect("is registered")
}

/// Starts the harness with a running time of zero.
fn play(harness: &mut Harness, element: &gst::Element) {
    harness.use_systemclock();
    element.set_base_time(gst::SystemClock::obtain().time());
    harness.play();
}

/// Waits for up to two seconds until the condition holds.
fn holds(mut is_so: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(2) {
        if is_so() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

/// Returns the next buffer, within five seconds.
fn pull(harness: &mut Harness) -> gst::Buffer {
    let begun = Instant::now();
    loop {
        if let Some(buffer) = harness.try_pull() {
            return buffer;
        }
        assert!(begun.elapsed() < Duration::from_secs(5), "no buffer arrives");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns a playing receiver, the harness at its pad, and its address.
fn receiver(set: impl FnOnce(&gst::Element)) -> (Harness, gst::Element, String) {
    let source = element("squallsrc");
    let address = format!("127.0.0.1:{}", squall_testkit::reserve_port());
    source.set_property("listen", &address);
    set(&source);
    let mut harness = Harness::with_element(&source, None, Some("src"));
    play(&mut harness, &source);
    (harness, source, address)
}

/// Returns a playing sender of `caps`.
fn sender(address: &str, caps: &str, set: impl FnOnce(&gst::Element)) -> (Harness, gst::Element) {
    let sink = element("squallsink");
    sink.set_property("address", address);
    sink.set_property("insecure", true);
    sink.set_property("sync", false);
    sink.set_property("async", false);
    set(&sink);
    let mut harness = Harness::with_element(&sink, Some("sink"), None);
    harness.set_src_caps_str(caps);
    play(&mut harness, &sink);
    (harness, sink)
}

const H264: &str = "video/x-h264, stream-format=(string)byte-stream, alignment=(string)au, width=(int)64, height=(int)64, \
                    framerate=(fraction)30/1";

fn buffer(number: u64, flags: gst::BufferFlags) -> gst::Buffer {
    let mut buffer = gst::Buffer::from_slice(vec![number as u8; 2000]);
    let time = gst::ClockTime::from_mseconds(number * 33);
    let change = buffer.get_mut().expect("is the only one");
    change.set_pts(time);
    change.set_dts(time);
    change.set_duration(gst::ClockTime::from_mseconds(33));
    change.set_flags(flags);
    buffer
}

const KEY: gst::BufferFlags = gst::BufferFlags::HEADER;
const DELTA: gst::BufferFlags = gst::BufferFlags::DELTA_UNIT;

fn pushes(harness: &mut Harness, number: u64, flags: gst::BufferFlags) {
    assert_eq!(harness.push(buffer(number, flags)), Ok(gst::FlowSuccess::Ok));
}

/// Runs an element until its first error or the timeout; returns all texts of errors.
fn errors(element: &gst::Element, time: Duration) -> Vec<String> {
    let pipeline = gst::Pipeline::new();
    pipeline.add(element).expect("is in no other");
    let _ = pipeline.set_state(gst::State::Paused);
    let bus = pipeline.bus().expect("has one");
    let mut found = Vec::new();
    let mut wait = time;
    while let Some(message) =
        bus.timed_pop_filtered(gst::ClockTime::try_from(wait).ok(), &[gst::MessageType::Error])
    {
        if let gst::MessageView::Error(error) = message.view() {
            found.push(error.error().to_string());
        }
        // Another one would follow soon.
        wait = Duration::from_millis(200);
    }
    let begun = Instant::now();
    pipeline.set_state(gst::State::Null).expect("stops");
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    found
}

fn assert_names(errors: &[String], property: &str) {
    let [error] = errors else { panic!("{property}: {errors:?}") };
    assert!(error.contains(&format!("property '{property}'")), "{property}: {error}");
}

#[test]
fn a_wrong_value_is_one_error_that_names_the_property() {
    let wrong = [
        ("address", "nowhere"),
        ("address", "host:99999"),
        ("scheduler", "fastest"),
        ("congestion", "luck"),
        ("fingerprint", "xyz"),
        ("authorities", "/no/such/file"),
        ("paths", "eth0,,"),
        ("paths", "eth0,10.0.0.1"),
        ("certificate", "own.pem"),
    ];
    for name in ["squallsink", "squallsrc"] {
        for (property, value) in wrong {
            let element = element(name);
            element.set_property("address", "192.0.2.1:5000");
            element.set_property(property, value);
            assert_names(&errors(&element, Duration::from_secs(2)), property);
        }
        assert_names(&errors(&element(name), Duration::from_secs(2)), "address");
        for listen in ["192.0.2.1:5000", "nonsense", "127.0.0.1"] {
            let element = element(name);
            element.set_property("listen", listen);
            assert_names(&errors(&element, Duration::from_secs(2)), "listen");
        }
    }
    for encoder in ["missing", "sink.nothing", "sink.latency/x", "sink.token", "sink"] {
        let sink = element("squallsink");
        sink.set_property("name", "sink");
        sink.set_property("address", "192.0.2.1:5000");
        sink.set_property("encoder", encoder);
        assert_names(&errors(&sink, Duration::from_secs(2)), "encoder");
    }
}

#[test]
fn an_address_in_use_is_an_error() {
    let (_harness, _source, address) = receiver(|_| {});
    let second = element("squallsrc");
    second.set_property("listen", &address);
    assert_names(&errors(&second, Duration::from_secs(2)), "listen");
}

#[test]
fn an_element_starts_again_on_its_port() {
    let (mut harness, source, address) = receiver(|_| {});
    for round in 0..20 {
        let (mut sending, sink) = sender(&address, H264, |_| {});
        pushes(&mut sending, round, KEY);
        let arrived = pull(&mut harness);
        assert_eq!(arrived.map_readable().expect("is mapped")[0], round as u8);
        // Either end stops first.
        if round % 2 == 0 {
            sink.set_state(gst::State::Null).expect("stops");
        }
        source.set_state(gst::State::Null).expect("stops");
        let begun = Instant::now();
        let started = source.set_state(gst::State::Playing);
        assert!(started.is_ok(), "round {round}, after {:?}", begun.elapsed());
    }
}

#[test]
fn an_end_that_cannot_be_trusted_is_an_error() {
    let (_harness, _source, address) = receiver(|source| source.set_property("token", "correct horse"));
    let sink = |set: &dyn Fn(&gst::Element)| {
        let sink = element("squallsink");
        sink.set_property("address", &address);
        set(&sink);
        errors(&sink, Duration::from_secs(8))
    };
    assert_names(&sink(&|sink| sink.set_property("fingerprint", "ab".repeat(32))), "fingerprint");
    assert_names(&sink(&|sink| sink.set_property("insecure", true)), "token");
    let wrong = |sink: &gst::Element| {
        sink.set_property("insecure", true);
        sink.set_property("token", "battery staple");
    };
    assert_names(&sink(&wrong), "token");
    let source = element("squallsrc");
    source.set_property("address", &address);
    source.set_property("insecure", true);
    source.set_property("token", "correct horse");
    assert_names(&errors(&source, Duration::from_secs(8)), "address");
}

#[test]
fn buffers_arrive_with_caps_flags_and_times() {
    let (mut receiving, source, address) = receiver(|source| source.set_property("token", "correct horse"));
    let fingerprint: String = source.property("own-fingerprint");
    let (mut sending, sink) = sender(&address, H264, |sink| {
        sink.set_property("insecure", false);
        sink.set_property("fingerprint", fingerprint);
        sink.set_property("token", "correct horse");
        sink.set_property("paths", "127.0.0.2,127.0.0.3");
        sink.set_property("latency", 2000_u32);
    });
    let flags = [KEY, DELTA, DELTA | gst::BufferFlags::DROPPABLE, DELTA | gst::BufferFlags::MARKER, KEY];
    for (number, flags) in (0..).zip(flags) {
        pushes(&mut sending, number, flags);
    }
    let kept = KEY | DELTA | gst::BufferFlags::DROPPABLE | gst::BufferFlags::MARKER;
    let mut times = Vec::new();
    for (number, flags) in (0..).zip(flags) {
        let arrived = pull(&mut receiving);
        assert_eq!(arrived.offset(), number);
        assert_eq!(arrived.flags() & kept, flags, "{number}");
        assert_eq!(arrived.flags().contains(gst::BufferFlags::DISCONT), number == 0);
        assert_eq!(arrived.map_readable().expect("is readable").as_slice(), [number as u8; 2000]);
        assert_eq!(arrived.duration(), Some(gst::ClockTime::from_mseconds(33)));
        assert_eq!(arrived.pts(), arrived.dts());
        times.push(arrived.pts().expect("has a time").mseconds());
    }
    let steps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(steps.iter().all(|step| (15..=50).contains(step)), "{steps:?}");
    let caps = source.static_pad("src").and_then(|pad| pad.current_caps()).expect("has caps");
    assert_eq!(caps.to_string(), H264.split_whitespace().collect::<Vec<_>>().join(" "));
    let stats: gst::Structure = sink.property("stats");
    assert_eq!(stats.get::<bool>("connected"), Ok(true));
    assert_eq!(stats.get::<u64>("buffers-unsent"), Ok(0));
    assert!(stats.get::<gst::Array>("paths").is_ok_and(|paths| !paths.is_empty()), "{stats}");
    let stats: gst::Structure = source.property("stats");
    assert_eq!(stats.get::<u64>("buffers-received"), Ok(5), "{stats}");
}

#[test]
fn every_media_type_travels() {
    for caps in [
        "video/x-h265, stream-format=(string)hvc1, codec_data=(buffer)0102",
        "video/x-vp9, width=(int)64",
        "video/x-av1, stream-format=(string)obu-stream, alignment=(string)tu",
        "audio/x-opus, rate=(int)48000, channels=(int)2, channel-mapping-family=(int)0",
        "application/x-rtp, media=(string)video, payload=(int)96, clock-rate=(int)90000, encoding-name=(string)H264, ssrc=(uint)7",
        "video/mpegts, systemstream=(boolean)true, packetsize=(int)188",
    ] {
        let (mut receiving, source, address) = receiver(|_| {});
        let (mut sending, _sink) = sender(&address, caps, |sink| sink.set_property("latency", 2000_u32));
        pushes(&mut sending, 0, gst::BufferFlags::empty());
        pull(&mut receiving);
        let arrived = source.static_pad("src").and_then(|pad| pad.current_caps()).expect("has caps");
        assert!(arrived.is_strictly_equal(&caps.parse::<gst::Caps>().expect("is right")), "{arrived}");
    }
}

#[test]
fn other_caps_follow_in_the_stream() {
    let (mut receiving, source, address) = receiver(|_| {});
    let (mut sending, _sink) = sender(&address, H264, |sink| sink.set_property("latency", 2000_u32));
    pushes(&mut sending, 0, KEY);
    pull(&mut receiving);
    sending.set_src_caps_str(&H264.replace("64, height", "128, height"));
    pushes(&mut sending, 1, KEY);
    pull(&mut receiving);
    let caps = source.static_pad("src").and_then(|pad| pad.current_caps()).expect("has caps");
    assert_eq!(caps.structure(0).and_then(|caps| caps.get("width").ok()), Some(128), "{caps}");
}

/// Returns `true` if such an event follows.
fn has_event(mut next: impl FnMut() -> Option<gst::Event>, wanted: impl Fn(&gst::Event) -> bool) -> bool {
    holds(|| std::iter::from_fn(&mut next).any(|event| wanted(&event)))
}

#[test]
fn the_end_arrives_after_all_buffers() {
    let (mut receiving, _source, address) = receiver(|_| {});
    let (mut sending, _sink) = sender(&address, H264, |sink| sink.set_property("latency", 2000_u32));
    for number in 0..50 {
        pushes(&mut sending, number, if number == 0 { KEY } else { DELTA });
    }
    let begun = Instant::now();
    assert!(sending.push_event(gst::event::Eos::new()));
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    for number in 0..50 {
        assert_eq!(pull(&mut receiving).offset(), number);
    }
    assert!(has_event(|| receiving.try_pull_event(), |event| event.type_() == gst::EventType::Eos));
}

#[test]
fn the_listening_end_can_send() {
    let sink = element("squallsink");
    let address = format!("127.0.0.1:{}", squall_testkit::reserve_port());
    sink.set_property("listen", &address);
    sink.set_property("sync", false);
    sink.set_property("async", false);
    sink.set_property("latency", 5000_u32);
    let mut sending = Harness::with_element(&sink, Some("sink"), None);
    sending.set_src_caps_str(H264);
    play(&mut sending, &sink);
    let source = element("squallsrc");
    source.set_property("address", &address);
    source.set_property("insecure", true);
    let mut receiving = Harness::with_element(&source, None, Some("src"));
    play(&mut receiving, &source);
    pushes(&mut sending, 0, KEY);
    assert_eq!(pull(&mut receiving).offset(), 0);
    assert_eq!(latency_of(&source), 5000, "that of the sender, which is longer");
}

fn latency_of(source: &gst::Element) -> u64 {
    let mut query = gst::query::Latency::new();
    assert!(source.query(&mut query));
    let (is_live, least, most) = query.result();
    assert!(is_live && most.is_none());
    least.mseconds()
}

#[test]
fn the_latency_query_is_answered() {
    let (_harness, source, _) = receiver(|source| source.set_property("latency", 420_u32));
    assert_eq!(latency_of(&source), 420);
}

#[test]
fn a_request_for_a_key_picture_goes_upstream_to_the_encoder() {
    let (mut receiving, _source, address) = receiver(|_| {});
    let (mut sending, _sink) = sender(&address, H264, |sink| sink.set_property("latency", 2000_u32));
    pushes(&mut sending, 0, KEY);
    pull(&mut receiving);
    let request = gst::Structure::new_empty("GstForceKeyUnit");
    assert!(receiving.push_upstream_event(gst::event::CustomUpstream::new(request)));
    assert!(has_event(|| sending.try_pull_upstream_event(), |event| event.has_name("GstForceKeyUnit")));
}

/// Stops an element; asserts that this takes no significant time.
fn stops_at_once(element: &gst::Element) {
    let begun = Instant::now();
    element.set_state(gst::State::Null).expect("stops");
    assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
}

#[test]
fn states_change_at_once_without_a_peer() {
    let (mut sending, sink) = sender("192.0.2.1:5000", H264, |sink| sink.set_property("latency", 60_000_u32));
    let pushing = std::thread::spawn(move || {
        let _ = sending.push(buffer(0, KEY));
        sending
    });
    // The buffer waits for the first session.
    std::thread::sleep(Duration::from_millis(200));
    stops_at_once(&sink);
    drop(pushing.join().expect("returns"));
    let (_receiving, source, _) = receiver(|_| {});
    std::thread::sleep(Duration::from_millis(100));
    stops_at_once(&source);
}

#[test]
fn states_change_at_once_when_the_peer_is_gone() {
    let proxy = Arc::new(std::net::UdpSocket::bind("127.0.0.1:0").expect("binds"));
    let (mut receiving, source, address) = receiver(|_| {});
    // A relay that is stopped: neither end can detect that the other is gone.
    let stop = Arc::new(AtomicU32::new(0));
    let (relay, stopped) = (proxy.clone(), stop.clone());
    let server: std::net::SocketAddr = address.parse().expect("is one");
    let thread = std::thread::spawn(move || {
        relay.set_read_timeout(Some(Duration::from_millis(50))).expect("can be set");
        let (mut client, mut bytes) = (None, [0; 2048]);
        while stopped.load(Relaxed) == 0 {
            let Ok((len, from)) = relay.recv_from(&mut bytes) else { continue };
            let to = if from == server { client } else { Some(server) };
            client = if from == server { client } else { Some(from) };
            let _ = to.map(|to| relay.send_to(&bytes[..len], to));
        }
    });
    let relayed = proxy.local_addr().expect("has one").to_string();
    let (mut sending, sink) = sender(&relayed, H264, |sink| sink.set_property("latency", 3000_u32));
    pushes(&mut sending, 0, KEY);
    pull(&mut receiving);
    stop.store(1, Relaxed);
    thread.join().expect("ends");
    pushes(&mut sending, 1, DELTA);
    stops_at_once(&sink);
    stops_at_once(&source);
}

#[test]
fn an_encoder_follows_the_bitrate() {
    let (mut receiving, _source, address) = receiver(|_| {});
    let bin = gst::parse::bin_from_description(
        &format!(
            "identity name=coder ! squallsink name=sink address={address} insecure=true sync=false async=false latency=2000 \
                  encoder=coder.datarate/8 encoder-min-bitrate=80000 encoder-max-bitrate=800000"
        ),
        true,
    );
    start();
    let bin = bin.expect("is right");
    let (sink, coder) = (bin.by_name("sink").expect("is there"), bin.by_name("coder").expect("is there"));
    let notified = Arc::new(AtomicU32::new(0));
    let counted = notified.clone();
    sink.connect_notify(Some("estimated-bitrate"), move |sink, _| {
        counted.store(sink.property("estimated-bitrate"), Relaxed);
    });
    let mut sending = Harness::with_element(bin.upcast_ref::<gst::Element>(), Some("sink"), None);
    sending.set_src_caps_str(H264);
    play(&mut sending, bin.upcast_ref());
    let begun = Instant::now();
    let mut number = 0;
    while notified.load(Relaxed) == 0 && begun.elapsed() < Duration::from_secs(5) {
        pushes(&mut sending, number, if number == 0 { KEY } else { DELTA });
        pull(&mut receiving);
        std::thread::sleep(Duration::from_millis(10));
        number += 1;
    }
    assert!(notified.load(Relaxed) > 0, "no bitrate was reported");
    assert!(holds(|| (10_000..=100_000).contains(&coder.property::<i32>("datarate"))));
}

/// Returns a session of a peer that is not an element.
async fn stranger(address: &str) -> Session {
    let request = Connect::to(address).trust(Trust::InsecureAnyone);
    squall::connect(request).await.expect("connects")
}

async fn assert_refused(session: &Session) {
    let reason = tokio::time::timeout(Duration::from_secs(3), session.closed()).await.expect("is refused");
    assert!(matches!(reason, CloseReason::ByPeer { code: 16..=20, .. }), "{reason}");
}

#[test]
fn malformed_peers_are_refused_and_the_next_is_served() {
    let (mut receiving, _source, address) = receiver(|_| {});
    let runtime = tokio::runtime::Runtime::new().expect("starts");
    let hello = b"\x01SqGs\x01\x00\x00\x00\x00\x64";
    let greeting = |bytes: &'static [u8]| Block::with(bytes, BlockOptions::new().ordered(true));
    let media =
        |bytes: &'static [u8]| Block::with(bytes, BlockOptions::new().channel(Channel::new(1)).ordered(true));
    runtime.block_on(async {
        for bytes in
            [&b"x"[..], b"\x01SqGs\x02\x00\x00\x00\x00\x64", b"\x01SqGs\x01\x01\x00\x00\x00\x64", b"\x02"]
        {
            let session = stranger(&address).await;
            session.send(greeting(bytes)).await.expect("is sent");
            assert_refused(&session).await;
        }
        for bytes in [&b"\x07"[..], b"\x00", b"\x01\x00"] {
            let session = stranger(&address).await;
            session.send(greeting(hello)).await.expect("is sent");
            session.recv().await.expect("lasts").expect("is greeted");
            session.send(media(bytes)).await.expect("is sent");
            assert_refused(&session).await;
        }
    });
    let (mut sending, _sink) = sender(&address, H264, |sink| sink.set_property("latency", 2000_u32));
    pushes(&mut sending, 0, KEY);
    pull(&mut receiving);
}

#[test]
fn the_latest_peer_takes_the_place_of_the_one_before() {
    let (mut receiving, _source, address) = receiver(|_| {});
    let (mut first, _sink) = sender(&address, H264, |sink| sink.set_property("latency", 2000_u32));
    pushes(&mut first, 0, KEY);
    pull(&mut receiving);
    let (mut second, _sink) = sender(&address, H264, |sink| sink.set_property("latency", 2000_u32));
    pushes(&mut second, 0, KEY);
    let arrived = pull(&mut receiving);
    assert!(arrived.flags().contains(gst::BufferFlags::DISCONT));
}
