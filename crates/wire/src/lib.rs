//! Protocol headers: what the bytes of a packet mean, and nothing else.
//!
//! Each protocol is one module, and each module gives the same two things.
//!
//! A **view** (`ipv4::Packet`, `udp::Datagram`, ...) lays the field table of a
//! header over borrowed bytes. `new_checked` is the only way to make one: it
//! tests every length that the accessors rely on and names the defect if there
//! is one, so after it no accessor panics, whatever the bytes say. Views copy
//! nothing and allocate nothing; over mutable bytes they have setters. Where
//! a setter makes a length field lie, accessors show fewer bytes, never more.
//!
//! A **`Repr`** is the same header as an owned value for code that builds or
//! compares headers. `Repr::parse` takes a view, so it cannot fail;
//! `Repr::emit` writes the first `buffer_len` octets of a buffer, and
//! `parse(emit(x)) == x`. It describes the header only, so a checksum that also
//! covers a payload is emitted as 0 and then set by the view's `fill_checksum`.
//! The checksum of an IPv4 header covers nothing else, and `emit` sets it.
//!
//! Checksums are never tested by `new_checked`: a node that only forwards does
//! not look at them. Code that consumes a packet calls `verify_checksum`; code that
//! changes a field repairs them with a [`checksum::Change`].
//!
//! All numbers are in the byte order of the host; the wire's is known here only.
//!
//! ```
//! use weft_wire::{checksum::Change, ipv4, udp};
//!
//! # let (udp, mut bytes) = (udp::Repr { source_port: 68, destination_port: 67, payload_length: 0 }, [0; 28]);
//! # let ip = ipv4::Repr { protocol: weft_wire::Protocol::UDP, payload_length: 8, ..Default::default() };
//! # ip.emit(&mut bytes).unwrap();
//! # udp.emit(&mut bytes[20..]).unwrap();
//! // Rewrite the source address of a UDP packet, and repair both checksums.
//! let mut packet = ipv4::Packet::new_checked(&mut bytes[..])?;
//! let new = "192.0.2.7".parse().unwrap();
//! let change = Change::NONE.bytes(&packet.source().octets(), &[192, 0, 2, 7]);
//! packet.set_source(new);
//! packet.update_checksum(change);
//! udp::Datagram::new_checked(packet.payload_mut())?.update_checksum(change);
//! # assert_eq!(ipv4::Packet::new_checked(&bytes[..])?.verify_checksum(), Ok(()));
//! # Ok::<(), weft_wire::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod checksum;
mod error;
mod internet;
pub mod ip;
mod link;
mod octets;
pub mod options;
#[cfg(test)]
mod testing;
mod transport;
mod tunnel;

pub use internet::{icmpv4, icmpv6, ipv4, ipv6};
pub use link::{arp, ethernet, pppoe, vlan};
pub use transport::{tcp, udp};
pub use tunnel::{esp, gtpu, iphc, nsh, vxlan_gpe};

pub use error::{Error, TextError};
pub use ethernet::{EtherType, MacAddress};
pub use ip::{Dscp, Ecn, Fragment, Protocol};
