//! Squall: by value, risk and price.
//!
//! The four papers have four partial answers: STORM has radios and reliability, DAMS deadlines,
//! NineTails tails, AUGUR a budget. This scheduler has one prediction, the arrival time of the next
//! packet on each path, and five rules that use it.
//!
//! **Prediction** (`arrivals.rs`). Bytes in flight on a path arrive first, at the rate of its
//! controller. Let `R` be that rate, `F` the bytes in flight and waiting, `B` half the smallest
//! round trip, `d` the latest measured delay, `w` the time until a full window opens, and `s` the
//! time for which proof of delivery has been overdue, if that is longer than noise explains:
//!
//! ```text
//! T(x) = max(w + d, (F + x) / R − B) + s
//! ```
//!
//! Outages have no typical length: a path that has been silent for `s` is expected to stay silent
//! for as long again.
//!
//! **Rules**, in this order:
//!
//! 1. *Needs* (`without=needs`). A block is useless while one that it needs is missing or has to
//!    wait.
//! 2. *Rescue* (`rescue.rs`, `without=rescue`). Bytes in flight on silent paths alone are copied to
//!    another one at the last moment at which the copy is in time. Most silences end before that;
//!    then nothing is copied.
//! 3. *Parity* (`parity.rs`, `without=parity`). A block that has left gets parity if a loss would
//!    be repaired too late: enough that one block in 200 needs a repair, at the measured loss, but
//!    no packet that is worth more in a block that waits. It takes another path than the data.
//!    Blocks of one packet share their parity with those that follow them on their channel.
//! 4. *Order* (`order.rs`, `without=value`). By deadline. As soon as a block exceeds the bytes that
//!    the paths can deliver before its deadline, the block with the least value for each byte that
//!    is still to be sent waits, and with it the blocks that need it. The value of a block includes
//!    that of the blocks that need it, so references are kept, and so are blocks that have begun to
//!    leave.
//! 5. *Place* (`without=place`). A block is divided so that its parts arrive together, behind
//!    everything that is ahead of it. A packet takes a path that has room if that division assigns
//!    it there; a packet that the division assigns to a full path waits for it. A metered path
//!    takes part if the block could be late without it, or earlier by `price`; an earlier block
//!    that waits for a full path takes its place there. Blocks that have to wait or are useless
//!    leave only where no queue stands: a path that is given nothing is never measured again, but
//!    later blocks must not queue behind them.
//!
//! | option | unit | default | meaning |
//! | --- | --- | --- | --- |
//! | `price` | ms | `none` | a block takes a metered path if it then arrives earlier by this much; `none`: only if it could be late |
//! | `latency` | ms | 100 | time within which a block without a deadline should arrive |
//! | `without` | name | `nothing` | leaves out one rule, for comparisons (feature `lab`): `needs`, `rescue`, `parity`, `value`, `place`, `silence` |
//!
//! Without `place` each packet takes the path with the lowest smoothed round trip that has room;
//! without `silence` `s` is 0. Any number of paths. `docs/notebook/squall.md` has the measurements, and the
//! variants that were tried and left out.

mod arrivals;
mod next;
mod order;
mod parity;
mod rescue;

use self::{arrivals::Arrivals, next::Next, order::Order, rescue::MARGIN};
use crate::{
    Assignment, Block, BlockMeta, BuildError, Context, Decision, Entry, OptionSpec, Options, Profile,
    SchedEvent, Scheduler, Sharing, Span, Time, allocation::Shares,
};

pub(super) const ENTRY: Entry = Entry {
    name: "squall",
    summary: "by value, risk and price: what can be in time, over paths that arrive together, with parity and rescue",
    source: "Squall",
    options: &[
        OptionSpec {
            name: "price",
            default: "none",
            help: "ms, 0 to 60000, or none; a block takes a metered path if it arrives earlier by so much, or else only \
                   if it could be late",
        },
        OptionSpec {
            name: "latency",
            default: "100",
            help: "ms, 1 to 60000; within which a block without a deadline should arrive",
        },
        #[cfg(feature = "lab")]
        OptionSpec {
            name: "without",
            default: "nothing",
            help: "a rule that is left out: needs, rescue, parity, value, place or silence",
        },
    ],
    signal: false,
};

/// Default of the option `latency`.
const LATENCY_MS: u64 = 100;

pub(super) fn build(options: &mut Options) -> Result<Box<dyn Scheduler>, BuildError> {
    let price = options.take("price", Price(None))?;
    let latency = Span::from_millis(options.take_in("latency", LATENCY_MS, 1..=60_000)?);
    #[cfg(feature = "lab")]
    let without = options.take("without", Rule::Nothing)?;
    #[cfg(not(feature = "lab"))]
    let without = Rule::Nothing;
    Ok(Box::new(Squall { price: price.0, latency, without, order: Order::default() }))
}

