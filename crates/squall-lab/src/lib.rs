//! squall-lab
