use squall_units::short::{at_ms, at_us, ms};
use std::time::Duration;

use super::*;
use crate::{Channel, config::LabConfig};

const PATH: PathId = PathId(1);

fn outbox() -> Outbox {
    let limits = Limits { queued_bytes: 10_000, open_blocks: 4, max_block: 5_000, ..Limits::default() };
    let mut outbox = Outbox::new(&Config { limits, ..Config::default() });
    outbox.set_credit(6_000);
    outbox.set_capacity(6_000);
    outbox
}

fn block(len: usize) -> Block {
    Block::new(vec![7; len])
}

fn with(len: usize, options: BlockOptions) -> Block {
    Block::with(vec![7; len], options)
}

/// Admits waiting blocks; returns them.
fn queued(outbox: &mut Outbox) -> Vec<BlockId> {
    let queued = |event| if let SchedEvent::Queued(id) = event { Some(id) } else { None };
    outbox.queue.take_events();
    outbox.admit();
    outbox.queue.take_events().into_iter().filter_map(queued).collect()
}

fn opened(outbox: &mut Outbox, options: &BlockOptions) -> BlockId {
    let id = outbox.open(at_us(0), options).unwrap();
    outbox.admit();
    id
}

fn write(outbox: &mut Outbox, id: BlockId, len: usize) -> Result<(), WriteError> {
    outbox.append(id, vec![7; len].into())?;
    outbox.admit();
    Ok(())
}

/// Returns the bytes of a block in the view of schedulers.
fn shown(outbox: &Outbox, id: BlockId) -> u32 {
    outbox.queue.get(id).unwrap().meta().len
}

#[test]
fn bytes_written_to_an_open_block_are_shown_at_once() {
    let mut outbox = outbox();
    outbox.set_peer_takes(true, true);
    let id = opened(&mut outbox, &BlockOptions::new());
    assert_eq!((shown(&outbox, id), outbox.total(id)), (0, None));
    write(&mut outbox, id, 700).unwrap();
    write(&mut outbox, id, 300).unwrap();
    assert_eq!((shown(&outbox, id), outbox.queued_bytes()), (1_000, 1_000));
    outbox.queue.mark_sent(id, 0..1_000, PATH, at_us(1));
    assert_eq!(outbox.on_acked(id, 0..1_000, PATH, false), None, "more may come");
    outbox.finish(id).unwrap();
    outbox.admit();
    assert_eq!((outbox.total(id), outbox.lacks_end(id)), (Some(1_000), true));
    assert!(outbox.take_end(id) && !outbox.take_end(id), "announced once");
    assert_eq!(outbox.on_end_known(id).map(|ended| ended.ending), Some(Ending::Delivered));
    assert_eq!(write(&mut outbox, id, 1), Err(WriteError::Ended));
    assert_eq!((outbox.finish(id), outbox.queued_bytes()), (Err(WriteError::Ended), 0));
}

#[test]
fn a_chunk_with_the_length_needs_no_announcement() {
    let mut outbox = outbox();
    outbox.set_peer_takes(true, true);
    let id = opened(&mut outbox, &BlockOptions::new());
    write(&mut outbox, id, 1_000).unwrap();
    outbox.finish(id).unwrap();
    outbox.admit();
    outbox.queue.mark_sent(id, 0..1_000, PATH, at_us(1));
    assert_eq!(outbox.on_acked(id, 500..1_000, PATH, true), None);
    assert!(!outbox.take_end(id));
    assert!(outbox.on_acked(id, 0..500, PATH, false).is_some());
}

#[test]
fn an_earlier_peer_gets_what_is_written_as_a_whole() {
    let mut outbox = outbox();
    let id = opened(&mut outbox, &BlockOptions::new());
    write(&mut outbox, id, 700).unwrap();
    outbox.send(at_us(0), block(100)).unwrap();
    assert_eq!(queued(&mut outbox), [BlockId(1)], "it holds up no other");
    assert_eq!(shown(&outbox, id), 0);
    outbox.finish(id).unwrap();
    outbox.admit();
    assert_eq!((shown(&outbox, id), outbox.total(id)), (700, Some(700)));
}

