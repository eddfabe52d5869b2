//! The server's name in what a TLS client says first (RFC 8446 §4.1.2, RFC 6066 §3).

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
/// Octets of a record's header, and of a handshake message's.
const HEADERS: usize = 5 + 4;

/// The name of the server in the first segment of a connection. A message that goes on in the next
/// segment is read as far as it is there; none if the name has not come by then.
pub fn server_name(segment: &[u8]) -> Option<&str> {
    let [HANDSHAKE, 3, _, _, _, CLIENT_HELLO, ..] = segment else { return None };
    let rest = segment.get(HEADERS..)?;
    // The version and the random.
    let rest = rest.get(34..)?;
    // Session, cipher suites, compression.
    let rest = skip(rest, 1)?;
    let rest = skip(rest, 2)?;
    let rest = skip(rest, 1)?;
    let mut rest = rest.get(2..)?;
    loop {
        let kind = u16::from_be_bytes(*rest.first_chunk()?);
        let content = rest.get(2..)?;
        if kind == SERVER_NAME {
            let length = usize::from(u16::from_be_bytes(*content.first_chunk()?));
            // A list of one name: its length, the kind (a host name), the name's length.
            let [_, _, 0, high, low, names @ ..] = content.get(2..2 + length)? else { return None };
            let name = names.get(..usize::from(u16::from_be_bytes([*high, *low])))?;
            return std::str::from_utf8(name).ok().filter(|name| name.is_ascii());
        }
        rest = skip(content, 2)?;
    }
}

/// What follows a field that begins with its own length, of so many octets.
fn skip(octets: &[u8], width: usize) -> Option<&[u8]> {
    let (length, rest) = octets.split_at_checked(width)?;
    let length = length.iter().fold(0, |all, octet| all << 8 | usize::from(*octet));
    rest.get(length..)
}

#[cfg(test)]
pub mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a client says first to a server of that name.
    pub fn hello(name: &str) -> Vec<u8> {
        let sized = |width: usize, content: &[u8]| {
            let length = (content.len() as u32).to_be_bytes();
            [&length[4 - width..], content].concat()
        };
        let entry = [&[0][..], &sized(2, name.as_bytes())].concat();
        let named = [&[0, 0][..], &sized(2, &sized(2, &entry))].concat();
        // Supported groups stand in front.
        let extensions = [&[0, 10][..], &sized(2, &[0, 2, 0, 29]), &named].concat();
        let body = [
            &[3, 3][..],
            &[7; 32],
            &sized(1, &[1; 32]),
            &sized(2, &[0x13, 0x01]),
            &sized(1, &[0]),
            &sized(2, &extensions),
        ]
        .concat();
        let message = [&[CLIENT_HELLO][..], &sized(3, &body)].concat();
        [&[HANDSHAKE, 3, 1][..], &sized(2, &message)].concat()
    }

    #[test]
    fn a_client_names_its_server() {
        let hello = hello("video.example.com");
        assert_eq!(server_name(&hello), Some("video.example.com"));
        for end in 0..hello.len() {
            assert_eq!(server_name(&hello[..end]), None, "{end}");
        }
        assert_eq!(server_name(b"GET / HTTP/1.1\r\n\r\n"), None);
    }

    proptest! {
        #[test]
        fn any_octets_can_be_read(octets: Vec<u8>, at: prop::sample::Index, octet: u8) {
            server_name(&octets);
            let mut hello = hello("a.example");
            let at = at.index(hello.len());
            hello[at] = octet;
            server_name(&hello);
        }
    }
}
