//! Entries as octets, in network byte order.
//!
//! ```text
//! an entry:  0..8 user   8 what is said of it:
//!   0  no record
//!   1  settled           9..13 anchor, then the owner
//!   2  a move            9..13 anchor, then the owner, the target, and 1 if contexts are lost
//!  10  a move that gives the target the user back: as 2, then the epoch from which
//!   3  a removal         9..13 anchor, then the owner, and its epoch
//!   4  an order          0..8 its number, 9..13 to, 13 whether it is all of a node's, 14..18
//!                        from, 18..26 users, then those moved, aborted and refused, 8 octets each
//!   5  meant             9..17 by this order
//!   6  ended             9..17 by this order, 17 moved (0), aborted (1) or refused (2)
//!   7  a node is gone    0..8 the node, 9..13 incarnation, 13..17 successor
//!   8  a node is cordoned  0..8 the node, 9 whether it is: no (0), until it is told otherwise (1),
//!                        or until it has another incarnation (2) than 10..14
//!   9  a pair of nodes  0..8 its first owner, 9..17 epoch, 17..21 owner, 21 whether the standby
//!                        has all records
//! ```
//! A way (a leg) is 16 octets: node, incarnation, epoch; the owner has an octet 0
//! or 1 in front, for one that there may not be.

use weft_mobility_protocol::controller::{Intent, Record};
use weft_mobility_protocol::{Epoch, Incarnation, Leg, NodeId, User};

use super::{Cordon, End, Entry, Gone, Ordered};
use crate::pair::PairRecord;

/// The octets of an entry.
pub fn octets(entry: &Entry) -> Vec<u8> {
    let mut out = Vec::new();
    put(entry, &mut out);
    out
}

/// Reads one entry; `None` if the octets mean nothing, or more.
pub fn parse(mut octets: &[u8]) -> Option<Entry> {
    let entry = take_entry(&mut octets)?;
    octets.is_empty().then_some(entry)
}

fn put(entry: &Entry, out: &mut Vec<u8>) {
    match *entry {
        Entry::Record(user, record) => put_record(user, record, out),
        Entry::Order(order) => {
            out.extend(order.number.to_be_bytes());
            out.push(4);
            out.extend(order.to.0.to_be_bytes());
            out.push(u8::from(order.from.is_some()));
            out.extend(order.from.unwrap_or_default().0.to_be_bytes());
            out.extend(order.users.to_be_bytes());
            order.ended.iter().for_each(|count| out.extend(count.to_be_bytes()));
        }
        Entry::Meant(user, order) => {
            out.extend(user.0.to_be_bytes());
            out.push(5);
            out.extend(order.to_be_bytes());
        }
        Entry::Ended(user, order, end) => {
            out.extend(user.0.to_be_bytes());
            out.push(6);
            out.extend(order.to_be_bytes());
            out.push(end as u8);
        }
        Entry::Gone(node, gone) => {
            out.extend(u64::from(node.0).to_be_bytes());
            out.push(7);
            out.extend(gone.incarnation.0.to_be_bytes());
            out.extend(gone.successor.0.to_be_bytes());
        }
        Entry::Cordoned(node, cordon) => {
            out.extend(u64::from(node.0).to_be_bytes());
            out.push(8);
            match cordon {
                Cordon::Lifted => out.push(0),
                Cordon::Stays => out.push(1),
                Cordon::UntilRestart(incarnation) => {
                    out.push(2);
                    out.extend(incarnation.0.to_be_bytes());
                }
            }
        }
        Entry::Pair(first, record) => {
            out.extend(u64::from(first.0).to_be_bytes());
            out.push(9);
            out.extend(record.epoch.0.to_be_bytes());
            out.extend(record.owner.0.to_be_bytes());
            out.push(u8::from(record.whole));
        }
    }
}

fn put_record(user: User, record: Option<Record>, out: &mut Vec<u8>) {
    out.extend(user.0.to_be_bytes());
    let Some(record) = record else { return out.push(0) };
    out.push(match record.intent {
        Intent::Settled => 1,
        Intent::Move { kept: None, .. } => 2,
        Intent::Move { kept: Some(_), .. } => 10,
        Intent::Remove { .. } => 3,
    });
    out.extend(record.anchor.0.to_be_bytes());
    out.push(u8::from(record.owner.is_some()));
    if let Some(owner) = record.owner {
        put_leg(owner, out);
    }
    match record.intent {
        Intent::Settled => {}
        Intent::Move { target, lost, kept } => {
            put_leg(target, out);
            out.push(u8::from(lost));
            out.extend(kept.iter().flat_map(|epoch| epoch.0.to_be_bytes()));
        }
        Intent::Remove { epoch } => out.extend(epoch.0.to_be_bytes()),
    }
}

