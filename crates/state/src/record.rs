//! Records and their changes.

/// What a record is about. A user of the store gives its kinds numbers from 1 on; 0 is the
/// store's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(pub u16);

/// What the store says of itself.
pub(crate) const OWN: Kind = Kind(0);
/// What belongs to one machine and goes to no other that keeps the same records.
pub const LOCAL: Kind = Kind(6);

/// One record that is there from now on, or is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Kind, big endian, and the key behind it.
    pub(crate) key: Vec<u8>,
    /// Version of the record, and the record; none for one that goes.
    pub(crate) value: Option<Vec<u8>>,
}

impl Change {
    /// The record under this key is that from now on. `version` says how it is to be read.
    pub fn put(kind: Kind, key: &[u8], version: u8, record: &[u8]) -> Change {
        let mut value = Vec::with_capacity(1 + record.len());
        value.push(version);
        value.extend_from_slice(record);
        Change { key: full_key(kind, key), value: Some(value) }
    }

    /// There is no record under this key from now on.
    pub fn remove(kind: Kind, key: &[u8]) -> Change {
        Change { key: full_key(kind, key), value: None }
    }

    /// The kind of the record.
    pub fn kind(&self) -> Kind {
        self.key.first_chunk().map_or(Kind(0), |kind| Kind(u16::from_be_bytes(*kind)))
    }

    /// Its key.
    pub fn key(&self) -> &[u8] {
        self.key.get(2..).unwrap_or_default()
    }

    /// Version of the record that is there from now on, and the record; none for one that goes.
    pub fn record(&self) -> Option<(u8, &[u8])> {
        self.value.as_deref()?.split_first().map(|(version, record)| (*version, record))
    }

    /// As a store keeps it: kind and key; then version and record, none for one that goes.
    pub fn stored(&self) -> (&[u8], Option<&[u8]>) {
        (&self.key, self.value.as_deref())
    }

    /// Octets that it takes, about.
    pub fn size(&self) -> usize {
        self.key.len() + self.value.as_ref().map_or(0, Vec::len)
    }
}

pub(crate) fn full_key(kind: Kind, key: &[u8]) -> Vec<u8> {
    let mut full = Vec::with_capacity(2 + key.len());
    full.extend_from_slice(&kind.0.to_be_bytes());
    full.extend_from_slice(key);
    full
}

/// The first key behind all that begin with `first`. A kind is no last one.
pub(crate) fn end_of(first: &[u8]) -> Vec<u8> {
    let mut end = first.to_vec();
    while end.pop_if(|octet| *octet == u8::MAX).is_some() {}
    if let Some(octet) = end.last_mut() {
        *octet += 1;
    }
    end
}
