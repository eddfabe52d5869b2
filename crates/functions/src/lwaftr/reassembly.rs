//! IPv6 packets of softwires that come in fragments (RFC 8200 §4.5), put together
//! before what is inside is looked at (RFC 6333 §6.3).

use weft_wire::Ecn;

use crate::common::first_fragments::{mix, random_seed};

/// Octets of a packet that is put together, without its IPv6 header, at most.
pub const LONGEST: usize = 1792;
/// Octets in which fragments are counted.
const UNIT: usize = 8;
/// How long the fragments of a packet may take, nanoseconds (RFC 8200 §4.5).
const PATIENCE: u64 = 60_000_000_000;
/// Places that a packet may be kept in.
const WAYS: usize = 4;

/// One fragment.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// Of the packet: source, identification.
    pub source: u128,
    pub identification: u32,
    /// Where it begins, octets.
    pub offset: usize,
    /// More follow.
    pub more: bool,
    pub ecn: Ecn,
    pub octets: &'a [u8],
}

/// What a fragment has led to.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// Others are missing.
    Waits,
    /// It was the last one missing: the packet without its IPv6 header, and congestion
    /// that any of the fragments has met (RFC 3168 §5.3).
    Whole(&'a [u8], Ecn),
    /// It does not fit the others, or is too long: none of them is used (RFC 5722 §4).
    Bad,
}

/// A packet of which fragments have come.
#[derive(Clone, Debug)]
struct Partial {
    source: u128,
    identification: u32,
    /// Octets of all, once the last fragment is there.
    length: Option<u16>,
    ecn: Ecn,
    /// Which units are there.
    there: [u64; LONGEST / UNIT / 64 + 1],
    /// When it is given up, nanoseconds; 0 when nothing is kept.
    until: u64,
    /// A fragment did not fit: those that come are not used either.
    is_bad: bool,
    octets: Box<[u8; LONGEST]>,
}

/// Packets that wait for fragments: as many as there is room for. A newer one takes the
/// place of the oldest.
#[derive(Debug)]
pub struct Reassembly {
    partials: Box<[Partial]>,
    /// Unknown outside: else packets could be sent that take the places of chosen others.
    seed: u64,
}

impl Reassembly {
    /// Room for about so many packets.
    pub fn new(packets: usize) -> Reassembly {
        let vacant = Partial {
            source: 0,
            identification: 0,
            length: None,
            ecn: Ecn::NotEct,
            there: Default::default(),
            until: 0,
            is_bad: false,
            octets: Box::new([0; LONGEST]),
        };
        let count = packets.next_multiple_of(WAYS);
        let partials = vec![vacant; count].into_boxed_slice();
        Reassembly { partials, seed: random_seed() }
    }

    /// Takes a fragment.
    pub fn take(&mut self, piece: Piece<'_>, now: u64) -> Outcome<'_> {
        let partial = self.find(&piece, now);
        if !partial.is_bad {
            partial.is_bad = !partial.add(&piece);
        }
        if partial.is_bad {
            return Outcome::Bad;
        }
        match partial.length.map(usize::from).filter(|length| partial.has_all(*length)) {
            Some(length) => {
                partial.until = 0;
                Outcome::Whole(&partial.octets[..length], partial.ecn)
            }
            None => Outcome::Waits,
        }
    }

    /// The place of the fragment's packet; a fresh one for the first that comes.
    fn find(&mut self, piece: &Piece<'_>, now: u64) -> &mut Partial {
        let halves = [(piece.source >> 64) as u64, piece.source as u64];
        let hash = halves.into_iter().fold(mix(self.seed, piece.identification.into()), mix);
        let sets = self.partials.len() / WAYS;
        let first = (hash >> 32) as usize % sets * WAYS;
        let set = &mut self.partials[first..first + WAYS];
        let is_its = |partial: &Partial| {
            partial.until > now
                && partial.source == piece.source
                && partial.identification == piece.identification
        };
        let known = set.iter().position(is_its);
        // Given up or whole before, or the one that ends first.
        let oldest = || (0..WAYS).min_by_key(|place| set[*place].until).unwrap_or(0);
        let place = known.unwrap_or_else(oldest);
        let partial = &mut set[place];
        if known.is_none() {
            partial.source = piece.source;
            partial.identification = piece.identification;
            (partial.length, partial.ecn, partial.is_bad) = (None, piece.ecn, false);
            partial.there = Default::default();
            partial.until = now + PATIENCE;
        }
        partial
    }
}

impl Partial {
    /// Whether the fragment fits those that are there.
    fn add(&mut self, piece: &Piece<'_>) -> bool {
        let (start, end) = (piece.offset, piece.offset + piece.octets.len());
        let is_whole = piece.octets.len().is_multiple_of(UNIT);
        if end > LONGEST || piece.octets.is_empty() || piece.more && !is_whole {
            return false;
        }
        if !piece.more {
            if self.length.is_some() || self.units(end.div_ceil(UNIT), LONGEST / UNIT) > 0 {
                return false;
            }
            self.length = Some(end as u16);
        }
        if self.length.is_some_and(|length| end > usize::from(length)) {
            return false;
        }
        let units = start / UNIT..end.div_ceil(UNIT);
        if self.units(units.start, units.end) > 0 {
            return false;
        }
        for unit in units {
            self.there[unit / 64] |= 1 << (unit % 64);
        }
        let Some(place) = self.octets.get_mut(start..end) else { return false };
        place.copy_from_slice(piece.octets);
        self.ecn = match (self.ecn, piece.ecn) {
            (one, other) if one == other => one,
            // What is not capable, and what has met congestion, are not of one packet.
            (Ecn::NotEct, Ecn::Ce) | (Ecn::Ce, Ecn::NotEct) => return false,
            (Ecn::Ce, _) | (_, Ecn::Ce) => Ecn::Ce,
            (Ecn::NotEct, _) | (_, Ecn::NotEct) => Ecn::NotEct,
            _ => Ecn::Ect0,
        };
        true
    }

