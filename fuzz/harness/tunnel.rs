//! Checks of the private parsers of `squall-tunnel`, of which this is a module. Each function
//! panics if a property does not hold.

mod exit;

use std::{path::Path, sync::LazyLock};

use bytes::Bytes;
use squall_units::{Span, Time};

pub use self::exit::exit;
use crate::{
    Config, Media,
    config::FlowConfig,
    flow::gather::Gatherer,
    media::{Cut, Cutter, samples},
    wire::control::Message,
    wire::frame::{self, FrameReader},
    wire::nulls,
};

/// Decodes arbitrary bytes as a message of channel 0: a decoded message encodes to the same bytes.
pub fn control(input: &[u8]) {
    if let Ok(message) = Message::decode(input) {
        let again = message.encode();
        assert!(input.starts_with(&again), "another message is written than was read");
        assert_eq!(Message::decode(&again), Ok(message));
    }
}

/// Parses arbitrary bytes as a request of the control socket: the answer, if there is one, is one
/// line of JSON with the id of the request.
#[cfg(unix)]
pub fn rpc(input: &[u8]) {
    use crate::rpc::request::{answer, parse};

    let (id, result) = match parse(input) {
        Ok(request) => (request.id, Ok(serde_json::Value::Null)),
        Err((id, failure)) => (id, Err(failure)),
    };
    let Some(id) = id else { return };
    let line = answer(&id, result);
    let text = line.strip_suffix('\n').expect("ends its line");
    assert!(!text.contains(|c: char| c.is_control()), "an answer of several lines");
    let read: serde_json::Value = serde_json::from_str(text).expect("is JSON");
    assert_eq!((&read["jsonrpc"], &read["id"]), (&"2.0".into(), &id));
    assert!(read.get("result").is_some() != read.get("error").is_some(), "a result or an error");
    let error = read["error"]["message"].as_str();
    assert!(error.is_none_or(|message| (1..=1200).contains(&message.len())), "{error:?}");
}

/// Parses arbitrary bytes as a list of tenants: a mistake is one line, and parsed tenants can be
/// listed.
pub fn tenants(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match crate::config::read_list("list", text) {
        Ok(tenants) => assert!(
            tenants.iter().all(|tenant| tenant.flows.iter().all(|flow| flow.tenant() == Some(&tenant.name)))
        ),
        Err(problem) => assert!(!problem.contains('\n') && problem.starts_with("list:"), "{problem:?}"),
    }
}

/// Reads arbitrary bytes as a block of a flow, at once and in parts whose lengths are bytes of the
/// block: both yield the same datagrams, which fill the block, or both fail.
pub fn frame(input: &[u8]) {
    let block = Bytes::copy_from_slice(input);
    let whole = FrameReader::default().read(block.clone(), true);
    let (mut reader, mut came, mut at) = (FrameReader::default(), Vec::new(), 0);
    let parts = loop {
        let end = block.len().min(at + 1 + input.get(at).map_or(0, |byte| usize::from(*byte)));
        match reader.read(block.slice(at..end), end == block.len()) {
            Ok(datagrams) => came.extend_from_slice(&datagrams),
            Err(error) => break Err(error),
        }
        if end == block.len() {
            break Ok(Bytes::from(came));
        }
        at = end;
    };
    assert_eq!(parts, whole, "what is read in parts is something else");
    let Ok(whole) = whole else { return };
    assert_eq!(whole.len() + frame::HEADER, input.len());
    let mut at = 0;
    while let Some(record) = frame::datagram(&whole, at) {
        assert_eq!(record.next, at + 4 + record.datagram.len());
        at = record.next;
    }
    assert!(at > 0 && at == whole.len());
}

/// Restores arbitrary bytes as a datagram without its null packets: the result is bounded. Deletes
/// and restores the null packets of the same bytes as a datagram: the result equals the original.
pub fn nulls(input: &[u8]) {
    let (mut bytes, mut datagram) = (Vec::new(), Vec::new());
    let is_restored = nulls::restore(input, &mut datagram).is_some();
    assert_eq!(is_restored, nulls::is_valid(input));
    assert!(
        !is_restored || datagram.len() <= 188 * input.len(),
        "{} bytes of {}",
        datagram.len(),
        input.len()
    );
    for datagram in [&input[..input.len().min(65_534)], &datagram[..datagram.len().min(65_534)]] {
        let mut again = Vec::new();
        bytes.clear();
        let deleted = nulls::delete(datagram, &mut bytes);
        assert!(
            bytes.len() + deleted / 2 <= datagram.len() + 1,
            "{deleted} bytes are deleted, and too few are saved"
        );
        assert!(
            nulls::restore(&bytes, &mut again).is_some() && again == datagram,
            "another datagram is restored"
        );
    }
}

/// A flow of each media format, to clone.
static FLOWS: LazyLock<Vec<FlowConfig>> = LazyLock::new(|| {
    let flow = |(name, _): &(&str, Media)| {
        FlowConfig::parse(&format!("x=udp://127.0.0.1:1,max_frame=65536B,media={name}"), true)
    };
    Media::ALL.iter().map(|media| flow(media).expect("is a flow")).collect()
});

