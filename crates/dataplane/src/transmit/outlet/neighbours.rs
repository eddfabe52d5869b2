//! The MAC addresses of next hops.

use std::net::IpAddr;

use weft_dpdk::Table;
use weft_wire::MacAddress;

/// MAC addresses by IP address, as one worker knows them.
#[derive(Debug)]
pub struct Neighbours {
    ipv4: Table<u64>,
    ipv6: Table<[u64; 2]>,
    /// By the number that a table gives.
    macs: Vec<MacAddress>,
    /// Numbers that no neighbour has.
    vacant: Vec<u32>,
}

impl Neighbours {
    /// Room for so many of each family.
    pub(super) fn new(capacity: usize) -> Neighbours {
        Neighbours {
            ipv4: Table::with_capacity(capacity),
            ipv6: Table::with_capacity(capacity),
            macs: Vec::with_capacity(2 * capacity),
            vacant: Vec::with_capacity(2 * capacity),
        }
    }

    #[inline]
    pub(super) fn get(&self, address: IpAddr) -> Option<MacAddress> {
        Some(self.macs[self.number(address)? as usize])
    }

    #[inline]
    fn number(&self, address: IpAddr) -> Option<u32> {
        match address {
            IpAddr::V4(address) => self.ipv4.get(&u64::from(address.to_bits())),
            IpAddr::V6(address) => self.ipv6.get(&words(address)),
        }
    }

    /// Sets or removes the MAC address of a neighbour. One that finds no room
    /// stays unknown; the agent has the same bound.
    pub fn set(&mut self, address: IpAddr, mac: Option<MacAddress>) {
        match (self.number(address), mac) {
            (Some(number), Some(mac)) => self.macs[number as usize] = mac,
            (Some(number), None) => {
                match address {
                    IpAddr::V4(address) => self.ipv4.remove(&u64::from(address.to_bits())),
                    IpAddr::V6(address) => self.ipv6.remove(&words(address)),
                };
                self.vacant.push(number);
            }
            (None, Some(mac)) => self.add(address, mac),
            (None, None) => {}
        }
    }

    fn add(&mut self, address: IpAddr, mac: MacAddress) {
        let number = self.vacant.pop().unwrap_or_else(|| {
            self.macs.push(mac);
            self.macs.len() as u32 - 1
        });
        self.macs[number as usize] = mac;
        let is_full = match address {
            IpAddr::V4(address) => self.ipv4.insert(u64::from(address.to_bits()), number).is_err(),
            IpAddr::V6(address) => self.ipv6.insert(words(address), number).is_err(),
        };
        if is_full {
            self.vacant.push(number);
        }
    }
}

fn words(address: std::net::Ipv6Addr) -> [u64; 2] {
    let bits = address.to_bits();
    [(bits >> 64) as u64, bits as u64]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mac(number: u32) -> MacAddress {
        let [a, b, c, d] = number.to_be_bytes();
        MacAddress([2, 0, a, b, c, d])
    }

    /// A neighbour that says another MAC address each time takes one place.
    #[test]
    fn a_neighbour_has_one_place_whatever_it_says() {
        let mut neighbours = Neighbours::new(16);
        let addresses: [IpAddr; 2] = ["10.0.0.1".parse().unwrap(), "2001:db8::1".parse().unwrap()];
        for number in 0..1000 {
            for address in addresses {
                neighbours.set(address, Some(mac(number)));
                assert_eq!(neighbours.get(address), Some(mac(number)));
            }
        }
        assert_eq!(neighbours.macs.len(), 2);
    }

    #[test]
    fn who_is_gone_makes_room() {
        let mut neighbours = Neighbours::new(16);
        for number in 0..1000u32 {
            let address = IpAddr::V4(number.into());
            neighbours.set(address, Some(mac(number)));
            neighbours.set(address, None);
            neighbours.set(address, None);
            assert_eq!(neighbours.get(address), None);
        }
        assert_eq!((neighbours.macs.len(), neighbours.vacant.len()), (1, 1));
        // What finds no room takes none.
        (0..1000u32).for_each(|n| neighbours.set(IpAddr::V4(n.into()), Some(mac(n))));
        let known = (0..1000u32).filter(|n| neighbours.get(IpAddr::V4((*n).into())).is_some());
        assert!(known.count() + neighbours.vacant.len() >= neighbours.macs.len());
        assert!(neighbours.macs.capacity() <= 1000);
    }
}
