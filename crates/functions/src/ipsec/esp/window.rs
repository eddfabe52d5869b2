//! The anti-replay window of a receiver (RFC 4303 §3.4.3), over sequence numbers of 32 or
//! 64 bits (§2.2.1, appendix A). Its bits lie in a ring of words, so that the window
//! moves without shifting them (RFC 6479).

use weft_function::{ContextError, Fields};

/// Sequence numbers that a window reaches back, at least and at most.
pub const SIZES: std::ops::RangeInclusive<u16> = 32..=8192;

/// Why a packet is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its number was received before.
    Replayed,
    /// Its number is left of the window.
    Late,
}

/// Which sequence numbers were received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    words: Box<[u64]>,
    size: u16,
    extended: bool,
    /// The highest that was received; 0 before the first.
    top: u64,
}

impl Window {
    /// One of `size` numbers, none of them received.
    pub fn new(size: u16, extended: bool) -> Window {
        // A word more than the window, which the ring needs to tell both its ends apart.
        let words = (usize::from(size).div_ceil(64) + 1).next_power_of_two();
        Window { words: vec![0; words].into(), size, extended, top: 0 }
    }

    /// The same, reaching back differently: what is not known to be new counts as
    /// received.
    pub fn resized(&self, size: u16) -> Window {
        let mut window = Window { top: self.top, ..Window::new(size, self.extended) };
        window.words.fill(u64::MAX);
        let (word, bit) = window.place(self.top);
        window.words[word] = bit | (bit - 1);
        window
    }

    /// The highest number that was received.
    pub fn top(&self) -> u64 {
        self.top
    }

    /// Whether numbers have 64 bits.
    pub fn is_extended(&self) -> bool {
        self.extended
    }

    /// How far it reaches back.
    pub fn size(&self) -> u16 {
        self.size
    }

    /// The whole number of a packet that carries `low` of it, if it may be taken: what
    /// is authenticated then proves that the number is right.
    ///
    /// # Errors
    /// [`Refusal`].
    #[inline]
    pub fn whole(&self, low: u32) -> Result<u64, Refusal> {
        let sequence = self.guess(low).ok_or(Refusal::Late)?;
        if sequence > self.top {
            return Ok(sequence);
        }
        // The first number of an association is 1 (§3.3.3).
        if sequence == 0 || self.top - sequence >= self.size.into() {
            return Err(Refusal::Late);
        }
        let (word, bit) = self.place(sequence);
        if self.words[word] & bit != 0 { Err(Refusal::Replayed) } else { Ok(sequence) }
    }

    /// Takes a packet of this number, which [`whole`](Self::whole) gave and which was
    /// authenticated.
    #[inline]
    pub fn take(&mut self, sequence: u64) {
        if sequence > self.top {
            let ahead = sequence / 64 - self.top / 64;
            for step in 1..=ahead.min(self.words.len() as u64) {
                let (word, _) = self.place((self.top / 64 + step) * 64);
                self.words[word] = 0;
            }
            self.top = sequence;
        }
        let (word, bit) = self.place(sequence);
        self.words[word] |= bit;
    }

    /// The number of 64 bits that is next to the window (appendix A2.1).
    #[inline]
    fn guess(&self, low: u32) -> Option<u64> {
        if !self.extended {
            return Some(low.into());
        }
        let (high, top) = (self.top >> 32, self.top as u32);
        let behind = u32::from(self.size) - 1;
        let is_right = low >= top.wrapping_sub(behind);
        let high = match top >= behind {
            true if is_right => high,
            true => high + 1,
            // The window reaches into the numbers before.
            false if is_right => high.checked_sub(1)?,
            false => high,
        };
        (high <= u32::MAX.into()).then_some(high << 32 | u64::from(low))
    }

    #[inline]
    fn place(&self, sequence: u64) -> (usize, u64) {
        let word = (sequence / 64) as usize & (self.words.len() - 1);
        (word, 1 << (sequence % 64))
    }

