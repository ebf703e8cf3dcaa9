//! A picture of what each scheduler does with the same blocks on the same paths.
//!
//! Every scheduler plays the `scene` in virtual time, with the sessions and links of every other experiment
//! (`play`), after a `rehearsal` that gives all of them the same windows and estimates. What their logs say
//! becomes `bars`, drawn as one `panel` each on one `sheet`. The same schedulers give the same picture, to the
//! byte.

mod axis;
mod bars;
mod ink;
mod panel;
mod play;
mod rehearsal;
mod scene;
mod sheet;

use std::sync::Arc;

use squall_proto::sched::{BuildError, Registry};

use crate::{parallel, world::WorldError};
use play::play;

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    /// No such scheduler, or not with these options.
    #[error(transparent)]
    Scheduler(#[from] BuildError),
    /// The paths or the endpoints could not be made.
    #[error(transparent)]
    World(#[from] WorldError),
}

/// From the plain to the elaborate, each after those that it builds on.
const ORDER: [&str; 17] = [
    "sp",
    "rr",
    "minrtt",
    "ecf",
    "blest",
    "srpt-ecf",
    "dems",
    "dams",
    "dams-c",
    "dams-robust",
    "ras",
    "redundant",
    "ninetails",
    "raven",
    "augur-retransmit",
    "augur-switch",
    "augur",
];

/// All schedulers of a registry in the order in which a reader meets them best: from the plain to the
/// elaborate, and at the end those that this order does not know.
pub fn reading_order(registry: &Registry) -> Vec<String> {
    let mut names: Vec<&str> = registry.entries().map(|entry| entry.name).collect();
    names.sort_by_key(|name| ORDER.iter().position(|known| known == name).unwrap_or(ORDER.len()));
    names.into_iter().map(str::to_owned).collect()
}

/// Draws what these schedulers do, one panel each, as an SVG file. They are named as scenarios name them,
/// with options and suffix; see [`Contender`](crate::Contender). `done` is called whenever one more is ready.
///
/// # Errors
/// If a scheduler is unknown, or does not take its options.
pub fn svg(
    schedulers: &[String],
    registry: &Arc<Registry>,
    done: &(dyn Fn() + Sync),
) -> Result<String, PictureError> {
    let plays = parallel::each(schedulers, |scheduler| {
        let played = play(scheduler, registry);
        done();
        played
    })?;
    Ok(sheet::draw(&plays))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::{play::Play, *};
    use bars::Bar;
    use play::Outcome;
    use scene::{BLOCKS, LANES, LOSS_US};
    use squall_proto::sched::WorkKind;

    fn registry() -> Arc<Registry> {
        Arc::new(Registry::standard())
    }

    fn plays() -> Vec<Play> {
        let registry = registry();
        reading_order(&registry).iter().map(|name| play(name, &registry).expect("is registered")).collect()
    }

    #[test]
    fn a_picture_has_a_panel_for_each_and_is_the_same_every_time() {
        let registry = registry();
        let names = reading_order(&registry);
        let ready = AtomicUsize::new(0);
        let first = svg(&names, &registry, &|| {
            ready.fetch_add(1, Ordering::Relaxed);
        });
        let first = first.expect("all are registered");
        assert_eq!(ready.into_inner(), names.len());
        let panels: Vec<&str> = first.split("<g class=\"panel\"").skip(1).collect();
        assert_eq!(panels.len(), registry.entries().count());
        for (name, panel) in names.iter().zip(panels) {
            assert!(panel.starts_with(&format!(" data-scheduler=\"{name}\"")), "{name}");
            for block in 0..BLOCKS.len() {
                assert_eq!(panel.matches(&format!("\"life k{block}\"")).count(), 1, "{name}");
            }
            let ends = panel.matches(" ms</text>").count() + panel.matches(" ms, ").count();
            assert_eq!(ends, BLOCKS.len() + 1, "{name}: one of each block, and one on the axis");
        }
        assert_eq!(first, svg(&names, &registry, &|| ()).expect("as before"));
    }

    #[test]
    fn links_carry_one_packet_at_a_time_and_lose_those_of_one_moment() {
        for play in plays() {
            for (path, bars) in play.lanes.iter().enumerate() {
                for pair in bars.windows(2) {
                    assert!(pair[0].to <= pair[1].from, "{}: {pair:?}", play.scheduler);
                }
                for bar in bars {
                    assert!(bar.from < bar.to);
                    let within = LOSS_US.contains(&bar.to);
                    assert_eq!(bar.lost, path == 0 && within, "{}: {bar:?}", play.scheduler);
                }
            }
        }
    }

    #[test]
    fn what_arrived_is_what_was_sent() {
        for play in plays() {
            let all =
                || play.lanes.iter().zip(&LANES).flat_map(|(bars, lane)| bars.iter().map(move |b| (b, lane)));
            for (block, (given, outcome)) in BLOCKS.iter().zip(play.outcomes).enumerate() {
                let own = || all().filter(|(bar, _)| bar.block == block);
                let sum = |take: &dyn Fn(&Bar) -> bool| -> u32 {
                    own().filter(|(bar, _)| take(bar)).map(|(bar, _)| bar.bytes).sum()
                };
                let what = format!("{} {block}: {outcome:?}", play.scheduler);
                assert!(sum(&|bar| bar.kind == WorkKind::Fresh) as usize <= given.size, "{what}");
                let Outcome::Arrived(at) = outcome else { continue };
                // The end of a block may travel in a packet with the beginning of another, as whose it is drawn.
                assert!(sum(&|bar| !bar.lost) as usize + 1_500 >= given.size, "{what}");
                // Rounded up to microseconds on the way.
                let last = all().any(|(bar, lane)| !bar.lost && (bar.to + lane.delay_us()).abs_diff(at) <= 2);
                assert!(last, "{what}: no packet ends then");
            }
        }
    }

    #[test]
    fn schedulers_differ_in_what_they_do() {
        let of = |name: &str| play(name, &registry()).expect("is registered");
        let (single, redundant, deadlines) = (of("sp"), of("redundant"), of("dams"));
        assert!(single.lanes[1].is_empty());
        assert!(redundant.lanes[1].iter().any(|bar| bar.kind == WorkKind::Copy));
        let in_time = |play: &Play| {
            let met = |(outcome, given): (&Outcome, &scene::Given)| matches!(outcome, Outcome::Arrived(at) if *at <= given.deadline_us);
            play.outcomes.iter().zip(&BLOCKS).filter(|pair| met(*pair)).count()
        };
        assert_eq!((in_time(&single), in_time(&deadlines)), (2, 3));
        assert!(of("sp-R").lanes[0].len() >= single.lanes[0].len());
    }

    #[test]
    fn a_cap_counts_from_the_handing_over() {
        let over_b = |name: &str| -> u32 {
            let play = play(name, &registry()).expect("is registered");
            play.lanes[1].iter().map(|bar| bar.bytes).sum()
        };
        let (capped, free) = (over_b("rr(cap=35kB)"), over_b("rr"));
        assert!((10_000..35_000).contains(&capped) && free > 35_000, "{capped} and {free}");
    }

    #[test]
    fn options_and_suffix_are_part_of_the_name() {
        let one = svg(&["sp(path=1)-R".to_owned()], &registry(), &|| ()).expect("is registered");
        assert!(one.contains("data-scheduler=\"sp(path=1)-R\"") && one.contains("; every block reliably<"));
        let error = svg(&["sp(pth=1)".to_owned()], &registry(), &|| ()).expect_err("has no such option");
        assert_eq!(error.to_string(), "scheduler 'sp' has no option 'pth'; it has path, cap");
    }

    #[test]
    fn what_the_order_does_not_know_comes_last() {
        let mut registry = Registry::standard();
        let entry = *registry.entries().next().expect("there are some");
        registry.register(squall_proto::sched::Entry { name: "aaa", ..entry }, |_| {
            unreachable!("it is only listed")
        });
        let names = reading_order(&registry);
        assert_eq!(names.first().map(String::as_str), Some("sp"));
        assert_eq!(names.len(), registry.entries().count());
        assert!(names.iter().position(|name| name == "aaa") >= Some(ORDER.len()));
    }
}
