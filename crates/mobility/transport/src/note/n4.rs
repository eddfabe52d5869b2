//! What a node says of its place behind N4, and what its controller answers.

use std::net::{IpAddr, Ipv6Addr};

use super::share::cut;
use super::text_of;
use crate::hello::HelloError;

/// Octets of an address: those of IPv4 are mapped (RFC 4291 section 2.5.5.2).
const ADDRESS: usize = 16;
/// One of each family.
const MOST_ADDRESSES: usize = 2;
/// Octets of a reason, at most.
const REASON: usize = 500;

/// By a node: where control planes would find it. By a controller: what it is behind N4.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct N4Note {
    /// By a controller: the first 16 bits of the node's SEIDs; 0 where it is not behind N4.
    pub number: u16,
    /// By a node: addresses at which it listens for PFCP; two at most.
    pub addresses: Vec<IpAddr>,
    /// By a controller: why the node is not behind N4; 500 octets at most.
    pub reason: String,
}

impl N4Note {
    pub(super) fn emit(&self) -> Vec<u8> {
        let addresses = &self.addresses[..self.addresses.len().min(MOST_ADDRESSES)];
        let mut said = self.number.to_be_bytes().to_vec();
        said.push(addresses.len() as u8);
        for address in addresses {
            let mapped = match address {
                IpAddr::V4(address) => address.to_ipv6_mapped(),
                IpAddr::V6(address) => *address,
            };
            said.extend(mapped.octets());
        }
        said.extend(cut(&self.reason, REASON));
        said
    }

    pub(super) fn parse(said: &[u8]) -> Result<N4Note, HelloError> {
        let ([first, second, count], rest) = said.split_first_chunk().ok_or(HelloError::Value)?;
        let count = usize::from(*count);
        let split = rest.split_at_checked(count * ADDRESS).filter(|_| count <= MOST_ADDRESSES);
        let (addresses, reason) = split.ok_or(HelloError::Value)?;
        if reason.len() > REASON {
            return Err(HelloError::Value);
        }
        let (addresses, _) = addresses.as_chunks::<ADDRESS>();
        let address = |octets: &[u8; ADDRESS]| Ipv6Addr::from(*octets).to_canonical();
        Ok(N4Note {
            number: u16::from_be_bytes([*first, *second]),
            addresses: addresses.iter().map(address).collect(),
            reason: text_of(reason)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_reads_as_it_was_written_and_no_part_of_it() {
        let addresses = vec!["192.0.2.7".parse().unwrap(), "2001:db8::7".parse().unwrap()];
        let node = N4Note { addresses, ..N4Note::default() };
        let octets = node.emit();
        assert_eq!(N4Note::parse(&octets), Ok(node));
        for length in 0..octets.len() {
            assert!(N4Note::parse(&octets[..length]).is_err(), "{length}");
        }
        let controller = N4Note { number: 0xabcd, reason: "ö".repeat(250), ..N4Note::default() };
        assert_eq!(N4Note::parse(&controller.emit()), Ok(controller));
    }

    #[test]
    fn what_is_too_much_is_not_said_and_not_read() {
        let many = vec![IpAddr::from([192, 0, 2, 1]); 9];
        let long = N4Note { addresses: many, reason: "ö".repeat(REASON), ..N4Note::default() };
        let read = N4Note::parse(&long.emit()).unwrap();
        assert_eq!((read.addresses.len(), read.reason.len()), (2, REASON));
        let three = [&[0, 0, 3][..], &[0; 3 * ADDRESS]].concat();
        assert!(N4Note::parse(&three).is_err());
        assert!(N4Note::parse(&[&[0, 0, 0][..], &[b'x'; REASON + 1]].concat()).is_err());
        assert!(N4Note::parse(&[0, 0, 0, 0xff]).is_err());
    }
}
