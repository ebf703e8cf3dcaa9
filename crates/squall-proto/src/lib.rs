//! squall-proto
