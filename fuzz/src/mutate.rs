//! Random changes of inputs, without a fuzzer: for tests that are to be quick to build.

use crate::MAX_INPUT;

/// Values at which code decides.
const EDGES: [u8; 8] = [0, 1, 0x7f, 0x80, 0xff, 0x10, 0x40, 0x45];

/// Makes inputs of a corpus, the same ones from the same seed.
#[derive(Clone, Debug)]
pub struct Mutator<'c> {
    corpus: &'c [Vec<u8>],
    state: u64,
}

impl<'c> Mutator<'c> {
    /// Changes inputs of a corpus. `seed` says which of all sequences it makes.
    pub fn new(corpus: &'c [Vec<u8>], seed: u64) -> Mutator<'c> {
        // A state of 0 would stay so.
        Mutator { corpus, state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    /// A number below `end`, or 0 (Marsaglia, *Xorshift RNGs*).
    fn below(&mut self, end: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state % end.max(1) as u64) as usize
    }

    fn chosen(&mut self) -> &'c [u8] {
        let at = self.below(self.corpus.len());
        self.corpus.get(at).map_or(&[], Vec::as_slice)
    }

    /// The next input: some of the corpus behind each other, with some changes.
    pub fn next_input(&mut self) -> Vec<u8> {
        let mut input = self.chosen().to_vec();
        for _ in 0..self.below(3) {
            input.extend(self.chosen());
        }
        for _ in 0..1 + self.below(6) {
            self.change(&mut input);
        }
        input.truncate(MAX_INPUT);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let at = self.below(input.len() + 1);
        let length = 1 + self.below(16);
        let end = input.len().min(at + length);
        match self.below(8) {
            0 => input.truncate(at),
            1 => drop(input.drain(at..end)),
            2 => {
                let octets: Vec<_> = (0..length).map(|_| self.below(256) as u8).collect();
                drop(input.splice(at..at, octets));
            }
            // A piece of it once more, elsewhere.
            3 => {
                let piece = input[at..end].to_vec();
                let to = self.below(input.len() + 1);
                drop(input.splice(to..to, piece));
            }
            // A piece of another one in its place.
            4 => {
                let other = self.chosen();
                let from = self.below(other.len());
                let piece = other[from..other.len().min(from + length)].to_vec();
                drop(input.splice(at..end, piece));
            }
            what => {
                let Some(octet) = input.get(at).copied() else { return };
                input[at] = match what {
                    5 => octet ^ 1 << self.below(8),
                    6 => EDGES[self.below(EDGES.len())],
                    _ => self.below(256) as u8,
                };
            }
        }
    }
}
