//! Sections and packets for tests, and functions to read them.

use super::{
    align::Aligner,
    packet::Packet,
    sections::{CHECK, MAX_SECTION, Sections},
};

/// Returns the complete packets of these datagrams.
pub(crate) fn packets_in<'a>(datagrams: impl IntoIterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let (mut aligner, mut all) = (Aligner::default(), Vec::new());
    for datagram in datagrams {
        aligner.feed(datagram, |packet| {
            if packet.is_complete() {
                all.push(packet.bytes().to_vec());
            }
        });
    }
    all
}

/// Returns the numbers and bodies of a table's sections in packets.
pub(crate) fn sections_in(table: u8, packets: &[Vec<u8>]) -> Vec<(u8, Vec<u8>)> {
    let (mut sections, mut all) = (Sections::new(table), Vec::new());
    for packet in packets {
        let packet = Packet::new(packet, 0).expect("has a sync byte");
        sections.feed(packet, |section| all.push((section.number, section.body.to_vec())));
        assert!(sections.memory() <= MAX_SECTION);
    }
    all
}

/// Builds a section about `subject` with a valid length and checksum. `numbers` are its own and
/// that of the last section of its table.
pub(crate) fn section_of(id: u8, subject: u16, numbers: [u8; 2], current: bool, body: &[u8]) -> Vec<u8> {
    let length = body.len() + 9;
    let mut section = vec![id, 0xb0 | (length >> 8) as u8, length as u8];
    section.extend(subject.to_be_bytes());
    section.extend([0xc0 | u8::from(current), numbers[0], numbers[1]]);
    section.extend(body);
    section.extend(CHECK.checksum(&section).to_be_bytes());
    section
}

/// Builds the only section of a table about number 1.
pub(crate) fn section(id: u8, body: &[u8]) -> Vec<u8> {
    section_of(id, 1, [0, 0], true, body)
}

/// Builds a packet with this payload, preceded by an adaptation field that fills the packet.
pub(crate) fn packet(pid: u16, starts: bool, payload: &[u8]) -> Vec<u8> {
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

/// Builds packets with these sections, the first `shift` bytes after the pointer. The last packet
/// is stuffed at its end.
#[cfg(test)]
pub(crate) fn alone(pid: u16, shift: usize, sections: &[&[u8]]) -> Vec<Vec<u8>> {
    let bytes = [&[shift as u8], &vec![0xff; shift][..], &sections.concat()].concat();
    let chunk = |(n, part): (usize, &[u8])| {
        let mut payload = part.to_vec();
        payload.resize(184, 0xff);
        let mut packet = packet(pid, n == 0, &payload);
        packet[3] |= n as u8 & 0x0f;
        packet
    };
    bytes.chunks(184).enumerate().map(chunk).collect()
}

/// Builds packets with consecutive sections, after the end of an earlier one.
pub(crate) fn packed(pid: u16, before: &[u8], sections: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut starts = vec![before.len()];
    sections.iter().for_each(|section| starts.push(starts[starts.len() - 1] + section.len()));
    let bytes = [before, &sections.concat()[..]].concat();
    let (mut packets, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let begins = starts.iter().find(|start| (at..at + 183).contains(*start) && **start < bytes.len());
        let pointer: Vec<u8> = begins.iter().map(|start| (**start - at) as u8).collect();
        let end = bytes.len().min(at + 184 - pointer.len());
        let mut payload = [&pointer[..], &bytes[at..end]].concat();
        payload.resize(184, 0xff);
        let mut packet = packet(pid, begins.is_some(), &payload);
        packet[3] |= packets.len() as u8 & 0x0f;
        packets.push(packet);
        at = end;
    }
    packets
}
