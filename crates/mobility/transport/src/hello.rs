//! The greeting with which a connection begins, in network byte order.
//!
//! ```text
//! who dials:                          who is dialled:
//!  0..4   "WEFT"                       0..4  "WEFT"
//!  4      version, 2                   4     version, 2
//!  5      1 if it registers, or 0      5     0 welcome, or why not
//!  6..8   octets of the whole          6..8  places that follow
//!  8..12  number of who dials          8..16 term of a controller, or 0
//! 12..16  number of who is meant      of each place:
//! 16      octets of the token          0..4  number
//! 17      octets of the name           4     octets of the name
//! 18..    token, then name, then       5     octets of the address
//!         a registration               6..   name, then address
//! ```
//! A registration is what a node says of itself (`note.rs`).

use weft_mobility_protocol::NodeId;

/// The version that is spoken, and the only one that is understood.
pub const VERSION: u8 = 2;
/// Octets of a greeting before token and name.
pub const HEAD: usize = 18;
/// Octets of an answer before its places.
pub const ANSWER_HEAD: usize = 16;
/// Octets of a place before name and address.
pub const PLACE_HEAD: usize = 6;
/// Most places that an answer tells.
pub const MOST_PLACES: usize = 4096;

const MAGIC: [u8; 4] = *b"WEFT";

/// Where a node is to be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerAddress {
    /// Its number.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// Where it listens for other nodes, as `HOST:PORT`.
    pub address: String,
}

/// What a node says when it dials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Who dials.
    pub from: NodeId,
    /// Who is meant.
    pub to: NodeId,
    /// The token, as it was said.
    pub token: Vec<u8>,
    /// The name of who dials.
    pub name: String,
    /// What it says of itself, as octets; 1,024 at most.
    pub registration: Option<Vec<u8>>,
}

/// What the head of an answer says to who is welcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Places that follow.
    pub places: usize,
    /// The term in which a controller leads; 0 without replicas, and of a node.
    pub term: u64,
}

/// Why a node is not welcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Another version is spoken.
    #[error("it speaks another version of the greeting")]
    Version,
    /// The token is not the right one.
    #[error("the token is not the right one")]
    Token,
    /// There is no node of that number and name.
    #[error("there is no node of that number and name")]
    Unknown,
    /// Another node was meant.
    #[error("another node was meant")]
    Elsewhere,
    /// The certificate is not of the name.
    #[error("the certificate is of another name")]
    Name,
    /// It has registered just now, and becomes known.
    #[error("it is registered just now; it may come again")]
    Registering,
}

/// What can be wrong with a greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// It does not begin as one.
    #[error("it does not begin with a greeting")]
    Magic,
    /// It is of TLS.
    #[error("TLS is spoken there, and not here: give `tls` at both ends")]
    Secure,
    /// A version that is not understood.
    #[error("the greeting is of version {0}, and only version 2 is understood")]
    Version(u8),
    /// A length or a value that fits nothing.
    #[error("a field of the greeting has a value that means nothing")]
    Value,
}

const CODES: [Refusal; 6] = [
    Refusal::Version,
    Refusal::Token,
    Refusal::Unknown,
    Refusal::Elsewhere,
    Refusal::Name,
    Refusal::Registering,
];
/// Octets of a registration.
const MOST_REGISTRATION: usize = 1024;

/// How records of TLS begin: an alert, a handshake (RFC 8446 section 5.1).
const SECURE: [[u8; 2]; 2] = [[21, 3], [22, 3]];

impl Hello {
    /// The octets; token and name are cut to 255 each.
    pub fn emit(&self) -> Vec<u8> {
        let token = cut(&self.token);
        let name = cut(self.name.as_bytes());
        let registration = self.registration.as_deref().unwrap_or_default();
        let registration = &registration[..registration.len().min(MOST_REGISTRATION)];
        let length = HEAD + token.len() + name.len() + registration.len();
        let mut out = Vec::with_capacity(length);
        out.extend(MAGIC);
        out.extend([VERSION, u8::from(self.registration.is_some())]);
        out.extend((length as u16).to_be_bytes());
        out.extend(self.from.0.to_be_bytes());
        out.extend(self.to.0.to_be_bytes());
        // Both fit: they were cut.
        out.extend([token.len() as u8, name.len() as u8]);
        out.extend(token);
        out.extend(name);
        out.extend(registration);
        out
    }

