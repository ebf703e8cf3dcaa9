//! The code of parity: systematic Reed-Solomon over the symbols of a block.
//!
//! It is the Leopard code over GF(2¹⁶) as implemented by the crate `reed-solomon-simd` (Lin,
//! Al-Naffouri, Han, Chung: "Novel Polynomial Basis with Fast Fourier Transform and Its Application
//! to Reed-Solomon Erasure Codes", 2016). It depends on the number of data symbols and on that of
//! parity symbols ([`parity_symbols`]). Its tables use 9 MiB from the first use on.

use reed_solomon_simd::{
    Error, ReedSolomonEncoder,
    engine::{DefaultEngine, Engine, GF_MODULUS, GF_ORDER, GfElement, ShardsRefMut, tables, utils},
    rate::{DefaultRateDecoder, RateDecoder},
};
use squall_sched::{MAX_DATA_SYMBOLS, parity_symbols};

/// Returns all parity symbols of a block, concatenated. `None` if it is empty, or has more than
/// [`MAX_DATA_SYMBOLS`] of this size, or the size is odd or 0.
pub fn encode(data: &[u8], symbol_size: u32) -> Option<Vec<u8>> {
    let size = symbol_size as usize;
    let symbols = count(data.len(), symbol_size)?;
    let encode = || -> Result<Vec<u8>, Error> {
        let parity = parity_symbols(symbols) as usize;
        if symbols == 1 {
            return Ok(padded(data, size).repeat(parity));
        }
        let mut encoder = ReedSolomonEncoder::new(symbols as usize, parity, size)?;
        let (whole, rest) = data.split_at(data.len() / size * size);
        for symbol in whole.chunks_exact(size) {
            encoder.add_original_shard(symbol)?;
        }
        if !rest.is_empty() {
            encoder.add_original_shard(padded(rest, size))?;
        }
        let mut out = Vec::with_capacity(parity * size);
        encoder.encode()?.recovery_iter().for_each(|symbol| out.extend_from_slice(symbol));
        Ok(out)
    };
    encode().ok()
}

/// Writes the missing data symbols, from the others and from parity symbols with their numbers.
/// Returns `true` if there were enough of both.
pub fn rebuild<'a>(
    data: &mut [u8],
    symbol_size: u32,
    is_there: impl Fn(u32) -> bool,
    parity: impl IntoIterator<Item = (u32, &'a [u8])>,
) -> bool {
    let size = symbol_size as usize;
    let Some(symbols) = count(data.len(), symbol_size) else { return false };
    if symbols == 1 {
        // Each parity symbol is a copy.
        let copy = parity.into_iter().next().filter(|_| !is_there(0));
        let Some((_, symbol)) = copy else { return is_there(0) };
        data.copy_from_slice(&symbol[..data.len()]);
        return true;
    }
    let decode = || -> Result<(), Error> {
        let (symbols, most) = (symbols as usize, parity_symbols(symbols) as usize);
        let engine = Direct(DefaultEngine::new());
        let mut decoder = DefaultRateDecoder::new(symbols, most, size, engine, None)?;
        for (index, symbol) in data.chunks(size).enumerate().filter(|(index, _)| is_there(*index as u32)) {
            match symbol.len() {
                len if len == size => decoder.add_original_shard(index, symbol)?,
                _ => decoder.add_original_shard(index, padded(symbol, size))?,
            }
        }
        for (index, symbol) in parity {
            decoder.add_recovery_shard(index as usize, symbol)?;
        }
        for (index, symbol) in decoder.decode()?.restored_original_iter() {
            let start = index * size;
            let end = data.len().min(start + size);
            data[start..end].copy_from_slice(&symbol[..end - start]);
        }
        Ok(())
    };
    decode().is_ok()
}

/// Returns the number of data symbols of a block; `None` if it can have no parity.
fn count(len: usize, symbol_size: u32) -> Option<u32> {
    let symbols = u32::try_from(len).ok()?.checked_add(symbol_size.checked_sub(1)?)? / symbol_size;
    let valid = symbol_size.is_multiple_of(2) && (1..=MAX_DATA_SYMBOLS).contains(&symbols);
    valid.then_some(symbols)
}

fn padded(symbol: &[u8], size: usize) -> Vec<u8> {
    let mut padded = symbol.to_vec();
    padded.resize(size, 0);
    padded
}

/// The engine of the crate, except that the locator of missing symbols is evaluated directly where
/// that is less work.
///
/// The crate transforms all 65,536 elements of the field, which is 0.8 ms for a block of two
/// symbols or of a thousand. A small code needs few of them.
struct Direct(DefaultEngine);

/// Number of additions that takes about as long as the transforms.
const MOST_ADDITIONS: usize = 1 << 20;

impl Engine for Direct {
    fn fft(&self, data: &mut ShardsRefMut<'_>, at: usize, size: usize, truncated: usize, skew: usize) {
        self.0.fft(data, at, size, truncated, skew);
    }

    fn ifft(&self, data: &mut ShardsRefMut<'_>, at: usize, size: usize, truncated: usize, skew: usize) {
        self.0.ifft(data, at, size, truncated, skew);
    }

    fn mul(&self, x: &mut [[u8; 64]], log: GfElement) {
        self.0.mul(x, log);
    }

