//! What a controller and its nodes tell each other beside the messages of moves, in network
//! byte order.
//!
//! ```text
//! 0     240, with which no message begins      1     kind
//! 2..4  0                                      4..8  octets that follow
//!   kind 1  places       each as in a greeting
//!   kind 2  settings     0..8 their generation, then a node's configuration as text
//!   kind 3  report       0..8 generation of the settings that the node runs by, 8..16
//!                        generation that it refuses, 16..24 packets received since it started,
//!                        24..32 dropped, then why it refuses as text
//!   kind 4  load         0..8 nanoseconds since the node started, 8..16 packets received in
//!                        that time, 16..24 dropped, 24..26 ten-thousandths of its busiest core
//!                        that packets took of late, or 65535
//!   kind 5  upgrade      0..8 number of the request, or 0 for a question, 8..16 the process that
//!                        is to go, 16 how: 1 another one takes over, 2 it ends
//!   kind 6  process      0..8 number of the request, or 0, 8..16 the process that says so, 16
//!                        what becomes of it: 0 nothing, 1 it has begun, 2 it is refused, 17 octets
//!                        of the version, then the version, then why it is refused as text
//!   kind 7  share        0..16 the move, or the process of a spare node, 16 what is said, 17..19
//!                        number of the share, 19..23 packets dropped, 23 octets of a name, 24
//!                        octets of an address, then both, then a reason as text
//!   kind 8  N4           0..2 the node's number, or 0, 2 how many addresses, 3.. each in 16
//!                        octets, then why the node is not behind N4 as text
//!   kind 9  sessions     0..8 number of the question, 8..12 sessions to be skipped for the next
//!                        answer, or 0, then sessions as text (JSON)
//! ```
//! A place of number 0 is a [question](Question) of the controller. Kinds 8 and 9 are said to it by nodes
//! that it has asked.
//! A node of a release that does not know kind 5 ends its connection, and makes a new one. Kind 7 is
//! said to nodes only that have said one themselves, or that an operator drains.
//! A generation is a number that settings have by what they say; 0 stands for none.

mod n4;
mod question;
mod sessions;
mod share;
mod upgrade;

use weft_mobility_protocol::NodeId;

pub use self::n4::N4Note;
pub use self::question::{Question, SessionsQuestion};
pub use self::sessions::SessionsNote;
pub use self::share::{Share, ShareStep};
pub use self::upgrade::{Attempt, Process, Upgrade, UpgradeMethod};
use crate::hello::{self, HelloError, PeerAddress};

/// The first octet.
pub const TAG: u8 = 240;
/// Octets before what is said.
const HEAD: usize = 8;
/// Octets that one says at most.
pub const MOST: usize = 1 << 20;

/// What is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// By a controller: where others are, or what it [asks](Question).
    Places(Vec<PeerAddress>),
    /// By a controller: how a node is to run.
    Settings {
        /// What it is known by.
        generation: u64,
        /// A node's configuration, as YAML.
        text: String,
    },
    /// By a node: how it runs.
    Report(Report),
    /// By a node: what it carries.
    Load(Load),
    /// By a controller: a process of the node is to go, or to say which one it is.
    Upgrade(Upgrade),
    /// By a node: which process it is, and what becomes of what it was told.
    Process(Process),
    /// By both: a step of a share's move.
    Share(Share),
    /// By a node: where control planes would find it. By a controller: what it is behind N4.
    N4(N4Note),
    /// By a node: PFCP sessions that it was asked for.
    Sessions(SessionsNote),
}

/// How a node runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Generation of the settings that it runs by; 0 for those of its own file.
    pub generation: u64,
    /// Generation of the settings that it was told last and refuses; 0 for none.
    pub refused: u64,
    /// Packets that it has received since it started.
    pub received: u64,
    /// Packets that it has dropped since then.
    pub dropped: u64,
    /// Why it refuses settings.
    pub reason: String,
}

/// What a node carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Nanoseconds since it started.
    pub uptime: u64,
    /// Packets that it has received since then.
    pub received: u64,
    /// Packets that it has dropped since then.
    pub dropped: u64,
    /// Ten-thousandths of the time of its busiest core that packets took of late; none where
    /// that is not known.
    pub busy: Option<u16>,
}

impl Load {
    /// All of a core.
    pub const WHOLE: u16 = 10_000;
    const LENGTH: usize = 26;
    const UNKNOWN: u16 = u16::MAX;

