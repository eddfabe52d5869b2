//! Which flow rules a device takes.

use super::pattern::{FlowField, FlowMatch, TunnelItem};
use super::{FlowLevel, FlowRule};

/// What a device takes of rules that compare one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowTaking {
    /// Whether a rule may compare some bits, and not only all of them.
    pub masks: bool,
    /// Whether there may be rules of [`FlowLevel::Rest`] beside others.
    pub levels: bool,
}

/// Which flow rules a device takes; by default none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowSupport([Option<Encoding>; FlowField::ALL.len()]);

/// How a device takes rules that compare one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Encoding {
    pub(super) tunnel: TunnelItem,
    masks: bool,
    /// DPDK's number of the first level: 0 is ahead of all others.
    first: u32,
    rest: Option<u32>,
}

impl Encoding {
    pub(super) fn priority(self, level: FlowLevel) -> Option<u32> {
        match level {
            FlowLevel::First => Some(self.first),
            FlowLevel::Rest => self.rest,
        }
    }
}

impl FlowSupport {
    /// What it takes of rules that compare that field.
    pub fn of(&self, field: FlowField) -> Option<FlowTaking> {
        let encoding = self.encoding(field)?;
        Some(FlowTaking { masks: encoding.masks, levels: encoding.rest.is_some() })
    }

