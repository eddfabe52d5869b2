//! Addresses that are set for a user.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use schemars::JsonSchema;
use serde::Deserialize;
use weft_function::{ConfigError, ContextError, Fields};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The addresses of one user, or of the first of several: the nth user's are
/// higher by n, counted from 0. They go before the configured translations, for
/// packets of their family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Settings {
    /// Source address that uplink packets get.
    #[serde(default)]
    pub source: Option<IpAddr>,
    /// Destination address that uplink packets get.
    #[serde(default)]
    pub destination: Option<IpAddr>,
    /// Address that downlink packets to `source` are given back as their
    /// destination: the user's own. Without it they keep the one they have.
    #[serde(default)]
    pub original_source: Option<IpAddr>,
    /// Address that downlink packets from `destination` are given back as their
    /// source. Without it they keep the one they have.
    #[serde(default)]
    pub original_destination: Option<IpAddr>,
}

impl Settings {
    /// Checks the addresses for `count` users.
    pub(super) fn check(&self, count: u32) -> Result<(), ConfigError> {
        let sides = [
            ("source", self.source, "originalSource", self.original_source),
            ("destination", self.destination, "originalDestination", self.original_destination),
        ];
        for (key, address, original_key, original) in sides {
            for (key, address) in [(key, address), (original_key, original)] {
                if address.is_some_and(|address| higher(address, count - 1).is_none()) {
                    let message = format!("{count} users are more than there are addresses");
                    return Err(ConfigError::at(key, message));
                }
            }
            let Some(original) = original else { continue };
            if address.is_none_or(|address| address.is_ipv4() != original.is_ipv4()) {
                let message = format!("needs {key}, of the same family");
                return Err(ConfigError::at(original_key, message));
            }
        }
        Ok(())
    }

    /// The addresses of the `nth` user.
    pub(super) fn nth(&self, nth: u32) -> Context {
        let own = |address: Option<IpAddr>, original: Option<IpAddr>| {
            let original = original.and_then(|original| higher(original, nth));
            match (higher(address?, nth)?, original) {
                (IpAddr::V4(address), Some(IpAddr::V4(original))) => {
                    Some(OwnSubstitute::V4(Substitute { address, original: Some(original) }))
                }
                (IpAddr::V4(address), _) => {
                    Some(OwnSubstitute::V4(Substitute { address, original: None }))
                }
                (IpAddr::V6(address), Some(IpAddr::V6(original))) => {
                    Some(OwnSubstitute::V6(Substitute { address, original: Some(original) }))
                }
                (IpAddr::V6(address), _) => {
                    Some(OwnSubstitute::V6(Substitute { address, original: None }))
                }
            }
        };
        Context {
            source: own(self.source, self.original_source).into(),
            destination: own(self.destination, self.original_destination).into(),
        }
    }
}

/// The address that is higher by `by`, if there is one.
fn higher(address: IpAddr, by: u32) -> Option<IpAddr> {
    match address {
        IpAddr::V4(address) => {
            address.to_bits().checked_add(by).map(|bits| Ipv4Addr::from_bits(bits).into())
        }
        IpAddr::V6(address) => {
            address.to_bits().checked_add(by.into()).map(|bits| Ipv6Addr::from_bits(bits).into())
        }
    }
}

/// An address, and what it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Substitute<A> {
    /// What uplink packets get.
    pub address: A,
    /// What downlink packets are given back.
    pub original: Option<A>,
}

/// What is set for one user: 80 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Context {
    pub(super) source: Stored,
    pub(super) destination: Stored,
}

/// An address and what it stands for, or nothing, as plain numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct Stored {
    /// 0 for nothing, [`Stored::V4`] or [`Stored::V6`].
    pub family: u32,
    /// Whether there is an `original`: 0 or 1.
    pub has_original: u32,
    /// An IPv4 address, or the first of four words of an IPv6 address.
    pub address: u32,
    address_rest: [u32; 3],
    /// In the same way.
    pub original: u32,
    original_rest: [u32; 3],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnSubstitute {
    V4(Substitute<Ipv4Addr>),
    V6(Substitute<Ipv6Addr>),
}

