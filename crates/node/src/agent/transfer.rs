//! All that belongs to a user, taken out of one node and into another: its path,
//! the contexts of its bearers at all functions, timers, and packets that functions
//! keep (Pinczel et al. §II.A).
//!
//! What moves is known by name: users by their plan and number, functions by the
//! names of their instances, the path by the user's tags, the chain among them. So
//! two nodes need not be configured alike, only have what the user needs. What commands
//! have added for the user, its dedicated bearers or all of it, goes along as commands.
//! Contexts of a group belong to the group and stay.

mod host;
mod isolated;
mod provisioned_bearers;

use std::sync::mpsc::{Receiver, channel};

use weft_dataplane::command::transfer::{Extract, Intake};
use weft_dataplane::command::{Command, Configure};
use weft_dpdk::Pool;

use super::provisioning::Provisioning;
use crate::bearer::Steered;
use crate::functions::Functions;
use crate::migration::Migration;
use crate::migration::transfer::{Asked, Form, TransferError, Translation};
use crate::mobility::{Done, Mobility};
use crate::plan::Classes;
use crate::subscribers::Member;

/// What a user is taken out of the node and into it with.
pub(crate) struct UserTransfers<'a> {
    pub node: Provisioning<'a>,
    pub classes: &'a Classes,
    pub functions: &'a Functions,
    pub migration: &'a mut Migration,
    /// Hears what comes of transfers that it has asked for.
    pub mobility: Option<&'a mut Mobility>,
    pub pool: &'a Pool,
}

