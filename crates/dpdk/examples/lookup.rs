//! Cycles per lookup in a [`Table`], for random keys that are all there, in
//! tables of 1,000 to 1,000,000 users: in bursts of 32, and one by one. The best
//! of many rounds is printed, as other programs disturb the others.
//!
//! `cargo run --release -p weft-dpdk --example lookup`

use std::hint::black_box;

use weft_dpdk::{Table, tsc};

const BURST: usize = 32;
/// Lookups in all; enough to visit every line of the largest table.
const LOOKUPS: usize = 1 << 22;
/// Lookups of one round.
const ROUND: usize = 1 << 16;

fn main() {
    println!("{:>9} {:>12} {:>9} {:>11}", "users", "table bytes", "bursts", "one by one");
    for users in [1_000, 100_000, 1_000_000] {
        let mut random = Random(1);
        let keys: Vec<u64> = (0..users).map(|_| u64::from(random.next() as u32)).collect();
        let mut table = Table::with_capacity(users);
        for (slot, key) in keys.iter().enumerate() {
            table.insert(*key, slot as u32).expect("the table has room for all users");
        }
        let asked: Vec<u64> = (0..LOOKUPS).map(|_| keys[random.next() as usize % users]).collect();
        let bursts = best(&asked, |keys| {
            let mut slots = [0; BURST];
            for keys in keys.chunks_exact(BURST) {
                table.lookup_bulk(keys, &mut slots);
                black_box(&slots);
            }
        });
        let single = best(&asked, |keys| {
            for key in keys {
                black_box(table.get(key));
            }
        });
        println!("{users:>9} {:>12} {bursts:>9.1} {single:>11.1}", table.memory_bytes());
    }
}

/// Cycles per lookup in the best round.
fn best(asked: &[u64], mut look_up: impl FnMut(&[u64])) -> f64 {
    let cycles = asked.chunks_exact(ROUND).map(|keys| {
        let start = tsc::now();
        look_up(keys);
        tsc::now() - start
    });
    cycles.min().unwrap_or_default() as f64 / ROUND as f64
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
