//! The short form of the fuzz target `gateway`: its corpus, and inputs that are made of
//! it at random, the same every time.

use std::fs;
use std::path::Path;

use crate::common::fuzzed;

/// Inputs beyond the corpus.
const INPUTS: usize = 1500;

/// Numbers that look random (Marsaglia, *Xorshift RNGs*).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

#[test]
fn whatever_comes_is_accounted_for() {
    // Not the gateway's own, in which there is room for it alone.
    crate::common::eal();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/gateway");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|one| one.unwrap().path()).collect();
    files.sort();
    let corpus: Vec<_> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    assert!(corpus.len() > 10);
    corpus.iter().for_each(|input| fuzzed::run(input));
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..INPUTS {
        let mut input = Vec::new();
        for _ in 0..1 + random.below(4) {
            input.extend(&corpus[random.below(corpus.len())]);
        }
        for _ in 0..random.below(6) {
            let at = random.below(input.len());
            input[at] = random.below(256) as u8;
        }
        input.truncate(1 + random.below(2 * input.len()));
        fuzzed::run(&input);
    }
}
