//! Division of a block over paths by water-filling.
//!
//! Path *i* could finish `x` bytes of a block at time `start + x / rate`, where `start` is the time
//! at which it would finish its first byte. If `start` is the time when the path is free, "finish"
//! means to send, and equal finish times are DAMS's equal sending end (INFOCOM 2022, §III-C). If
//! the one-way delay is added, "finish" means to arrive, and equal finish times are DEMS's
//! simultaneous completion (MobiCom 2017) and Eq. 4 of STORM (USENIX ATC 2025). Either way the
//! sizes follow from one level T that all paths are filled up to:
//!
//! ```text
//! Σ min(limit_i, rate_i · max(0, T − start_i)) = size
//! ```
//!
//! as water in connected basins of different widths and floors. A path whose floor lies above the
//! level gets nothing; one that reaches its limit gets no more, and the level of the others rises.

use crate::{MAX_PATHS, Span};

/// The properties of a path that matter for dividing a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pipe {
    /// Time from now at which its first byte would be finished.
    pub start: Span,
    /// Rate in bits per second.
    pub rate: u64,
    /// Largest number of bytes that the path accepts.
    pub limit: u64,
}

/// A block divided over pipes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares {
    /// Bytes for each pipe, in their order; zero beyond the number of pipes.
    pub bytes: [u32; MAX_PATHS],
    /// Bytes that no pipe accepts, because all are at their limits.
    pub left: u32,
    /// Common finish time, from now, of the pipes that are not at their limits. Rounded up to
    /// microseconds.
    pub finish: Span,
}

impl Shares {
    /// Creates the shares before any of `size` bytes is divided.
    pub fn none(size: u32) -> Self {
        Self { bytes: [0; MAX_PATHS], left: size, finish: Span::ZERO }
    }
}

/// A time at which a pipe begins to fill, or is full.
#[derive(Clone, Copy)]
struct Bend {
    at: f64,
    /// Change of the total fill rate of all pipes, in bytes per microsecond.
    change: f64,
}

/// Divides `size` bytes over at most [`MAX_PATHS`] pipes so that all that take part finish at the
/// same time. Every byte is assigned unless all pipes are at their limits; pipes without a rate get
/// nothing.
///
/// # Panics
/// If there are more pipes than [`MAX_PATHS`].
pub fn fill(size: u32, pipes: &[Pipe]) -> Shares {
    assert!(pipes.len() <= MAX_PATHS, "more pipes than paths");
    let level = level(f64::from(size), pipes);
    let mut shares = Shares { finish: Span::from_micros(level.ceil() as u64), ..Shares::none(size) };
    for (share, pipe) in shares.bytes.iter_mut().zip(pipes) {
        let bytes =
            (bytes_per_micro(pipe) * (level - pipe.start.micros() as f64).max(0.0)).min(pipe.limit as f64);
        // Rounding up avoids a rest of a fraction of a byte.
        let bytes = (bytes.ceil() as u32).min(shares.left);
        *share = u32::try_from(pipe.limit).map_or(bytes, |limit| bytes.min(limit));
        shares.left -= *share;
    }
    shares
}

/// Returns the level up to which the pipes must be filled to hold `size`; the last bend if they
/// cannot.
fn level(size: f64, pipes: &[Pipe]) -> f64 {
    let mut bends = [Bend { at: 0.0, change: 0.0 }; 2 * MAX_PATHS];
    let mut count = 0;
    for pipe in pipes.iter().filter(|p| p.rate > 0 && p.limit > 0) {
        let rate = bytes_per_micro(pipe);
        bends[count] = Bend { at: pipe.start.micros() as f64, change: rate };
        count += 1;
        if pipe.limit < u64::from(u32::MAX) {
            bends[count] = Bend { at: pipe.start.micros() as f64 + pipe.limit as f64 / rate, change: -rate };
            count += 1;
        }
    }
    let bends = &mut bends[..count];
    bends.sort_unstable_by(|a, b| a.at.total_cmp(&b.at));
    let (mut held, mut rate, mut at) = (0.0, 0.0, 0.0);
    for bend in bends {
        let before = held + rate * (bend.at - at);
        if before >= size {
            break;
        }
        held = before;
        rate += bend.change;
        at = bend.at;
    }
    // Rates that cancel out leave a rounding error far below a byte a second.
    if rate > 1e-6 && size > held { at + (size - held) / rate } else { at }
}

