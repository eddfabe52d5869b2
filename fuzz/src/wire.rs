//! Protocol headers.

pub mod arp;
pub mod ethernet;
pub mod gtpu;
pub mod icmpv4;
pub mod icmpv6;
pub mod iphc;
pub mod ipv4;
pub mod ipv6;
pub mod nsh;
pub mod pppoe;
pub mod tcp;
pub mod udp;
pub mod vlan;
pub mod vxlan_gpe;