    fn emit(&self) -> Vec<u8> {
        let numbers = [self.uptime, self.received, self.dropped];
        let mut said = numbers.map(|number| number.to_be_bytes()).concat();
        let busy = self.busy.map_or(Load::UNKNOWN, |busy| busy.min(Load::WHOLE));
        said.extend(busy.to_be_bytes());
        said
    }

    fn parse(said: &[u8]) -> Result<Load, HelloError> {
        if said.len() != Load::LENGTH {
            return Err(HelloError::Value);
        }
        let (uptime, said) = number(said)?;
        let (received, said) = number(said)?;
        let (dropped, said) = number(said)?;
        let busy = match u16::from_be_bytes([said[0], said[1]]) {
            Load::UNKNOWN => None,
            busy @ ..=Load::WHOLE => Some(busy),
            _ => return Err(HelloError::Value),
        };
        Ok(Load { uptime, received, dropped, busy })
    }
}

/// Octets of a place in a greeting.
pub fn put_place(place: &PeerAddress, out: &mut Vec<u8>) {
    out.extend(place.node.0.to_be_bytes());
    out.extend([place.name.len() as u8, place.address.len() as u8]);
    out.extend(place.name.as_bytes());
    out.extend(place.address.as_bytes());
}

impl Note {
    /// The octets; none if it says more than [`MOST`] octets.
    pub fn emit(&self) -> Option<Vec<u8>> {
        let (kind, said) = match self {
            Note::Places(places) => {
                let mut said = Vec::new();
                let fits = |place: &&PeerAddress| hello::fits(place);
                places.iter().filter(fits).for_each(|place| put_place(place, &mut said));
                (1, said)
            }
            Note::Settings { generation, text } => {
                (2, [&generation.to_be_bytes()[..], text.as_bytes()].concat())
            }
            Note::Report(report) => {
                let Report { generation, refused, received, dropped, reason } = report;
                let numbers = [generation, refused, received, dropped];
                let mut said = numbers.map(|number| number.to_be_bytes()).concat();
                said.extend(reason.as_bytes());
                (3, said)
            }
            Note::Load(load) => (4, load.emit()),
            Note::Upgrade(upgrade) => (5, upgrade.emit()),
            Note::Process(process) => (6, process.emit()),
            Note::Share(share) => (7, share.emit()),
            Note::N4(said) => (8, said.emit()),
            Note::Sessions(said) => (9, said.emit()),
        };
        if said.len() > MOST {
            return None;
        }
        let mut out = vec![TAG, kind, 0, 0];
        out.extend((said.len() as u32).to_be_bytes());
        out.extend(said);
        Some(out)
    }

    /// Reads one, with its length; `None` while octets are missing.
    ///
    /// # Errors
    /// [`HelloError::Value`] when it means nothing, or is longer than [`MOST`].
    pub fn parse(octets: &[u8]) -> Result<Option<(Note, usize)>, HelloError> {
        let Some((head, rest)) = octets.split_first_chunk::<HEAD>() else { return Ok(None) };
        let length = u32::from_be_bytes([head[4], head[5], head[6], head[7]]) as usize;
        if head[0] != TAG || !(1..=9).contains(&head[1]) || head[2..4] != [0, 0] || length > MOST {
            return Err(HelloError::Value);
        }
        let Some(said) = rest.get(..length) else { return Ok(None) };
        let note = match head[1] {
            1 => Note::Places(places(said)?),
            2 => {
                let (generation, text) = number(said)?;
                Note::Settings { generation, text: text_of(text)? }
            }
            4 => Note::Load(Load::parse(said)?),
            5 => Note::Upgrade(Upgrade::parse(said)?),
            6 => Note::Process(Process::parse(said)?),
            7 => Note::Share(Share::parse(said)?),
            8 => Note::N4(N4Note::parse(said)?),
            9 => Note::Sessions(SessionsNote::parse(said)?),
            _ => {
                let (generation, said) = number(said)?;
                let (refused, said) = number(said)?;
                let (received, said) = number(said)?;
                let (dropped, said) = number(said)?;
                let reason = text_of(said)?;
                Note::Report(Report { generation, refused, received, dropped, reason })
            }
        };
        Ok(Some((note, HEAD + length)))
    }
}