fn bytes_per_micro(pipe: &Pipe) -> f64 {
    pipe.rate as f64 / 8e6
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};
    use squall_units::short::{ms, us};

    use super::*;

    const ALL: u64 = u64::MAX;

    fn pipe(start_ms: u64, mbps: u64) -> Pipe {
        Pipe { start: ms(start_ms), rate: mbps * 1_000_000, limit: ALL }
    }

    #[test]
    fn two_paths_arrive_together() {
        // 20 Mbps = 2.5 kB/ms after 15 ms; 10 Mbps = 1.25 kB/ms after 40 ms; 100 kB.
        // 2.5·(T − 15) + 1.25·(T − 40) = 100  ⇒  3.75 T = 187.5  ⇒  T = 50 ms.
        let shares = fill(100_000, &[pipe(15, 20), pipe(40, 10)]);
        assert_eq!((shares.bytes[0], shares.bytes[1], shares.left), (87_500, 12_500, 0));
        assert_eq!(shares.finish, ms(50));
    }

    #[test]
    fn a_path_that_would_be_late_by_itself_takes_nothing() {
        // 50 kB on the first path alone take 20 ms and finish at 35 ms, before the second could.
        let shares = fill(50_000, &[pipe(15, 20), pipe(40, 10)]);
        assert_eq!((shares.bytes[0], shares.bytes[1], shares.finish), (50_000, 0, ms(35)));
    }

    #[test]
    fn without_delays_the_rates_decide() {
        // Equal sending end from the same start: in proportion to 4 : 2 : 1.
        let shares = fill(70_000, &[pipe(0, 40), pipe(0, 20), pipe(0, 10)]);
        assert_eq!(shares.bytes[..3], [40_000, 20_000, 10_000]);
        assert_eq!(shares.finish, ms(8));
    }

    #[test]
    fn a_full_pipe_leaves_the_rest_to_the_others() {
        // In proportion 60 and 30 kB; the first holds 15, so the second carries 75 kB in 60 ms.
        let limited = Pipe { limit: 15_000, ..pipe(0, 20) };
        let shares = fill(90_000, &[limited, pipe(0, 10)]);
        assert_eq!((shares.bytes[0], shares.bytes[1], shares.left), (15_000, 75_000, 0));
        assert_eq!(shares.finish, ms(60));
    }

    #[test]
    fn what_fits_nowhere_is_left() {
        let pipes = [
            Pipe { limit: 10, ..pipe(0, 20) },
            Pipe { rate: 0, ..pipe(0, 1) },
            Pipe { limit: 5, ..pipe(9, 1) },
        ];
        let shares = fill(100, &pipes);
        assert_eq!((shares.bytes[0], shares.bytes[1], shares.bytes[2], shares.left), (10, 0, 5, 85));
        assert_eq!(fill(100, &[]).left, 100);
        assert_eq!(fill(0, &pipes).bytes, [0; MAX_PATHS]);
    }

    fn any_pipe() -> impl Strategy<Value = Pipe> {
        let limit = prop_oneof![3 => Just(ALL), 1 => 0..200_000u64];
        (0..500_000u64, 0..200u64, limit).prop_map(|(start, mbps, limit)| Pipe {
            start: us(start),
            rate: mbps * 500_000,
            limit,
        })
    }

    proptest! {
        #[test]
        fn bytes_are_conserved_and_finish_times_equal(size in 1..5_000_000u32, pipes in vec(any_pipe(), 0..=MAX_PATHS)) {
            let shares = fill(size, &pipes);
            prop_assert_eq!(shares.bytes.iter().sum::<u32>() + shares.left, size);
            for (i, (pipe, bytes)) in pipes.iter().zip(shares.bytes).enumerate() {
                prop_assert!(u64::from(bytes) <= pipe.limit && (bytes == 0 || pipe.rate > 0));
                if pipe.rate == 0 {
                    continue;
                }
                let done = pipe.start.micros() as f64 + f64::from(bytes) / bytes_per_micro(pipe);
                // Rounding may add a byte to each pipe.
                let slack = MAX_PATHS as f64 / bytes_per_micro(pipe) + 1.0;
                if bytes > 0 {
                    prop_assert!(done <= shares.finish.micros() as f64 + slack, "pipe {} is done too late", i);
                }
                if u64::from(bytes) + (MAX_PATHS as u64) < pipe.limit {
                    prop_assert!(done >= shares.finish.micros() as f64 - slack, "pipe {} could have helped", i);
                }
            }
            let room = pipes.iter().any(|p| p.rate > 0 && p.limit > u64::from(u32::MAX));
            prop_assert!(shares.left == 0 || !room);
        }

        #[test]
        fn a_further_pipe_never_makes_it_later(size in 1..1_000_000u32, pipes in vec(any_pipe(), 1..MAX_PATHS), more in any_pipe()) {
            prop_assume!(pipes.iter().any(|p| p.rate > 0 && p.limit == ALL));
            let alone = fill(size, &pipes);
            let with = fill(size, &[pipes, vec![more]].concat());
            prop_assert!(with.finish <= alone.finish + us(1));
        }
    }
}
