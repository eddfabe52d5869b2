//! Users by a part of their name, or by what they are found by. The search looks at plans, of
//! which a configuration has some thousands at most, and not at their users.

use std::collections::BTreeSet;
use std::net::IpAddr;

use weft_node_config::{UserKey, UserPlan};

use super::Users;

/// What is searched for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sought {
    /// In small letters.
    text: String,
    address: Option<IpAddr>,
    /// A TEID, SPI, VLAN or session.
    number: Option<u32>,
}

impl Sought {
    /// A part of a name, an address, or a number: decimal, or hexadecimal behind `0x`.
    pub fn new(text: &str) -> Sought {
        let text = text.trim().to_lowercase();
        let words = text.split_whitespace().next_back().unwrap_or_default();
        let number = match words.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => words.parse().ok(),
        };
        Sought { address: text.parse().ok(), number, text }
    }

    /// Keys that would be those of a user that is found by this, in networks of these numbers.
    pub fn keys(&self, networks: u32) -> Vec<UserKey> {
        let in_network = |network| {
            let of_address = self.address.into_iter().flat_map(move |address| match address {
                IpAddr::V4(first) => vec![UserKey::Ipv4 { network, first }],
                IpAddr::V6(address) => {
                    let prefix = (address.to_bits() >> 64 << 64).into();
                    [(prefix, 64), (address, 128)]
                        .map(|(first, prefix_len)| UserKey::Ipv6 { network, first, prefix_len })
                        .to_vec()
                }
            });
            let of_number = self.number.into_iter().flat_map(move |first| {
                [UserKey::Teid { network, first }, UserKey::Spi { network, first }]
            });
            of_address.chain(of_number)
        };
        (0..networks).flat_map(in_network).collect()
    }

    /// The number as a bearer's.
    pub fn bearer(&self) -> Option<u64> {
        self.text.parse().ok()
    }

    /// Which user of a plan has the key that is sought, where `key` is that of the first.
    fn nth_by(&self, key: &UserKey) -> Option<u32> {
        let behind = |first: u32| self.number?.checked_sub(first);
        match (*key, self.address) {
            (UserKey::Ipv4 { first, .. }, Some(IpAddr::V4(address))) => {
                address.to_bits().checked_sub(first.to_bits())
            }
            (UserKey::Ipv6 { first, prefix_len, .. }, Some(IpAddr::V6(address))) => {
                let shift = 128 - u32::from(prefix_len);
                let number = |address: u128| address.checked_shr(shift).unwrap_or(0);
                number(address.to_bits()).checked_sub(number(first.to_bits()))?.try_into().ok()
            }
            (UserKey::Route { first, prefix_len, .. }, Some(address)) => {
                let is_ours = match (first, address) {
                    (IpAddr::V4(first), IpAddr::V4(address)) => {
                        (first.to_bits() ^ address.to_bits()).leading_zeros() >= prefix_len.into()
                    }
                    (IpAddr::V6(first), IpAddr::V6(address)) => {
                        (first.to_bits() ^ address.to_bits()).leading_zeros() >= prefix_len.into()
                    }
                    _ => false,
                };
                is_ours.then_some(0)
            }
            (UserKey::Flow { source, .. }, Some(address)) => (source == address).then_some(0),
            (UserKey::Teid { first, .. } | UserKey::Spi { first, .. }, None) => behind(first),
            (UserKey::Vlan { first, .. } | UserKey::Session { first, .. }, None) => {
                behind(first.into())
            }
            _ => None,
        }
    }

    /// Which of `count` users of a plan are meant, up to `most`, in order.
    fn among(&self, plan: &UserPlan, count: u32, most: usize) -> Vec<u32> {
        let name = plan.name.to_lowercase();
        if name.contains(&self.text) {
            return (0..count).take(most).collect();
        }
        let by_key = plan.keys.iter().filter_map(|key| self.nth_by(key));
        let mut found: BTreeSet<u32> = by_key.filter(|nth| *nth < count).collect();
        if plan.count > 1
            && let Some(digits) = self.text.strip_prefix(&format!("{name}-"))
        {
            found.extend(with_digits(digits, count, most));
        }
        found.into_iter().take(most).collect()
    }
}

/// Numbers below `count` that begin with these digits, in order, up to `most`.
fn with_digits(digits: &str, count: u32, most: usize) -> impl Iterator<Item = u32> {
    let begins = digits.parse::<u64>().ok().filter(|number| number.to_string() == digits);
    // 4 is followed by 40 to 49, and those by 400 to 499; nothing begins with 0 but 0.
    let decades = std::iter::successors(begins.map(|first| (first, 1)), |(first, wide)| {
        (*first > 0).then_some((first * 10, wide * 10))
    });
    let below = decades.take_while(move |(first, _)| *first < u64::from(count));
    let numbers = below.flat_map(|(first, wide)| first..first + wide);
    numbers
        .filter_map(|number| u32::try_from(number).ok())
        .filter(move |nth| *nth < count)
        .take(most)
}