    /// How many units are there, from one to another.
    fn units(&self, from: usize, to: usize) -> usize {
        (from..to).filter(|unit| self.there[unit / 64] >> (unit % 64) & 1 != 0).count()
    }

    fn has_all(&self, length: usize) -> bool {
        let units = length.div_ceil(UNIT);
        self.units(0, units) == units
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn piece(octets: &[u8], from: usize, to: usize) -> Piece<'_> {
        let (end, more) = (to.min(octets.len()), to < octets.len());
        let (source, identification, ecn) = (7, 9, Ecn::NotEct);
        Piece { source, identification, offset: from, more, ecn, octets: &octets[from..end] }
    }

    proptest! {
        #[test]
        fn packets_come_together_in_any_order(
            length in 1_usize..LONGEST,
            size in 1_usize..40,
            order in any::<u64>(),
        ) {
            let octets: Vec<u8> = (0..length).map(|n| (n * 7) as u8).collect();
            let mut cuts: Vec<_> = (0..length).step_by(size * UNIT).collect();
            cuts.sort_by_key(|cut| mix(order, *cut as u64));
            let mut reassembly = Reassembly::new(4);
            for (number, cut) in cuts.iter().enumerate() {
                let found = reassembly.take(piece(&octets, *cut, cut + size * UNIT), 1);
                match number + 1 == cuts.len() {
                    true => prop_assert_eq!(found, Outcome::Whole(&octets[..], Ecn::NotEct)),
                    false => prop_assert_eq!(found, Outcome::Waits),
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_spoils_the_packet() {
        let octets = [1; 64];
        let mut reassembly = Reassembly::new(4);
        assert_eq!(reassembly.take(piece(&octets, 0, 32), 1), Outcome::Waits);
        assert_eq!(reassembly.take(piece(&octets, 24, 48), 1), Outcome::Bad);
        assert_eq!(reassembly.take(piece(&octets, 32, 64), 1), Outcome::Bad);
        // A fragment that is not the last has whole units.
        let odd = Piece { identification: 1, octets: &octets[..30], ..piece(&octets, 0, 32) };
        assert_eq!(reassembly.take(odd, 1), Outcome::Bad);
        let long = Piece { identification: 2, offset: LONGEST, ..piece(&octets, 0, 64) };
        assert_eq!(reassembly.take(long, 1), Outcome::Bad);
        // Behind the end.
        let end = Piece { identification: 3, ..piece(&octets[..32], 16, 32) };
        assert_eq!(reassembly.take(end, 1), Outcome::Waits);
        let behind = Piece { identification: 3, ..piece(&octets, 32, 48) };
        assert_eq!(reassembly.take(behind, 1), Outcome::Bad);
    }

    #[test]
    fn what_waits_too_long_is_given_up() {
        let octets = [1; 64];
        let mut reassembly = Reassembly::new(4);
        assert_eq!(reassembly.take(piece(&octets, 0, 32), 1), Outcome::Waits);
        assert_eq!(reassembly.take(piece(&octets, 32, 64), 1 + PATIENCE), Outcome::Waits);
        // A fifth packet takes the place of the oldest of four.
        let mut reassembly = Reassembly::new(4);
        for identification in 0..5 {
            let first = Piece { identification, ..piece(&octets, 0, 32) };
            assert_eq!(reassembly.take(first, 1 + u64::from(identification)), Outcome::Waits);
        }
        let last = Piece { identification: 4, ..piece(&octets, 32, 64) };
        assert_eq!(reassembly.take(last, 9), Outcome::Whole(&octets[..], Ecn::NotEct));
        let last = Piece { identification: 0, ..piece(&octets, 32, 64) };
        assert_eq!(reassembly.take(last, 9), Outcome::Waits);
    }

    /// Which packets share a set differs for each instance: a sender of
    /// fragments cannot choose whose places they take.
    #[test]
    fn places_cannot_be_foretold() {
        let octets = [1; 64];
        let survivors = || {
            let mut reassembly = Reassembly::new(64);
            for identification in 0..256 {
                let first = Piece { identification, ..piece(&octets, 0, 32) };
                reassembly.take(first, 1 + u64::from(identification));
            }
            let is_there = |identification: &u32| {
                let last = Piece { identification: *identification, ..piece(&octets, 32, 64) };
                matches!(reassembly.take(last, 999), Outcome::Whole(..))
            };
            // The newest first: what is not there takes the place of an old one.
            (0..256).rev().filter(is_there).collect::<Vec<_>>()
        };
        assert_ne!(survivors(), survivors());
    }

    /// RFC 3168 §5.3.
    #[test]
    fn congestion_of_a_fragment_is_that_of_the_packet() {
        let octets = [1; 64];
        let ends = |first, second| {
            let mut reassembly = Reassembly::new(1);
            reassembly.take(Piece { ecn: first, ..piece(&octets, 0, 32) }, 1);
            match reassembly.take(Piece { ecn: second, ..piece(&octets, 32, 64) }, 1) {
                Outcome::Whole(_, ecn) => Some(ecn),
                _ => None,
            }
        };
        assert_eq!(ends(Ecn::Ect0, Ecn::Ce), Some(Ecn::Ce));
        assert_eq!(ends(Ecn::Ce, Ecn::Ect1), Some(Ecn::Ce));
        assert_eq!(ends(Ecn::NotEct, Ecn::Ce), None);
        assert_eq!(ends(Ecn::Ect1, Ecn::Ect1), Some(Ecn::Ect1));
    }
}
