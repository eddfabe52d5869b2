//! The binding table: which lwB4 has an IPv4 address and port (RFC 7596 §6.1).

use std::net::{Ipv4Addr, Ipv6Addr};

use weft_dpdk::{Table as Lookup, Value};

use super::config::{PortSets, Softwire, Table};

/// Softwires at most.
const MOST: usize = 1 << 26;

/// What is wrong with a table, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// A path of keys.
    pub place: String,
    /// What would be right.
    pub message: String,
}

/// Addresses that are shared in one way.
#[derive(Clone, Copy, Debug)]
struct Range {
    first: u32,
    last: u32,
    psid_length: u8,
    psid_offset: u8,
}

impl Range {
    /// The set that a port belongs to (RFC 7597 §5.1, appendix B).
    #[inline(always)]
    fn psid(self, port: u16) -> Option<u16> {
        let (port, length) = (u32::from(port), u32::from(self.psid_length));
        let offset = u32::from(self.psid_offset);
        if offset > 0 && port >> (16 - offset) == 0 {
            return None;
        }
        Some((port >> (16 - offset - length) & ((1 << length) - 1)) as u16)
    }
}

/// IPv6 address of a lwB4, which is never unspecified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct B4(u128);

impl Value for B4 {
    const MISS: B4 = B4(0);

    #[inline(always)]
    fn is_miss(&self) -> bool {
        self.0 == 0
    }
}

/// The table as packets need it.
#[derive(Debug)]
pub struct Bindings {
    /// In the order of their addresses.
    ranges: Vec<Range>,
    softwires: Lookup<u64, B4>,
}

/// In what is noted of a packet, beside the key of its softwire: it is plain.
const PLAIN: u64 = 1 << 63;

impl Default for Bindings {
    fn default() -> Bindings {
        Bindings { ranges: Vec::new(), softwires: Lookup::with_capacity(0) }
    }
}

impl Bindings {
    /// # Errors
    /// The first [`Mistake`].
    pub fn new(table: &Table) -> Result<Bindings, Mistake> {
        let count = table.softwires.len();
        if count > MOST {
            let message = format!("{count} are more than {MOST}");
            return Err(Mistake { place: "softwires".into(), message });
        }
        let ranges = ranges(&table.port_sets)?;
        let mut bindings = Bindings { ranges, softwires: Lookup::with_capacity(count) };
        for (number, softwire) in table.softwires.iter().enumerate() {
            bindings.add(*softwire).map_err(|(key, message)| Mistake {
                place: format!("softwires.{number}.{key}"),
                message,
            })?;
        }
        Ok(bindings)
    }

    fn add(&mut self, softwire: Softwire) -> Result<(), (&'static str, String)> {
        let Softwire { ipv4, psid, b4 } = softwire;
        let Some(range) = self.range(ipv4.to_bits()) else {
            return Err(("ipv4", format!("{ipv4} is in none of the port sets' addresses")));
        };
        if u32::from(psid) >> range.psid_length != 0 {
            let message = format!("{psid} has more than {} bits", range.psid_length);
            return Err(("psid", message));
        }
        if b4.is_unspecified() || b4.is_multicast() {
            return Err(("b4", format!("{b4} is not the address of one host")));
        }
        match self.softwires.insert(key(ipv4.to_bits(), psid), B4(b4.to_bits())) {
            Ok(None) => Ok(()),
            Ok(Some(B4(other))) => {
                let other = Ipv6Addr::from_bits(other);
                Err(("psid", format!("{ipv4} with PSID {psid} is that of {other}")))
            }
            Err(full) => Err(("ipv4", full.to_string())),
        }
    }

    /// Softwires.
    pub fn len(&self) -> usize {
        self.softwires.len()
    }

    /// Memory, bytes: 67.1 for each of 1,000,000 softwires.
    pub fn memory_bytes(&self) -> usize {
        self.softwires.memory_bytes() + size_of_val(&*self.ranges)
    }

    #[inline(always)]
    fn range(&self, address: u32) -> Option<Range> {
        let behind = match &*self.ranges {
            [one] => usize::from(one.first <= address),
            ranges => ranges.partition_point(|range| range.first <= address),
        };
        self.ranges.get(behind.wrapping_sub(1)).copied().filter(|range| address <= range.last)
    }

    /// Whether the address is some softwire's, or could be.
    #[inline(always)]
    pub fn contains(&self, address: u32) -> bool {
        self.range(address).is_some()
    }

    /// Whether the address is not shared, so that packets without ports have a way.
    pub fn is_whole(&self, address: u32) -> bool {
        self.range(address).is_some_and(|range| range.psid_length == 0 && range.psid_offset == 0)
    }

    /// The lwB4 that has the address and port.
    #[inline]
    pub fn find(&self, address: u32, port: u16) -> Option<u128> {
        self.softwires.get(&self.key_of(address, port)?).map(|B4(b4)| b4)
    }

    /// Asks the processor for what [`find`](Self::find) will need; a note of it for
    /// [`noted`](Self::noted), 0 where there is nothing to be found.
    #[inline(always)]
    pub fn ask(&self, address: u32, port: u16) -> u64 {
        let Some(key) = self.key_of(address, port) else { return 0 };
        self.softwires.prefetch(&key);
        PLAIN | key
    }

    /// The lwB4 that was asked for.
    #[inline(always)]
    pub fn noted(&self, note: u64) -> Option<u128> {
        if note == 0 {
            return None;
        }
        self.softwires.get(&(note & !PLAIN)).map(|B4(b4)| b4)
    }

    #[inline(always)]
    fn key_of(&self, address: u32, port: u16) -> Option<u64> {
        Some(key(address, self.range(address)?.psid(port)?))
    }
}

#[inline(always)]
fn key(address: u32, psid: u16) -> u64 {
    u64::from(address) << 16 | u64::from(psid)
}

fn ranges(sets: &[PortSets]) -> Result<Vec<Range>, Mistake> {
    let mut ranges: Vec<(usize, Range)> = Vec::new();
    for (number, set) in sets.iter().enumerate() {
        let wrong = |key: &str, message: &str| Mistake {
            place: format!("portSets.{number}.{key}"),
            message: message.into(),
        };
        let PortSets { psid_length, psid_offset, .. } = *set;
        let Some(v4) = set.addresses.v4() else {
            return Err(wrong("addresses", "a prefix of IPv4 addresses"));
        };
        if psid_offset > 15 || psid_length > 16 - psid_offset {
            return Err(wrong("psidLength", "a port has 16 bits for psidOffset and psidLength"));
        }
        let (first, last) = (v4.first(), v4.first() | !v4.mask);
        ranges.push((number, Range { first, last, psid_length, psid_offset }));
    }
    ranges.sort_by_key(|(_, range)| range.first);
    let twice = ranges.windows(2).find(|pair| pair[1].1.first <= pair[0].1.last);
    if let Some([(_, one), (number, other)]) = twice {
        let [one, other] = [one.first, other.first].map(Ipv4Addr::from_bits);
        let message = format!("those from {other} on are among those from {one} on");
        return Err(Mistake { place: format!("portSets.{number}.addresses"), message });
    }
    Ok(ranges.into_iter().map(|(_, range)| range).collect())
}
