//! Fuzz targets of private parsers: each function panics when a property does not hold. See `fuzz/README.md`.

mod exit;

use std::{path::Path, sync::LazyLock};

use bytes::Bytes;
use squall_units::Micros;

pub use self::exit::exit;
use crate::{
    Config, Media,
    config::FlowConfig,
    control::Message,
    frame::{self, FrameReader},
    gather::Gatherer,
    media::{Cut, Cutter},
};

/// Any bytes as a message of channel 0: what is read is written the same again.
pub fn control(input: &[u8]) {
    if let Ok(message) = Message::decode(input) {
        let again = message.encode();
        assert!(input.starts_with(&again), "another message is written than was read");
        assert_eq!(Message::decode(&again), Ok(message));
    }
}

/// Any bytes as a request of the control socket: the answer, if there is one, is one line of JSON with the id of the request.
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

/// Any bytes as a list of tenants: a mistake is one line, and what is read can be listed.
pub fn tenants(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match crate::config::read_list("list", text) {
        Ok(tenants) => assert!(
            tenants.iter().all(|tenant| tenant.flows.iter().all(|flow| flow.tenant() == Some(&tenant.name)))
        ),
        Err(problem) => assert!(!problem.contains('\n') && problem.starts_with("list:"), "{problem:?}"),
    }
}

/// Any bytes as a block of a flow, read at once and in parts, each as long as a byte of the block says: the same
/// datagrams come out, and they fill the block; or both fail.
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

/// A flow of each kind, to clone.
static FLOWS: LazyLock<Vec<FlowConfig>> = LazyLock::new(|| {
    let flow = |(name, _): &(&str, Media)| {
        FlowConfig::parse(&format!("x=udp://127.0.0.1:1,max_frame=65536B,media={name}"), true)
    };
    Media::ALL.iter().map(|media| flow(media).expect("is a flow")).collect()
});

/// The first byte chooses what the flow carries; then datagrams, each after its length and the time before it, which also
/// says whether what is there is handed over. All leave in frames, in their order and unchanged.
pub fn media(input: &[u8]) {
    let Some((choice, mut rest)) = input.split_first() else { return };
    let mut gatherer = Gatherer::new(&FLOWS[usize::from(*choice) % FLOWS.len()]);
    let (mut now, mut sent, mut came): (Micros, Vec<Vec<u8>>, Vec<Vec<u8>>) = (0, Vec::new(), Vec::new());
    let mut reader = FrameReader::default();
    let mut out = |frame: frame::Frame| {
        if frame.begins {
            reader = FrameReader::default();
        }
        let ends = frame.ends;
        let wire = if frame.begins { frame.seal(0, 0, 0) } else { frame.into_rest() };
        let datagrams = reader.read(wire, ends).expect("its own frames are well formed");
        let mut at = 0;
        while let Some(record) = frame::datagram(&datagrams, at) {
            came.push(record.datagram.to_vec());
            at = record.next;
        }
    };
    while let Some((&[high, low, after], more)) = rest.split_first_chunk::<3>() {
        let length = usize::from(u16::from_be_bytes([high, low]) % 1_600).min(more.len());
        let (datagram, more) = more.split_at(length);
        now += Micros::from(after) * 100;
        gatherer.handle_timeout(now, &mut out);
        gatherer.push(now, datagram, &mut out);
        if after % 2 == 0 {
            gatherer.flush(&mut out);
        }
        sent.push(datagram.to_vec());
        rest = more;
    }
    gatherer.close(&mut out);
    assert!(sent == came, "datagrams are lost, changed or out of order");
}

/// PID of the program map, and of video.
const MAP: u16 = 0x100;
const VIDEO: u16 = 0x101;

