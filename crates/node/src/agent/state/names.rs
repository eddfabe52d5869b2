//! Keys of contexts in the store: the function, and whose the context is.

use crate::bearer::BearerId;
use crate::bearer::session::SessionId;
use crate::subscribers::Whose;

/// The key of a context. Names have no octet 0 in them.
pub(in crate::agent) fn key(function: &str, whose: &Whose) -> Vec<u8> {
    let mut key = Vec::with_capacity(function.len() + 16);
    key.extend(function.as_bytes());
    key.push(0);
    add_owner(&mut key, whose);
    key
}

/// What stands in keys behind the [prefix] of a function.
pub(in crate::agent) fn owner(whose: &Whose) -> Vec<u8> {
    let mut owner = Vec::with_capacity(16);
    add_owner(&mut owner, whose);
    owner
}

fn add_owner(key: &mut Vec<u8>, whose: &Whose) {
    match whose {
        Whose::User(name) => {
            key.push(b'u');
            key.extend(name.as_bytes());
        }
        Whose::Dedicated { user, bearer } => {
            key.push(b'd');
            key.extend(user.as_bytes());
            key.push(0);
            key.extend(bearer.as_bytes());
        }
        Whose::Added(id) => {
            key.push(b'a');
            key.extend(id.0.to_be_bytes());
        }
        Whose::Session(id) => {
            key.push(b's');
            key.extend(id.0.to_be_bytes());
        }
        Whose::Group(name) => {
            key.push(b'g');
            key.extend(name.as_bytes());
        }
    }
}

/// What the keys of all contexts of a function begin with.
pub(in crate::agent) fn prefix(function: &str) -> Vec<u8> {
    [function.as_bytes(), &[0]].concat()
}

/// What the keys of contexts of groups begin with.
pub(in crate::agent) fn prefix_of_groups(function: &str) -> Vec<u8> {
    [function.as_bytes(), &[0, b'g']].concat()
}

/// What a key says; none where it says nothing.
pub(in crate::agent) fn read(key: &[u8]) -> Option<(&str, Whose)> {
    let end = key.iter().position(|octet| *octet == 0)?;
    let function = std::str::from_utf8(&key[..end]).ok()?;
    Some((function, read_owner(&key[end + 1..])?))
}

/// What the rest of a key says, behind the [prefix] of its function; none where it says nothing.
pub(in crate::agent) fn read_owner(owner: &[u8]) -> Option<Whose> {
    let (kind, rest) = owner.split_first()?;
    let text = |octets: &[u8]| std::str::from_utf8(octets).map(str::to_owned).ok();
    Some(match kind {
        b'u' => Whose::User(text(rest)?),
        b'd' => {
            let end = rest.iter().position(|octet| *octet == 0)?;
            Whose::Dedicated { user: text(&rest[..end])?, bearer: text(&rest[end + 1..])? }
        }
        b'a' => Whose::Added(BearerId(u64::from_be_bytes(rest.try_into().ok()?))),
        b's' => Whose::Session(SessionId(u64::from_be_bytes(rest.try_into().ok()?))),
        b'g' => Whose::Group(text(rest)?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_was_written() {
        let all = [
            Whose::User("ue-3".to_owned()),
            Whose::Dedicated { user: "ue-3".to_owned(), bearer: "voice".to_owned() },
            Whose::Added(BearerId(0x0100_0000_0000_0000)),
            Whose::Group("family".to_owned()),
            Whose::Session(SessionId(0x0100_0000_0000_0007)),
        ];
        for whose in all {
            assert_eq!(read(&key("police", &whose)), Some(("police", whose)));
        }
        for wrong in [&b""[..], b"police", b"police\0", b"police\0x", b"police\0a1", b"p\0dx"] {
            assert_eq!(read(wrong), None);
        }
    }
}
