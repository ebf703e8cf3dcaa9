//! squall