impl Stored {
    pub const V4: u32 = 4;
    pub const V6: u32 = 6;

    #[inline]
    fn v4(&self) -> Option<Substitute<u32>> {
        let original = (self.has_original != 0).then_some(self.original);
        (self.family == Stored::V4).then_some(Substitute { address: self.address, original })
    }

    #[inline]
    fn v6(&self) -> Option<Substitute<u128>> {
        let original = (self.has_original != 0).then(|| joined(self.original, self.original_rest));
        let address = || joined(self.address, self.address_rest);
        (self.family == Stored::V6).then(|| Substitute { address: address(), original })
    }
}

impl From<Option<OwnSubstitute>> for Stored {
    fn from(own: Option<OwnSubstitute>) -> Stored {
        match own {
            None => Stored::default(),
            Some(OwnSubstitute::V4(Substitute { address, original })) => Stored {
                family: Stored::V4,
                has_original: original.is_some().into(),
                address: address.to_bits(),
                original: original.map(Ipv4Addr::to_bits).unwrap_or_default(),
                ..Stored::default()
            },
            Some(OwnSubstitute::V6(Substitute { address, original })) => {
                let [first, address_rest @ ..] = words(address.to_bits());
                let bits = original.map(Ipv6Addr::to_bits).unwrap_or_default();
                let [original_first, original_rest @ ..] = words(bits);
                Stored {
                    family: Stored::V6,
                    has_original: original.is_some().into(),
                    address: first,
                    address_rest,
                    original: original_first,
                    original_rest,
                }
            }
        }
    }
}

fn words(bits: u128) -> [u32; 4] {
    [96, 64, 32, 0].map(|shift| (bits >> shift) as u32)
}

#[inline]
fn joined(first: u32, rest: [u32; 3]) -> u128 {
    rest.iter().fold(first.into(), |bits, word| bits << 32 | u128::from(*word))
}

impl Context {
    #[inline]
    pub(super) fn source_v4(&self) -> Option<Substitute<u32>> {
        self.source.v4()
    }

    #[inline]
    pub(super) fn source_v6(&self) -> Option<Substitute<u128>> {
        self.source.v6()
    }

    #[inline]
    pub(super) fn destination_v4(&self) -> Option<Substitute<u32>> {
        self.destination.v4()
    }

    #[inline]
    pub(super) fn destination_v6(&self) -> Option<Substitute<u128>> {
        self.destination.v6()
    }

    pub(super) fn export(&self, out: &mut Vec<u8>) {
        for side in [&self.source, &self.destination] {
            if let Some(Substitute { address, original }) = side.v4() {
                write(4, address.to_be_bytes(), original.map(u32::to_be_bytes), out);
            } else if let Some(Substitute { address, original }) = side.v6() {
                write(6, address.to_be_bytes(), original.map(u128::to_be_bytes), out);
            } else {
                out.push(0);
            }
        }
    }

    pub(super) fn import(fields: &mut Fields<'_>) -> Result<Context, ContextError> {
        Ok(Context { source: own(fields)?.into(), destination: own(fields)?.into() })
    }
}

fn write<const N: usize>(
    family: u8,
    address: [u8; N],
    original: Option<[u8; N]>,
    out: &mut Vec<u8>,
) {
    out.push(family);
    out.extend_from_slice(&address);
    out.push(original.is_some().into());
    out.extend(original.into_iter().flatten());
}

fn own(fields: &mut Fields<'_>) -> Result<Option<OwnSubstitute>, ContextError> {
    match fields.u8()? {
        0 => Ok(None),
        4 => substitute(fields).map(|own| Some(OwnSubstitute::V4(own))),
        6 => substitute(fields).map(|own| Some(OwnSubstitute::V6(own))),
        _ => Err(ContextError::Damaged),
    }
}

fn substitute<const N: usize, A: From<[u8; N]>>(
    fields: &mut Fields<'_>,
) -> Result<Substitute<A>, ContextError> {
    let address = fields.array()?.into();
    let original = match fields.u8()? {
        0 => None,
        1 => Some(fields.array()?.into()),
        _ => return Err(ContextError::Damaged),
    };
    Ok(Substitute { address, original })
}
