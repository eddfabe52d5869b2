//! IPv4 and IPv6, and their control messages.

pub mod icmpv4;
pub mod icmpv6;
pub mod ipv4;
pub mod ipv6;