    pub fn export(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.size.to_le_bytes());
        out.push(self.extended.into());
        out.extend_from_slice(&self.top.to_le_bytes());
        self.words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    }

    /// Reads what [`export`](Self::export) wrote.
    ///
    /// # Errors
    /// [`ContextError::Damaged`].
    pub fn import(fields: &mut Fields<'_>) -> Result<Window, ContextError> {
        let (size, extended, top) = (fields.u16()?, fields.u8()?, fields.u64()?);
        let is_sound =
            SIZES.contains(&size) && extended <= 1 && (extended == 1 || top <= u32::MAX.into());
        if !is_sound {
            return Err(ContextError::Damaged);
        }
        let mut window = Window { top, ..Window::new(size, extended == 1) };
        for word in &mut window.words {
            *word = fields.u64()?;
        }
        Ok(window)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn arrive(window: &mut Window, sequence: u64) -> Result<u64, Refusal> {
        let whole = window.whole(sequence as u32)?;
        window.take(whole);
        Ok(whole)
    }

    #[test]
    fn numbers_are_taken_once_and_within_the_window() {
        let mut window = Window::new(64, false);
        assert_eq!(arrive(&mut window, 0), Err(Refusal::Late));
        assert_eq!(arrive(&mut window, 1), Ok(1));
        assert_eq!(arrive(&mut window, 1), Err(Refusal::Replayed));
        assert_eq!(arrive(&mut window, 65), Ok(65));
        assert_eq!(arrive(&mut window, 1), Err(Refusal::Late));
        assert_eq!(arrive(&mut window, 2), Ok(2));
        assert_eq!(arrive(&mut window, 1_000_000), Ok(1_000_000));
        assert_eq!(arrive(&mut window, 999_937), Ok(999_937));
        assert_eq!(arrive(&mut window, 999_936), Err(Refusal::Late));
        assert_eq!(arrive(&mut window, u32::MAX.into()), Ok(u32::MAX.into()));
    }

    #[test]
    fn a_window_of_another_size_takes_nothing_again() {
        let mut window = Window::new(64, true);
        window.take(70);
        let mut wider = window.resized(1024);
        assert_eq!(arrive(&mut wider, 70), Err(Refusal::Replayed));
        assert_eq!(arrive(&mut wider, 69), Err(Refusal::Replayed));
        for sequence in [100, 80, 71, 64 * 40, 64 * 40 - 1] {
            assert_eq!(arrive(&mut wider, sequence), Ok(sequence));
            assert_eq!(arrive(&mut wider, sequence), Err(Refusal::Replayed));
        }
    }

    /// Appendix A2.2: the window lies within one subspace, or in two.
    #[test]
    fn extended_numbers_go_on_behind_the_low_half() {
        let mut window = Window::new(64, true);
        assert_eq!(arrive(&mut window, u64::from(u32::MAX)), Err(Refusal::Late), "before 0");
        window.take(0xffff_fff0);
        assert_eq!(arrive(&mut window, 0x1_0000_0005), Ok(0x1_0000_0005));
        assert_eq!(arrive(&mut window, 0xffff_ffff), Ok(0xffff_ffff));
        assert_eq!(arrive(&mut window, 0xffff_ffff), Err(Refusal::Replayed));
        assert_eq!(arrive(&mut window, 0x1_0000_0005), Err(Refusal::Replayed));
        // Left of the window: it can only be of the next subspace.
        assert_eq!(window.whole(0x8000_0000), Ok(0x1_8000_0000));
        window.take(u64::MAX);
        assert_eq!(window.whole(0), Err(Refusal::Late), "there is no next subspace");
    }

    proptest! {
        /// Against the set of all numbers that were taken.
        #[test]
        fn a_window_is_a_set_of_the_latest_numbers(
            size in 32_u16..300,
            extended in any::<bool>(),
            start in prop_oneof![Just(0_u64), Just(0xffff_ff00), Just(0x5_ffff_ff80)],
            steps in vec((0_u64..400, 0_u64..400), 1..200),
        ) {
            let start = if extended { start } else { start & 0xffff };
            let mut window = Window::new(size, extended);
            window.take(start.max(1));
            let mut taken = BTreeSet::from([start.max(1)]);
            let mut ahead = start;
            for (forward, back) in steps {
                ahead += forward;
                let sequence = ahead.saturating_sub(back);
                let top = *taken.last().expect("one at least");
                let expected = match sequence {
                    0 => Err(Refusal::Late),
                    _ if sequence + u64::from(size) <= top => Err(Refusal::Late),
                    _ if taken.contains(&sequence) => Err(Refusal::Replayed),
                    _ => Ok(sequence),
                };
                // What is left of a window of extended numbers is taken for one ahead, which
                // the integrity check refuses.
                match arrive_unless_wrong(&mut window, sequence) {
                    Ok(whole) => {
                        prop_assert_eq!(expected, Ok(whole));
                        taken.insert(sequence);
                    }
                    Err(Some(refusal)) => prop_assert_eq!(expected, Err(refusal)),
                    Err(None) => prop_assert_eq!(expected, Err(Refusal::Late)),
                }
                let mut bytes = Vec::new();
                window.export(&mut bytes);
                prop_assert_eq!(Window::import(&mut Fields::new(&bytes)), Ok(window.clone()));
            }
        }
    }

    /// As a receiver does: a number that is not the sender's does not authenticate.
    fn arrive_unless_wrong(window: &mut Window, sequence: u64) -> Result<u64, Option<Refusal>> {
        let whole = window.whole(sequence as u32).map_err(Some)?;
        if whole != sequence {
            return Err(None);
        }
        window.take(whole);
        Ok(whole)
    }
}
