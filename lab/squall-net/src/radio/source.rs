//! Where the levels of a radio come from.

use rand_pcg::Pcg64Mcg;

use super::{
    levels::LevelSeries,
    scene::{Canyon, Handover, Rail, Scene, Tunnel, Walk, WifiEdge},
};
use crate::error::ConfigError;

/// Where the levels of a radio come from.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// Levels that were measured or written down; the map says what the link makes of them.
    Series(LevelSeries),
    /// Levels that were measured beside the rate which the link has: no map.
    Trace(LevelSeries),
    /// Through a building, away from an access point and back.
    Walk(Walk),
    /// To the edge of an access point's coverage outdoors and back.
    WifiEdge(WifiEdge),
    /// Round the corners of streets.
    Canyon(Canyon),
    /// Through tunnels.
    Tunnel(Tunnel),
    /// Along a railway line, from cell to cell.
    Rail(Rail),
    /// One handover.
    Handover(Handover),
}

impl Source {
    /// The scene at its begin; `None` if the levels come from none.
    pub(super) fn begin(&self, random: &mut Pcg64Mcg) -> Option<Scene> {
        Some(match self {
            Self::Series(_) | Self::Trace(_) => return None,
            Self::Walk(walk) => Scene::Walk(walk.begin(random)),
            Self::WifiEdge(edge) => Scene::WifiEdge(edge.begin(random)),
            Self::Canyon(canyon) => Scene::Canyon(canyon.begin(random)),
            Self::Tunnel(tunnel) => Scene::Tunnel(tunnel.begin(random)),
            Self::Rail(rail) => Scene::Rail(rail.begin(random)),
            Self::Handover(handover) => Scene::Handover(handover.begin()),
        })
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        match self {
            Self::Series(_) | Self::Trace(_) => Ok(()),
            Self::Walk(walk) => walk.check(),
            Self::WifiEdge(edge) => edge.check(),
            Self::Canyon(canyon) => canyon.check(),
            Self::Tunnel(tunnel) => tunnel.check(),
            Self::Rail(rail) => rail.check().and_then(|()| rail.check_failures()),
            Self::Handover(handover) => handover.check(),
        }
    }
}
