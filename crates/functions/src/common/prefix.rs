//! Address prefixes, as configurations give them and as packets are compared
//! with them.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::{BitAnd, BitOr, BitXor, Not};
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, Serializer};

/// All addresses that begin with the same bits. Written as `10.0.0.0/16` or
/// `2001:db8::/32`; a lone address is a prefix of all its bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

impl Prefix {
    /// Whether it is one of IPv4 addresses.
    pub fn is_ipv4(self) -> bool {
        self.address.is_ipv4()
    }

    /// How many bits all addresses have in common: 0 to 32, or 0 to 128.
    pub fn length(self) -> u8 {
        self.length
    }

    /// The prefix of the first `length` bits of this one, which has at least as many.
    pub fn shortened(self, length: u8) -> Prefix {
        let shorter = Prefix { length: length.min(self.length), ..self };
        let v4 = shorter.v4().map(|masked| Ipv4Addr::from_bits(masked.first()).into());
        let v6 = shorter.v6().map(|masked| Ipv6Addr::from_bits(masked.first()).into());
        Prefix { address: v4.or(v6).unwrap_or(shorter.address), ..shorter }
    }

    /// An IPv4 prefix as numbers.
    pub fn v4(self) -> Option<Masked<u32>> {
        let IpAddr::V4(address) = self.address else { return None };
        let mask = u32::MAX.checked_shl(32 - u32::from(self.length)).unwrap_or(0);
        Some(Masked { bits: address.to_bits(), mask })
    }

    /// An IPv6 prefix as numbers.
    pub fn v6(self) -> Option<Masked<u128>> {
        let IpAddr::V6(address) = self.address else { return None };
        let mask = u128::MAX.checked_shl(128 - u32::from(self.length)).unwrap_or(0);
        Some(Masked { bits: address.to_bits(), mask })
    }

    /// Whether some address lies in both.
    pub fn overlaps(self, other: Prefix) -> bool {
        let v4 = self.v4().zip(other.v4()).is_some_and(|(one, other)| one.overlaps(other));
        v4 || self.v6().zip(other.v6()).is_some_and(|(one, other)| one.overlaps(other))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl Serialize for Prefix {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl From<IpAddr> for Prefix {
    fn from(address: IpAddr) -> Prefix {
        Prefix { address, length: if address.is_ipv4() { 32 } else { 128 } }
    }
}

impl JsonSchema for Prefix {
    fn schema_name() -> Cow<'static, str> {
        "Prefix".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "An IPv4 or IPv6 prefix; a lone address is a prefix of all its bits.",
            "type": "string",
            "examples": ["10.0.0.0/16", "2001:db8::/32"]
        })
    }
}

/// Text that is no prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// It does not look like one.
    #[error("\"{0}\" is not a prefix; write 10.0.0.0/16 or 2001:db8::/32")]
    Syntax(String),
    /// There are ones behind the prefix.
    #[error("the prefix of \"{0}\" is written {1}")]
    HostBits(String, String),
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Prefix, PrefixError> {
        let syntax = || PrefixError::Syntax(text.to_owned());
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| syntax())?;
        let all = if address.is_ipv4() { 32 } else { 128 };
        let length = length.map_or(Ok(all), str::parse).map_err(|_| syntax())?;
        if length > all {
            return Err(syntax());
        }
        let prefix = Prefix { address, length };
        let v4: Option<IpAddr> =
            prefix.v4().map(|masked| Ipv4Addr::from_bits(masked.first()).into());
        let v6 = prefix.v6().map(|masked| Ipv6Addr::from_bits(masked.first()).into());
        match v4.or(v6) {
            Some(first) if first != address => {
                Err(PrefixError::HostBits(text.to_owned(), format!("{first}/{length}")))
            }
            _ => Ok(prefix),
        }
    }
}

impl TryFrom<String> for Prefix {
    type Error = PrefixError;

    fn try_from(text: String) -> Result<Prefix, PrefixError> {
        text.parse()
    }
}

/// An address as a number: `u32` for IPv4, `u128` for IPv6.
pub trait Address:
    Copy
    + Default
    + PartialEq
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
    + Not<Output = Self>
{
}

impl Address for u32 {}
impl Address for u128 {}

/// Addresses of one family: those with these bits under the
/// mask. The default is all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Masked<B> {
    pub(crate) bits: B,
    pub(crate) mask: B,
}

impl<B: Address> Masked<B> {
    /// Whether the address is among them.
    #[inline(always)]
    pub fn contains(self, address: B) -> bool {
        address & self.mask == self.bits
    }

    /// The address with its first bits replaced by these.
    #[inline(always)]
    pub fn put_before(self, address: B) -> B {
        self.bits | address & !self.mask
    }

    /// The lowest of them.
    pub fn first(self) -> B {
        self.bits & self.mask
    }

    fn overlaps(self, other: Masked<B>) -> bool {
        let differing = self.bits ^ other.bits;
        differing & self.mask & other.mask == B::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().expect("a prefix")
    }

    #[test]
    fn a_prefix_is_read_as_people_write_it() {
        let masked = Masked { bits: 0x0a00_0000, mask: 0xffff_0000 };
        assert_eq!(prefix("10.0.0.0/16").v4(), Some(masked));
        assert_eq!(prefix("10.0.0.0/16").v6(), None);
        assert_eq!(prefix("0.0.0.0/0").v4(), Some(Masked::default()));
        assert_eq!(prefix("192.0.2.1").length(), 32);
        let masked = Masked { bits: 0x2001_0db8 << 96, mask: 0xffff_ffff << 96 };
        assert_eq!(prefix("2001:db8::/32").v6(), Some(masked));
        assert_eq!(prefix("::1").length(), 128);
        assert_eq!(prefix("::/0").v6(), Some(Masked::default()));
    }

    #[test]
    fn what_is_no_prefix_is_refused_with_what_would_be_right() {
        for text in ["", "10.0.0.0/33", "::/129", "10.0.0/8", "10.0.0.0/", "10.0.0.0/-1", "all"] {
            assert_eq!(text.parse::<Prefix>(), Err(PrefixError::Syntax(text.to_owned())));
        }
        let error = "10.0.0.1/16".parse::<Prefix>().unwrap_err();
        assert!(error.to_string().ends_with("is written 10.0.0.0/16"), "{error}");
        let error = "2001:db8::1/32".parse::<Prefix>().unwrap_err();
        assert!(error.to_string().ends_with("is written 2001:db8::/32"), "{error}");
    }

    #[test]
    fn prefixes_overlap_when_one_contains_the_other() {
        assert!(prefix("10.0.0.0/8").overlaps(prefix("10.1.0.0/16")));
        assert!(prefix("10.1.0.0/16").overlaps(prefix("10.0.0.0/8")));
        assert!(!prefix("10.0.0.0/16").overlaps(prefix("10.1.0.0/16")));
        assert!(!prefix("0.0.0.0/0").overlaps(prefix("::/0")));
        assert!(prefix("::/0").overlaps(prefix("2001:db8::/32")));
    }

    #[test]
    fn the_first_bits_of_an_address_are_replaced() {
        let to = prefix("100.64.0.0/16").v4().unwrap();
        assert_eq!(to.put_before(0x0a00_1234), 0x6440_1234);
        let to = prefix("2001:db8::/32").v6().unwrap();
        assert_eq!(to.put_before(0xfd00_0000 << 96 | 7), 0x2001_0db8 << 96 | 7);
    }
}
