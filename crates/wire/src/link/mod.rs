//! Link layers: Ethernet, VLAN tags, PPPoE, and ARP beside them.

pub mod arp;
pub mod ethernet;
pub mod pppoe;
pub mod vlan;
