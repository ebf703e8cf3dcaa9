//! Time stamps of every message, chunk and packet of a run, at both ends (NineTails, §III), as rows
//! of a table.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use squall_proto::{
    ArrivalLog, ChunkLog, PacketFate, PacketLog,
    sched::{BlockId, WorkKind},
};
use squall_trace::Micros;

use crate::offer::Offer;
use crate::result::LostReason;
use crate::scenario::Scenario;
use crate::table::csv_field;
use crate::world::Side;

/// Names of the columns. A row has only the cells of its level; the others are empty.
pub(crate) const COLUMNS: [&str; 23] = [
    "scheduler",
    "seed",
    "level",
    "flow",
    "class",
    "message",
    "channel",
    "path",
    "packet",
    "kind",
    "offset",
    "bytes",
    "new_bytes",
    "offered_us",
    "due_us",
    "assigned_us",
    "sent_us",
    "last_sent_us",
    "arrived_us",
    "complete_us",
    "delivered_us",
    "ended_us",
    "fate",
];

/// A message that an application submits.
pub(crate) struct Offered<'a> {
    pub(crate) flow: usize,
    /// Number within the flow.
    pub(crate) index: u64,
    pub(crate) channel: u16,
    pub(crate) offer: &'a Offer,
}

#[derive(Debug)]
struct Message {
    flow: usize,
    class: usize,
    index: u64,
    channel: u16,
    bytes: u64,
    offered_us: Micros,
    due_us: Option<Micros>,
    first_sent_us: Option<Micros>,
    last_sent_us: Option<Micros>,
    /// Bytes sent, each counted once.
    sent_bytes: u64,
    arrived_us: Option<Micros>,
    complete_us: Option<Micros>,
    delivered_us: Option<Micros>,
    ended_us: Option<Micros>,
    lost: Option<LostReason>,
}

#[derive(Debug)]
struct Packet {
    message: usize,
    path: usize,
    number: u64,
    kind: WorkKind,
    bytes: u16,
    sent_us: Micros,
    arrived_us: Option<Micros>,
    ended_us: Option<Micros>,
    fate: PacketFate,
}

#[derive(Debug)]
struct Chunk {
    message: usize,
    packet: usize,
    kind: WorkKind,
    offset: u32,
    bytes: u32,
    assigned_us: Micros,
    arrival: Option<(Micros, u32)>,
}

/// Identifies a chunk in flight at both ends.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    sender: Side,
    path: usize,
    block: BlockId,
    is_parity: bool,
    offset: u32,
    /// Time at which it was written, in ticks of its time stamp.
    written: u64,
}

/// Microseconds per tick of time stamps.
const TICK: Micros = 4;

/// Log of one run.
#[derive(Debug, Default)]
pub(crate) struct MessageLog {
    /// Names of the flows, with those of their classes.
    flows: Vec<(String, Vec<String>)>,
    /// Names of the paths.
    paths: Vec<String>,
    messages: Vec<Message>,
    chunks: Vec<Chunk>,
    packets: Vec<Packet>,
    /// Messages by sender and id.
    names: HashMap<(Side, BlockId), usize>,
    /// Chunks in flight.
    under_way: HashMap<Key, usize>,
    /// Packets by sender, path number on the wire and packet number.
    numbers: HashMap<(Side, u32, u64), usize>,
}

