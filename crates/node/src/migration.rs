//! What moves between compositions and between nodes: users with all that belongs to them,
//! and functions with their contexts.

pub mod contexts;
pub(crate) mod relocation;
pub(crate) mod split;
pub mod transfer;

use weft_compose::Instance;
use weft_offload::process::ContextsAnswer;

use self::relocation::{Called, Copying, Relocation};
use self::split::Split;
use self::transfer::{Inquiries, Transfers};
use crate::error::NotComposed;

/// What moves just now.
#[derive(Default)]
pub(crate) struct Migration {
    /// Users that are being taken out or in.
    pub transfers: Transfers,
    /// What processes were asked about them.
    pub inquiries: Inquiries,
    /// The process that is called for a function.
    pub called: Option<Called>,
    /// The function that is on its way.
    pub relocation: Option<Box<Relocation>>,
    /// Why the last function that was to move did not, where that showed on its way.
    pub failure: Option<String>,
    /// Which functions were chosen to stand on a thread.
    pub split: Split,
}

impl Migration {
    /// Whether a function is on its way.
    pub fn has_function(&self) -> bool {
        self.relocation.is_some()
    }

    /// Whether users are on the move.
    pub fn has_users(&self) -> bool {
        !self.transfers.is_empty() || !self.inquiries.is_empty()
    }

    /// Whether processes may have answers.
    pub fn expects_answers(&self) -> bool {
        !self.inquiries.is_empty() || self.has_function()
    }

    /// Whether processes have yet to say something about users or contexts that move.
    pub fn waits_for_contexts(&self) -> bool {
        let relocation = self.relocation.as_deref();
        !self.inquiries.is_empty() || relocation.is_some_and(Relocation::is_by_process)
    }

    /// A worker has handed over the instance of the function that moves.
    pub fn take_lifted(&mut self, worker: usize, instance: Box<dyn Instance>) {
        if let Some(relocation) = &mut self.relocation {
            relocation.lifted[worker] = Some(instance);
        }
    }

    /// The relocation of this function, if its contexts are carried between nodes; the
    /// carrier has just been heard.
    pub fn carried(&mut self, function: &str, now: u64) -> Option<&mut Relocation> {
        let relocation = self.relocation.as_deref_mut().filter(|one| one.name == function)?;
        relocation.note_carrier(now).then_some(relocation)
    }

    /// Lets the packets of a function go on that moves between nodes: where it is to be, or where
    /// it was if there is a reason for that.
    ///
    /// # Errors
    /// [`NotComposed::NotGated`].
    pub fn release(
        &mut self,
        function: &str,
        word: Result<(), String>,
        now: u64,
    ) -> Result<(), NotComposed> {
        let Some(Relocation { copying: Copying::MigrationSession(session), .. }) =
            self.carried(function, now)
        else {
            return Err(NotComposed::NotGated(function.to_owned()));
        };
        session.word = Some(word);
        Ok(())
    }

    /// The instance of a function that moves whose contexts are read, or written, with its
    /// worker's number; none if it does not move now, or is not to be had yet.
    pub fn instance_in_hand(
        &mut self,
        function: &str,
        worker: usize,
        now: u64,
    ) -> Option<&mut Box<dyn Instance>> {
        let relocation = self.carried(function, now).filter(|one| one.is_lifted())?;
        match relocation.goes {
            true => relocation.lifted[worker].as_mut(),
            false => relocation.instance(worker),
        }
    }

    /// Takes an answer about a function that moves; gives back any other.
    pub fn take_relocated(&mut self, answer: ContextsAnswer, now: u64) -> Option<ContextsAnswer> {
        match &mut self.relocation {
            Some(relocation) => relocation.take(answer, now),
            None => Some(answer),
        }
    }
}
