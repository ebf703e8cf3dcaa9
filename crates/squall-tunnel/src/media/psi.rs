//! Programs of a transport stream, by its tables (ISO 13818-1 §2.4.4).

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
};

use super::{
    annexb::Codec,
    formats::{self, Kind},
    packet::{NULL_PID, Packet},
    sections::{Section, Sections},
};

/// PIDs with station names, programme guides and the time of day (ETSI EN 300 468 §5.1.3).
const SERVICE_INFORMATION: RangeInclusive<u16> = 0x10..=0x1f;

/// Id of the program association table (§2.4.4.4).
const PAT: u8 = 0;
/// Id of a program map table (§2.4.4.4).
const PMT: u8 = 2;
/// PID of the program association table.
const PAT_PID: u16 = 0;

/// Maximum number of programs whose maps are read.
const MAX_PROGRAMS: usize = 256;

/// Maximum number of sections of a map that are kept. A map should have one (§2.4.4.9).
const MAX_MAP_SECTIONS: u8 = 4;

/// Maximum number of audio streams of all programs that are kept.
const MAX_SOUNDS: usize = 1_024;

/// Packets with video of other programs after which that of the chosen one counts as ended.
const MAX_OTHERS: u32 = 10_000;

/// Role of a packet with regard to the video.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It can be lost without harm: it is empty, repeats a table, or no decoder needs it.
    Spare,
    /// It changes the tables.
    Table,
    Video(Codec),
    Sound,
    Unknown,
}

/// Programs and their streams.
#[derive(Debug)]
pub(super) struct Psi {
    programs: Table<Vec<Program>>,
    /// Maps by program.
    maps: BTreeMap<Program, Table<Streams>>,
    /// Sections of tables being assembled, by PID.
    sections: BTreeMap<u16, Sections>,
    /// Content of PIDs according to the tables.
    kinds: BTreeMap<u16, Kind>,
    /// Program whose video is read, and the PID of that video.
    chosen: Option<(Program, u16)>,
    /// Packets with video of other programs since the latest packet of the chosen one.
    others: u32,
}

/// A program: its number, and the PID of its map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Program {
    number: u16,
    map: u16,
}

/// Streams in a section of a map.
#[derive(Debug, Default)]
struct Streams {
    /// First certain video.
    certain: Option<(u16, Codec)>,
    /// First stream that may be video.
    possible: Option<(u16, Codec)>,
    sounds: Vec<u16>,
}

/// Sections of a table by number, with their checksums.
#[derive(Debug)]
struct Table<T>(BTreeMap<u8, (u32, T)>);

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> Table<T> {
    /// Adds a section. Returns `true` if it changes the table. Until all sections of another
    /// version have arrived, those of the previous version count.
    fn take(&mut self, section: &Section<'_>, read: impl FnOnce(&[u8]) -> T) -> bool {
        self.0.retain(|number, _| *number <= section.last);
        if self.0.get(&section.number).is_some_and(|(sum, _)| *sum == section.sum) {
            return false;
        }
        self.0.insert(section.number, (section.sum, read(section.body)));
        true
    }

    fn parts(&self) -> impl Iterator<Item = &T> {
        self.0.values().map(|(_, part)| part)
    }
}

impl Default for Psi {
    fn default() -> Self {
        Self {
            programs: Table::default(),
            maps: BTreeMap::new(),
            sections: BTreeMap::from([(PAT_PID, Sections::new(PAT))]),
            kinds: BTreeMap::new(),
            chosen: None,
            others: 0,
        }
    }
}

impl Psi {
    /// `true` if the map of a program was read.
    pub(super) fn has_map(&self) -> bool {
        !self.maps.is_empty()
    }

    /// `true` if a program has video.
    pub(super) fn has_video(&self) -> bool {
        self.kinds.values().any(|kind| matches!(kind, Kind::Video(_)))
    }

    /// `true` if video of a program has arrived.
    pub(super) fn is_chosen(&self) -> bool {
        self.chosen.is_some()
    }