#[test]
fn an_open_block_keeps_to_the_limits_as_it_grows() {
    let mut outbox = outbox();
    outbox.set_peer_takes(true, true);
    let [first, second] = [0; 2].map(|_| opened(&mut outbox, &BlockOptions::new()));
    let too_large = WriteError::TooLarge { len: 5_001, limit: 5_000 };
    assert_eq!(write(&mut outbox, first, 5_001), Err(too_large));
    write(&mut outbox, first, 4_000).unwrap();
    write(&mut outbox, second, 4_000).unwrap();
    assert_eq!((shown(&outbox, first), shown(&outbox, second)), (4_000, 2_000), "the peer's credit");
    write(&mut outbox, first, 1_000).unwrap();
    assert_eq!(shown(&outbox, first), 5_000, "the oldest grows whatever the credit");
    let third = opened(&mut outbox, &BlockOptions::new());
    assert_eq!(write(&mut outbox, third, 1_001), Err(WriteError::Full(vec![7; 1_001].into())));
    outbox.end(first, Ending::Cancelled("test")).unwrap();
    assert!(outbox.take_writable());
    outbox.admit();
    assert_eq!(shown(&outbox, second), 4_000);
    (0..2).for_each(|_| _ = opened(&mut outbox, &BlockOptions::new()));
    assert_eq!(outbox.open(at_us(0), &BlockOptions::new()), Err(OpenError::Full), "four blocks are open");
}

#[test]
fn an_open_block_ends_by_its_deadline_or_by_a_loss() {
    let mut outbox = outbox();
    outbox.set_peer_takes(true, true);
    let options = BlockOptions::new().reliable(false).deadline(Duration::from_millis(10));
    let id = opened(&mut outbox, &options);
    assert_eq!(outbox.overdue(at_ms(10)), Some(id), "from when it was opened");
    assert_eq!(outbox.finish(id), Err(WriteError::Empty));
    write(&mut outbox, id, 1_000).unwrap();
    outbox.queue.mark_sent(id, 0..1_000, PATH, at_us(1));
    assert_eq!(outbox.on_lost(id, 0..500, PATH).map(|ended| ended.ending), Some(Ending::Lost));
    assert_eq!(write(&mut outbox, id, 1), Err(WriteError::Ended));
    assert_eq!((outbox.next_deadline(), outbox.open_blocks()), (None, 0));
}

#[test]
fn a_deadline_beyond_the_end_of_the_clock_is_none() {
    let mut outbox = outbox();
    for far in [Duration::MAX, Duration::from_micros(u64::MAX)] {
        let id = outbox.open(at_us(9), &BlockOptions::new().deadline(far)).unwrap();
        outbox.admit();
        assert_eq!(outbox.queue.get(id).unwrap().meta().deadline, None);
    }
}

#[test]
fn a_block_that_does_not_fit_is_handed_back_with_the_reason() {
    let mut outbox = outbox();
    assert_eq!(outbox.send(at_us(0), block(0)), Err(SendError::Empty));
    assert_eq!(outbox.send(at_us(0), block(5_001)), Err(SendError::TooLarge { len: 5_001, limit: 5_000 }));
    outbox.send(at_us(0), block(5_000)).unwrap();
    outbox.send(at_us(0), block(4_000)).unwrap();
    assert_eq!(outbox.send(at_us(0), block(1_001)), Err(SendError::Full(Box::new(block(1_001)))));
    assert!(!outbox.is_writable());
    outbox.end(BlockId(0), Ending::Cancelled("test")).unwrap();
    assert!(outbox.take_writable());
    assert!(!outbox.take_writable(), "once");
    for _ in 0..3 {
        outbox.send(at_us(0), block(1)).unwrap();
    }
    assert!(matches!(outbox.send(at_us(0), block(1)), Err(SendError::Full(_))), "four blocks are open");
}

