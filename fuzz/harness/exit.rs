//! An exit on loopback, and a hostile client with the token: messages, blocks and parts of blocks
//! in any order.
//!
//! The exit must answer the next message or close the session with a reason, no task of it may
//! fail, and a closed session must leave no state.

use std::{net::UdpSocket, sync::LazyLock, time::Duration};

use bytes::Bytes;
use squall::{
    Arrival, Block, BlockOptions, BlockWriter, Channel, CloseReason, Connect, Endpoint, Interfaces, Session,
    Trust,
};
use squall_units::short::{at_us, us};
use tokio::time::{Instant, sleep, timeout_at};

use super::Input;
use crate::{
    Config, FlowConfig, Tunnel,
    config::{IdentityConfig, ListenConfig, Side, Token, read_list},
    media::Class,
    wire::control::{CHANNEL, Message, Offer, VERSION, Verdict},
    wire::frame::Frame,
};

/// Token of the exit.
const TOKEN: &str = "a token for fuzzing";
/// Token of the tenant.
const TENANT: &str = "another for fuzzing";

/// Generation in the last message of an input, which is answered.
const LAST: u32 = 0xfeed;

/// Limit of anything that hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// Names of flows that end at the exit, of one that enters there, and others.
const NAMES: [&str; 6] = ["soon", "steady", "back", "loose", "no such flow", "\u{202e}x"];

/// The exit, shared by all inputs.
static WORLD: LazyLock<World> = LazyLock::new(World::new);

struct World {
    runtime: tokio::runtime::Runtime,
    exit: Tunnel,
    client: Endpoint,
    request: Connect,
    /// Socket that receives the datagrams of the flows, and sends those that enter at the exit.
    outside: UdpSocket,
    enters: std::net::SocketAddr,
}

/// Panics if the exit violates a property.
pub fn exit(input: &[u8]) {
    WORLD.runtime.block_on(WORLD.lie_to_it(Input(input)));
}

impl World {
    fn new() -> Self {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().expect("a runtime");
        let bind = || UdpSocket::bind("127.0.0.1:0").expect("is bound");
        let outside = bind();
        outside.set_nonblocking(true).expect("is set");
        let to = outside.local_addr().expect("is bound");
        let enters = bind().local_addr().expect("is bound");
        let flow = |text: String, enters| FlowConfig::parse(&text, enters).expect("is a flow");
        let flows = vec![
            flow(format!("soon=udp://{to}"), false),
            flow(format!("steady=udp://{to},playout=steady,latency=30ms"), false),
            flow(format!("loose=udp://{to},order=false"), false),
            flow(format!("back=udp://{enters}"), true),
        ];
        let listen = ListenConfig::new(([127, 0, 0, 1], 0).into(), IdentityConfig::Fresh);
        let token = Token::new(TOKEN).expect("is long enough");
        let mut config = Config { flows, max_sessions: 1_000, ..Config::new(Side::Listen(listen), token) };
        let hash = Token::new(TENANT).expect("is long enough").hash();
        let tenant = format!(
            r#"[[tenant]]
name = "tenant"
token_sha256 = "{hash}"
limits = {{ max_sessions = 2, rate_in = "100kbps", rate_out = "100kbps" }}
flow = [{{ name = "soon", out = "udp://{to}" }}, {{ name = "loose", out = "udp://{to}", order = false }}]
"#
        );
        config.tenants.list = read_list("a list", &tenant).expect("is right");
        let (exit, client) = runtime.block_on(async {
            let exit = Tunnel::start(config).await.expect("starts");
            (exit, Endpoint::client(squall::Config::default()).expect("starts"))
        });
        let request = Connect::to(exit.listening().expect("it listens"))
            .trust(Trust::Pinned(exit.fingerprint().expect("it listens")))
            .interfaces(Interfaces::Local(vec![([127, 0, 0, 1]).into()]));
        Self { runtime, exit, client, request, outside, enters }
    }

