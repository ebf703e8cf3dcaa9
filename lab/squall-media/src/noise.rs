//! Seeded noise without state: the same arguments always return the same value.

/// Mixes a seed and two coordinates to 64 well-spread bits (the finaliser of `SplitMix64`).
pub(crate) fn hash(seed: u64, a: u64, b: u64) -> u64 {
    let mut z = seed
        .wrapping_add(a.wrapping_mul(0x9E37_79B9_7F4A_7C15))
        .wrapping_add(b.wrapping_mul(0xD1B5_4A32_D192_ED03));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A value in 0..1 from a seed and two coordinates.
pub(crate) fn unit(seed: u64, a: u64, b: u64) -> f32 {
    (hash(seed, a, b) >> 40) as f32 / (1u64 << 24) as f32
}

/// Smooth value noise at (`x`, `y`) in lattice cells, in −1..1; repeats every `period` cells of `x`.
pub(crate) fn value(seed: u64, x: f32, y: f32, period: u64) -> f32 {
    let (x0, y0) = (x.floor(), y.floor());
    let (fx, fy) = (ease(x - x0), ease(y - y0));
    let (column, row) = (x0 as u64 % period, y0 as u64);
    let next = (column + 1) % period;
    let top = mix(unit(seed, column, row), unit(seed, next, row), fx);
    let bottom = mix(unit(seed, column, row + 1), unit(seed, next, row + 1), fx);
    mix(top, bottom, fy) * 2.0 - 1.0
}

/// `octaves` layers of [`value`], each of half the cell size and `gain` times the weight, in about −1..1.
pub(crate) fn layered(seed: u64, x: f32, y: f32, period: u64, octaves: u32, gain: f32) -> f32 {
    let (mut sum, mut weight, mut total) = (0.0, 1.0, 0.0);
    for octave in 0..octaves {
        let zoom = (1u64 << octave) as f32;
        sum += weight * value(seed + u64::from(octave), x * zoom, y * zoom, period << octave);
        total += weight;
        weight *= gain;
    }
    sum / total
}

fn ease(t: f32) -> f32 {
    t * t * (3.0 - 2.0 * t)
}

fn mix(a: f32, b: f32, t: f32) -> f32 {
    a + (b - a) * t
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_repeats_and_stays_in_range() {
        for step in 0..200u8 {
            let (x, y) = (f32::from(step) * 0.37, f32::from(step) * 0.11);
            let here = layered(7, x, y, 16, 4, 0.5);
            let there = layered(7, x + 16.0, y, 16, 4, 0.5);
            assert!(here.abs() <= 1.0 && (here - there).abs() < 1e-3, "{here} {there}");
        }
        assert_ne!(hash(1, 2, 3), hash(1, 3, 2));
    }
}