fn places(mut said: &[u8]) -> Result<Vec<PeerAddress>, HelloError> {
    let mut places = Vec::new();
    while !said.is_empty() {
        let (head, rest) = said.split_first_chunk().ok_or(HelloError::Value)?;
        let own = rest.split_at_checked(hello::place_rest(head)).ok_or(HelloError::Value)?;
        places.push(hello::parse_place(head, own.0)?);
        said = own.1;
        if places.len() > hello::MOST_PLACES {
            return Err(HelloError::Value);
        }
    }
    Ok(places)
}

fn number(said: &[u8]) -> Result<(u64, &[u8]), HelloError> {
    let (number, rest) = said.split_first_chunk().ok_or(HelloError::Value)?;
    Ok((u64::from_be_bytes(*number), rest))
}

fn text_of(said: &[u8]) -> Result<String, HelloError> {
    std::str::from_utf8(said).map(str::to_owned).map_err(|_| HelloError::Value)
}

/// What a node says of itself when it greets its controller, so that it need not be in the
/// controller's file.
///
/// ```text
/// 0..8  capacity   8  octets of the address   9  octets of the version   10..  both
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registration {
    /// Where other nodes connect to it, as `HOST:PORT`.
    pub address: String,
    /// What it can carry, in packets a second; 0 where that is not known.
    pub capacity: u64,
    /// Version of its program.
    pub version: String,
}

impl Registration {
    /// Octets before address and version.
    const HEAD: usize = 10;

    /// The octets; texts are cut to 255 octets each.
    pub fn emit(&self) -> Vec<u8> {
        let cut = |text: &str| text.as_bytes()[..text.len().min(255)].to_vec();
        let (address, version) = (cut(&self.address), cut(&self.version));
        let mut out = self.capacity.to_be_bytes().to_vec();
        out.extend([address.len() as u8, version.len() as u8]);
        out.extend(address);
        out.extend(version);
        out
    }

    /// Reads one, which is all there is.
    ///
    /// # Errors
    /// [`HelloError::Value`].
    pub fn parse(said: &[u8]) -> Result<Registration, HelloError> {
        let (capacity, _) = number(said)?;
        let (head, texts) = said.split_at_checked(Registration::HEAD).ok_or(HelloError::Value)?;
        let (address, version) =
            texts.split_at_checked(usize::from(head[8])).ok_or(HelloError::Value)?;
        if version.len() != usize::from(head[9]) {
            return Err(HelloError::Value);
        }
        let (address, version) = (text_of(address)?, text_of(version)?);
        let plain = |text: &str| !text.contains(|c: char| c.is_control() || c.is_whitespace());
        if !plain(&address) || !plain(&version) {
            return Err(HelloError::Value);
        }
        Ok(Registration { address, capacity, version })
    }

    /// Whether the address is `HOST:PORT`.
    pub fn has_address(&self) -> bool {
        let parts = self.address.rsplit_once(':').filter(|(host, _)| !host.is_empty());
        parts.is_some_and(|(_, port)| port.parse::<u16>().is_ok_and(|port| port > 0))
    }
}