impl UserTransfers<'_> {
    /// Takes out all that belongs to a user, as octets for [`import`](Self::import). They come once the worker has come to it,
    /// behind all packets that it has received before and that are in processes. Timers and kept packets go
    /// with them; the contexts stay until [`forget`](Self::forget).
    ///
    /// # Errors
    /// [`TransferError`].
    pub fn export(&mut self, name: &str) -> Result<Receiver<Vec<u8>>, TransferError> {
        let member = self.member(name)?;
        let (answer, octets) = channel();
        self.begin_export(Asked::Export(answer), member, None);
        Ok(octets)
    }

    /// Gives a user what [`export`](Self::export) took out at another node,
    /// in place of what it has here.
    ///
    /// # Errors
    /// [`TransferError`], at once or once the worker has come to it; the user has
    /// fresh contexts in the second case.
    pub fn import(
        &mut self,
        octets: &[u8],
    ) -> Result<Receiver<Result<(), TransferError>>, TransferError> {
        let (answer, outcome) = channel();
        self.begin_import(Asked::Import(answer), octets, None, &[])?;
        Ok(outcome)
    }

    /// Gives a user fresh contexts, drops what is kept for it, and removes what commands
    /// have added for it.
    ///
    /// # Errors
    /// [`TransferError::NoUser`].
    pub fn forget(&mut self, name: &str) -> Result<(), TransferError> {
        let member = self.member(name)?;
        self.remove_added(&member);
        if let Ok(member) = self.member(name) {
            self.begin_fresh(Asked::Unasked, member, None);
        }
        Ok(())
    }

    fn member(&self, name: &str) -> Result<Member, TransferError> {
        self.node.members().named(name).ok_or_else(|| TransferError::NoUser(name.to_owned()))
    }

    /// Asks the worker of a user for its belongings.
    pub fn begin_export(&mut self, asked: Asked, member: Member, without: Option<u16>) {
        let (worker, slots) =
            (self.node.subscribers.users.worker_of(member.slots[0]), member.slots.clone());
        let given = self.given_for(&member);
        let ticket = self.migration.transfers.note(asked, member);
        self.migration.transfers.given.insert(ticket, given);
        let extract = Box::new(Extract::new(ticket, slots, without));
        self.node.workers[worker].send(Command::TakeOut(extract));
    }

    /// Gives the worker of a user its belongings.
    pub fn begin_import(
        &mut self,
        asked: Asked,
        octets: &[u8],
        without: Option<u16>,
        steered: &[Steered],
    ) -> Result<(), TransferError> {
        let form = Form::parse(octets)?;
        let staged = self.stage_given(&form, steered)?;
        let taken = self.member_in(&form).and_then(|member| {
            let fresh = self.fresh(&member, without);
            let intake = self.translation().intake(form, &member, fresh, without)?;
            Ok((member, intake))
        });
        let (member, intake) = match taken {
            Ok(taken) => taken,
            Err(error) => {
                if let Some(staged) = staged {
                    self.node.take_back(staged);
                }
                return Err(error);
            }
        };
        if let Some(staged) = staged {
            self.node.commit(staged);
        }
        if let Some(record) = intake.record {
            self.node.subscribers.bearers.note_class(&member, record.class);
        }
        self.take_in_by_steps(asked, member, intake, without);
        Ok(())
    }

    /// The user that a form is of.
    fn member_in(&self, form: &Form) -> Result<Member, TransferError> {
        let member = self.node.members().nth_of(&form.plan, form.nth);
        member.ok_or_else(|| TransferError::NoUser(format!("{}-{}", form.plan, form.nth)))
    }

    /// Gives a user back what was taken out of this node: timers and kept packets.
    /// Contexts have stayed; those that cannot be set back begin anew if they may
    /// have been used elsewhere.
    pub fn begin_resume(
        &mut self,
        asked: Asked,
        octets: &[u8],
        rolled_back: bool,
        without: Option<u16>,
    ) -> Result<(), TransferError> {
        let form = Form::parse(octets)?;
        let member = self.member_in(&form)?;
        let fresh = self.fresh(&member, without);
        let mut intake = self.translation().intake(form, &member, fresh, without)?;
        let functions = self.node.blueprint.functions.iter().enumerate();
        let stays = functions.filter(|(_, plan)| plan.kind.rollback || !rolled_back);
        intake.stay.extend(stays.map(|(number, _)| number as u16));
        let Intake { stay, settings, .. } = &mut intake;
        settings.retain(|one| !stay.contains(&one.function));
        intake.contexts.clear();
        let worker = self.node.subscribers.users.worker_of(member.slots[0]);
        intake.ticket = self.migration.transfers.note(asked, member);
        self.node.workers[worker].send(Command::TakeIn(Box::new(intake)));
        Ok(())
    }

    /// Gives a user fresh contexts.
    pub fn begin_fresh(&mut self, asked: Asked, member: Member, without: Option<u16>) {
        let worker = self.node.subscribers.users.worker_of(member.slots[0]);
        let mut intake = self.fresh(&member, without);
        intake.ticket = self.migration.transfers.note(asked, member);
        self.node.workers[worker].send(Command::TakeIn(Box::new(intake)));
    }

    /// Leaves a user the contexts that it has.
    pub fn begin_kept(&mut self, asked: Asked, member: Member) {
        let worker = self.node.subscribers.users.worker_of(member.slots[0]);
        let mut intake = self.fresh(&member, None);
        intake.stay = (0..self.node.blueprint.functions.len() as u16).collect();
        intake.settings.clear();
        intake.ticket = self.migration.transfers.note(asked, member);
        self.node.workers[worker].send(Command::TakeIn(Box::new(intake)));
    }

    fn fresh(&self, member: &Member, without: Option<u16>) -> Intake {
        let settings = self.node.members().settings_of(member).into_iter();
        let settings = settings.filter(|one| Some(one.function) != without);
        Intake {
            ticket: 0,
            slots: member.slots.clone(),
            stay: without.into_iter().collect(),
            record: None,
            settings: settings.collect::<Vec<Configure>>(),
            contexts: Vec::new(),
            timers: Vec::new(),
            kept: Vec::new(),
            refused: None,
        }
    }

    pub(super) fn translation(&self) -> Translation<'_> {
        let UserTransfers { node, classes, functions, pool, .. } = self;
        Translation { blueprint: node.blueprint, classes, functions, pool }
    }

    /// A worker has taken a user's belongings out.
    pub fn taken_out(&mut self, extract: Extract) {
        let Some((asked, member)) = self.migration.transfers.asked.remove(&extract.ticket) else {
            return;
        };
        match extract.away.is_empty() {
            true => self.give_out(asked, extract, &member),
            false => self.fetch(asked, member, extract),
        }
    }

    fn give_out(&mut self, asked: Asked, extract: Extract, member: &Member) {
        let given = self.migration.transfers.given.remove(&extract.ticket).unwrap_or_default();
        let octets = self.translation().form(extract, given, member).emit();
        match asked {
            // The caller may have gone.
            Asked::Export(answer) => drop(answer.send(octets)),
            Asked::Handover(user, epoch) => self.note_done(Done::Exported(user, epoch, octets)),
            Asked::Import(_) | Asked::Resumed(_) | Asked::Unasked => {}
        }
    }

    /// A worker has taken a user's belongings in, or has not.
    pub fn taken_in(&mut self, intake: &Intake) {
        if self.passed_on(intake) {
            return;
        }
        let Some((asked, member)) = self.migration.transfers.asked.remove(&intake.ticket) else {
            return;
        };
        let outcome = match intake.refused {
            None => Ok(()),
            Some((function, error)) => Err(self.translation().refused(&member, function, error)),
        };
        self.tell_outcome(asked, outcome);
    }

    fn note_done(&mut self, done: Done) {
        if let Some(mobility) = &mut self.mobility {
            mobility.note(done);
        }
    }

    fn tell_outcome(&mut self, asked: Asked, outcome: Result<(), TransferError>) {
        match asked {
            // The caller may have gone.
            Asked::Import(answer) => drop(answer.send(outcome)),
            Asked::Handover(user, epoch) => self.note_done(Done::Imported(user, epoch, outcome)),
            Asked::Resumed(user) => self.note_done(Done::Resumed(user)),
            Asked::Export(_) | Asked::Unasked => {}
        }
    }
}