#[test]
fn blocks_beyond_the_peers_credit_wait() {
    let mut outbox = outbox();
    for len in [4_000, 3_000, 1_000] {
        outbox.send(at_us(0), block(len)).unwrap();
    }
    assert_eq!(queued(&mut outbox), [BlockId(0)]);
    outbox.queue.mark_sent(BlockId(0), 0..4_000, PATH, at_us(1));
    let ended = outbox.on_acked(BlockId(0), 0..4_000, PATH, false).unwrap();
    assert_eq!((ended.ending, ended.over[1]), (Ending::Delivered, 4_000));
    assert_eq!(queued(&mut outbox), [BlockId(1), BlockId(2)]);
    outbox.set_credit(0);
    outbox.end_all();
    outbox.send(at_us(0), block(2_000)).unwrap();
    assert!(queued(&mut outbox).is_empty(), "the peer's application is slow");
    outbox.set_capacity(1_000);
    assert_eq!(queued(&mut outbox), [BlockId(3)], "the peer can never take it, and is to say so");
}

#[test]
fn an_unreliable_block_ends_when_its_last_byte_has_its_outcome() {
    let mut outbox = outbox();
    outbox.send(at_us(0), with(2_000, BlockOptions::new().reliable(false))).unwrap();
    outbox.admit();
    outbox.queue.mark_sent(BlockId(0), 0..2_000, PATH, at_us(1));
    assert_eq!(outbox.on_lost(BlockId(0), 0..1_000, PATH), None);
    let ended = outbox.on_acked(BlockId(0), 1_000..2_000, PATH, false).unwrap();
    assert_eq!((ended.ending, ended.acked), (Ending::Lost, 1_000));
    assert_eq!(outbox.on_acked(BlockId(0), 0..1_000, PATH, false), None, "one outcome");
    assert_eq!((outbox.queued_bytes(), outbox.open_blocks()), (0, 0));
}

#[test]
fn an_unreliable_block_that_lost_bytes_is_not_sent_to_its_end() {
    let mut outbox = outbox();
    outbox.send(at_us(0), with(3_000, BlockOptions::new().reliable(false))).unwrap();
    outbox.send(at_us(0), block(2_000)).unwrap();
    outbox.admit();
    for id in [0, 1].map(BlockId) {
        outbox.queue.mark_sent(id, 0..1_000, PATH, at_us(1));
        outbox.queue.mark_sent(id, 0..1_000, PathId(0), at_us(1));
        assert_eq!(outbox.on_lost(id, 0..1_000, PATH), None, "a copy is on its way");
    }
    let ended = outbox.on_lost(BlockId(0), 500..1_000, PathId(0)).unwrap();
    assert_eq!((ended.ending, ended.acked), (Ending::Lost, 0));
    assert_eq!(outbox.on_lost(BlockId(1), 0..1_000, PathId(0)), None, "a reliable one is repaired");
    assert_eq!(outbox.open_blocks(), 1);
}

#[test]
fn a_partial_block_that_lost_bytes_is_sent_to_its_end() {
    let mut outbox = outbox();
    let options = BlockOptions::new().reliable(false).partial(true);
    let before_hello = outbox.send(at_us(0), with(1_000, options.clone())).unwrap();
    outbox.admit();
    outbox.queue.mark_sent(before_hello, 0..500, PATH, at_us(1));
    assert!(outbox.on_lost(before_hello, 0..500, PATH).is_some(), "the peer may not hand it over");
    outbox.set_peer_takes(true, true);
    let id = outbox.send(at_us(0), with(1_000, options)).unwrap();
    outbox.admit();
    assert!(outbox.header(id, at_us(0)).is_some_and(|header| header.partial && !header.reliable));
    outbox.queue.mark_sent(id, 0..500, PATH, at_us(1));
    assert_eq!(outbox.on_lost(id, 0..500, PATH), None, "the rest is sent");
    assert_eq!(outbox.queue.get(id).unwrap().unsent_bytes(), 500, "what is lost is not");
    outbox.queue.mark_sent(id, 500..1_000, PATH, at_us(2));
    let ended = outbox.on_acked(id, 500..1_000, PATH, true).unwrap();
    assert_eq!((ended.ending, ended.acked), (Ending::Lost, 500));
}