/// Carries datagrams in a flow. The first byte selects the media format; each datagram follows its
/// length and a byte with the time before it, which also decides whether the gathered datagrams are
/// flushed. All leave in frames, in order and unchanged.
pub fn media(input: &[u8]) {
    let Some((choice, mut rest)) = input.split_first() else { return };
    let mut datagrams = Vec::new();
    while let Some((&[high, low, after], more)) = rest.split_first_chunk::<3>() {
        let length = usize::from(u16::from_be_bytes([high, low]) % 1_600).min(more.len());
        let (datagram, more) = more.split_at(length);
        datagrams.push((after, datagram.to_vec()));
        rest = more;
    }
    carry(usize::from(*choice) % FLOWS.len(), &datagrams);
}

/// Carries datagrams in a flow. Each has a byte with the time before it, which also decides whether
/// the gathered datagrams are flushed.
fn carry(flow: usize, datagrams: &[(u8, Vec<u8>)]) {
    let mut gatherer = Gatherer::new(&FLOWS[flow]);
    let (mut now, mut came): (Time, Vec<Vec<u8>>) = (Time::EPOCH, Vec::new());
    let mut reader = FrameReader::default();
    let mut out = |frame: frame::Frame| {
        if frame.begins {
            reader = FrameReader::default();
        }
        let ends = frame.ends;
        let wire = if frame.begins { frame.seal(Time::EPOCH, 0, Span::ZERO) } else { frame.into_rest() };
        let datagrams = reader.read(wire, ends).expect("its own frames are well formed");
        let (mut at, mut buffer) = (0, Vec::new());
        while let (Some(header), Some(record)) = (reader.header(), frame::datagram(&datagrams, at)) {
            came.push(header.whole(record.datagram, &mut buffer).to_vec());
            at = record.next;
        }
    };
    for (after, datagram) in datagrams {
        now += Span::from_micros(u64::from(*after) * 100);
        gatherer.handle_timeout(now, &mut out);
        gatherer.push(now, datagram, &mut out);
        if after % 2 == 0 {
            gatherer.flush(&mut out);
        }
    }
    gatherer.close(&mut out);
    let sent = datagrams.iter().map(|(_, datagram)| datagram);
    assert!(sent.eq(&came), "datagrams are lost, changed or out of order");
}

/// Cuts a transport stream with valid tables into datagrams anywhere: each packet is read once, and
/// the output equals the input.
///
/// The first byte selects the bytes between packets, one byte per datagram its length, and the rest
/// is the content of the packets.
pub fn ts_cut(input: &[u8]) {
    let mut input = Input(input);
    let behind = vec![0; [0, 4, 16][usize::from(input.byte() % 3)]];
    let sizes: Vec<usize> = (0..=input.byte() % 32).map(|_| 1 + usize::from(input.byte()) * 6).collect();
    let mut packets = vec![samples::packet(0, true, &[&[0], &program()[..]].concat())];
    let map = samples::section(2, &[0xe1, 1, 0xf0, 0, 0x02, 0xe1, 1, 0xf0, 0]);
    packets.push(samples::packet(MAP, true, &[&[0], &map[..]].concat()));
    for _ in 0..40 {
        let head = input.byte();
        let length = usize::from(input.byte()).min(184);
        let mut body = input.take(length);
        // No byte that looks like a sync byte.
        body.iter_mut().filter(|byte| **byte == 0x47).for_each(|byte| *byte = 0);
        packets.push(samples::packet([VIDEO, 0x102][usize::from(head & 1)], head & 2 != 0, &body));
    }
    packets
        .iter_mut()
        .flat_map(|packet| &mut packet[1..])
        .filter(|byte| **byte == 0x47)
        .for_each(|byte| *byte = 0);
    let stream: Vec<u8> = packets.iter().flat_map(|packet| [&packet[..], &behind].concat()).collect();
    let (mut datagrams, mut at) = (Vec::new(), 0);
    for size in sizes.iter().cycle() {
        let end = stream.len().min(at + size);
        datagrams.push((*size as u8, stream[at..end].to_vec()));
        at = end;
        if at == stream.len() {
            break;
        }
    }
    let found = samples::packets_in(datagrams.iter().map(|(_, datagram)| &datagram[..]));
    assert!(found == packets, "{} packets of {} are read", found.len(), packets.len());
    let flow = Media::ALL.iter().position(|(_, media)| *media == Media::Ts).expect("is one of them");
    carry(flow, &datagrams);
}