impl Default for Squall {
    fn default() -> Self {
        Self {
            price: None,
            latency: Span::from_millis(LATENCY_MS),
            without: Rule::Nothing,
            order: Order::default(),
        }
    }
}

/// A time in milliseconds, or none.
struct Price(Option<Span>);

impl std::str::FromStr for Price {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" {
            return Ok(Self(None));
        }
        let millis = text.parse().map_err(|_| "must be none, or ms from 0 to 60000")?;
        if millis > 60_000 {
            return Err("must be none, or ms from 0 to 60000");
        }
        Ok(Self(Some(Span::from_millis(millis))))
    }
}

/// The rule that the option `without` leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Nothing,
    Needs,
    Rescue,
    Parity,
    Value,
    Place,
    Silence,
}

#[cfg(feature = "lab")]
impl std::str::FromStr for Rule {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "nothing" => Ok(Self::Nothing),
            "needs" => Ok(Self::Needs),
            "rescue" => Ok(Self::Rescue),
            "parity" => Ok(Self::Parity),
            "value" => Ok(Self::Value),
            "place" => Ok(Self::Place),
            "silence" => Ok(Self::Silence),
            _ => Err("must be nothing, needs, rescue, parity, value, place or silence"),
        }
    }
}

/// Schedules by value, risk and price.
#[derive(Clone, Debug)]
pub struct Squall {
    price: Option<Span>,
    latency: Span,
    without: Rule,
    order: Order,
}

impl Scheduler for Squall {
    fn next(&mut self, cx: &Context<'_>) -> Decision {
        let arrivals = Arrivals::of(cx, self.has(Rule::Silence));
        if self.order.is_obsolete(cx) {
            self.order.make(cx, &arrivals, self.has(Rule::Needs), self.has(Rule::Value));
        }
        let mut wake = self.order.review_at(cx);
        for protect in [Self::rescue, Self::parity] {
            match protect(self, cx, &arrivals) {
                Next::Send(assignment) => return Decision::Send(assignment),
                Next::Wait(at) => wake = wake.into_iter().chain(at).min(),
            }
        }
        match self.place(cx, &arrivals).or_else(|| self.fill(cx, &arrivals)) {
            Some(assignment) => Decision::Send(assignment),
            None => Decision::Idle { wake },
        }
    }

    fn on_event(&mut self, event: &SchedEvent, _: &Context<'_>) {
        self.order.on_event(event);
    }

    fn profile(&self) -> Profile {
        Profile {
            wants_parity: self.has(Rule::Parity),
            judges_deadlines: self.has(Rule::Value),
            takes_joint_reports: true,
            // An encoder should not fill metered paths.
            sharing: Sharing::Free,
            ..Profile::default()
        }
    }
}

impl Squall {
    fn has(&self, rule: Rule) -> bool {
        self.without != rule
    }

    fn rescue(&self, cx: &Context<'_>, arrivals: &Arrivals) -> Next {
        if !self.has(Rule::Rescue) {
            return Next::Wait(None);
        }
        let waiting = self.order.kept(cx).next();
        let waiting = waiting.map(|block| block.meta().deadline.unwrap_or(Time::MAX));
        rescue::next(cx, arrivals, |meta| self.wanted_by(meta), waiting)
    }

    fn parity(&self, cx: &Context<'_>, arrivals: &Arrivals) -> Next {
        if !self.has(Rule::Parity) {
            return Next::Wait(None);
        }
        parity::next(cx, arrivals, self.order.opportunity_cost(), |meta| self.wanted_by(meta))
    }

    /// Returns the first packets of the order that belong on a path that has room. If that path
    /// costs money and a later block is worth it, an earlier one that arrives sooner that way is
    /// sent first: that costs no more, and both have more time.
    fn place(&self, cx: &Context<'_>, arrivals: &Arrivals) -> Option<Assignment> {
        if !self.has(Rule::Place) {
            let path = cx.fastest_with_room()?;
            let work = self.order.kept(cx).next()?.next_work()?;
            return Some(Assignment::new(work, path.id, "lowest RTT with window left"));
        }
        arrivals.ready().find_map(|index| {
            let (mut ahead, mut earlier) = (0_u32, None);
            self.order.kept(cx).find_map(|block| {
                let bytes = to_send(block);
                let (share, finish) = self.share(cx, arrivals, index, ahead, block);
                ahead = ahead.saturating_add(bytes);
                let work = block.next_work()?;
                if share == 0 {
                    if earlier.is_none() && arrivals.after(index, bytes.into()) < finish {
                        earlier = Some((block, work));
                    }
                    return None;
                }
                let (block, work) = earlier.take().unwrap_or((block, work));
                let part = Assignment::new(work, cx.paths[index].id, "arrives with the rest").at_most(share);
                Some(self.forecast(cx, arrivals, index, block, part))
            })
        })
    }