#[test]
fn an_unreliable_block_ends_with_a_copy_that_is_taken_back() {
    let mut outbox = outbox();
    outbox.send(at_us(0), with(1_000, BlockOptions::new().reliable(false))).unwrap();
    outbox.send(at_us(0), with(1_000, BlockOptions::new().reliable(false))).unwrap();
    outbox.admit();
    let id = BlockId(0);
    outbox.queue.mark_sent(id, 0..1_000, PATH, at_us(1));
    outbox.queue.mark_sent(id, 0..1_000, PathId(0), at_us(1));
    assert_eq!(outbox.on_lost(id, 0..1_000, PATH), None, "a copy is to leave");
    let ended = outbox.on_unsent(id, 0..1_000, PathId(0));
    assert_eq!(ended.map(|ended| ended.ending), Some(Ending::Lost));
    outbox.queue.mark_sent(BlockId(1), 0..1_000, PATH, at_us(1));
    assert_eq!(outbox.on_unsent(BlockId(1), 0..1_000, PATH), None, "it can leave on another path");
}

#[test]
fn parity_completes_blocks_and_takes_of_the_credit() {
    for reliable in [true, false] {
        let mut outbox = outbox();
        outbox.set_credit(5_000);
        outbox.queue.set_largest_symbol(Some(1_000));
        let data = if reliable { block(3_500) } else { with(3_500, BlockOptions::new().reliable(false)) };
        let id = outbox.send(at_us(0), data).unwrap();
        outbox.send(at_us(0), block(1_000)).unwrap();
        outbox.admit();
        assert_eq!(
            outbox.queue.plain().next_parity(id).map(|work| work.range),
            None,
            "there is no credit left"
        );
        outbox.set_credit(7_000);
        outbox.admit();
        assert_eq!(
            outbox.queue.plain().next_parity(id).map(|work| work.range),
            Some(0..2),
            "of 876 bytes each"
        );
        outbox.queue.mark_sent(id, 0..3_500, PATH, at_us(1));
        outbox.queue.of_mut(id).mark_parity_sent(id, 0..2);
        outbox.send(at_us(0), block(1_000)).unwrap();
        assert_eq!(queued(&mut outbox), [], "the credit is for parity too");
        assert_eq!(outbox.parity(id, 1).map(<[u8]>::len), Some(876));
        assert_eq!(outbox.parity(id, 8), None);
        assert_eq!(outbox.on_acked(id, 0..1_752, PATH, true), None);
        assert_eq!(outbox.on_lost(id, 1_752..2_628, PATH), None);
        assert_eq!(outbox.on_acked(id, 2_628..3_500, PATH, true), None, "parity is on its way");
        assert_eq!(outbox.on_parity(id, 0..1, ParityFate::Lost), None);
        let ended = outbox.on_parity(id, 1..2, ParityFate::Acked).unwrap();
        assert_eq!((ended.ending, ended.acked), (Ending::Delivered, 2_624));
        assert_eq!((queued(&mut outbox), outbox.parity_kept), (vec![BlockId(2)], 0));
    }
}

#[test]
fn an_unreliable_block_whose_parity_is_lost_or_taken_back_is_lost() {
    for fate in [ParityFate::Lost, ParityFate::Unsent] {
        let mut outbox = outbox();
        outbox.queue.set_largest_symbol(Some(1_000));
        let id = outbox.send(at_us(0), with(3_000, BlockOptions::new().reliable(false))).unwrap();
        outbox.admit();
        outbox.queue.mark_sent(id, 0..3_000, PATH, at_us(1));
        outbox.queue.of_mut(id).mark_parity_sent(id, 0..1);
        assert_eq!(outbox.on_acked(id, 0..2_000, PATH, true), None);
        assert_eq!(outbox.on_lost(id, 2_000..3_000, PATH), None);
        let ended = outbox.on_parity(id, 0..1, fate);
        assert_eq!(ended.map(|ended| ended.ending), Some(Ending::Lost));
    }
}

/// Three unreliable blocks of 300 bytes in flight, the second without a deadline.
fn small_blocks() -> Outbox {
    let mut outbox = outbox();
    outbox.queue.set_largest_symbol(Some(1_000));
    for id in 0..3 {
        let deadline = (id != 1).then_some(Duration::from_millis(20));
        outbox.send(at_us(0), with(300, BlockOptions::new().reliable(false).deadline(deadline))).unwrap();
        outbox.admit();
        outbox.queue.mark_sent(BlockId(id), 0..300, PATH, at_us(1));
    }
    outbox
}

