//! What is said of a node's share of PFCP sessions, as it goes to another node.

use super::text_of;
use crate::hello::HelloError;

/// Octets before texts.
const HEAD: usize = 25;
/// Octets of a reason, at most.
const REASON: usize = 500;

/// One step of a move, or of what comes before it. What is not needed is 0 or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// What the move is known by; who does not take part in it cannot guess that. Of
    /// [`Spare`](ShareStep::Spare): the process that waits, in the lower 64 bits.
    pub id: u128,
    /// What is said.
    pub step: ShareStep,
    /// The number of the share: the first 16 bits of its SEIDs.
    pub number: u16,
    /// Of [`Commits`](ShareStep::Commits): packets that wait for idle bearers or functions, and are
    /// dropped.
    pub dropped: u32,
    /// A node: the other one of the move, or who has the share. At most 255 octets.
    pub name: String,
    /// Where the move goes to, as `HOST:PORT`; of [`Spare`](ShareStep::Spare), behind a blank,
    /// the address at which control planes find the node. At most 255 octets.
    pub address: String,
    /// Why a move has ended without success.
    pub reason: String,
}

/// What is said of a share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShareStep {
    /// A node: it has no share and can take one.
    #[default]
    Spare = 1,
    /// The node that has the share: the other one has all of it, and is to have it.
    Commits = 2,
    /// One of the two nodes: the move has failed.
    Aborts = 3,
    /// One of the two nodes: what has become of the move?
    Asks = 4,
    /// The controller, to a spare node: the node of that name gives you a share.
    Take = 16,
    /// The controller, to a node: give your share to the node of that name.
    Give = 17,
    /// The controller: the share is at the other node.
    Committed = 18,
    /// The controller: the share stays where it was.
    Aborted = 19,
    /// The controller, to a node whose share another one has.
    Elsewhere = 20,
}

impl ShareStep {
    const ALL: [ShareStep; 9] = [
        ShareStep::Spare,
        ShareStep::Commits,
        ShareStep::Aborts,
        ShareStep::Asks,
        ShareStep::Take,
        ShareStep::Give,
        ShareStep::Committed,
        ShareStep::Aborted,
        ShareStep::Elsewhere,
    ];

    /// Whether a node says it, and not a controller.
    pub fn is_of_node(self) -> bool {
        (self as u8) < ShareStep::Take as u8
    }
}

impl Share {
    pub(super) fn emit(&self) -> Vec<u8> {
        let (name, address) = (cut(&self.name, 255), cut(&self.address, 255));
        let mut said = self.id.to_be_bytes().to_vec();
        said.push(self.step as u8);
        said.extend(self.number.to_be_bytes());
        said.extend(self.dropped.to_be_bytes());
        said.extend([name.len() as u8, address.len() as u8]);
        said.extend([name, address, cut(&self.reason, REASON)].concat());
        said
    }

    pub(super) fn parse(said: &[u8]) -> Result<Share, HelloError> {
        let (head, texts) = said.split_first_chunk::<HEAD>().ok_or(HelloError::Value)?;
        let [id @ .., step, first, second, d0, d1, d2, d3, name, address] = head;
        let step = ShareStep::ALL.into_iter().find(|one| *one as u8 == *step);
        let (name, texts) = texts.split_at_checked(usize::from(*name)).ok_or(HelloError::Value)?;
        let (address, reason) =
            texts.split_at_checked(usize::from(*address)).ok_or(HelloError::Value)?;
        if reason.len() > REASON {
            return Err(HelloError::Value);
        }
        Ok(Share {
            id: u128::from_be_bytes(*id),
            step: step.ok_or(HelloError::Value)?,
            number: u16::from_be_bytes([*first, *second]),
            dropped: u32::from_be_bytes([*d0, *d1, *d2, *d3]),
            name: text_of(name)?,
            address: text_of(address)?,
            reason: text_of(reason)?,
        })
    }
}

/// As many octets, at the boundary of a character.
pub(super) fn cut(text: &str, most: usize) -> &[u8] {
    let mut ends = (0..=text.len().min(most)).rev();
    let end = ends.find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    &text.as_bytes()[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_read_as_they_were_written_and_nothing_else_does() {
        for step in ShareStep::ALL {
            let share = Share {
                id: u128::MAX - 7,
                step,
                number: 0x1234,
                dropped: u32::MAX - 3,
                name: "gateway-c".to_owned(),
                address: "192.0.2.4:4711 192.0.2.4".to_owned(),
                reason: "too little röom".to_owned(),
            };
            let octets = share.emit();
            assert_eq!(Share::parse(&octets).unwrap(), share);
            for length in 0..octets.len() - share.reason.len() {
                assert!(Share::parse(&octets[..length]).is_err(), "{length}");
            }
        }
        let mut unknown = Share::default().emit();
        unknown[16] = 99;
        assert!(Share::parse(&unknown).is_err());
        let long = Share { reason: "ö".repeat(REASON), name: "x".repeat(300), ..Share::default() };
        let read = Share::parse(&long.emit()).unwrap();
        assert_eq!((read.name.len(), read.reason.len()), (255, REASON));
        let more = [&long.emit()[..], b"x"].concat();
        assert!(Share::parse(&more).is_err());
    }
}
