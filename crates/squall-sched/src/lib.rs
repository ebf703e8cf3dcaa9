//! squall-sched
