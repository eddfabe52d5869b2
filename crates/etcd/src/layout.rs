//! Keys and values, in network byte order.
//!
//! ```text
//! PREFIX identity        who writes there: kind 1
//! PREFIX leader          who leads: kind 2; goes with the lease of the leader
//! PREFIX log/SEQUENCE    changes that came together: kind 3
//! PREFIX group/KIND/KEY  up to 1,024 records whose keys differ in their last 10 bits: kind 4
//! PREFIX count           how many transactions there have been: kind 5
//!
//! a value:   0..4   "WEFT"          4     kind        5   format, 1
//!            6..10  CRC of 10.. (IEEE 802.3)          10.. by kind:
//!   1, 2     text
//!   3        10     1 for the last part of what came together, otherwise 0; then changes
//!   4        changes, none of them a removal
//!   5        a number (u64)
//! a change:  0..2   octets of the key, which begins with the kind of the record
//!            2      0 for a removal, 1 for a record
//!            3..7   octets of version and record, if it is one
//! ```
//! Numbers in keys are hexadecimal digits. What does not read so is refused: it is damaged, or
//! another program has written it.

use std::collections::BTreeMap;

const MAGIC: [u8; 4] = *b"WEFT";
const FORMAT: u8 = 1;
/// Octets of a value before what it says.
const HEAD: usize = 10;

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ValueKind {
    Identity = 1,
    Leader = 2,
    Log = 3,
    Group = 4,
    Count = 5,
}

/// Kind and key of a record, and what it is from now on.
pub type Stored = (Vec<u8>, Option<Vec<u8>>);
/// Records by kind and key; none for one that goes.
pub type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Which group a record belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group(Vec<u8>);

impl Group {
    /// That of a record with this kind and key.
    pub fn of(key: &[u8]) -> Group {
        let (kind, key) = key.split_at(key.len().min(2));
        let mut group = kind.to_vec();
        if let [head @ .., before, _] = key {
            group.extend(head);
            group.push(before & 0xfc);
        }
        Group(group)
    }

    /// Where it lies, behind the prefix.
    pub fn key(&self) -> String {
        let (kind, key) = self.0.split_at(self.0.len().min(2));
        format!("group/{}/{}", digits(kind), digits(key))
    }
}

/// Where groups of a kind lie, behind the prefix.
pub fn groups_of(kind: u16) -> String {
    format!("group/{}/", digits(&kind.to_be_bytes()))
}

/// Where a part of the log lies, behind the prefix.
pub fn log_key(sequence: u64) -> String {
    format!("log/{sequence:016x}")
}

/// Reads that.
pub fn sequence(key: &str) -> Option<u64> {
    let digits = key.strip_prefix("log/").filter(|digits| digits.len() == 16)?;
    u64::from_str_radix(digits, 16).ok()
}

fn digits(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// A value that says that.
pub fn value(kind: ValueKind, said: &[u8]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend([kind as u8, FORMAT]);
    out.extend(crc32fast::hash(said).to_be_bytes());
    out.extend(said);
    out
}

/// The value of a count.
pub fn count(count: u64) -> Vec<u8> {
    value(ValueKind::Count, &count.to_be_bytes())
}

/// What a value says; otherwise what is wrong with it.
pub fn said(kind: ValueKind, value: &[u8]) -> Result<&[u8], String> {
    let Some((head, said)) = value.split_at_checked(HEAD).filter(|(head, _)| head[..4] == MAGIC)
    else {
        return Err("this is not a value of Weft".to_owned());
    };
    if head[5] != FORMAT {
        let format = head[5];
        return Err(format!("written in format {format}, and this program reads format {FORMAT}"));
    }
    if head[4] != kind as u8 || head[6..] != crc32fast::hash(said).to_be_bytes() {
        return Err("its checksum is wrong".to_owned());
    }
    Ok(said)
}

/// Octets that a change takes.
pub fn size(key: &[u8], record: Option<&[u8]>) -> usize {
    7 + key.len() + record.map_or(0, <[u8]>::len)
}

/// Writes a change. Key and record are below 64 KiB: the store refuses others.
pub fn put(key: &[u8], record: Option<&[u8]>, out: &mut Vec<u8>) {
    out.extend((key.len() as u16).to_be_bytes());
    out.extend(key);
    out.push(u8::from(record.is_some()));
    if let Some(record) = record {
        out.extend((record.len() as u32).to_be_bytes());
        out.extend(record);
    }
}

/// Reads changes until there are no more; none if the octets mean nothing.
pub fn changes(mut octets: &[u8]) -> Option<Vec<Stored>> {
    let mut changes = Vec::new();
    while !octets.is_empty() {
        let (length, rest) = octets.split_first_chunk()?;
        let (key, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        let (is_record, rest) = rest.split_first()?;
        octets = rest;
        let record = match is_record {
            0 => None,
            1 => {
                let (length, rest) = octets.split_first_chunk()?;
                let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
                let (record, rest) = rest.split_at_checked(length)?;
                octets = rest;
                Some(record.to_vec())
            }
            _ => return None,
        };
        // Shorter ones have no kind, and records without a version mean nothing.
        if key.len() < 2 || record.as_ref().is_some_and(Vec::is_empty) {
            return None;
        }
        changes.push((key.to_vec(), record));
    }
    Some(changes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stored() -> impl Strategy<Value = Stored> {
        let key = proptest::collection::vec(any::<u8>(), 2..20);
        (key, proptest::option::of(proptest::collection::vec(any::<u8>(), 1..40)))
    }

    proptest! {
        #[test]
        fn changes_are_read_as_they_were_written(all in proptest::collection::vec(stored(), 0..9)) {
            let mut out = Vec::new();
            all.iter().for_each(|(key, record)| put(key, record.as_deref(), &mut out));
            let length: usize = all.iter().map(|(key, record)| size(key, record.as_deref())).sum();
            prop_assert!(out.len() <= length);
            prop_assert_eq!(changes(&out).unwrap(), all);
        }

        #[test]
        fn whatever_a_value_is_it_is_read_or_refused(
            octets in proptest::collection::vec(any::<u8>(), 0..80), flip in any::<(u8, u8)>(),
        ) {
            let _ = changes(&octets);
            let mut written = value(ValueKind::Log, &octets);
            prop_assert_eq!(said(ValueKind::Log, &written), Ok(&octets[..]));
            prop_assert!(said(ValueKind::Group, &written).is_err());
            let at = usize::from(flip.0) % written.len();
            written[at] ^= 1 << (flip.1 % 8);
            prop_assert!(said(ValueKind::Log, &written).is_err());
            prop_assert!(said(ValueKind::Log, &octets).is_err());
        }

        #[test]
        fn a_group_has_neighbours(kind in any::<u16>(), number in any::<u64>()) {
            let key = |number: u64| [&kind.to_be_bytes()[..], &number.to_be_bytes()].concat();
            let group = Group::of(&key(number));
            prop_assert_eq!(&group, &Group::of(&key(number ^ 1023)));
            prop_assert!(group != Group::of(&key(number ^ 1024)));
            prop_assert!(group.key().starts_with(&groups_of(kind)));
        }
    }

    #[test]
    fn keys_of_the_log_are_in_order() {
        assert!(log_key(9) < log_key(10) && log_key(255) < log_key(256));
        assert_eq!(sequence(&log_key(u64::MAX)), Some(u64::MAX));
        assert_eq!(sequence("log/1"), None);
        assert_eq!(sequence("group/0001/00"), None);
    }
}
