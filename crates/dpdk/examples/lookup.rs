//! Cycles per lookup in a [`Table`], in bursts of 32 random keys that are all
//! there, for tables of 1,000 to 1,000,000 users: the median of many rounds.
//!
//! `cargo run --release -p weft-dpdk --example lookup`

use std::hint::black_box;

use weft_dpdk::{Table, tsc};

const BURST: usize = 32;
/// Lookups per round, enough to visit every line of the largest table.
const LOOKUPS: usize = 1 << 21;
const ROUNDS: usize = 15;

fn main() {
    println!("{:>9} {:>12} {:>9} {:>9}", "users", "table bytes", "bulk", "one by one");
    for users in [1_000, 100_000, 1_000_000] {
        let mut random = Random(1);
        let keys: Vec<u64> = (0..users).map(|_| u64::from(random.next() as u32)).collect();
        let mut table = Table::with_capacity(users);
        for (slot, key) in keys.iter().enumerate() {
            table.insert(*key, slot as u32).expect("the table has room for all users");
        }
        let asked: Vec<u64> = (0..LOOKUPS).map(|_| keys[random.next() as usize % users]).collect();
        let bulk = median(|| {
            let mut slots = [0; BURST];
            for keys in asked.chunks_exact(BURST) {
                table.lookup_bulk(keys, &mut slots);
                black_box(&slots);
            }
        });
        let single = median(|| {
            for key in &asked {
                black_box(table.get(key));
            }
        });
        println!("{users:>9} {:>12} {bulk:>9.1} {single:>9.1}", table.memory_bytes());
    }
}

/// Median cycles per lookup over all rounds.
fn median(mut round: impl FnMut()) -> f64 {
    let mut cycles: Vec<u64> = (0..ROUNDS)
        .map(|_| {
            let start = tsc::now();
            round();
            tsc::now() - start
        })
        .collect();
    cycles.sort_unstable();
    cycles[ROUNDS / 2] as f64 / LOOKUPS as f64
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }
}
