//! All that belongs to a user, taken out of one node and into another: its path,
//! the contexts of its bearers at all functions, timers, and packets that functions
//! keep (Pinczel et al. §II.A).
//!
//! What moves is known by name: users by their plan and number, functions by the
//! names of their instances, the path by the user's tags, the chain among them. So
//! two nodes need not be configured alike, only have what the user needs. What commands
//! have added for the user, its dedicated bearers or all of it, goes along as commands.
//! Contexts of a group belong to the group and stay.

mod error;
mod form;
mod isolated;
mod provisioned_bearers;

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel};

use weft_dataplane::buffering::limits::WAITING;
use weft_dataplane::classify::UserRecord;
use weft_dataplane::command::transfer::{Extract, Intake};
use weft_dataplane::command::{Command, Configure};
use weft_dpdk::{Annotations, Packet, TAG_SLOTS};
use weft_function::{ContextError, TagSlot, TagTable, TagValues};
use weft_mobility_protocol::{Epoch, User};
use weft_rules::NO_CHAIN;

pub use self::error::TransferError;
pub use self::form::FormError;
use self::form::{Form, Kept, Owner, Value};
pub(crate) use self::isolated::Inquiries;
use self::provisioned_bearers::ProvisionedBearer;
use crate::agent::Agent;
use crate::bearer::Steered;
use crate::handover::Done;
use crate::users::Member;

/// Who has asked for a transfer.
pub(crate) enum Asked {
    /// A client waits for octets.
    Export(Sender<Vec<u8>>),
    /// A client waits for the outcome.
    Import(Sender<Result<(), TransferError>>),
    /// The user moves.
    Handover(User, Epoch),
    /// The user does not move after all, or goes.
    Resumed(User),
    /// No client waits.
    Nobody,
}

/// Transfers that workers have not finished.
#[derive(Default)]
pub(crate) struct Transfers {
    next: u64,
    asked: HashMap<u64, (Asked, Member)>,
    /// What commands have added for users that are taken out.
    given: HashMap<u64, Vec<ProvisionedBearer>>,
}