/// A node that has greeted its controller with a registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// Its number.
    pub node: NodeId,
    /// Its name: that of its certificate, where there is one.
    pub name: String,
    /// What it says of itself.
    pub registration: Registration,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn note() -> impl Strategy<Value = Note> {
        let place = (any::<u32>(), "[a-z]{0,255}", "[a-z0-9:]{0,255}");
        let place = place.prop_map(|(node, name, address)| PeerAddress {
            node: NodeId(node),
            name,
            address,
        });
        let report = (any::<[u64; 4]>(), ".{0,40}").prop_map(|(numbers, reason)| {
            let [generation, refused, received, dropped] = numbers;
            Note::Report(Report { generation, refused, received, dropped, reason })
        });
        let method = prop_oneof![Just(UpgradeMethod::TakeOver), Just(UpgradeMethod::End)];
        let upgrade = (any::<[u64; 2]>(), method)
            .prop_map(|([request, process], method)| Upgrade { request, process, method });
        let attempt = prop_oneof![Just(Attempt::On), Just(Attempt::Begun), Just(Attempt::Refused)];
        let process = (any::<[u64; 2]>(), attempt, "[0-9.]{0,255}", ".{0,40}");
        let process = process.prop_map(|([request, process], attempt, version, reason)| {
            Note::Process(Process { request, process, attempt, version, reason })
        });
        prop_oneof![
            upgrade.prop_map(Note::Upgrade),
            process,
            proptest::collection::vec(place, 0..4).prop_map(Note::Places),
            (any::<u64>(), ".{0,200}")
                .prop_map(|(generation, text)| Note::Settings { generation, text }),
            report,
            (any::<[u64; 3]>(), proptest::option::of(0..=Load::WHOLE)).prop_map(
                |(numbers, busy)| {
                    let [uptime, received, dropped] = numbers;
                    Note::Load(Load { uptime, received, dropped, busy })
                }
            ),
        ]
    }

    proptest! {
        #[test]
        fn notes_read_as_they_were_written(note in note(), behind: Vec<u8>, cut in 0_usize..2000) {
            let octets = note.emit().unwrap();
            let whole = [&octets[..], &behind].concat();
            prop_assert_eq!(Note::parse(&whole), Ok(Some((note, octets.len()))));
            prop_assert_eq!(Note::parse(&octets[..cut % octets.len()]), Ok(None));
        }

        #[test]
        fn whatever_comes_is_read_or_refused(mut octets: Vec<u8>, kind in 0_u8..10, length in 0_u8..40) {
            let _ = Registration::parse(&octets);
            let _ = Note::parse(&octets);
            let head = [TAG, kind, 0, 0, 0, 0, 0, length];
            octets.splice(..0, head);
            let _ = Note::parse(&octets);
        }

        #[test]
        fn registrations_read_as_they_were_written(
            address in "[a-z0-9:.]{0,255}", capacity: u64, version in "[0-9.]{0,255}",
        ) {
            let registration = Registration { address, capacity, version };
            prop_assert_eq!(Registration::parse(&registration.emit()), Ok(registration));
        }
    }

    #[test]
    fn what_is_too_long_is_neither_said_nor_waited_for() {
        let long = Note::Settings { generation: 1, text: "x".repeat(MOST) };
        assert_eq!(long.emit(), None);
        let head = [TAG, 2, 0, 0, 0x7f, 0, 0, 0];
        assert_eq!(Note::parse(&head), Err(HelloError::Value));
    }

    /// A load of another length, or of more than a whole core, is none.
    #[test]
    fn a_load_that_cannot_be_is_refused() {
        let load = Load { uptime: 1, received: 2, dropped: 3, busy: Some(Load::WHOLE) };
        let octets = Note::Load(load).emit().unwrap();
        assert!(Note::parse(&octets).is_ok());
        let mut more = octets.clone();
        more[32..34].copy_from_slice(&(Load::WHOLE + 1).to_be_bytes());
        assert_eq!(Note::parse(&more), Err(HelloError::Value));
        let mut longer = octets.clone();
        longer[7] += 1;
        longer.push(0);
        assert_eq!(Note::parse(&longer), Err(HelloError::Value));
        let mut shorter = octets;
        shorter[7] -= 1;
        shorter.pop();
        assert_eq!(Note::parse(&shorter), Err(HelloError::Value));
    }

    /// Ways and ends that this release does not know mean nothing to it.
    #[test]
    fn an_upgrade_that_cannot_be_is_refused() {
        let octets = Note::Upgrade(Upgrade::default()).emit().unwrap();
        for (at, value) in [(24, 0), (24, 3), (7, 18)] {
            let mut wrong = [&octets[..], &[0]].concat();
            wrong[at] = value;
            assert_eq!(Note::parse(&wrong), Err(HelloError::Value), "{at} {value}");
        }
        let long = Process { version: "ä".repeat(200), ..Process::default() };
        let octets = Note::Process(long).emit().unwrap();
        let Ok(Some((Note::Process(read), _))) = Note::parse(&octets) else { panic!() };
        assert_eq!(read.version, "ä".repeat(127));
        for (at, value) in [(24, 3), (25, 255)] {
            let mut wrong = octets.clone();
            wrong[at] = value;
            assert_eq!(Note::parse(&wrong), Err(HelloError::Value), "{at} {value}");
        }
    }

    #[test]
    fn addresses_are_told_from_others() {
        let is = |address: &str| {
            Registration { address: address.into(), ..Registration::default() }.has_address()
        };
        assert!(is("192.0.2.1:9473") && is("[2001:db8::1]:9473") && is("a.example:1"));
        assert!(!is("192.0.2.1") && !is(":9473") && !is("a:0") && !is(""));
    }
}