fn in_run(outbox: &Outbox) -> Vec<bool> {
    outbox.queue.plain().iter().map(squall_sched::Block::is_in_run).collect()
}

#[test]
fn a_run_is_as_long_as_a_packet_can_name() {
    let mut outbox = small_blocks();
    assert_eq!(outbox.begin_run(at_ms(5), BlockId(0), 0, 1_200), None);
    // Type, length, stamp, three numbers: 11 bytes; 300 of data and 9 of header; 3 for a member, 2 without a deadline.
    assert_eq!(outbox.begin_run(at_ms(5), BlockId(0), 2, 325), Some(310));
    assert_eq!(in_run(&outbox), [true, true, false]);
    let (run, symbol) = outbox.run_symbol(BlockId(0), 1, at_ms(10)).unwrap();
    let left: Vec<_> = run.members.iter().map(|member| (member.block, member.left)).collect();
    assert_eq!((left, run.index, symbol.len()), (vec![(0, Some(10_000)), (1, None)], 1, 310));
    assert!(outbox.run_symbol(BlockId(0), 2, at_ms(10)).is_none(), "two were asked for");
    outbox.on_run(BlockId(0), &(1..2), ParityFate::Unsent);
    assert!(outbox.runs.is_empty());
    assert_eq!(in_run(&outbox), [true, true, false], "the first symbol has left");
    assert_eq!(outbox.begin_run(at_ms(5), BlockId(2), 1, 1_200), Some(310));
    outbox.on_run(BlockId(2), &(0..1), ParityFate::Unsent);
    assert_eq!(in_run(&outbox), [true, true, false], "the last has another chance");
}

#[test]
fn what_a_run_may_have_replaced_is_waited_for() {
    let mut outbox = small_blocks();
    assert_eq!(outbox.on_rebuilt(BlockId(0)), None, "it is in no run");
    outbox.begin_run(at_us(0), BlockId(0), 1, 1_200).unwrap();
    let mut ending = |id| outbox.on_lost(BlockId(id), 0..300, PATH).map(|ended| ended.ending);
    assert_eq!(
        [ending(0), ending(1), ending(2)],
        [None, Some(Ending::Lost), None],
        "the second would wait for ever"
    );
    let ended = outbox.on_rebuilt(BlockId(0)).unwrap();
    assert_eq!((ended.ending, ended.acked), (Ending::Delivered, 300));
    assert_eq!((outbox.overdue(at_ms(20)), outbox.on_rebuilt(BlockId(0))), (Some(BlockId(2)), None));
}

#[test]
fn everything_may_be_reliable_by_order() {
    let limits = Limits { queued_bytes: 100, ..Limits::default() };
    let mut outbox = Outbox::new(&Config {
        limits,
        lab: LabConfig { all_reliable: true, ..LabConfig::default() },
        ..Config::default()
    });
    outbox.send(at_us(0), with(60, BlockOptions::new().reliable(false))).unwrap();
    let back = outbox.send(at_us(0), with(60, BlockOptions::new().reliable(false)));
    assert_eq!(
        back,
        Err(SendError::Full(Box::new(with(60, BlockOptions::new().reliable(false))))),
        "handed back as it came"
    );
    outbox.admit();
    assert!(outbox.queue.get(BlockId(0)).unwrap().meta().reliable);
    outbox.queue.mark_sent(BlockId(0), 0..60, PATH, at_us(1));
    assert_eq!(outbox.on_lost(BlockId(0), 0..60, PATH), None, "to be sent again");
}

