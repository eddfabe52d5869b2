//! The MAC addresses of next hops.

use std::net::IpAddr;

use weft_dpdk::Table;
use weft_wire::MacAddress;

/// MAC addresses by IP address, as one worker knows them.
#[derive(Debug)]
pub struct Neighbours {
    ipv4: Table<u64>,
    ipv6: Table<[u64; 2]>,
    macs: Vec<MacAddress>,
}

impl Neighbours {
    pub(super) fn new(capacity: usize) -> Neighbours {
        Neighbours {
            ipv4: Table::with_capacity(capacity),
            ipv6: Table::with_capacity(capacity),
            macs: Vec::new(),
        }
    }

    #[inline]
    pub(super) fn get(&self, address: IpAddr) -> Option<MacAddress> {
        let index = match address {
            IpAddr::V4(address) => self.ipv4.get(&u64::from(address.to_bits())),
            IpAddr::V6(address) => self.ipv6.get(&words(address)),
        };
        Some(self.macs[index? as usize])
    }

    /// Sets or removes the MAC address of a neighbour. One that finds no room
    /// stays unknown; the agent has the same bound.
    pub fn set(&mut self, address: IpAddr, mac: Option<MacAddress>) {
        let Some(mac) = mac else {
            match address {
                IpAddr::V4(address) => self.ipv4.remove(&u64::from(address.to_bits())),
                IpAddr::V6(address) => self.ipv6.remove(&words(address)),
            };
            return;
        };
        // Few stations: an address that is in use by several IPs is kept once.
        let index = self.macs.iter().position(|one| *one == mac).unwrap_or_else(|| {
            self.macs.push(mac);
            self.macs.len() - 1
        }) as u32;
        let _full = match address {
            IpAddr::V4(address) => self.ipv4.insert(u64::from(address.to_bits()), index).is_err(),
            IpAddr::V6(address) => self.ipv6.insert(words(address), index).is_err(),
        };
    }
}

fn words(address: std::net::Ipv6Addr) -> [u64; 2] {
    let bits = address.to_bits();
    [(bits >> 64) as u64, bits as u64]
}