    async fn lie_to_it(&self, mut input: Input<'_>) {
        let session = self.client.connect(self.request.clone()).await.expect("connects");
        let mut liar = Liar { session, writers: Vec::new() };
        let begin = input.byte();
        if begin & 7 != 0 {
            let token = if begin & 8 == 0 { TOKEN } else { TENANT }.as_bytes().to_vec();
            liar.say(&Message::Hello { version: VERSION, token, features: begin >> 4 });
        }
        while !input.0.is_empty() && liar.session.close_reason().is_none() {
            let op = input.byte();
            match op % 12 {
                9 => sleep(Duration::from_millis(u64::from(input.byte() % 8))).await,
                10 => self.traffic(&mut input),
                11 => tokio::task::yield_now().await,
                _ => liar.step(op, &mut input),
            }
        }
        liar.writers.drain(..).for_each(|writer| drop(writer.cancel()));
        liar.say(&Message::Flows { generation: LAST, flows: Vec::new() });
        liar.answered().await;
        liar.session.close(0, "");
        self.nothing_is_left().await;
    }

    /// Sends datagrams of the flow that enters at the exit.
    fn traffic(&self, input: &mut Input<'_>) {
        for _ in 0..=input.byte() % 8 {
            let length = 1 + usize::from(input.byte()) * 5;
            // The system may have no room for it.
            let _ = self.outside.send_to(&vec![7; length], self.enters);
        }
    }

    async fn nothing_is_left(&self) {
        let begin = Instant::now();
        loop {
            let mut datagram = [0; 2_048];
            while self.outside.recv_from(&mut datagram).is_ok() {}
            let status = self.exit.status();
            let failures: Vec<_> = status.events.iter().filter(|event| event.kind == "task").collect();
            assert_eq!(status.task_failures, 0, "{failures:#?}");
            if status.sessions.is_empty() {
                assert!(status.flows.iter().all(|flow| !flow.attached), "a flow belongs to no session");
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "a session stays: {:#?}", status.sessions);
            sleep(Duration::from_micros(200)).await;
        }
    }
}

/// The hostile client.
struct Liar {
    session: Session,
    /// Blocks that it has begun.
    writers: Vec<BlockWriter>,
}

impl Liar {
    fn say(&self, message: &Message) {
        self.send(CHANNEL, message.encode(), true);
    }

    /// Sends a block, unless the session is over, has no room, or rejects the block.
    fn send(&self, channel: u16, block: impl Into<Bytes>, ordered: bool) {
        let block = Block::with(block, BlockOptions::new().channel(Channel::new(channel)).ordered(ordered));
        let _ = self.session.try_send(block);
    }

    fn step(&mut self, op: u8, input: &mut Input<'_>) {
        match op % 12 {
            0 => {
                let length = usize::from(input.byte());
                self.send(CHANNEL, input.take(length), op & 0x80 == 0);
            }
            1 | 2 => self.say(&flows(input)),
            3 => self.say(&answer(input)),
            4 if op & 0x80 != 0 => {
                self.say(&Message::Goaway { left_ms: op.into(), exits: vec!["elsewhere:1".to_owned()] });
            }
            4 => {
                let token = input.take(usize::from(op >> 4));
                self.say(&Message::Hello { version: op >> 4 & 3, token, features: op });
            }
            5 | 6 => {
                let (channel, frame) = (channel(input), frame(input));
                self.send(channel, frame, op & 0x80 == 0);
            }
            7 => {
                let (channel, length) = (channel(input), usize::from(input.byte()));
                self.send(channel, input.take(length), op & 0x80 == 0);
            }
            _ => self.write(input),
        }
    }