#[test]
fn deadlines_may_be_for_the_scheduler_alone() {
    for (expire, left) in [(true, Some(ms(15))), (false, None)] {
        let mut outbox =
            Outbox::new(&Config { lab: LabConfig { expire, ..LabConfig::default() }, ..Config::default() });
        outbox.send(at_us(0), with(10, BlockOptions::new().deadline(Duration::from_millis(20)))).unwrap();
        outbox.admit();
        let meta = *outbox.queue.get(BlockId(0)).unwrap().meta();
        assert_eq!(meta.deadline, Some(at_ms(20)), "the scheduler has it");
        assert_eq!(outbox.time_left(&meta, at_ms(5)), left);
        assert_eq!(outbox.next_deadline().is_some(), expire);
        assert_eq!(outbox.overdue(at_ms(30)).is_some(), expire);
        assert!(outbox.end(BlockId(0), Ending::Delivered).is_some());
    }
}

#[test]
fn deadlines_come_in_order_and_end_with_the_block() {
    let mut outbox = outbox();
    outbox.send(at_us(0), with(10, BlockOptions::new().deadline(Duration::from_millis(20)))).unwrap();
    outbox.send(at_us(0), with(10, BlockOptions::new().deadline(Duration::from_millis(10)))).unwrap();
    assert_eq!(outbox.next_deadline(), Some(at_ms(10)));
    assert_eq!(outbox.overdue(at_us(9_999)), None);
    assert_eq!(outbox.overdue(at_ms(10)), Some(BlockId(1)));
    outbox.end(BlockId(1), Ending::Expired).unwrap();
    assert_eq!(outbox.next_deadline(), Some(at_ms(20)));
    assert_eq!(outbox.end(BlockId(1), Ending::Expired), None, "one outcome");
}

#[test]
fn ordered_blocks_name_the_one_before_on_their_channel() {
    let mut outbox = outbox();
    outbox.send(at_us(0), with(1, BlockOptions::new().channel(Channel::new(3)).ordered(true))).unwrap();
    outbox.send(at_us(0), with(1, BlockOptions::new().channel(Channel::new(3)))).unwrap();
    outbox.send(at_us(0), with(1, BlockOptions::new().channel(Channel::new(4)).ordered(true))).unwrap();
    outbox.send(at_us(0), with(1, BlockOptions::new().channel(Channel::new(3)).ordered(true))).unwrap();
    let previous: Vec<_> = (0..4).map(|i| outbox.payloads[&BlockId(i)].previous).collect();
    assert_eq!(previous, [Some(0), None, Some(0), Some(3)]);
}

/// Returns the dependencies of a block with these options.
fn needs(outbox: &mut Outbox, channel: u16, depends: Depends) -> [Option<u64>; 2] {
    let id = outbox
        .send(at_us(0), with(1, BlockOptions::new().channel(Channel::new(channel)).depends(depends)))
        .unwrap();
    queued(outbox);
    let needs = outbox.queue.get(id).unwrap().meta().needs;
    outbox.end(id, Ending::Delivered).unwrap();
    needs.map(|need| need.map(|need| need.0))
}

#[test]
fn each_channel_has_its_own_chain_of_references() {
    use Depends::{Disposable, Key, Nothing, Reference};
    let mut outbox = outbox();
    let sent = [
        (0, Reference, None),
        (0, Disposable, Some(0)),
        (1, Disposable, None),
        (0, Key, None),
        (0, Nothing, None),
        (0, Reference, Some(3)),
        (0, Disposable, Some(5)),
        (0, Reference, Some(5)),
        (1, Reference, None),
        (1, Reference, Some(8)),
        (0, Disposable, Some(7)),
    ];
    for (channel, depends, need) in sent {
        assert_eq!(needs(&mut outbox, channel, depends), [need, None], "{depends:?} on {channel}");
    }
}

#[test]
fn named_blocks_are_older_and_start_no_chain() {
    let mut outbox = outbox();
    assert_eq!(needs(&mut outbox, 0, Depends::On([Some(BlockId(0)), Some(BlockId(1))])), [None; 2]);
    let named = Depends::On([None, Some(BlockId(0))]);
    assert_eq!(needs(&mut outbox, 0, named), [None, Some(0)]);
    assert_eq!(needs(&mut outbox, 0, Depends::Reference), [None; 2]);
    let growing = opened(&mut outbox, &BlockOptions::new().depends(Depends::Reference).value(9));
    let meta = *outbox.queue.get(growing).unwrap().meta();
    assert_eq!((meta.needs, meta.value), ([Some(BlockId(2)), None], 9));
}

