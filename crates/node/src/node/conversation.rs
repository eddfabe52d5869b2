//! What the old and the new process of a node say to each other, over a Unix socket.
//!
//! ```text
//! old      OFFER      JSON: what the node has
//!     new  ACCEPT     it can have that: its number (u32); where it reads older versions of
//!                     contexts than are offered, the version of each function's (u16)
//! old      RECORDS*   what commands have set
//! old      SUBJECTS*  whose contexts there are
//! old      MOVES?     its part in moves of users
//! old      PREPARED   the store is closed
//!     new  READY      everything is there but contexts; how ports go over (u8)
//! old      OPEN       no packet is carried any more, for how long (u64, nanoseconds)
//!     new  OPENED     its ports take packets in
//! old      CONTEXTS*  function (u16), then for each: position among subjects (u32), length
//!                     (u32), octets
//! old      DRAINED    JSON: what its ports have taken in as well
//!     new  TAKEN      it can go on
//! old      YOURS      it does not go on; octets for those who speak for the node
//! ```
//! `*` may come any number of times, `?` once or not at all. That is how it goes where ports of both
//! processes may be open at the same time (READY 1). Otherwise OPEN and OPENED are left out, and
//!
//! - READY 2: the new process has built all but its ports. Behind TAKEN the old one closes its own
//!   and says CLOSED, and the new one opens its own and says OPENED;
//! - READY 0: the new process has built nothing. It opens its ports once the old one has closed the
//!   conversation behind YOURS.
//!
//! READY 3 is for a process at another machine, to which its node gives its
//! [share](crate::agent::Share): OPENED has the MAC addresses of its ports (JSON, by name), and
//! packets that come meanwhile wait at the old process, which relays them behind YOURS.
//!
//! READY 2 is for an old process that says in its offer what its ports are like. Until YOURS either
//! may say REFUSED with a reason, or go away, and the old process goes on. Each message is its kind
//! (u8), the length of what follows (u32, little endian), and that.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Offer,
    Accept,
    Records,
    Subjects,
    Prepared,
    Ready,
    Open,
    Opened,
    Contexts,
    Drained,
    Taken,
    Yours,
    Refused,
    Moves,
    Closed,
}

/// How ports go over to another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortTransfer {
    /// The other process builds the node once this one has ended.
    Behind,
    /// Both processes have them open at the same time.
    Beside,
    /// This process closes them, and the other one, which has built the rest, opens them.
    InTurn,
    /// The other process is at another machine, and has ports of its own with the same addresses.
    Elsewhere,
}

impl PortTransfer {
    /// As READY says it.
    pub(super) fn octet(self) -> u8 {
        self as u8
    }

    /// What READY says.
    ///
    /// # Errors
    /// When it is none.
    pub(super) fn heard(octets: &[u8]) -> Result<PortTransfer, UpgradeError> {
        match octets {
            [0] => Ok(PortTransfer::Behind),
            [1] => Ok(PortTransfer::Beside),
            [2] => Ok(PortTransfer::InTurn),
            [3] => Ok(PortTransfer::Elsewhere),
            _ => Err(UpgradeError::Foreign("ports that go over in no known way")),
        }
    }
}

const KINDS: [Kind; 15] = [
    Kind::Offer,
    Kind::Accept,
    Kind::Records,
    Kind::Subjects,
    Kind::Prepared,
    Kind::Ready,
    Kind::Open,
    Kind::Opened,
    Kind::Contexts,
    Kind::Drained,
    Kind::Taken,
    Kind::Yours,
    Kind::Refused,
    Kind::Moves,
    Kind::Closed,
];

/// Longest message of the old process, and of the new one, in octets.
pub(super) const OF_OLD: usize = 64 << 20;
pub(super) const OF_NEW: usize = 4 << 10;

/// How long a message may take, where nothing else is said.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long what an end said before it went away is looked for.
const LEFT_BEHIND: Duration = Duration::from_millis(100);

/// What the ports of the old process have taken in from the moment on in which those of the new
/// process did, too.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Drained {
    /// By the name of the port: how many packets, and how many of each digest.
    pub seen: HashMap<String, (u64, Vec<(u64, u32)>)>,
}

