//! What a node says of its PFCP sessions.

use super::{number, text_of};
use crate::hello::HelloError;

/// The answer to a [question](super::SessionsQuestion).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionsNote {
    /// The number of the question.
    pub id: u64,
    /// Sessions of the node to be skipped to find the next ones; 0 if there are no more.
    pub next: u32,
    /// Sessions, as JSON.
    pub sessions: String,
}

impl SessionsNote {
    pub(super) fn emit(&self) -> Vec<u8> {
        let head = [&self.id.to_be_bytes()[..], &self.next.to_be_bytes()].concat();
        [head, self.sessions.as_bytes().to_vec()].concat()
    }

    pub(super) fn parse(said: &[u8]) -> Result<SessionsNote, HelloError> {
        let (id, said) = number(said)?;
        let (next, sessions) = said.split_first_chunk().ok_or(HelloError::Value)?;
        let next = u32::from_be_bytes(*next);
        Ok(SessionsNote { id, next, sessions: text_of(sessions)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_reads_as_it_was_said() {
        let said = SessionsNote { id: u64::MAX - 7, next: 7, sessions: "[]".to_owned() };
        let octets = said.emit();
        assert_eq!(SessionsNote::parse(&octets), Ok(said));
        for length in 0..12 {
            assert!(SessionsNote::parse(&octets[..length]).is_err(), "{length}");
        }
        assert!(SessionsNote::parse(&[&octets[..12], &[0xff]].concat()).is_err());
    }
}
