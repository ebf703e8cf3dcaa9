//! squall-net