impl Users {
    /// Users that are meant by `sought`, in the order of the configuration: plan, number among
    /// its users, and slot of up to `count` of them from the `first` on.
    pub fn search(
        &self,
        sought: &Sought,
        first: usize,
        count: usize,
    ) -> Vec<(&UserPlan, u32, u32)> {
        let most = first.saturating_add(count);
        let mut found = Vec::new();
        for range in &self.ranges {
            let left = most - found.len();
            let nths = sought.among(&range.plan, range.slots.len() as u32, left);
            found.extend(nths.into_iter().map(|nth| (&range.plan, nth, range.slots[nth as usize])));
            if found.len() >= most {
                break;
            }
        }
        found.drain(..first.min(found.len()));
        found
    }

    /// Users from the `first` on, as [`Users::iter`] has them.
    pub fn from(&self, first: usize) -> impl Iterator<Item = (&UserPlan, u32, u32)> + '_ {
        let mut before = 0;
        self.ranges.iter().flat_map(move |range| {
            let skipped = first.saturating_sub(before).min(range.slots.len());
            before += range.slots.len();
            let slots = range.slots.iter().enumerate().skip(skipped);
            slots.map(|(nth, slot)| (&range.plan, nth as u32, *slot))
        })
    }

    /// Place of the user of that name among all, and its slot.
    pub fn position(&self, name: &str) -> Option<(usize, u32)> {
        let (plan, nth) = self.place_of(name)?;
        let ranges = self.ranges.iter().take_while(|range| range.plan.name != plan);
        let before: usize = ranges.map(|range| range.slots.len()).sum();
        Some((before + nth as usize, self.slot(name)?))
    }
}

#[cfg(test)]
mod tests {
    use weft_functions::KINDS;
    use weft_node_config::read;

    use super::*;
    use crate::subscribers::Room;

    fn users() -> Users {
        let text = "
apiVersion: weft/v1
kind: Node
metadata: {name: users}
ports:
  access: {device: 'ring:access', direction: uplink}
  core: {device: 'ring:core', direction: downlink}
rules: |
  from access -> core
  from core -> access
users:
  - {name: phone, count: 1200, match: {ipv4: 10.0.0.1}}
  - {name: home, match: {ipv6: '2001:db8:1::/64'}}
  - {name: meter, count: 10, match: {teid: 0x1000}}
";
        let blueprint = read(text, "users.yaml", KINDS).unwrap_or_else(|error| panic!("{error}"));
        let mut users = Users::new(Room::of(&blueprint.limits, 1, false), 1);
        users.become_those_of(&blueprint, &[], &[0; 3], &[]).unwrap();
        users
    }

    fn found(users: &Users, text: &str, first: usize, count: usize) -> Vec<String> {
        let found = users.search(&Sought::new(text), first, count);
        found.iter().map(|(plan, nth, _)| plan.name_of(*nth)).collect()
    }

    #[test]
    fn users_are_found_by_name_address_and_tunnel() {
        let users = users();
        assert_eq!(found(&users, "HOME", 0, 9), ["home"]);
        assert_eq!(found(&users, "10.0.0.3", 0, 9), ["phone-2"]);
        assert_eq!(found(&users, "2001:db8:1::7", 0, 9), ["home"]);
        assert_eq!(found(&users, "0x1004", 0, 9), ["meter-4"]);
        assert_eq!(found(&users, "teid 4100", 0, 9), ["meter-4"]);
        let nothing: [&str; 0] = [];
        for text in ["10.0.8.1", "2001:db8:2::1", "0x100a", "unknown", "phone-x", "9.255.255.255"] {
            assert_eq!(found(&users, text, 0, 9), nothing, "{text}");
        }
    }

    #[test]
    fn names_are_found_by_their_beginning_and_in_pages() {
        let users = users();
        let phones = ["phone-11", "phone-110", "phone-111", "phone-112"];
        assert_eq!(found(&users, "phone-11", 0, 4), phones);
        assert_eq!(found(&users, "phone-11", 2, 2), phones[2..]);
        assert_eq!(
            found(&users, "phone-119", 0, 99),
            [
                "phone-119",
                "phone-1190",
                "phone-1191",
                "phone-1192",
                "phone-1193",
                "phone-1194",
                "phone-1195",
                "phone-1196",
                "phone-1197",
                "phone-1198",
                "phone-1199"
            ]
        );
        assert_eq!(found(&users, "phone-0", 0, 99), ["phone-0"]);
        assert_eq!(found(&users, "phone-01", 0, 99), Vec::<String>::new());
        assert_eq!(found(&users, "", 1199, 3), ["phone-1199", "home", "meter-0"]);
        assert_eq!(found(&users, "e", 5000, 3), Vec::<String>::new());
    }

    #[test]
    fn a_page_begins_where_it_is_asked_to() {
        let users = users();
        for first in [0, 1, 1199, 1200, 1201, 1210, 1211] {
            let slow: Vec<_> = users.iter().skip(first).map(|(_, _, slot)| slot).collect();
            let fast: Vec<_> = users.from(first).map(|(_, _, slot)| slot).collect();
            assert_eq!(slow, fast);
        }
        for (at, (plan, nth, slot)) in users.iter().enumerate() {
            assert_eq!(users.position(&plan.name_of(nth)), Some((at, slot)));
        }
    }
}