fn put_leg(leg: Leg, out: &mut Vec<u8>) {
    out.extend(leg.node.0.to_be_bytes());
    out.extend(leg.incarnation.0.to_be_bytes());
    out.extend(leg.epoch.0.to_be_bytes());
}

/// Takes the entry that octets begin with.
pub fn take_entry(octets: &mut &[u8]) -> Option<Entry> {
    let number = u64::from_be_bytes(take(octets)?);
    let kind = take::<1>(octets)?[0];
    let user = User(number);
    match kind {
        0 => return Some(Entry::Record(user, None)),
        4 => return take_order(number, octets).map(Entry::Order),
        5 => return Some(Entry::Meant(user, take_number(octets)?)),
        6 => {
            let order = take_number(octets)?;
            let end = match take::<1>(octets)?[0] {
                0 => End::Moved,
                1 => End::Aborted,
                2 => End::Refused,
                _ => return None,
            };
            return Some(Entry::Ended(user, order, end));
        }
        7 => {
            let incarnation = Incarnation(u32::from_be_bytes(take(octets)?));
            let successor = NodeId(u32::from_be_bytes(take(octets)?));
            let node = NodeId(u32::try_from(number).ok()?);
            return Some(Entry::Gone(node, Gone { incarnation, successor }));
        }
        8 => {
            let node = NodeId(u32::try_from(number).ok()?);
            let cordon = match take::<1>(octets)?[0] {
                0 => Cordon::Lifted,
                1 => Cordon::Stays,
                2 => Cordon::UntilRestart(Incarnation(u32::from_be_bytes(take(octets)?))),
                _ => return None,
            };
            return Some(Entry::Cordoned(node, cordon));
        }
        9 => {
            let first = NodeId(u32::try_from(number).ok()?);
            let epoch = Some(Epoch(take_number(octets)?)).filter(|epoch| *epoch < Epoch::END)?;
            let owner = NodeId(u32::from_be_bytes(take(octets)?));
            return Some(Entry::Pair(first, PairRecord { owner, epoch, whole: flag(octets)? }));
        }
        _ => {}
    }
    let anchor = NodeId(u32::from_be_bytes(take(octets)?));
    let owner = if flag(octets)? { Some(take_leg(octets)?) } else { None };
    let intent = match kind {
        1 => Intent::Settled,
        2 => Intent::Move { target: take_leg(octets)?, lost: flag(octets)?, kept: None },
        10 => take_giving_back(octets)?,
        3 => Intent::Remove { epoch: Epoch(u64::from_be_bytes(take(octets)?)) },
        _ => return None,
    };
    Some(Entry::Record(user, Some(Record { anchor, owner, intent })))
}

fn take_giving_back(octets: &mut &[u8]) -> Option<Intent> {
    let (target, lost) = (take_leg(octets)?, flag(octets)?);
    let kept = Epoch(take_number(octets)?);
    let has_meaning = kept > Epoch(0) && kept < target.epoch;
    has_meaning.then_some(Intent::Move { target, lost, kept: Some(kept) })
}

fn take_order(number: u64, octets: &mut &[u8]) -> Option<Ordered> {
    let to = NodeId(u32::from_be_bytes(take(octets)?));
    let all = flag(octets)?;
    let from = NodeId(u32::from_be_bytes(take(octets)?));
    let users = take_number(octets)?;
    let ended = [take_number(octets)?, take_number(octets)?, take_number(octets)?];
    Some(Ordered { number, to, from: all.then_some(from), users, ended })
}

fn take_number(octets: &mut &[u8]) -> Option<u64> {
    take(octets).map(u64::from_be_bytes)
}

fn take<const N: usize>(octets: &mut &[u8]) -> Option<[u8; N]> {
    let (value, rest) = octets.split_first_chunk()?;
    *octets = rest;
    Some(*value)
}

fn flag(octets: &mut &[u8]) -> Option<bool> {
    match take::<1>(octets)?[0] {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

fn take_leg(octets: &mut &[u8]) -> Option<Leg> {
    Some(Leg {
        node: NodeId(u32::from_be_bytes(take(octets)?)),
        incarnation: Incarnation(u32::from_be_bytes(take(octets)?)),
        epoch: Epoch(u64::from_be_bytes(take(octets)?)),
    })
}