    /// Whether it takes none at all.
    pub fn is_none(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// The fields that rules may compare, for an operator.
    pub fn names(&self) -> Vec<String> {
        let taken = FlowField::ALL.iter().filter_map(|field| Some((field, self.of(*field)?)));
        let name = |(field, taking): (&FlowField, FlowTaking)| match taking.masks {
            true => format!("{} (masks)", field.name()),
            false => field.name().to_owned(),
        };
        taken.map(name).collect()
    }

    /// How it takes those of TEIDs in the version of IP that an address is of.
    fn tunnels_of(&self, field: FlowField) -> Option<Encoding> {
        self.encoding(if field.is_in_ipv6() {
            FlowField::TeidInIpv6
        } else {
            FlowField::TeidInIpv4
        })
    }

    pub(super) fn encoding(&self, field: FlowField) -> Option<Encoding> {
        self.0[field as usize]
    }

    /// Of a device that takes samples as `takes` says, with DPDK's number of a level; all that it
    /// has taken stands beside each other.
    ///
    /// A driver may know one of two items for GTP-U, no levels at all, or want rules for IPv4 and
    /// for IPv6 to be of different ones, as that of TAP does. Among those of the second level,
    /// TEIDs come ahead of addresses.
    pub(super) fn find(mut takes: impl FnMut(&FlowRule, Encoding, u32) -> bool) -> FlowSupport {
        let mut found = FlowSupport::default();
        for (number, field) in FlowField::ALL.into_iter().enumerate() {
            let number = number as u32;
            let items = [TunnelItem::Gtpu, TunnelItem::Gtp].into_iter();
            let items = items.take(if field.is_teid() { 2 } else { 1 });
            let mut encodings = items.flat_map(|tunnel| {
                let firsts = [0, 1 + number].into_iter();
                firsts.map(move |first| Encoding { tunnel, masks: false, first, rest: None })
            });
            let [exact, some, low] = samples(field);
            let Some(mut encoding) =
                encodings.find(|encoding| takes(&exact, *encoding, encoding.first))
            else {
                continue;
            };
            encoding.masks = takes(&some, encoding, encoding.first);
            if encoding.masks {
                // A tunnel's outer addresses are no user's.
                let tunnels = if field.is_teid() { None } else { found.tunnels_of(field) };
                let ahead =
                    tunnels.and_then(|encoding| encoding.rest).unwrap_or(0).max(encoding.first);
                let near = if field.is_teid() { 1 } else { 2 };
                let mut behind = [near, 1 + FlowField::ALL.len() as u32 + number].into_iter();
                encoding.rest = behind.find(|rest| *rest > ahead && takes(&low, encoding, *rest));
            }
            found.0[number as usize] = Some(encoding);
        }
        found
    }
}

/// A rule that compares all of a field, one for every fourth number of a block of them, and one
/// that compares the lowest bits alone, of addresses and a TEID that no user has
/// (RFC 5737, RFC 3849).
fn samples(field: FlowField) -> [FlowRule; 3] {
    let (value, shift) = match field {
        FlowField::TeidInIpv4 | FlowField::TeidInIpv6 => (0xffff_fff1, 0),
        FlowField::SourceIpv4 | FlowField::DestinationIpv4 => (0xc000_0201, 0),
        // Users have prefixes of 64 bits, and what counts of them are the last.
        FlowField::SourceIpv6 | FlowField::DestinationIpv6 => (0x2001_0db8_u128 << 96, 64),
    };
    let block = (field.whole() >> shift << shift) & !(0xfc << shift);
    let rule = |mask: u128, level| {
        let of = FlowMatch { field, value: value & mask, mask };
        FlowRule { of, queue: 0, level }
    };
    [
        rule(field.whole(), FlowLevel::First),
        rule(block, FlowLevel::First),
        rule(3 << shift, FlowLevel::Rest),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_takes_all_is_asked_for_no_other_way() {
        let mut asked = Vec::new();
        let all = FlowSupport::find(|rule, encoding, priority| {
            asked.push((rule.of.field, encoding.tunnel, priority));
            true
        });
        assert_eq!(asked.len(), 3 * FlowField::ALL.len());
        for field in FlowField::ALL {
            assert_eq!(all.of(field), Some(FlowTaking { masks: true, levels: true }));
            let encoding = all.encoding(field).unwrap();
            let rest = if field.is_teid() { 1 } else { 2 };
            assert_eq!(
                (encoding.tunnel, encoding.first, encoding.rest),
                (TunnelItem::Gtpu, 0, Some(rest))
            );
        }
        assert_eq!(all.names()[0], "TEID in IPv4 (masks)");
    }

    #[test]
    fn a_device_that_takes_nothing_has_no_rules() {
        let none = FlowSupport::find(|_, _, _| false);
        assert!(none.is_none() && none.names().is_empty());
        assert_eq!(none.of(FlowField::SourceIpv4), None);
    }

    #[test]
    fn what_a_device_lacks_is_not_used() {
        // One that compares whole IPv4 addresses, and has no levels.
        let exact = FlowSupport::find(|rule, _, priority| {
            let field = rule.of.field;
            !field.is_teid() && rule.of.mask == u128::from(u32::MAX) && priority == 0
        });
        assert_eq!(exact.names(), ["source in IPv4", "destination in IPv4"]);
        let taking = exact.of(FlowField::SourceIpv4).unwrap();
        assert_eq!((taking.masks, taking.levels), (false, false));
        // One that knows GTP-U by the other item.
        let other = FlowSupport::find(|_, encoding, _| encoding.tunnel == TunnelItem::Gtp);
        assert_eq!(other.names(), ["TEID in IPv4 (masks)", "TEID in IPv6 (masks)"]);
    }

    #[test]
    fn versions_of_ip_have_levels_of_their_own_where_that_is_wanted() {
        // As the kernel's flower: all filters of one priority are of one protocol.
        let mut protocols = std::collections::BTreeMap::new();
        let found = FlowSupport::find(|rule, _, priority| {
            use FlowField::{DestinationIpv4, DestinationIpv6, SourceIpv4, SourceIpv6};
            let protocol = match rule.of.field {
                SourceIpv4 | DestinationIpv4 => 4,
                SourceIpv6 | DestinationIpv6 => 6,
                _ => return false,
            };
            *protocols.entry(priority).or_insert(protocol) == protocol
        });
        for field in &FlowField::ALL[2..] {
            let encoding = found.encoding(*field).unwrap();
            assert!(
                encoding.masks && encoding.rest.unwrap() > encoding.first,
                "{field:?}: {encoding:?}"
            );
        }
    }
}
