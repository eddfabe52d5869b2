//! The integration tests of this crate, as one program: one to link, not one for each file.

mod function_moves;
mod mutations;
mod seeds;

/// How many times as many seeds are run as in `make test`: `SEEDS_TIMES`, which `make soak` sets.
fn times() -> u64 {
    std::env::var("SEEDS_TIMES").map_or(1, |times| times.parse().expect("SEEDS_TIMES is a number"))
}