impl Transfers {
    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    fn note(&mut self, asked: Asked, member: Member) -> u64 {
        let ticket = self.next();
        self.asked.insert(ticket, (asked, member));
        ticket
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

impl Agent {
    /// Takes out all that belongs to a user, as octets for
    /// [`import_user`](Self::import_user). They come once the worker has come to it,
    /// behind all packets that it has received before and that are in processes. Timers and kept packets go
    /// with them; the contexts stay until [`forget_user`](Self::forget_user).
    ///
    /// # Errors
    /// [`TransferError`].
    pub fn export_user(&mut self, name: &str) -> Result<Receiver<Vec<u8>>, TransferError> {
        let member = self.member(name)?;
        let (answer, octets) = channel();
        self.begin_export(Asked::Export(answer), member, None);
        Ok(octets)
    }

    /// Gives a user what [`export_user`](Self::export_user) took out at another node,
    /// in place of what it has here.
    ///
    /// # Errors
    /// [`TransferError`], at once or once the worker has come to it; the user has
    /// fresh contexts in the second case.
    pub fn import_user(
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
    pub fn forget_user(&mut self, name: &str) -> Result<(), TransferError> {
        let member = self.member(name)?;
        self.remove_added(&member);
        if let Ok(member) = self.member(name) {
            self.begin_fresh(Asked::Nobody, member, None);
        }
        Ok(())
    }

    fn member(&self, name: &str) -> Result<Member, TransferError> {
        self.member_named(name).ok_or_else(|| TransferError::NoUser(name.to_owned()))
    }

    /// Asks the worker of a user for its belongings.
    pub(crate) fn begin_export(&mut self, asked: Asked, member: Member, without: Option<u16>) {
        let (worker, slots) = (self.users.worker_of(member.slots[0]), member.slots.clone());
        let given = self.given_for(&member);
        let ticket = self.transfers.note(asked, member);
        self.transfers.given.insert(ticket, given);
        let extract = Box::new(Extract::new(ticket, slots, without));
        self.links[worker].send(Command::TakeOut(extract));
    }

    /// Gives the worker of a user its belongings.
    pub(crate) fn begin_import(
        &mut self,
        asked: Asked,
        octets: &[u8],
        without: Option<u16>,
        steered: &[Steered],
    ) -> Result<(), TransferError> {
        let form = Form::parse(octets)?;
        let staged = self.stage_given(&form, steered)?;
        let taken = self.member_in(&form).and_then(|member| {
            let intake = self.intake(form, &member, without)?;
            Ok((member, intake))
        });
        let (member, intake) = match taken {
            Ok(taken) => taken,
            Err(error) => {
                if let Some(staged) = staged {
                    self.take_back(staged);
                }
                return Err(error);
            }
        };
        if let Some(staged) = staged {
            self.commit(staged);
        }
        if let Some(record) = intake.record {
            self.note_class(&member, record.class);
        }
        self.take_in_by_steps(asked, member, intake, without);
        Ok(())
    }

    /// The user that a form is of.
    fn member_in(&self, form: &Form) -> Result<Member, TransferError> {
        let member = self.member_of(&form.plan, form.nth);
        member.ok_or_else(|| TransferError::NoUser(format!("{}-{}", form.plan, form.nth)))
    }

    /// Gives a user back what was taken out of this node: timers and kept packets.
    /// Contexts have stayed; those that cannot be set back begin anew if they may
    /// have been used elsewhere.
    pub(crate) fn begin_resume(
        &mut self,
        asked: Asked,
        octets: &[u8],
        rolled_back: bool,
        without: Option<u16>,
    ) -> Result<(), TransferError> {
        let form = Form::parse(octets)?;
        let member = self.member_in(&form)?;
        let mut intake = self.intake(form, &member, without)?;
        let functions = self.blueprint.functions.iter().enumerate();
        let stays = functions.filter(|(_, plan)| plan.kind.rollback || !rolled_back);
        intake.stay.extend(stays.map(|(number, _)| number as u16));
        let Intake { stay, settings, .. } = &mut intake;
        settings.retain(|one| !stay.contains(&one.function));
        intake.contexts.clear();
        let worker = self.users.worker_of(member.slots[0]);
        intake.ticket = self.transfers.note(asked, member);
        self.links[worker].send(Command::TakeIn(Box::new(intake)));
        Ok(())
    }

    /// Gives a user fresh contexts.
    pub(crate) fn begin_fresh(&mut self, asked: Asked, member: Member, without: Option<u16>) {
        let worker = self.users.worker_of(member.slots[0]);
        let mut intake = self.fresh(&member, without);
        intake.ticket = self.transfers.note(asked, member);
        self.links[worker].send(Command::TakeIn(Box::new(intake)));
    }

    fn fresh(&self, member: &Member, without: Option<u16>) -> Intake {
        let settings = self.settings_of_member(member).into_iter();
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

    /// What the worker is to take in, in the numbers of this node.
    fn intake(
        &self,
        form: Form,
        member: &Member,
        without: Option<u16>,
    ) -> Result<Intake, TransferError> {
        let user = || member.name.clone();
        let functions = self.numbers_of(&form, member)?;
        let bearer = |name: &String| {
            let at = member.bearers.iter().position(|known| known == name);
            at.map(|at| member.slots[at + 1])
                .ok_or_else(|| TransferError::NoBearer { user: user(), bearer: name.clone() })
        };
        let mut slots = vec![member.slots[0]];
        for name in &form.bearers {
            slots.push(bearer(name)?);
        }
        for id in form.added() {
            let at = member.added.iter().position(|known| *known == id);
            let at = at.map(|at| member.slots.len() - member.added.len() + at);
            let lacking = || TransferError::NoBearer { user: user(), bearer: id.to_string() };
            slots.push(member.slots[at.ok_or_else(lacking)?]);
        }
        let place = |owner: Owner| {
            let function = functions.get(usize::from(owner.function));
            // What waits for its bearer is no function's.
            (function.copied().unwrap_or(WAITING), slots[usize::from(owner.bearer)])
        };
        let record = self.record_for(&form, member)?;
        let mut kept = Vec::new();
        for (owner, packet) in &form.kept {
            let (function, slot) = place(*owner);
            let packet = self.kept_packet(packet, member, &record, slot)?;
            kept.push((function, slot, packet));
        }
        let own = |function: u16| Some(function) != without;
        let mut intake = self.fresh(member, without);
        intake.record = Some(record);
        intake.kept = kept;
        for (owner, octets) in form.contexts {
            let (function, slot) = place(owner);
            if own(function) {
                intake.contexts.push((function, slot, octets));
            }
        }
        for (owner, left) in form.timers {
            let (function, slot) = place(owner);
            intake.timers.push((function, slot, left));
        }
        Ok(intake)
    }

    /// The numbers of the form's functions at this node.
    fn numbers_of(&self, form: &Form, member: &Member) -> Result<Vec<u16>, TransferError> {
        let number = |(name, kind): &(String, String)| {
            let user = member.name.clone();
            let mut functions = self.blueprint.functions.iter().enumerate();
            let Some((number, plan)) = functions.find(|(_, plan)| plan.name == *name) else {
                return Err(TransferError::NoFunction { user, function: name.clone() });
            };
            if plan.kind.name != kind {
                let (function, was) = (name.clone(), kind.clone());
                let is = plan.kind.name;
                return Err(TransferError::OtherFunction { user, function, was, is });
            }
            Ok(number as u16)
        };
        form.functions.iter().map(number).collect()
    }

    /// The user's record here: of the class of users that are tagged like it.
    fn record_for(&self, form: &Form, member: &Member) -> Result<UserRecord, TransferError> {
        let mut tags = self.classes.tags[usize::from(member.record.class)];
        read_tags(&form.tags, &self.blueprint.tags, &member.name, &mut tags)?;
        let class = self.classes.tags.iter().position(|known| *known == tags);
        let class = class.ok_or_else(|| TransferError::NoPath(member.name.clone()))?;
        Ok(UserRecord { class: class as u16, ..member.record })
    }

    fn kept_packet(
        &self,
        kept: &Kept,
        member: &Member,
        record: &UserRecord,
        bearer: u32,
    ) -> Result<Packet, TransferError> {
        let user = || member.name.clone();
        let port = self.blueprint.ports.iter().position(|port| port.name == kept.port);
        let Some(port) = port else {
            return Err(TransferError::NoPort { user: user(), port: kept.port.clone() });
        };
        let classes = crate::plan::tags(&self.blueprint, &self.classes.tags);
        let class = port * self.classes.tags.len() + usize::from(record.class);
        let mut tags = classes.get(class).copied().unwrap_or_default();
        read_tags(&kept.tags, &self.blueprint.tags, &member.name, &mut tags)?;
        let mut packet =
            self.pool.packet(&kept.frame).ok_or_else(|| TransferError::NoBuffer(user()))?;
        *packet.annotations_mut() = Annotations {
            tags,
            user: member.slots[0],
            bearer,
            group: record.group,
            vlan: kept.vlan,
            port: port as u16,
            ether_type: kept.ether_type,
            network_offset: kept.network_offset,
            outer_offset: kept.outer_offset,
            flags: kept.flags,
            ..Annotations::default()
        };
        Ok(packet)
    }

    /// A worker has taken a user's belongings out.
    pub(crate) fn taken_out(&mut self, extract: Extract) {
        let Some((asked, member)) = self.transfers.asked.remove(&extract.ticket) else { return };
        match extract.away.is_empty() {
            true => self.give_out(asked, extract, &member),
            false => self.fetch(asked, member, extract),
        }
    }

    fn give_out(&mut self, asked: Asked, extract: Extract, member: &Member) {
        let given = self.transfers.given.remove(&extract.ticket).unwrap_or_default();
        let octets = self.form(extract, given, member).emit();
        match asked {
            // The client that asked may have gone.
            Asked::Export(answer) => drop(answer.send(octets)),
            Asked::Handover(user, epoch) => self.note_done(Done::Exported(user, epoch, octets)),
            Asked::Import(_) | Asked::Resumed(_) | Asked::Nobody => {}
        }
    }

    /// A worker has taken a user's belongings in, or has not.
    pub(crate) fn taken_in(&mut self, intake: &Intake) {
        if self.passed_on(intake) {
            return;
        }
        let Some((asked, member)) = self.transfers.asked.remove(&intake.ticket) else { return };
        let outcome = match intake.refused {
            None => Ok(()),
            Some((function, error)) => Err(self.refused(&member, function, error)),
        };
        self.tell_outcome(asked, outcome);
    }

    fn tell_outcome(&mut self, asked: Asked, outcome: Result<(), TransferError>) {
        match asked {
            // The client that asked may have gone.
            Asked::Import(answer) => drop(answer.send(outcome)),
            Asked::Handover(user, epoch) => self.note_done(Done::Imported(user, epoch, outcome)),
            Asked::Resumed(user) => self.note_done(Done::Resumed(user)),
            Asked::Export(_) | Asked::Nobody => {}
        }
    }

    fn refused(&self, member: &Member, function: u16, error: ContextError) -> TransferError {
        let function = self.functions.get(usize::from(function));
        let function = function.map_or(String::new(), |one| one.name.to_string());
        TransferError::Context { user: member.name.clone(), function, error }
    }

    fn form(&self, extract: Extract, given: Vec<ProvisionedBearer>, member: &Member) -> Form {
        let tags = &self.blueprint.tags;
        let class = self.classes.tags.get(usize::from(member.record.class));
        let class = class.copied().unwrap_or_default();
        let own =
            |slot: usize| slot != TagSlot::DIRECTION.index() && slot != TagSlot::NETWORK.index();
        let owner = |function: u16, bearer: u16| Owner { function, bearer };
        let functions = extract.functions.iter();
        let kept = |(function, which, packet): &(u16, u16, Packet)| {
            (owner(*function, *which), self.kept_form(packet))
        };
        Form {
            plan: member.plan.clone(),
            nth: member.nth,
            tags: write_tags(&class, tags, own),
            bearers: member.bearers.clone(),
            given,
            functions: functions
                .map(|(name, kind)| (name.to_string(), (*kind).to_owned()))
                .collect(),
            kept: extract.kept.iter().map(kept).collect(),
            contexts: extract
                .contexts
                .into_iter()
                .map(|(function, which, octets)| (owner(function, which), octets))
                .collect(),
            timers: extract
                .timers
                .into_iter()
                .map(|(function, which, left)| (owner(function, which), left))
                .collect(),
        }
    }

    fn kept_form(&self, packet: &Packet) -> Kept {
        let annotations = packet.annotations();
        let port = self.blueprint.ports.get(usize::from(annotations.port));
        Kept {
            port: port.map_or(String::new(), |port| port.name.clone()),
            tags: write_tags(&annotations.tags, &self.blueprint.tags, |_| true),
            vlan: annotations.vlan,
            ether_type: annotations.ether_type,
            network_offset: annotations.network_offset,
            outer_offset: annotations.outer_offset,
            flags: annotations.flags,
            frame: packet.data().to_vec(),
        }
    }
}

/// Tags in slots for which `wanted` holds, by name.
fn write_tags(
    values: &[u32; TAG_SLOTS],
    table: &TagTable,
    wanted: impl Fn(usize) -> bool,
) -> Vec<(String, Value)> {
    let tags = table.iter().zip(values).enumerate().filter(|(slot, _)| wanted(*slot));
    tags.map(|(_, ((name, known), value))| {
        let value = match known {
            TagValues::Number => Value::Number(*value),
            TagValues::Named(names) => {
                names.get(*value as usize).map_or(Value::None, |name| Value::Named(name.clone()))
            }
        };
        (name.to_owned(), value)
    })
    .collect()
}

/// Puts tags into their slots at this node.
fn read_tags(
    written: &[(String, Value)],
    table: &TagTable,
    user: &str,
    values: &mut [u32; TAG_SLOTS],
) -> Result<(), TransferError> {
    for (tag, value) in written {
        let text = match value {
            Value::Number(number) => number.to_string(),
            Value::Named(name) => format!("`{name}`"),
            Value::None => "none".to_owned(),
        };
        let lacking =
            || TransferError::NoTag { user: user.to_owned(), tag: tag.clone(), value: text };
        let slot = table.slot(tag);
        let known = slot.and_then(|slot| Some((slot, table.iter().nth(slot.index())?.1)));
        // A tag that was not written here decides nothing.
        let unset = matches!(value, Value::Number(0));
        let Some((slot, known)) = known else {
            if unset {
                continue;
            }
            return Err(lacking());
        };
        values[slot.index()] = match (known, value) {
            (TagValues::Number, Value::Number(number)) => *number,
            (TagValues::Named(names), Value::Named(name)) => {
                let number = names.iter().position(|known| known == name);
                number.ok_or_else(lacking)? as u32
            }
            (TagValues::Named(_), Value::None) if slot == TagSlot::CHAIN => NO_CHAIN,
            (TagValues::Named(_), Value::None) => 0,
            _ => return Err(lacking()),
        };
    }
    Ok(())
}