impl MessageLog {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let flows = scenario.flows.iter().map(|flow| {
            let classes = flow.traffic.classes().into_iter().map(|class| class.name).collect();
            (flow.name.clone(), classes)
        });
        let paths = scenario.paths.iter().map(|path| path.name.clone()).collect();
        Self { flows: flows.collect(), paths, ..Self::default() }
    }

    /// Called when a message is submitted; `id` is set if the session accepted it.
    pub(crate) fn on_offered(&mut self, sender: Side, id: Option<BlockId>, offered: &Offered<'_>) {
        let &Offered { flow, index, channel, offer } = offered;
        if let Some(id) = id {
            self.names.insert((sender, id), self.messages.len());
        }
        self.messages.push(Message {
            flow,
            class: offer.class.into(),
            index,
            channel,
            bytes: offer.size,
            offered_us: offer.at_us,
            due_us: offer.deadline_us.map(|deadline| offer.at_us.saturating_add(deadline)),
            first_sent_us: None,
            last_sent_us: None,
            sent_bytes: 0,
            arrived_us: None,
            complete_us: None,
            delivered_us: None,
            ended_us: None,
            lost: None,
        });
    }

    /// Called when the session refuses the latest message.
    pub(crate) fn on_refused(&mut self, why: LostReason) {
        if let Some(message) = self.messages.last_mut() {
            (message.ended_us, message.lost) = (Some(message.offered_us), Some(why));
        }
    }

    /// Called for each event of a packet of the sender on this path. Times of the log count from
    /// `start`.
    pub(crate) fn on_packet(&mut self, sender: Side, path: usize, start: Micros, entry: &PacketLog) {
        let at_us = entry.at.micros().saturating_sub(start);
        let number = (sender, entry.path, entry.packet);
        if entry.fate != PacketFate::Sent {
            if let Some(packet) = self.numbers.get(&number).map(|packet| &mut self.packets[*packet]) {
                (packet.fate, packet.ended_us) = (entry.fate, Some(at_us));
            }
            return;
        }
        let Some(chunk) = &entry.chunk else { return };
        let Some(&message) = self.names.get(&(sender, chunk.block)) else { return };
        let packet = *self.numbers.entry(number).or_insert_with(|| {
            self.packets.push(Packet {
                message,
                path,
                number: entry.packet,
                kind: chunk.kind,
                bytes: entry.bytes,
                sent_us: at_us,
                arrived_us: None,
                ended_us: None,
                fate: PacketFate::Sent,
            });
            self.packets.len() - 1
        });
        self.on_chunk(sender, message, packet, chunk, start);
    }

    fn on_chunk(&mut self, sender: Side, message: usize, packet: usize, chunk: &ChunkLog, start: Micros) {
        let Packet { path, sent_us, .. } = self.packets[packet];
        if chunk.kind == WorkKind::Fresh {
            let message = &mut self.messages[message];
            message.first_sent_us.get_or_insert(sent_us);
            message.sent_bytes += u64::from(chunk.bytes);
            message.last_sent_us = Some(sent_us).filter(|_| message.sent_bytes >= message.bytes);
        }
        let key = Key {
            sender,
            path,
            block: chunk.block,
            is_parity: chunk.kind.is_parity(),
            offset: chunk.range.start,
            written: chunk.written_at.micros() / TICK,
        };
        self.under_way.insert(key, self.chunks.len());
        self.chunks.push(Chunk {
            message,
            packet,
            kind: chunk.kind,
            offset: chunk.range.start,
            bytes: chunk.bytes,
            assigned_us: chunk.assigned_at.micros().saturating_sub(start),
            arrival: None,
        });
    }

    /// Called when a chunk of the sender arrives over a path. Times of the log count from `start`.
    pub(crate) fn on_arrival(&mut self, sender: Side, path: usize, start: Micros, arrival: &ArrivalLog) {
        let key = Key {
            sender,
            path,
            block: arrival.block,
            is_parity: arrival.is_parity,
            offset: arrival.offset,
            written: (arrival.at.micros() / TICK).saturating_sub(arrival.transit.micros() / TICK),
        };
        let at_us = arrival.at.micros().saturating_sub(start);
        let Some(chunk) = self.under_way.remove(&key).map(|chunk| &mut self.chunks[chunk]) else { return };
        chunk.arrival = Some((at_us, arrival.bytes));
        self.packets[chunk.packet].arrived_us.get_or_insert(at_us);
        if !arrival.is_parity {
            self.messages[chunk.message].arrived_us.get_or_insert(at_us);
        }
    }

    /// Called when the receiver's application gets a message. `times`: arrival of the first part,
    /// completion, and now.
    pub(crate) fn on_delivered(&mut self, sender: Side, id: BlockId, times: [Micros; 3]) {
        if let Some(message) = self.named(sender, id) {
            // A message that was rebuilt from parity may have no chunk that arrived.
            let [first_us, complete_us, at_us] = times;
            message.arrived_us.get_or_insert(first_us);
            (message.complete_us, message.delivered_us) = (Some(complete_us), Some(at_us));
        }
    }

    /// Called when the sender reports the outcome of a message.
    pub(crate) fn on_ended(&mut self, sender: Side, id: BlockId, at_us: Micros, lost: Option<LostReason>) {
        if let Some(message) = self.named(sender, id) {
            (message.ended_us, message.lost) = (Some(at_us), lost);
        }
    }

    fn named(&mut self, sender: Side, id: BlockId) -> Option<&mut Message> {
        self.names.get(&(sender, id)).map(|message| &mut self.messages[*message])
    }

    /// Returns the rows of the run: messages in the order of their offers, then chunks and packets
    /// in the order of sending.
    pub(crate) fn rows(&self, scheduler: &str, seed: u64) -> String {
        let mut text = String::with_capacity(100 * (self.messages.len() + self.chunks.len() * 2));
        let head = format!("{},{seed}", csv_field(scheduler));
        for message in &self.messages {
            self.message_row(&mut text, &head, message);
        }
        for chunk in &self.chunks {
            self.chunk_row(&mut text, &head, chunk);
        }
        for packet in &self.packets {
            self.packet_row(&mut text, &head, packet);
        }
        text
    }

    fn message_row(&self, text: &mut String, head: &str, message: &Message) {
        let of = self.of(message);
        let cell = cell::<Micros>;
        let _ = writeln!(
            text,
            "{head},message,{of},,,,,{},,{},{},,{},{},{},{},{},{},{}",
            message.bytes,
            message.offered_us,
            cell(message.due_us),
            cell(message.first_sent_us),
            cell(message.last_sent_us),
            cell(message.arrived_us),
            cell(message.complete_us),
            cell(message.delivered_us),
            cell(message.ended_us),
            fate(message),
        );
    }

    fn chunk_row(&self, text: &mut String, head: &str, chunk: &Chunk) {
        let (message, packet) = (&self.messages[chunk.message], &self.packets[chunk.packet]);
        let _ = writeln!(
            text,
            "{head},chunk,{},{},{},{},{},{},{},{},,{},{},,{},,,,",
            self.of(message),
            csv_field(&self.paths[packet.path]),
            packet.number,
            word(chunk.kind),
            chunk.offset,
            chunk.bytes,
            cell(chunk.arrival.map(|(_, bytes)| bytes)),
            message.offered_us,
            chunk.assigned_us,
            packet.sent_us,
            cell(chunk.arrival.map(|(at, _)| at)),
        );
    }

    fn packet_row(&self, text: &mut String, head: &str, packet: &Packet) {
        let message = &self.messages[packet.message];
        let fate = match packet.fate {
            PacketFate::Sent => "open",
            PacketFate::Acked => "acknowledged",
            PacketFate::Lost => "lost",
            PacketFate::Unknown => "unknown",
        };
        let _ = writeln!(
            text,
            "{head},packet,{},{},{},{},,{},,{},,,{},,{},,,{},{fate}",
            self.of(message),
            csv_field(&self.paths[packet.path]),
            packet.number,
            word(packet.kind),
            packet.bytes,
            message.offered_us,
            packet.sent_us,
            cell(packet.arrived_us),
            cell(packet.ended_us),
        );
    }

    /// Cells shared by all rows of a message: flow, class, number, channel.
    fn of(&self, message: &Message) -> String {
        let (flow, classes) = &self.flows[message.flow];
        let class = classes.get(message.class).map_or("", String::as_str);
        format!("{},{},{},{}", csv_field(flow), csv_field(class), message.index, message.channel)
    }
}