    /// Computes for each place the sum of the logarithms of its distances to the missing places,
    /// which are marked with a 1.
    fn eval_poly(erasures: &mut [GfElement; GF_ORDER], truncated: usize) {
        // With few data symbols all places after the parity count as missing. The logarithms of all
        // distances add up to 0, so the sum over the missing places is that over the others, with
        // the other sign.
        let rest = GfElement::from(truncated == GF_ORDER);
        let end = match rest {
            0 => truncated,
            _ => erasures.iter().rposition(|missing| *missing == 0).map_or(0, |last| last + 1),
        };
        let places: Vec<usize> = (0..end).filter(|place| erasures[*place] != rest).collect();
        if end * places.len() > MOST_ADDITIONS {
            return utils::eval_poly(erasures, truncated);
        }
        let log = &tables::get_exp_log().log;
        for (at, sum) in erasures[..end].iter_mut().enumerate() {
            let others = places.iter().filter(|place| **place != at);
            let logs: u64 = others.map(|place| u64::from(log[at ^ place])).sum();
            let logs = (logs % u64::from(GF_MODULUS)) as GfElement;
            *sum = if rest == 0 { logs } else { GF_MODULUS - logs };
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn content(len: usize) -> Vec<u8> {
        (0..len as u64).map(|at| (at * at % 251) as u8 ^ (at >> 8) as u8).collect()
    }

    /// `docs/wire.md` contains the same symbols: the code must not change.
    #[test]
    fn symbols_are_as_specified() {
        let parity = encode(b"hello", 6).expect("has parity");
        assert_eq!(
            (parity.len(), &parity[..6]),
            (8 * 6, b"hello\0".as_slice()),
            "of one symbol each is a copy"
        );
        let data: Vec<u8> = (0..=255).collect();
        let third = &encode(&data, 64).expect("has parity")[128..136];
        let words: String = third.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(include_str!("../../../docs/wire.md").contains(&format!("begins with `{words}`")), "{words}");
    }

    #[test]
    fn what_has_no_parity() {
        assert!(encode(&[], 100).is_none() && encode(&[1; 10], 0).is_none() && encode(&[1; 10], 3).is_none());
        assert!(encode(&[1; 2048], 2).is_some() && encode(&[1; 2049], 2).is_none());
        assert!(!rebuild(&mut [0; 10], 3, |_| true, []));
    }

    #[test]
    fn too_few_symbols_change_nothing() {
        let data = content(1000);
        let parity = encode(&data, 100).expect("has parity");
        let mut damaged = data.clone();
        damaged[300..500].fill(0);
        let before = damaged.clone();
        let there = |index| index != 3 && index != 4;
        assert!(!rebuild(&mut damaged, 100, there, [(7, &parity[700..])]));
        assert_eq!(damaged, before);
        assert!(
            !rebuild(&mut damaged, 100, there, [(7, &parity[700..]), (7, &parity[700..])]),
            "twice the same"
        );
        assert!(rebuild(&mut damaged, 100, there, [(7, &parity[700..]), (0, &parity[..100])]));
        assert_eq!(damaged, data);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// The locator equals that of the crate, modulo the order of the field's group, at the
        /// places that a decoder reads.
        #[test]
        fn the_locator_is_the_same(
            data in prop_oneof![1..40_usize, 1..1024_usize],
            missing in prop::collection::vec(any::<u16>(), 1..200),
        ) {
            let parity = parity_symbols(data as u32) as usize;
            let is_high = data > parity;
            let (first, second) = if is_high { (parity, data) } else { (data, parity) };
            let start = first.next_power_of_two();
            let end = start + second;
            let mut ours = Box::new([0; GF_ORDER]);
            missing.iter().for_each(|place| ours[usize::from(*place) % end] = 1);
            if is_high {
                ours[first..start].fill(1);
            } else {
                ours[end - 1] = 0;
                ours[end..].fill(1);
            }
            let (truncated, mut theirs) = (if is_high { end } else { GF_ORDER }, ours.clone());
            Direct::eval_poly(&mut ours, truncated);
            utils::eval_poly(&mut theirs, truncated);
            for at in 0..end {
                prop_assert_eq!(ours[at] % GF_MODULUS, theirs[at] % GF_MODULUS, "{}", at);
            }
        }

        /// Any set of as many symbols as there are data symbols rebuilds a block.
        #[test]
        fn enough_symbols_rebuild_a_block(
            len in prop_oneof![1..3000usize, 1..300_000usize],
            size in 300..700u32,
            order in any::<u64>(),
        ) {
            let size = 2 * size;
            let data = content(len);
            let parity = encode(&data, size).expect("has parity");
            let symbols = len.div_ceil(size as usize);
            let all = symbols + parity.len() / size as usize;
            // A permutation of all symbols, the first of which are received.
            let mut numbers: Vec<_> = (0..all).collect();
            let hash = |n: &usize| (*n as u64 ^ order).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
            numbers.sort_by_key(hash);
            let chosen = &numbers[..symbols];
            let mut damaged = data.clone();
            for (index, symbol) in damaged.chunks_mut(size as usize).enumerate() {
                if !chosen.contains(&index) {
                    symbol.fill(0xee);
                }
            }
            let parts = parity.chunks(size as usize).zip(symbols..).filter(|(_, at)| chosen.contains(at));
            let parts = parts.map(|(symbol, at)| ((at - symbols) as u32, symbol));
            prop_assert!(rebuild(&mut damaged, size, |index| chosen.contains(&(index as usize)), parts));
            prop_assert!(damaged == data);
        }
    }
}
