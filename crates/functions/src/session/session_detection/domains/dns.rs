//! Answers of the domain name system (RFC 1035 §4.1), as far as they say where a name leads.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Octets of a name (RFC 1035 §2.3.4), and pointers that are followed within one.
const LONGEST: usize = 255;
const MOST_POINTERS: usize = 16;
/// Records of an answer that are looked at.
const MOST_RECORDS: usize = 32;

const HEADER: usize = 12;
const INTERNET: u16 = 1;
const A: u16 = 1;
const AAAA: u16 = 28;

/// Tells `found` the name that was asked for, in small letters, with each address of the answer and
/// the seconds for which it holds. What cannot be read ends it.
pub fn read(message: &[u8], mut found: impl FnMut(&str, IpAddr, u32)) -> Option<()> {
    let flags = u16_at(message, 2)?;
    // A response to a standard query, without an error.
    if flags & 0xf80f != 0x8000 || u16_at(message, 4)? != 1 {
        return None;
    }
    let records = usize::from(u16_at(message, 6)?).min(MOST_RECORDS);
    let mut name = String::new();
    let mut at = read_name(message, HEADER, &mut name)? + 4;
    for _ in 0..records {
        at = skip_name(message, at)?;
        let (kind, class) = (u16_at(message, at)?, u16_at(message, at + 2)?);
        let seconds = u32::from_be_bytes(*message.get(at + 4..)?.first_chunk()?);
        let length = usize::from(u16_at(message, at + 8)?);
        let data = message.get(at + 10..at + 10 + length)?;
        at += 10 + length;
        if class != INTERNET {
            continue;
        }
        match (kind, data.len()) {
            (A, 4) => found(&name, Ipv4Addr::from(*data.first_chunk::<4>()?).into(), seconds),
            (AAAA, 16) => found(&name, Ipv6Addr::from(*data.first_chunk::<16>()?).into(), seconds),
            _ => {}
        }
    }
    Some(())
}

fn u16_at(message: &[u8], at: usize) -> Option<u16> {
    message.get(at..)?.first_chunk().copied().map(u16::from_be_bytes)
}

/// Reads a name; where the octets behind it begin.
fn read_name(message: &[u8], start: usize, name: &mut String) -> Option<usize> {
    let (mut at, mut end, mut pointers) = (start, None, 0);
    loop {
        let length = usize::from(*message.get(at)?);
        match length >> 6 {
            0 if length == 0 => return Some(end.unwrap_or(at + 1)),
            0 => {
                let label = message.get(at + 1..at + 1 + length)?;
                if name.len() + length + 1 > LONGEST {
                    return None;
                }
                if !name.is_empty() {
                    name.push('.');
                }
                name.extend(label.iter().map(|octet| char::from(octet.to_ascii_lowercase())));
                at += 1 + length;
            }
            3 => {
                pointers += 1;
                if pointers > MOST_POINTERS {
                    return None;
                }
                end.get_or_insert(at + 2);
                at = usize::from(u16_at(message, at)? & 0x3fff);
            }
            _ => return None,
        }
    }
}

/// Where the octets behind a name begin.
fn skip_name(message: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let length = usize::from(*message.get(at)?);
        match length >> 6 {
            0 if length == 0 => return Some(at + 1),
            0 => at += 1 + length,
            3 => return Some(at + 2),
            _ => return None,
        }
    }
}

#[cfg(test)]
pub mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A response that says that a name leads to an alias, and that to these addresses.
    pub fn response(name: &str, addresses: &[&str]) -> Vec<u8> {
        let mut octets = vec![0x12, 0x34, 0x81, 0x80, 0, 1, 0, 1 + addresses.len() as u8];
        octets.extend([0, 0, 0, 0]);
        for label in name.split('.') {
            octets.push(label.len() as u8);
            octets.extend(label.bytes());
        }
        octets.extend([0, 0, 1, 0, 1]);
        // CNAME: a label and a pointer to the name.
        octets.extend([0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 60, 0, 4, 1, b'x', 0xc0, 12]);
        for text in addresses {
            let (kind, data) = match text.parse().unwrap() {
                IpAddr::V4(address) => (A, address.octets().to_vec()),
                IpAddr::V6(address) => (AAAA, address.octets().to_vec()),
            };
            octets.extend([0xc0, 12, 0, kind as u8, 0, 1, 0, 0, 1, 44, 0, data.len() as u8]);
            octets.extend(data);
        }
        octets
    }

    fn all(message: &[u8]) -> Vec<(String, IpAddr, u32)> {
        let mut all = Vec::new();
        read(message, |name, address, seconds| all.push((name.to_owned(), address, seconds)));
        all
    }

    #[test]
    fn an_answer_says_where_a_name_leads() {
        let found = all(&response("Video.Example.COM", &["192.0.2.9", "2001:db8::9"]));
        let name = "video.example.com".to_owned();
        let expected = [
            (name.clone(), "192.0.2.9".parse().unwrap(), 300),
            (name, "2001:db8::9".parse().unwrap(), 300),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn queries_errors_and_loops_say_nothing() {
        let good = response("a.example", &["192.0.2.9"]);
        for (at, octet) in [(2, 0x01), (2, 0x89), (3, 0x83), (5, 0), (12, 0xc0)] {
            let mut message = good.clone();
            message[at] = octet;
            if at == 12 {
                // A pointer to itself.
                message[13] = 12;
            }
            assert!(all(&message).is_empty(), "{at}");
        }
        for end in 0..good.len() {
            assert!(all(&good[..end]).is_empty());
        }
    }

    proptest! {
        #[test]
        fn any_octets_can_be_read(message: Vec<u8>, at: prop::sample::Index, octet: u8) {
            all(&message);
            let mut message = response("a.example", &["192.0.2.9", "2001:db8::9"]);
            let at = at.index(message.len());
            message[at] = octet;
            prop_assert!(all(&message).len() <= MOST_RECORDS);
        }
    }
}