    /// Octets that follow a head.
    ///
    /// # Errors
    /// [`HelloError`].
    pub fn rest(head: &[u8; HEAD]) -> Result<usize, HelloError> {
        check(head)?;
        let length = usize::from(u16::from_be_bytes([head[6], head[7]]));
        let rest = usize::from(head[16]) + usize::from(head[17]);
        let more = length.checked_sub(HEAD + rest).ok_or(HelloError::Value)?;
        match head[5] {
            0 if more == 0 => Ok(rest),
            1 if more <= MOST_REGISTRATION => Ok(rest + more),
            _ => Err(HelloError::Value),
        }
    }

    /// Reads what follows a head.
    ///
    /// # Errors
    /// [`HelloError`].
    pub fn parse(head: &[u8; HEAD], rest: &[u8]) -> Result<Hello, HelloError> {
        if Hello::rest(head)? != rest.len() {
            return Err(HelloError::Value);
        }
        let (token, rest) = rest.split_at(usize::from(head[16]));
        let (name, registration) = rest.split_at(usize::from(head[17]));
        let name = std::str::from_utf8(name).map_err(|_| HelloError::Value)?;
        Ok(Hello {
            from: number(&head[8..12]),
            to: number(&head[12..16]),
            token: token.to_vec(),
            name: name.to_owned(),
            registration: (head[5] == 1).then(|| registration.to_vec()),
        })
    }
}

/// The octets of a welcome, which tells where others are; the first
/// [`MOST_PLACES`], without those whose name or address is longer than 255.
pub fn welcome(places: &[PeerAddress], term: u64) -> Vec<u8> {
    let places: Vec<_> = places.iter().filter(|place| fits(place)).take(MOST_PLACES).collect();
    let mut out = answer(0, places.len() as u16, term);
    for place in places {
        out.extend(place.node.0.to_be_bytes());
        out.extend([place.name.len() as u8, place.address.len() as u8]);
        out.extend(place.name.as_bytes());
        out.extend(place.address.as_bytes());
    }
    out
}

/// Whether name and address of a place have at most 255 octets each.
pub fn fits(place: &PeerAddress) -> bool {
    place.name.len().max(place.address.len()) <= 255
}

/// The octets of an answer to a node that is not welcome.
pub fn refuse(refusal: Refusal) -> Vec<u8> {
    let code = CODES.iter().position(|one| *one == refusal).map_or(0, |nth| nth + 1);
    answer(code as u8, 0, 0)
}

/// Reads the head of an answer: how many places follow and in which term, or why one is
/// not welcome.
///
/// # Errors
/// [`HelloError`].
pub fn parse_answer(head: &[u8; ANSWER_HEAD]) -> Result<Result<Welcome, Refusal>, HelloError> {
    check(head)?;
    let [.., t0, t1, t2, t3, t4, t5, t6, t7] = *head;
    let term = u64::from_be_bytes([t0, t1, t2, t3, t4, t5, t6, t7]);
    let places = usize::from(u16::from_be_bytes([head[6], head[7]]));
    match usize::from(head[5]) {
        0 if places <= MOST_PLACES => Ok(Ok(Welcome { places, term })),
        0 => Err(HelloError::Value),
        code => CODES.get(code - 1).map(|refusal| Err(*refusal)).ok_or(HelloError::Value),
    }
}

/// Octets that follow the head of a place.
pub fn place_rest(head: &[u8; PLACE_HEAD]) -> usize {
    usize::from(head[4]) + usize::from(head[5])
}

