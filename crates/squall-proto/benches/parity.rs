//! Cost of parity: encoding a block, and rebuilding one that lacks a twentieth of its symbols, at
//! least one.
//!
//! The sizes are those of frames of 3, 16 and 30 Mbps at 30 a second, in symbols of 1,200 bytes.

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use squall_proto::parity;

const SYMBOL: u32 = 1200;

fn parity_of_blocks(criterion: &mut Criterion) {
    for (name, rebuild) in [("encode", false), ("rebuild", true)] {
        let mut group = criterion.benchmark_group(name);
        for symbols in [10, 55, 105u32] {
            let data: Vec<u8> = (0..symbols * SYMBOL).map(|at| ((at * 7) >> 3) as u8).collect();
            let parity = parity::encode(&data, SYMBOL).expect("has parity");
            let lost = (symbols / 20).max(1);
            group.throughput(Throughput::Bytes(data.len() as u64));
            group.bench_function(BenchmarkId::from_parameter(symbols), |bencher| {
                if !rebuild {
                    return bencher.iter(|| parity::encode(black_box(&data), SYMBOL));
                }
                let damaged = || {
                    let mut damaged = data.clone();
                    damaged[..(lost * SYMBOL) as usize].fill(0);
                    damaged
                };
                bencher.iter_batched_ref(
                    damaged,
                    |block| {
                        let symbols = (0..lost).zip(parity.chunks(SYMBOL as usize));
                        assert!(parity::rebuild(block, SYMBOL, |index| index >= lost, symbols));
                        assert!(block[..] == data[..]);
                    },
                    BatchSize::SmallInput,
                );
            });
        }
        group.finish();
    }
}

criterion_group!(benches, parity_of_blocks);
criterion_main!(benches);