/// Reads consecutive sections of tables, after the end of an earlier one and with sections of other
/// tables between them: each is read once.
///
/// The first byte is the length of the earlier section's rest; two bytes per section select its
/// length and its table.
pub fn sections(input: &[u8]) {
    let mut input = Input(input);
    let before = vec![1; usize::from(input.byte() % 183)];
    let (mut sections, mut expected) = (Vec::new(), Vec::new());
    while !input.0.is_empty() && expected.len() < 64 {
        let (head, length) = (input.byte(), usize::from(input.byte()) * 4 % 1_013);
        let body = input.take(length);
        let number = expected.len() as u8;
        if head & 3 == 0 {
            sections.push(samples::section_of(0xc0, 1, [0, 0], true, &body));
            continue;
        }
        sections.push(samples::section_of(2, 1, [number, 255], head & 3 != 1, &body));
        if head & 3 != 1 {
            expected.push((number, body));
        }
    }
    let listed: Vec<&[u8]> = sections.iter().map(Vec::as_slice).collect();
    let found = samples::sections_in(2, &samples::packed(MAP, &before, &listed));
    assert!(found == expected, "{} sections of {} are read", found.len(), expected.len());
}

/// PID of the program map.
const MAP: u16 = 0x100;
/// PID of the video.
const VIDEO: u16 = 0x101;

/// Reads a transport stream with valid tables that are split anywhere, then arbitrary packets.
///
/// One byte is the number of streams of the map, one the length of their descriptors, then one per
/// packet of a table the amount of the table in it. With valid tables the video is always found.
pub fn ts(input: &[u8]) {
    let mut input = Input(input);
    let mut cutter = Cutter::new(Media::Ts);
    let mut map = vec![0xe0 | (VIDEO >> 8) as u8, VIDEO as u8, 0xf0, 0];
    let kind = [0x02, 0x1b, 0x24, 0x10][usize::from(input.byte() & 3)];
    map.extend([kind, 0xe0 | (VIDEO >> 8) as u8, VIDEO as u8, 0xf0, 0]);
    let (sounds, descriptor) = (input.byte() % 32, usize::from(input.byte() % 24));
    for n in 0..sounds {
        map.extend([0x03, 0xe1, 2 + n, 0xf0, descriptor as u8]);
        map.extend(std::iter::repeat_n(n, descriptor));
    }
    let map = samples::section(2, &map);
    for (pid, table) in [(0, program()), (MAP, map)] {
        for packet in split(pid, &table, &mut input) {
            cutter.cut(Time::EPOCH, &packet);
        }
    }
    let start = cutter.cut(Time::EPOCH, &samples::packet(VIDEO, true, &[0, 0, 1, 0xe0, 0, 0, 0x80, 0, 0]));
    assert!(!start.apart && start.starts, "the video of right tables is not found: {start:?}");
    while !input.0.is_empty() {
        let head = [input.byte(), input.byte(), input.byte()];
        let pid = [0, MAP, VIDEO, u16::from(head[1])][usize::from(head[0] & 3)];
        let (body, rest) = input.0.split_at(usize::from(head[2]).min(184).min(input.0.len()));
        input.0 = rest;
        let mut packet = samples::packet(pid, head[0] & 0x40 != 0, body);
        if head[0] & 0x20 != 0 {
            // With an adaptation field of arbitrary content.
            packet[3] |= 0x20;
        }
        let cut: Cut = cutter.cut(Time::EPOCH, &packet);
        assert!(!(cut.apart && cut.starts), "{cut:?}");
    }
}

/// Returns the table that names [`MAP`].
fn program() -> Vec<u8> {
    samples::section(0, &[0, 1, 0xe0 | (MAP >> 8) as u8, MAP as u8])
}

/// Returns the packets of a section, each with the amount of it that the input selects, after an
/// adaptation field.
fn split(pid: u16, section: &[u8], input: &mut Input<'_>) -> Vec<Vec<u8>> {
    let (mut packets, mut rest, mut first) = (Vec::new(), section, true);
    while !rest.is_empty() {
        let room = if first { 182 } else { 183 };
        let (part, after) = rest.split_at((1 + usize::from(input.byte())).min(room).min(rest.len()));
        let pointer: &[u8] = if first { &[0] } else { &[] };
        let mut packet = samples::packet(pid, first, &[pointer, part].concat());
        packet[3] |= packets.len() as u8 & 0x0f;
        packets.push(packet);
        (rest, first) = (after, false);
    }
    packets
}

/// Parses arbitrary text as a configuration: an error is one line with its position.
pub fn tunnel_toml(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Err(error) = Config::parse("fuzz.toml", text, Path::new("/nowhere")) {
        let words = error.to_string();
        assert!(words.starts_with("fuzz.toml:") && !words.contains('\n'), "{words}");
    }
}

/// Rest of an input; zeros after its end.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn take(&mut self, length: usize) -> Vec<u8> {
        let (bytes, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        bytes.to_vec()
    }
}

#[cfg(test)]
mod tests {
    use squall_testkit::replay;

    #[test]
    fn corpora() {
        replay("control", super::control);
        replay("exit", super::exit);
        replay("frame", super::frame);
        replay("nulls", super::nulls);
        #[cfg(unix)]
        replay("rpc", super::rpc);
        replay("tenants", super::tenants);
        replay("media", super::media);
        replay("sections", super::sections);
        replay("ts", super::ts);
        replay("ts_cut", super::ts_cut);
        replay("tunnel_toml", super::tunnel_toml);
    }
}
