//! Checks of the private parsers of `squall-tunnel`, in which this is a module: each function panics when a property does not hold.

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

/// Any bytes as a datagram without its null packets: what is restored is bounded. And as a datagram: it is restored as it was.
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
    let mut datagrams = Vec::new();
    while let Some((&[high, low, after], more)) = rest.split_first_chunk::<3>() {
        let length = usize::from(u16::from_be_bytes([high, low]) % 1_600).min(more.len());
        let (datagram, more) = more.split_at(length);
        datagrams.push((after, datagram.to_vec()));
        rest = more;
    }
    carry(usize::from(*choice) % FLOWS.len(), &datagrams);
}

/// Carries datagrams in a flow of a kind, each after a time that also says whether what is there is handed over.
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

/// A transport stream with right tables that datagrams cut anywhere: each packet is read once, and what leaves is what entered.
///
/// The first byte chooses what stands between packets, a byte for each datagram how long it is, and the rest is in the packets.
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
        // No byte that looks like the first of a packet.
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

/// Sections of tables back to back, behind the end of an earlier one, and with tables of others between: each is read once.
///
/// The first byte says how much of an earlier section there is; two bytes for each section how long it is and of which table.
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
            // With an adaptation field of whatever is there.
            packet[3] |= 0x20;
        }
        let cut: Cut = cutter.cut(Time::EPOCH, &packet);
        assert!(!(cut.apart && cut.starts), "{cut:?}");
    }
}

/// The table that names [`MAP`].
fn program() -> Vec<u8> {
    samples::section(0, &[0, 1, 0xe0 | (MAP >> 8) as u8, MAP as u8])
}

/// The packets of a section, each with as much of it as the input says, behind an adaptation field.
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
