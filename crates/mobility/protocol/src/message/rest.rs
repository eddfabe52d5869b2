//! What machines are while nothing moves, as octets: another process of the node goes on with
//! them, in the same incarnation.

use crate::identity::{Epoch, Incarnation, Leg, NodeId, User};

/// Version of these octets.
const VERSION: u8 = 1;

/// What a machine of a kind is, in network byte order.
#[derive(Debug)]
pub(crate) struct Written(Vec<u8>);

impl Written {
    /// Begins with the kind of the machine.
    pub fn new(kind: u8) -> Written {
        Written(vec![VERSION, kind])
    }

    pub fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub fn u32(&mut self, value: u32) {
        self.0.extend(value.to_be_bytes());
    }

    pub fn u64(&mut self, value: u64) {
        self.0.extend(value.to_be_bytes());
    }

    /// How many entries follow.
    pub fn count(&mut self, count: usize) {
        self.u64(count as u64);
    }

    pub fn leg(&mut self, leg: Option<Leg>) {
        self.u8(leg.is_some().into());
        if let Some(Leg { node, incarnation, epoch }) = leg {
            self.u32(node.0);
            self.u32(incarnation.0);
            self.u64(epoch.0);
        }
    }

    pub fn of_user(&mut self, user: User, epoch: Epoch) {
        self.u64(user.0);
        self.u64(epoch.0);
    }

    pub fn octets(self) -> Vec<u8> {
        self.0
    }
}

/// Reads what was written; none where it is cut off or means nothing.
#[derive(Debug)]
pub(crate) struct Reading<'a>(&'a [u8]);

impl<'a> Reading<'a> {
    /// What a machine of this kind was.
    pub fn new(kind: u8, octets: &'a [u8]) -> Option<Reading<'a>> {
        octets.strip_prefix(&[VERSION, kind]).map(Reading)
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (value, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*value)
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.take().map(|[octet]| octet)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    pub fn flag(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub fn leg(&mut self) -> Option<Option<Leg>> {
        if !self.flag()? {
            return Some(None);
        }
        let (node, incarnation) = (NodeId(self.u32()?), Incarnation(self.u32()?));
        Some(Some(Leg { node, incarnation, epoch: Epoch(self.u64()?) }))
    }

    pub fn of_user(&mut self) -> Option<(User, Epoch)> {
        Some((User(self.u64()?), Epoch(self.u64()?)))
    }

    /// So many entries as were counted, each read by `one`.
    pub fn each<T>(&mut self, mut one: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.u64()?;
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(one(self)?);
        }
        Some(all)
    }

    /// Nothing may be left.
    pub fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}