    /// Returns a packet of a block that is useless or cannot be in time, for a path that carries
    /// little: a path that is given nothing is never measured again. Metered paths carry it if no
    /// other delivers, because their rate matters then, or if it is all that its flow has and could
    /// be late without them: its uselessness is a guess.
    fn fill(&self, cx: &Context<'_>, arrivals: &Arrivals) -> Option<Assignment> {
        let has_free = (0..cx.paths.len()).any(|index| !arrivals.is_dear(index) && arrivals.delivers(index));
        let kept: u32 = self.order.kept(cx).map(to_send).fold(0, u32::saturating_add);
        arrivals.ready().filter(|index| arrivals.is_calm(*index)).find_map(|index| {
            let is_spared = arrivals.is_dear(index) && has_free;
            let mut ahead = kept;
            let (block, work) = self.order.filler(cx).find_map(|block| {
                let before = ahead;
                ahead = ahead.saturating_add(to_send(block));
                let takes = !is_spared
                    || is_all_of_its_flow(cx, block) && self.share(cx, arrivals, index, before, block).0 > 0;
                Some((block, block.next_work()?)).filter(|_| takes)
            })?;
            let path = &cx.paths[index];
            let part = Assignment::new(work, path.id, "keeps the path measured").at_most(path.chunk);
            Some(self.forecast(cx, arrivals, index, block, part))
        })
    }

    /// Adds the predicted times to an assignment.
    fn forecast(
        &self,
        cx: &Context<'_>,
        arrivals: &Arrivals,
        index: usize,
        block: &Block,
        part: Assignment,
    ) -> Assignment {
        let bytes = part.range.end - part.range.start;
        part.expected(cx.now + arrivals.after(index, bytes.into()), self.wanted_by(block.meta()))
    }

    /// Returns the time by which a block should arrive.
    fn wanted_by(&self, meta: &BlockMeta) -> Time {
        let by = meta.submitted + self.latency;
        meta.deadline.unwrap_or(by)
    }

    /// Returns the bytes of a block that belong on a path, behind `ahead` bytes of others, and the
    /// time until all of it has arrived.
    fn share(
        &self,
        cx: &Context<'_>,
        arrivals: &Arrivals,
        index: usize,
        ahead: u32,
        block: &Block,
    ) -> (u32, Span) {
        let bytes = to_send(block);
        let all = ahead.saturating_add(bytes);
        let shares = self.divide(cx, arrivals, all, block.meta());
        let share = shares.bytes[index].min(bytes);
        let size = block.symbol_end(0).unwrap_or(cx.paths[index].chunk).max(1);
        let turn = if block.expected_bytes() > 0 { arrivals.turn(index, &shares, size) } else { u32::MAX };
        if share == bytes {
            return (share.min(turn), shares.finish);
        }
        // Round to the nearest whole packet.
        let packets = (share + size / 2) / size;
        // With equal parts, the last packets are half a packet or less on each path. The largest
        // part gets them.
        let is_largest = shares.bytes.iter().all(|other| *other <= shares.bytes[index]);
        let share = size * if is_largest { packets.max(1) } else { packets };
        (share.min(turn), shares.finish)
    }

    /// Divides the bytes up to the end of a block over the paths that take part in it.
    fn divide(&self, cx: &Context<'_>, arrivals: &Arrivals, bytes: u32, meta: &BlockMeta) -> Shares {
        let shares = arrivals.divide(bytes, |_| true);
        if (0..cx.paths.len()).all(|index| !arrivals.is_dear(index) || shares.bytes[index] == 0) {
            return shares;
        }
        let free = arrivals.divide(bytes, |index| !arrivals.is_dear(index));
        let is_late = cx.now + free.finish + arrivals.late_for_free() + MARGIN > self.wanted_by(meta);
        let saves = self.price.is_some_and(|price| free.finish >= shares.finish + price);
        if free.left == 0 && !is_late && !saves { free } else { shares }
    }
}

/// Returns the bytes that are to be sent, or expected.
fn to_send(block: &Block) -> u32 {
    block.unsent_bytes().saturating_add(block.expected_bytes())
}

/// Returns `true` if the block is useless, and so are all later ones of its flow.
fn is_all_of_its_flow(cx: &Context<'_>, block: &Block) -> bool {
    let id = block.meta().id;
    cx.queue.is_orphan(id) && !cx.queue.is_superseded(id)
}
