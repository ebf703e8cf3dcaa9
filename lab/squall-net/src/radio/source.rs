//! Source of a radio's levels.

use rand_pcg::Pcg64Mcg;

use super::{
    levels::LevelSeries,
    scene::{Canyon, Handover, Rail, Scene, Tunnel, Walk, WifiEdge},
};
use crate::error::ConfigError;

/// Source of a radio's levels.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// Measured or given levels, which a map turns into conditions of the link.
    Series(LevelSeries),
    /// Levels that were measured together with the link's rate; without a map.
    Trace(LevelSeries),
    /// A walk through a building, away from an access point and back.
    Walk(Walk),
    /// A walk to the edge of an access point's coverage outdoors and back.
    WifiEdge(WifiEdge),
    /// A drive round street corners.
    Canyon(Canyon),
    /// A drive through tunnels.
    Tunnel(Tunnel),
    /// A ride along a railway line, from cell to cell.
    Rail(Rail),
    /// One handover.
    Handover(Handover),
}

impl Source {
    /// Returns the scene at its start; `None` if the source is not a scene.
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