    /// Begins or continues a block: a frame, cut anywhere.
    fn write(&mut self, input: &mut Input<'_>) {
        let flags = input.byte();
        if flags & 3 == 0 || self.writers.is_empty() {
            let mut options = BlockOptions::new().channel(Channel::new(channel(input)));
            options.ordered = flags & 0x10 != 0;
            options.deadline = (flags & 0x20 != 0).then(|| Duration::from_millis((flags >> 6).into()));
            self.writers.extend(self.session.try_open(&options).ok());
            return;
        }
        let at = usize::from(flags >> 2) % self.writers.len();
        match flags & 3 {
            1 => {
                let frame = frame(input);
                let cut = usize::from(input.byte()).min(frame.len());
                let _ = self.writers[at].try_append(frame.slice(..cut));
            }
            2 => {
                let length = usize::from(input.byte());
                let _ = self.writers[at].try_append(input.take(length));
            }
            _ if flags & 0x80 == 0 => drop(self.writers.swap_remove(at).finish()),
            _ => drop(self.writers.swap_remove(at).cancel()),
        }
    }

    /// Waits for the answer to the last message, or the end of the session.
    async fn answered(&self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let next = timeout_at(deadline, self.session.recv_any()).await;
            match next.unwrap_or_else(|_| panic!("no answer, and no end")) {
                Ok(Some(Arrival::Block(block))) if block.channel.get() == CHANNEL => {
                    let message = Message::decode(&block.data).expect("the exit is well-behaved");
                    if matches!(message, Message::Answer { generation: LAST, .. }) {
                        return;
                    }
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => break,
            }
        }
        match self.session.close_reason() {
            Some(CloseReason::ByPeer { code, reason }) => {
                // A burst that arrives before the token counts as one of an unauthenticated peer.
                let is_flood = code == 1 && reason.starts_with("flood");
                assert!(
                    is_flood || (16..=21).contains(&code) && !reason.is_empty(),
                    "closed with {code}: {reason}"
                );
            }
            other => panic!("the session ended by itself: {other:?}"),
        }
    }
}

fn channel(input: &mut Input<'_>) -> u16 {
    let number = u16::from(input.byte());
    // Mostly channels of the first offers of either side.
    if number & 0x80 == 0 { 1 + number % 8 } else { (number & 0x7f) << 3 }
}

fn flows(input: &mut Input<'_>) -> Message {
    let flags = input.byte();
    let offer = |input: &mut Input<'_>| Offer {
        channel: channel(input).max(1),
        latency: us(u64::from(input.byte()) << (flags & 0x18)),
        name: NAMES[usize::from(input.byte()) % NAMES.len()].to_owned(),
    };
    let mut flows: Vec<Offer> = (0..flags & 7).map(|_| offer(input)).collect();
    flows.dedup_by_key(|offer| offer.channel);
    Message::Flows { generation: flags.into(), flows }
}

fn answer(input: &mut Input<'_>) -> Message {
    let verdicts = [Verdict::Accepted, Verdict::Unknown, Verdict::Taken];
    let verdict = |input: &mut Input<'_>| {
        let verdict = verdicts[usize::from(input.byte()) % verdicts.len()];
        (channel(input).max(1), verdict)
    };
    let count = input.byte() % 4;
    Message::Answer { generation: count.into(), verdicts: (0..count).map(|_| verdict(input)).collect() }
}

/// Builds a frame whose header comes from the input, with datagrams.
fn frame(input: &mut Input<'_>) -> Bytes {
    let (number, time) = (input.byte(), input.byte());
    let scale = |byte: u8| u64::from(byte & 0x0f) << (u32::from(byte >> 4) * 3);
    let stamp = scale(time);
    let mut frame = Frame::new(at_us(stamp), 0).without_nulls(number & 2 != 0);
    frame.class = [Class::Key, Class::Reference][usize::from(number & 1)];
    for n in 0..=number >> 6 {
        frame.push(at_us(stamp + u64::from(n) * scale(number)), &vec![n; usize::from(input.byte())]);
    }
    frame.seal(at_us(stamp + scale(input.byte())), scale(number), us(scale(input.byte())))
}