    /// Reads a packet. Packets of tables are read only when complete.
    pub(super) fn read(&mut self, packet: Packet<'_>) -> Role {
        let pid = packet.pid();
        if pid == NULL_PID || !packet.has_payload() {
            // Without a payload it carries a clock reference, as in streams of a constant rate.
            return Role::Spare;
        }
        if let Some(sections) = self.sections.get_mut(&pid) {
            let mut changed = false;
            if packet.is_complete() {
                let (programs, maps) = (&mut self.programs, &mut self.maps);
                sections.feed(packet, |section| {
                    changed |= match pid {
                        PAT_PID => programs.take(&section, entries),
                        _ => take_map(programs, maps, pid, &section),
                    };
                });
            }
            if changed {
                self.follow();
            }
            return if changed { Role::Table } else { Role::Spare };
        }
        match self.kinds.get(&pid).copied() {
            Some(Kind::Video(codec)) if self.choose(pid) => Role::Video(codec),
            Some(Kind::Sound) => Role::Sound,
            None if SERVICE_INFORMATION.contains(&pid) => Role::Spare,
            _ => Role::Unknown,
        }
    }

    /// `true` if the video of this PID is the one to read: that of the first program whose video
    /// arrives.
    fn choose(&mut self, pid: u16) -> bool {
        if self.chosen.is_none() || self.others > MAX_OTHERS {
            let owner = self.maps.iter().find(|(_, map)| video(map).is_some_and(|(video, _)| video == pid));
            self.chosen = owner.map(|(program, _)| (*program, pid));
        }
        let is_chosen = self.chosen.is_some_and(|(_, chosen)| chosen == pid);
        self.others = if is_chosen { 0 } else { self.others + 1 };
        is_chosen
    }

    /// Updates, after a change of the tables, the maps that are read and the content of the PIDs.
    fn follow(&mut self) {
        let listed: BTreeSet<Program> = self.programs.parts().flatten().copied().take(MAX_PROGRAMS).collect();
        self.maps.retain(|program, _| listed.contains(program));
        let pids: BTreeSet<u16> = listed.iter().map(|program| program.map).collect();
        self.sections.retain(|pid, _| *pid == PAT_PID || pids.contains(pid));
        for pid in pids {
            self.sections.entry(pid).or_insert_with(|| Sections::new(PMT));
        }
        let sounds = self.maps.values().flat_map(Table::parts).flat_map(|streams| &streams.sounds);
        self.kinds = sounds.take(MAX_SOUNDS).map(|pid| (*pid, Kind::Sound)).collect();
        let videos = self.maps.values().filter_map(video);
        self.kinds.extend(videos.map(|(pid, codec)| (pid, Kind::Video(codec))));
        // Its program continues with another PID, or another program is chosen.
        self.chosen =
            self.chosen.and_then(|(program, _)| Some((program, video(self.maps.get(&program)?)?.0)));
    }
}

/// Adds a section of a map, if the PID carries the map of its program.
fn take_map(
    programs: &Table<Vec<Program>>,
    maps: &mut BTreeMap<Program, Table<Streams>>,
    pid: u16,
    section: &Section<'_>,
) -> bool {
    let program = Program { number: section.subject, map: pid };
    let is_listed = programs.parts().flatten().take(MAX_PROGRAMS).any(|listed| *listed == program);
    is_listed
        && section.number < MAX_MAP_SECTIONS
        && maps.entry(program).or_default().take(section, |body| streams(body).unwrap_or_default())
}

/// Returns the first video of a program; an uncertain one only if there is no other.
fn video(map: &Table<Streams>) -> Option<(u16, Codec)> {
    map.parts().find_map(|part| part.certain).or_else(|| map.parts().find_map(|part| part.possible))
}

/// Parses the programs of a section (§2.4.4.3): entries of a number, 0 for the network, and the PID
/// of a map.
fn entries(body: &[u8]) -> Vec<Program> {
    let entry = |entry: &[u8]| Program {
        number: number(entry[0], entry[1], 0xff),
        map: number(entry[2], entry[3], 0x1f),
    };
    let programs = body.chunks_exact(4).map(entry);
    programs.filter(|program| program.number != 0 && program.map != PAT_PID).take(MAX_PROGRAMS).collect()
}