/// Reads what follows the head of a place.
///
/// # Errors
/// [`HelloError::Value`].
pub fn parse_place(head: &[u8; PLACE_HEAD], rest: &[u8]) -> Result<PeerAddress, HelloError> {
    if place_rest(head) != rest.len() {
        return Err(HelloError::Value);
    }
    let text = |octets| std::str::from_utf8(octets).map_err(|_| HelloError::Value);
    let (name, address) = rest.split_at(usize::from(head[4]));
    let (name, address) = (text(name)?.to_owned(), text(address)?.to_owned());
    Ok(PeerAddress { node: number(&head[0..4]), name, address })
}

fn answer(code: u8, places: u16, term: u64) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend([VERSION, code]);
    out.extend(places.to_be_bytes());
    out.extend(term.to_be_bytes());
    out
}

/// Whether a head begins as one of this version.
///
/// # Errors
/// [`HelloError`].
pub fn check(head: &[u8]) -> Result<(), HelloError> {
    match head {
        [m0, m1, m2, m3, version, ..] if [*m0, *m1, *m2, *m3] == MAGIC => match *version {
            VERSION => Ok(()),
            other => Err(HelloError::Version(other)),
        },
        [first, second, ..] if SECURE.contains(&[*first, *second]) => Err(HelloError::Secure),
        _ => Err(HelloError::Magic),
    }
}

fn number(octets: &[u8]) -> NodeId {
    NodeId(octets.iter().fold(0, |number, octet| number << 8 | u32::from(*octet)))
}

fn cut(octets: &[u8]) -> &[u8] {
    &octets[..octets.len().min(255)]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn greetings_read_as_they_were_written(
            from in any::<u32>(),
            to in any::<u32>(),
            token in proptest::collection::vec(any::<u8>(), 0..=255),
            name in "[a-z0-9-]{0,255}",
            registration in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..99)),
        ) {
            let hello = Hello { from: NodeId(from), to: NodeId(to), token, name, registration };
            let octets = hello.emit();
            let (head, rest) = octets.split_first_chunk().unwrap();
            prop_assert_eq!(Hello::rest(head), Ok(rest.len()));
            prop_assert_eq!(Hello::parse(head, rest), Ok(hello));
        }

        #[test]
        fn whatever_comes_is_read_or_refused(
            head in any::<[u8; HEAD]>(),
            rest in proptest::collection::vec(any::<u8>(), 0..64),
        ) {
            let mut known = head;
            known[..6].copy_from_slice(b"WEFT\x02\0");
            let mut registers = known;
            registers[5] = 1;
            for head in [head, known, registers] {
                let _ = Hello::parse(&head, &rest);
                let mut answer = [0; ANSWER_HEAD];
                answer.copy_from_slice(&head[..ANSWER_HEAD]);
                let _ = parse_answer(&answer);
                let mut place = [0; PLACE_HEAD];
                place.copy_from_slice(&head[..PLACE_HEAD]);
                let _ = parse_place(&place, &rest);
            }
        }
    }

    #[test]
    fn answers_read_as_they_were_written() {
        for refusal in CODES {
            let octets = refuse(refusal);
            assert_eq!(parse_answer(octets.first_chunk().unwrap()), Ok(Err(refusal)));
        }
        let place =
            PeerAddress { node: NodeId(7), name: "b".into(), address: "192.0.2.7:9".into() };
        let long = PeerAddress { name: "x".repeat(256), ..place.clone() };
        let octets = welcome(&[place.clone(), long], 7);
        let (head, rest) = octets.split_first_chunk().unwrap();
        assert_eq!(parse_answer(head), Ok(Ok(Welcome { places: 1, term: 7 })));
        let (head, rest) = rest.split_first_chunk().unwrap();
        assert_eq!(parse_place(head, rest), Ok(place));
    }

    #[test]
    fn another_version_is_told_from_no_greeting() {
        let mut octets = refuse(Refusal::Token);
        octets[4] = 1;
        assert_eq!(parse_answer(octets.first_chunk().unwrap()), Err(HelloError::Version(1)));
        assert_eq!(check(&octets[..8]), Err(HelloError::Version(1)));
        assert_eq!(parse_answer(b"GET / HTTP/1.1\r\n"), Err(HelloError::Magic));
        assert_eq!(check(&[21, 3, 3, 0, 2, 2, 70, 0]), Err(HelloError::Secure));
    }
}
