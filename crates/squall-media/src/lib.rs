//! squall-media