/// Parses the video and audio streams of a map (§2.4.4.9). Descriptors precede the streams, and
/// follow each of them.
fn streams(body: &[u8]) -> Option<Streams> {
    let (&[_, _, high, low], rest) = body.split_first_chunk()?;
    let (program, mut rest) = rest.split_at_checked(number(high, low, 0x0f).into())?;
    let mut streams = Streams::default();
    while let Some((&[kind, pid_high, pid_low, high, low], after)) = rest.split_first_chunk() {
        let Some((stream, after)) = after.split_at_checked(number(high, low, 0x0f).into()) else { break };
        let pid = number(pid_high, pid_low, 0x1f);
        match formats::kind(kind, program, stream) {
            Some((Kind::Video(codec), true)) => streams.certain = streams.certain.or(Some((pid, codec))),
            Some((Kind::Video(codec), false)) => streams.possible = streams.possible.or(Some((pid, codec))),
            Some((Kind::Sound, _)) => streams.sounds.push(pid),
            None => {}
        }
        rest = after;
    }
    Some(streams)
}

/// Returns a number of two bytes; `mask` selects the bits of the first.
fn number(high: u8, low: u8, mask: u8) -> u16 {
    u16::from_be_bytes([high & mask, low])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::samples::*, *};

    const MAP: u16 = 0x100;
    const VIDEO: u16 = 0x101;

    /// Builds the table that names [`MAP`].
    fn programs() -> Vec<u8> {
        section(PAT, &[0, 1, 0xe0 | (MAP >> 8) as u8, MAP as u8])
    }

    /// Builds a map of one H.264 stream, and this number of audio streams with descriptors of this
    /// size.
    fn map(sounds: usize, descriptor: usize) -> Vec<u8> {
        let mut body = vec![0xe1, 1, 0xf0, 0, 0x1b, 0xe1, 1, 0xf0, 0];
        for n in 0..sounds {
            body.extend([0x03, 0xe1, 2 + n as u8, 0xf0, descriptor as u8]);
            body.extend(vec![0; descriptor]);
        }
        section(PMT, &body)
    }

    /// Builds packets of this PID. The first contains up to `first` bytes of the section; each is
    /// stuffed at the front.
    fn split(pid: u16, section: &[u8], first: usize) -> Vec<Vec<u8>> {
        let (begin, rest) = section.split_at(first.min(183).min(section.len()));
        let mut all = vec![packet(pid, true, &[&[0], begin].concat())];
        all.extend(rest.chunks(184).map(|part| packet(pid, false, part)));
        (0..).zip(&mut all).for_each(|(n, packet)| packet[3] |= n & 0x0f);
        all
    }

    fn feed(psi: &mut Psi, packets: &[Vec<u8>]) -> Vec<Role> {
        packets.iter().filter_map(|packet| Some(psi.read(Packet::new(packet, 0)?))).collect()
    }

    fn role(psi: &mut Psi, pid: u16) -> Role {
        feed(psi, &[packet(pid, true, &[0; 184])])[0]
    }

    /// The map of a stream with one video and 15 audio tracks that name their language has 186
    /// bytes.
    #[test]
    fn tables_are_read_wherever_they_are_split() {
        for (sounds, descriptor) in [(0, 0), (1, 5), (15, 6), (16, 6), (15, 60)] {
            let section = map(sounds, descriptor);
            for first in 1..=section.len().min(183) {
                let mut psi = Psi::default();
                feed(&mut psi, &split(0, &programs(), 183));
                feed(&mut psi, &split(MAP, &section, first));
                assert_eq!(
                    role(&mut psi, VIDEO),
                    Role::Video(Codec::H264),
                    "{} bytes at {first}",
                    section.len()
                );
                let sound = if sounds == 0 { Role::Unknown } else { Role::Sound };
                assert_eq!(role(&mut psi, 0x102), sound);
            }
        }
    }

    #[test]
    fn only_what_changes_of_tables_is_needed() {
        let mut psi = Psi::default();
        let packets = [split(0, &programs(), 183), split(MAP, &map(1, 5), 183)].concat();
        assert_eq!(feed(&mut psi, &packets), [Role::Table; 2]);
        assert_eq!(feed(&mut psi, &packets), [Role::Spare; 2]);
        assert_eq!(feed(&mut psi, &split(MAP, &map(2, 5), 183)), [Role::Table]);
        let others = [NULL_PID, 0x11, 0x300].map(|pid| role(&mut psi, pid));
        assert_eq!(others, [Role::Spare, Role::Spare, Role::Unknown]);
    }

    #[test]
    fn a_list_of_another_version_counts_section_by_section() {
        let list = |number, maps: &[u16]| {
            let entry = |map: &u16| [0, *map as u8, 0xe1, *map as u8];
            section_of(PAT, 1, [number, 1], true, &maps.iter().flat_map(entry).collect::<Vec<_>>())
        };
        let mut psi = Psi::default();
        feed(&mut psi, &alone(0, 0, &[&list(0, &[1]), &list(1, &[2])]));
        let map = |number| {
            section_of(PMT, number, [0, 0], true, &[0xe1, 1, 0xf0, 0, 0x1b, 0xe0, number as u8, 0xf0, 0])
        };
        feed(&mut psi, &[alone(0x101, 0, &[&map(1)]), alone(0x102, 0, &[&map(2)])].concat());
        assert_eq!(role(&mut psi, 2), Role::Video(Codec::H264));
        // The program of the second section continues when the first section changes.
        feed(&mut psi, &alone(0, 0, &[&list(0, &[7])]));
        assert_eq!((role(&mut psi, 2), role(&mut psi, 1)), (Role::Video(Codec::H264), Role::Unknown));
        // The program is no longer listed.
        feed(&mut psi, &alone(0, 0, &[&list(1, &[8])]));
        assert_eq!(role(&mut psi, 2), Role::Unknown);
        assert_eq!(psi.sections.keys().copied().collect::<Vec<_>>(), [0, 0x107, 0x108]);
    }

    #[test]
    fn memory_is_bounded() {
        let mut psi = Psi::default();
        for number in 0..=255 {
            let entry =
                |n: u16| [(u16::from(number) << 8 | n).to_be_bytes(), (0xe000 | n).to_be_bytes()].concat();
            let body: Vec<u8> = (1..=250).flat_map(entry).collect();
            feed(&mut psi, &alone(0, 0, &[&section_of(PAT, 1, [number, 255], true, &body)]));
        }
        let streams: Vec<u8> = (0..200u8).flat_map(|n| [0x03, 0xe2, n, 0xf0, 0]).collect();
        let body = [&[0xe1, 1, 0xf0, 0], &streams[..]].concat();
        for (number, part) in (0..60).flat_map(|number| (0..9).map(move |part| (number, part))) {
            feed(&mut psi, &alone(number, 0, &[&section_of(PMT, number, [part, 9], true, &body)]));
        }
        assert!(psi.maps.len() <= MAX_PROGRAMS && psi.sections.len() <= MAX_PROGRAMS + 1);
        assert!(psi.maps.values().all(|map| map.0.len() == usize::from(MAX_MAP_SECTIONS)));
        assert_eq!((psi.maps.len(), psi.kinds.len()), (59, 200));
    }

    proptest! {
        /// Arbitrary tables, cut off anywhere.
        #[test]
        fn no_table_is_too_strange(
            on_map in any::<bool>(),
            body in prop::collection::vec(any::<u8>(), 0..1_012),
            first in 1..184usize,
            kept in 0..8usize,
        ) {
            let mut psi = Psi::default();
            feed(&mut psi, &split(0, &programs(), 183));
            let (pid, id) = if on_map { (MAP, PMT) } else { (0, PAT) };
            let packets = split(pid, &section(id, &body), first);
            feed(&mut psi, &packets[..kept.min(packets.len())]);
            feed(&mut psi, &packets);
        }
    }
}