/// A transport stream with right tables that are split anywhere, then packets of whatever is left of the input.
///
/// A byte says how many streams the map has, one how long their descriptors are, then one for each packet of a table how
/// much of the table is in it. Of right tables the video is always found.
pub fn ts(input: &[u8]) {
    let mut input = Input(input);
    let mut cutter = Cutter::new(Media::Ts);
    let program = section(0, &[0, 1, 0xe0 | (MAP >> 8) as u8, MAP as u8]);
    let mut map = vec![0xe0 | (VIDEO >> 8) as u8, VIDEO as u8, 0xf0, 0];
    let kind = [0x02, 0x1b, 0x24, 0x10][usize::from(input.byte() & 3)];
    map.extend([kind, 0xe0 | (VIDEO >> 8) as u8, VIDEO as u8, 0xf0, 0]);
    let (sounds, descriptor) = (input.byte() % 32, usize::from(input.byte() % 24));
    for n in 0..sounds {
        map.extend([0x03, 0xe1, 2 + n, 0xf0, descriptor as u8]);
        map.extend(std::iter::repeat_n(n, descriptor));
    }
    let map = section(2, &map);
    for (pid, table) in [(0, program), (MAP, map)] {
        for packet in split(pid, &table, &mut input) {
            cutter.cut(0, &packet);
        }
    }
    let start = cutter.cut(0, &packet(VIDEO, true, &[0, 0, 1, 0xe0, 0, 0, 0x80, 0, 0]));
    assert!(!start.apart && start.starts, "the video of right tables is not found: {start:?}");
    while !input.0.is_empty() {
        let head = [input.byte(), input.byte(), input.byte()];
        let pid = [0, MAP, VIDEO, u16::from(head[1])][usize::from(head[0] & 3)];
        let (body, rest) = input.0.split_at(usize::from(head[2]).min(184).min(input.0.len()));
        input.0 = rest;
        let mut packet = packet(pid, head[0] & 0x40 != 0, body);
        if head[0] & 0x20 != 0 {
            // With an adaptation field of whatever is there.
            packet[3] |= 0x20;
        }
        let cut: Cut = cutter.cut(0, &packet);
        assert!(!(cut.apart && cut.starts), "{cut:?}");
    }
}

/// A section with its length and check sum, which the parser does not verify.
fn section(id: u8, body: &[u8]) -> Vec<u8> {
    let length = body.len() + 9;
    let mut section = vec![id, 0xb0 | (length >> 8) as u8, length as u8, 0, 1, 0xc1, 0, 0];
    section.extend(body);
    section.extend([0; 4]);
    section
}

/// The packets of a section, each with as much of it as the input says, behind an adaptation field.
fn split(pid: u16, section: &[u8], input: &mut Input<'_>) -> Vec<Vec<u8>> {
    let (mut packets, mut rest, mut first) = (Vec::new(), section, true);
    while !rest.is_empty() {
        let room = if first { 182 } else { 183 };
        let (part, after) = rest.split_at((1 + usize::from(input.byte())).min(room).min(rest.len()));
        let pointer: &[u8] = if first { &[0] } else { &[] };
        packets.push(packet(pid, first, &[pointer, part].concat()));
        (rest, first) = (after, false);
    }
    packets
}

/// A packet whose payload is filled up in front, with an adaptation field.
fn packet(pid: u16, starts: bool, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x47, u8::from(starts) << 6 | (pid >> 8) as u8 & 0x1f, pid as u8, 0x10];
    let spare = 184 - payload.len();
    if spare > 0 {
        packet[3] |= 0x20;
        packet.push(spare as u8 - 1);
        packet.extend([0].into_iter().chain([0xff; 182]).take(spare - 1));
    }
    packet.extend(payload);
    packet
}

/// Any text as a configuration: an error names its place in one line.
pub fn tunnel_toml(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Err(error) = Config::parse("fuzz.toml", text, Path::new("/nowhere")) {
        let words = error.to_string();
        assert!(words.starts_with("fuzz.toml:") && !words.contains('\n'), "{words}");
    }
}

/// What is left of an input; zeros behind its end.
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
    use squall_testing::replay;

    #[test]
    fn corpora() {
        replay("control", super::control);
        replay("exit", super::exit);
        replay("frame", super::frame);
        #[cfg(unix)]
        replay("rpc", super::rpc);
        replay("tenants", super::tenants);
        replay("media", super::media);
        replay("ts", super::ts);
        replay("tunnel_toml", super::tunnel_toml);
    }
}
