//! Nodes are asked which PFCP sessions they have: the controller keeps no list.

use std::collections::BTreeMap;

use tokio::sync::oneshot;
use weft_mobility_protocol::NodeId;
use weft_mobility_transport::note::{Note, Question, SessionsNote, SessionsQuestion};

use super::super::Engine;

/// Questions that wait for their answers, at most.
const MOST: usize = 64;

/// Questions that wait for their answers, by number.
#[derive(Debug, Default)]
pub struct Asking {
    last: u64,
    waiting: BTreeMap<u64, (NodeId, oneshot::Sender<SessionsNote>)>,
}

/// Why a node is not asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAsked {
    /// It cannot be.
    #[error("it is not connected with the controller")]
    Away,
    /// Either of two nodes may have them.
    #[error("it is one of a pair, which is not asked: `weft show sessions` at the node says it")]
    Pair,
    /// Too many are.
    #[error("{MOST} questions wait for their answers already")]
    Busy,
}

impl Engine {
    /// The nodes behind N4 that have sessions: the numbers of their shares, and the names of the
    /// nodes that have these.
    pub fn session_holders(&self) -> Vec<(u16, String)> {
        self.shares().into_iter().map(|share| (share.number, share.holder)).collect()
    }

    /// Asks the node of that name for sessions. The answer comes in its own time, or never.
    ///
    /// # Errors
    /// [`NotAsked`].
    pub fn ask_for_sessions(
        &mut self,
        node: &str,
        question: SessionsQuestion,
    ) -> Result<oneshot::Receiver<SessionsNote>, NotAsked> {
        // Who has asked may have gone.
        self.asking.waiting.retain(|_, (_, sender)| !sender.is_closed());
        if self.asking.waiting.len() >= MOST {
            return Err(NotAsked::Busy);
        }
        let node = self.members.named(node).ok_or(NotAsked::Away)?;
        if self.pairs.iter().any(|pair| pair.couple.has(node)) {
            return Err(NotAsked::Pair);
        }
        let id = self.asking.last.wrapping_add(1);
        let question = Question::Sessions(SessionsQuestion { id, ..question });
        if !self.transport.note(node, &Note::Places(vec![question.place()])) {
            return Err(NotAsked::Away);
        }
        let (sender, receiver) = oneshot::channel();
        self.asking.last = id;
        self.asking.waiting.insert(id, (node, sender));
        Ok(receiver)
    }

    /// A node answers.
    pub(in crate::engine) fn said_sessions(&mut self, from: NodeId, said: SessionsNote) {
        if self.asking.waiting.get(&said.id).is_some_and(|(asked, _)| *asked == from)
            && let Some((_, sender)) = self.asking.waiting.remove(&said.id)
        {
            // Who has asked may have gone.
            let _ = sender.send(said);
        }
    }

    /// A node answers nothing any more.
    pub(in crate::engine) fn forget_questions(&mut self, node: NodeId) {
        self.asking.waiting.retain(|_, (asked, _)| *asked != node);
    }
}