#[test]
fn a_value_is_that_of_the_priority_unless_it_is_set() {
    let mut outbox = outbox();
    let blocks = [
        block(1),
        with(1, BlockOptions::new().priority(crate::Priority::FIRST)),
        with(1, BlockOptions::new().value(0).priority(crate::Priority::FIRST)),
    ];
    let values = blocks.map(|block| {
        let id = outbox.send(at_us(0), block).unwrap();
        queued(&mut outbox);
        outbox.queue.get(id).unwrap().meta().value
    });
    assert_eq!(values, [256, 16_384, 0]);
}

/// A key frame and a picture that needs it, the first with all bytes in flight.
fn key_in_flight() -> (Outbox, BlockId, BlockId) {
    key_in_flight_with(BlockOptions::new())
}

fn key_in_flight_with(options: BlockOptions) -> (Outbox, BlockId, BlockId) {
    let mut outbox = outbox();
    outbox.set_peer_takes(true, true);
    let options = options.depends(Depends::Key).deadline(Duration::from_millis(1));
    let key = outbox.send(at_us(0), with(1_000, options)).unwrap();
    let picture = outbox.send(at_us(0), with(10, BlockOptions::new().depends(Depends::Reference))).unwrap();
    queued(&mut outbox);
    outbox.queue.mark_sent(key, 0..1_000, PATH, at_us(1));
    (outbox, key, picture)
}

#[test]
fn what_expired_in_flight_is_missing_only_when_it_is_lost() {
    let (mut outbox, key, picture) = key_in_flight();
    outbox.end(key, Ending::Expired).unwrap();
    assert!(!outbox.queue.plain().is_orphan(picture), "it may have arrived in time");
    assert_eq!(outbox.on_acked(key, 0..400, PATH, true), None);
    assert_eq!(outbox.on_lost(key, 400..1_000, PATH), None);
    assert!(outbox.queue.plain().is_orphan(picture));

    let (mut outbox, key, picture) = key_in_flight();
    outbox.end(key, Ending::Expired).unwrap();
    outbox.on_acked(key, 0..1_000, PATH, true);
    outbox.on_lost(key, 0..1_000, PATH);
    assert!(!outbox.queue.plain().is_orphan(picture), "delivered");
}

#[test]
fn a_partial_block_is_missing_only_if_none_of_it_arrives() {
    for (partial, arrived, is_early) in [
        (true, 0..0, true),
        (true, 0..1, true),
        (true, 900..1_000, false),
        (false, 0..999, true),
        (false, 1..999, false),
    ] {
        let (mut outbox, key, picture) = key_in_flight_with(BlockOptions::new().partial(partial));
        if !is_early {
            outbox.end(key, Ending::Expired).unwrap();
        }
        outbox.on_acked(key, arrived.clone(), PATH, true);
        outbox.on_lost(key, 0..1_000, PATH);
        outbox.end(key, Ending::Expired);
        let is_missing = !partial || arrived.is_empty();
        assert_eq!(outbox.queue.plain().is_orphan(picture), is_missing, "{partial} {arrived:?} {is_early}");
    }
}

#[test]
fn a_refused_block_and_one_that_never_had_room_are_missing_at_once() {
    let (mut outbox, key, picture) = key_in_flight();
    outbox.end(key, Ending::Refused(RefuseReason::TooLarge)).unwrap();
    assert!(outbox.queue.plain().is_orphan(picture));

    let mut outbox = self::outbox();
    outbox.set_credit(10);
    outbox.send(at_us(0), block(10)).unwrap();
    let key = outbox.send(at_us(0), with(10, BlockOptions::new().depends(Depends::Key))).unwrap();
    let picture = outbox.send(at_us(0), with(10, BlockOptions::new().depends(Depends::Disposable))).unwrap();
    queued(&mut outbox);
    outbox.end(key, Ending::Expired).unwrap();
    outbox.set_credit(6_000);
    queued(&mut outbox);
    assert!(outbox.queue.plain().is_orphan(picture));
    assert_eq!(
        outbox.queue.plain().dependants(key).map(|block| block.meta().id).collect::<Vec<_>>(),
        [picture]
    );
}
