//! Bounds that no scheduler can exceed for the blocks of a run.

use crate::bound::{Clairvoyant, Demand, Demands, Supply};
use crate::flow::Direction;
use crate::offer::Offer;
use crate::result::{DirectionBound, FlowResult, RunResult};
use crate::scenario::Scenario;

/// All blocks that were offered.
#[derive(Default)]
pub(super) struct Offered(Vec<Block>);

struct Block {
    flow: usize,
    offer: Offer,
}

impl Offered {
    pub(super) fn add(&mut self, flow: usize, offer: &Offer) {
        self.0.push(Block { flow, offer: *offer });
    }

    /// Writes the bounds to the result: of each flow and class as if the others had nothing to
    /// send, and of all blocks of a direction together, by priority. `cap` limits the bytes on
    /// metered paths.
    pub(super) fn bound(&self, scenario: &Scenario, cap: Option<u64>, result: &mut RunResult) {
        for direction in [Direction::Down, Direction::Up] {
            let blocks = self.0.iter().filter(|block| result.flows[block.flow].direction == direction);
            let blocks: Vec<&Block> = blocks.collect();
            if blocks.is_empty() {
                continue;
            }
            let mut demands = Demands::default();
            blocks.iter().for_each(|block| demands.add(block.flow, &block.offer));
            let demands: Vec<Demand> = demands.finish();
            let supply = Supply::of(&scenario.paths, result.seed, result.duration_us, direction)
                .expect("the paths of a run that came to its end are sound")
                .capped(cap, &scenario.paths);
            let clairvoyant = Clairvoyant::new(&supply, &demands);
            let flows = result.flows.iter_mut().enumerate();
            for (index, flow) in flows.filter(|(_, flow)| flow.direction == direction) {
                let names: Vec<String> =
                    scenario.flows[index].traffic.classes().into_iter().map(|class| class.name).collect();
                bound_flow(flow, &clairvoyant, |place| {
                    let block = blocks[place];
                    (block.flow == index).then(|| names[usize::from(block.offer.class)].as_str())
                });
            }
            result.bounds.push(DirectionBound { direction, bound: clairvoyant.by_priority() });
        }
    }
}

/// Computes the bounds of a flow. `class_of` returns the class of the block at an index, or `None`
/// if the block belongs to another flow.
fn bound_flow<'a>(
    flow: &mut FlowResult,
    clairvoyant: &Clairvoyant<'_>,
    class_of: impl Fn(usize) -> Option<&'a str>,
) {
    if flow.classes.is_empty() {
        return;
    }
    let all = clairvoyant.limit(|place| class_of(place).is_some());
    flow.bound = Some(all);
    if let [class] = flow.classes.as_mut_slice() {
        class.bound = Some(all);
        return;
    }
    for class in &mut flow.classes {
        class.bound = Some(clairvoyant.limit(|place| class_of(place) == Some(class.name.as_str())));
    }
}
