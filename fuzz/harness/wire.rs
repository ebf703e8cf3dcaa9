//! Decodes arbitrary bytes as a datagram: decoded items are within their bounds, and encode to the
//! same bytes.

use squall_proto::{
    sched::{MAX_DATA_SYMBOLS, MAX_RUN, parity_symbols},
    wire::{Data, Item, Items, MAX_CHANNELS, Repair, RunParity},
};

/// Panics if the decoder violates a property.
pub(crate) fn check(input: &[u8]) {
    let mut items = Vec::new();
    let mut failed = false;
    for item in Items::of(input) {
        assert!(!failed, "nothing follows an error");
        match item {
            Ok(item) => items.push(item),
            Err(error) => {
                failed = true;
                assert!(!error.to_string().is_empty());
            }
        }
    }
    let mut encoded = Vec::new();
    for (at, item) in items.iter().enumerate() {
        if let Item::Data(data, payload) = item {
            assert_eq!(at + 1, items.len(), "DATA takes the rest of the datagram");
            check_data(data, payload);
        }
        if let Item::Repair(repair, payload) = item {
            check_repair(repair, payload);
        }
        if let Item::RunParity(run, payload) = item {
            check_run(run, payload);
        }
        item.encode(&mut encoded);
    }
    assert!(encoded.len() <= input.len(), "no field grows");
    let again: Vec<_> = Items::of(&encoded).map(|item| item.expect("what was encoded is valid")).collect();
    assert_eq!(again, items);
}

fn check_data(data: &Data, payload: &[u8]) {
    assert!(!payload.is_empty() || data.total == Some(data.offset), "bytes, or the end");
    let longest = data.total.unwrap_or(squall_proto::sched::MAX_BLOCK);
    assert!(data.offset as usize + payload.len() <= longest as usize, "within its block");
    assert!(longest > 0 && longest <= squall_proto::sched::MAX_BLOCK);
    assert!(data.channel < MAX_CHANNELS);
    assert!(data.priority < squall_proto::sched::PRIORITIES);
    assert!(data.previous.is_none_or(|back| back <= data.block));
    let mut alone = Vec::new();
    data.encode_with(data.even_offset_len(), payload, &mut alone);
    assert_eq!(alone.len(), data.header_len(data.even_offset_len()) + payload.len());
}

fn check_repair(repair: &Repair, payload: &[u8]) {
    let total = repair.block.total.expect("is final");
    let symbols = total.div_ceil(repair.symbol_size);
    assert!(symbols <= MAX_DATA_SYMBOLS && repair.index < parity_symbols(symbols));
    assert!(repair.symbol_size.is_multiple_of(2) && (symbols == 1 || repair.symbol_size >= 64));
    assert!(repair.symbol_size <= total.next_multiple_of(2) && payload.len() == repair.symbol_size as usize);
    assert!(repair.block.offset == 0 && repair.block.channel < MAX_CHANNELS);
    let mut alone = Vec::new();
    Item::Repair(repair.clone(), payload).encode(&mut alone);
    assert_eq!(alone.len(), repair.header_len() + payload.len());
}

fn check_run(run: &RunParity, payload: &[u8]) {
    assert!((1..=MAX_RUN).contains(&run.members.len()));
    assert!(run.members.windows(2).all(|pair| pair[0].block < pair[1].block));
    assert!(run.index < parity_symbols(run.members.len() as u32));
    assert!(
        payload.len() == run.symbol_size as usize && payload.len().is_multiple_of(2) && !payload.is_empty()
    );
    let mut alone = Vec::new();
    Item::RunParity(run.clone(), payload).encode(&mut alone);
    assert_eq!(alone.len(), run.encoded_len());
}