fn cell<T: ToString>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// Delivery overrides the outcome that the sender reported.
fn fate(message: &Message) -> &'static str {
    match message.lost {
        _ if message.delivered_us.is_some() => "delivered",
        None => "open",
        Some(LostReason::Expired) => "expired",
        Some(LostReason::Cancelled) => "cancelled",
        Some(LostReason::Refused) => "refused",
        Some(LostReason::Closed) => "closed",
    }
}

fn word(kind: WorkKind) -> &'static str {
    match kind {
        WorkKind::Fresh => "new",
        WorkKind::Repair => "retransmission",
        WorkKind::Copy => "copy",
        WorkKind::Parity | WorkKind::RunParity => "parity",
    }
}

/// Writes the rows of runs in the order of the runs, whichever ends first.
pub(crate) struct InOrder<W> {
    state: Mutex<State<W>>,
}

struct State<W> {
    out: W,
    /// Next run to write.
    next: usize,
    waiting: HashMap<usize, String>,
}

impl<W: Write> InOrder<W> {
    /// Starts with a row of column names.
    pub(crate) fn new(mut out: W) -> io::Result<Self> {
        writeln!(out, "{}", COLUMNS.join(","))?;
        Ok(Self { state: Mutex::new(State { out, next: 0, waiting: HashMap::new() }) })
    }

    pub(crate) fn write(&self, run: usize, rows: String) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.waiting.insert(run, rows);
        loop {
            let State { out, next, waiting } = &mut *state;
            let Some(rows) = waiting.remove(next) else { return out.flush() };
            out.write_all(rows.as_bytes())?;
            *next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_order_of_the_runs() {
        let mut out = Vec::new();
        let rows = InOrder::new(&mut out).expect("a vector takes all");
        for run in [2, 0, 1] {
            rows.write(run, format!("{run}\n")).expect("a vector takes all");
        }
        let text = String::from_utf8(out).expect("text");
        assert_eq!(text, format!("{}\n0\n1\n2\n", COLUMNS.join(",")));
    }
}