/// Why another process does not take a node over.
#[derive(Debug, thiserror::Error)]
pub enum UpgradeError {
    /// The conversation broke off.
    #[error("the other process went away: {0}")]
    Gone(#[from] io::Error),
    /// The other process does not want it.
    #[error("{0}")]
    Refused(String),
    /// It says something else than it should.
    #[error("the other process does not speak as a node does: {0}")]
    Foreign(&'static str),
}

/// One end of the conversation.
#[derive(Debug)]
pub(super) struct Conversation {
    stream: UnixStream,
    longest: usize,
    /// For a whole message of the other end.
    patience: Duration,
}

impl Conversation {
    /// Over `stream`, from whose other end messages of that length come at most.
    pub fn new(stream: UnixStream, longest: usize) -> io::Result<Conversation> {
        stream.set_nonblocking(false)?;
        Ok(Conversation { stream, longest, patience: PATIENCE })
    }

    /// How long the other end may take for each message.
    pub fn wait_at_most(&mut self, patience: Duration) -> io::Result<()> {
        self.patience = patience;
        self.stream.set_write_timeout(Some(patience))
    }

    pub fn say(&mut self, kind: Kind, octets: &[u8]) -> io::Result<()> {
        let number = KINDS.iter().position(|one| *one == kind).unwrap_or_default() as u8;
        let mut head = [number; 5];
        head[1..].copy_from_slice(&(octets.len() as u32).to_le_bytes());
        self.stream.write_all(&head)?;
        self.stream.write_all(octets)
    }

    /// The next message.
    ///
    /// # Errors
    /// [`UpgradeError`], also where the other end refuses.
    pub fn hear(&mut self) -> Result<(Kind, Vec<u8>), UpgradeError> {
        let until = Instant::now() + self.patience;
        let mut head = [0; 5];
        self.fill(&mut head, until)?;
        let [number, length @ ..] = head;
        let kind =
            *KINDS.get(usize::from(number)).ok_or(UpgradeError::Foreign("unknown message"))?;
        let length = u32::from_le_bytes(length) as usize;
        if length > self.longest {
            return Err(UpgradeError::Foreign("a message that is too long"));
        }
        let mut octets = vec![0; length];
        self.fill(&mut octets, until)?;
        match kind {
            Kind::Refused => {
                let why = String::from_utf8_lossy(&octets).replace(char::is_control, " ");
                Err(UpgradeError::Refused(why))
            }
            kind => Ok((kind, octets)),
        }
    }

    /// Reads as many octets, in one piece or drop by drop.
    fn fill(&mut self, octets: &mut [u8], until: Instant) -> io::Result<()> {
        let mut filled = 0;
        while filled < octets.len() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer"));
            }
            self.stream.set_read_timeout(Some(left))?;
            match self.stream.read(&mut octets[filled..]) {
                Ok(0) => {
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it has ended"));
                }
                Ok(count) => filled += count,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => {}
                    _ => return Err(error),
                },
            }
        }
        Ok(())
    }

    /// The next message, which must be of this kind.
    ///
    /// # Errors
    /// [`UpgradeError`].
    pub fn hear_only(&mut self, kind: Kind) -> Result<Vec<u8>, UpgradeError> {
        match self.hear()? {
            (said, octets) if said == kind => Ok(octets),
            _ => Err(UpgradeError::Foreign("not its turn to say that")),
        }
    }

    /// Why the conversation came to nothing, if `error` is what was noticed of it. A message to
    /// an end that has refused and gone fails before its refusal is heard.
    pub fn why(&mut self, error: UpgradeError) -> UpgradeError {
        if let UpgradeError::Gone(_) = error {
            self.patience = LEFT_BEHIND;
            for _ in KINDS {
                match self.hear() {
                    Ok(_) => {}
                    Err(refused @ UpgradeError::Refused(_)) => return refused,
                    Err(_) => break,
                }
            }
        }
        error
    }

    /// Says why not; the other end may be gone.
    pub fn refuse(&mut self, why: &str) {
        let end = why.len().min(OF_NEW - 1);
        let _ = self.say(Kind::Refused, &why.as_bytes()[..end]);
    }

    /// Waits until the other end is closed.
    pub fn wait_for_end(&mut self) {
        let _ = self.fill(&mut [0], Instant::now() + self.patience);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is heard of these octets, behind which the other end is closed.
    fn heard(octets: &[u8]) -> Result<(Kind, Vec<u8>), UpgradeError> {
        let (mut to, from) = UnixStream::pair().unwrap();
        to.write_all(octets).unwrap();
        drop(to);
        Conversation::new(from, OF_NEW).unwrap().hear()
    }

    #[test]
    fn messages_are_heard_as_they_were_said() {
        let (one, other) = UnixStream::pair().unwrap();
        let mut one = Conversation::new(one, OF_NEW).unwrap();
        let mut other = Conversation::new(other, OF_NEW).unwrap();
        for kind in KINDS.into_iter().filter(|kind| *kind != Kind::Refused) {
            one.say(kind, b"octets").unwrap();
            assert_eq!(other.hear().unwrap(), (kind, b"octets".to_vec()));
        }
        one.refuse("no\nnot now");
        assert_eq!(other.hear().unwrap_err().to_string(), "no not now");
        one.say(Kind::Taken, &[]).unwrap();
        let error = other.hear_only(Kind::Ready).unwrap_err();
        assert!(matches!(error, UpgradeError::Foreign(_)), "{error}");
    }

    #[test]
    fn what_is_no_message_is_refused() {
        assert!(matches!(heard(b""), Err(UpgradeError::Gone(_))));
        assert!(matches!(heard(&[0, 1, 0]), Err(UpgradeError::Gone(_))));
        assert!(matches!(heard(&[0, 9, 0, 0, 0, 1]), Err(UpgradeError::Gone(_))));
        assert!(matches!(heard(b"GET / HTTP/1.1"), Err(UpgradeError::Foreign(_))));
        let long = [&[1][..], &(OF_NEW as u32 + 1).to_le_bytes()].concat();
        assert!(matches!(heard(&long), Err(UpgradeError::Foreign(_))));
    }

    #[test]
    fn a_refusal_is_heard_of_an_end_that_is_gone() {
        let (one, other) = UnixStream::pair().unwrap();
        let mut one = Conversation::new(one, OF_NEW).unwrap();
        let mut other = Conversation::new(other, OF_NEW).unwrap();
        one.say(Kind::Accept, b"octets").unwrap();
        one.refuse("not now");
        drop(one);
        let gone = other.say(Kind::Records, b"octets").unwrap_err();
        assert_eq!(other.why(gone.into()).to_string(), "not now");
        let foreign = UpgradeError::Foreign("unknown message");
        assert!(matches!(other.why(foreign), UpgradeError::Foreign(_)));
        let ended = other.say(Kind::Records, b"octets").unwrap_err();
        assert!(matches!(other.why(ended.into()), UpgradeError::Gone(_)));
    }

    #[test]
    fn an_end_that_says_nothing_is_not_waited_for() {
        let (_silent, from) = UnixStream::pair().unwrap();
        let mut conversation = Conversation::new(from, OF_NEW).unwrap();
        conversation.wait_at_most(Duration::from_millis(10)).unwrap();
        assert!(matches!(conversation.hear(), Err(UpgradeError::Gone(_))));
    }
}
