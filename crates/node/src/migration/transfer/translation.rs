//! Between what users are written as, by names, and the numbers of this node.

use weft_dataplane::buffering::limits::WAITING;
use weft_dataplane::classify::UserRecord;
use weft_dataplane::command::transfer::{Extract, Intake};
use weft_dpdk::{Packet, Pool};
use weft_function::{
    ContextError, Metadata, PacketMetadata, TAG_SLOTS, TagSlot, TagTable, TagValues,
};
use weft_node_config::Blueprint;
use weft_rules::NO_CHAIN;

use super::error::TransferError;
use super::form::{Form, Kept, Owner, Value};
use super::provisioned_bearers::ProvisionedBearer;
use crate::functions::Functions;
use crate::plan::{self, Classes};
use crate::subscribers::Member;

/// What names and numbers of this node are known from.
pub(crate) struct Translation<'a> {
    /// The configuration at work.
    pub blueprint: &'a Blueprint,
    /// Classes of users.
    pub classes: &'a Classes,
    /// The functions at work.
    pub functions: &'a Functions,
    /// Where kept packets come from.
    pub pool: &'a Pool,
}

impl Translation<'_> {
    /// What the worker is to take in, in the numbers of this node; `intake` is that of a user
    /// with fresh contexts, and function `without` keeps its own.
    ///
    /// # Errors
    /// [`TransferError`] for what this node does not have.
    pub fn intake(
        &self,
        form: Form,
        member: &Member,
        mut intake: Intake,
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
        let classes = plan::tags(self.blueprint, &self.classes.tags);
        let class = port * self.classes.tags.len() + usize::from(record.class);
        let mut tags = classes.get(class).copied().unwrap_or_default();
        read_tags(&kept.tags, &self.blueprint.tags, &member.name, &mut tags)?;
        let mut packet =
            self.pool.packet(&kept.frame).ok_or_else(|| TransferError::NoBuffer(user()))?;
        *packet.metadata_mut() = PacketMetadata {
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
            ..PacketMetadata::default()
        };
        Ok(packet)
    }

    /// Why a function does not take a context.
    pub fn refused(&self, member: &Member, function: u16, error: ContextError) -> TransferError {
        let function = self.functions.entries.get(usize::from(function));
        let function = function.map_or(String::new(), |one| one.name.to_string());
        TransferError::Context { user: member.name.clone(), function, error }
    }

    /// What a worker has taken out of this node, by names.
    pub fn form(&self, extract: Extract, given: Vec<ProvisionedBearer>, member: &Member) -> Form {
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
        let metadata = packet.metadata();
        let port = self.blueprint.ports.get(usize::from(metadata.port));
        Kept {
            port: port.map_or(String::new(), |port| port.name.clone()),
            tags: write_tags(&metadata.tags, &self.blueprint.tags, |_| true),
            vlan: metadata.vlan,
            ether_type: metadata.ether_type,
            network_offset: metadata.network_offset,
            outer_offset: metadata.outer_offset,
            flags: metadata.flags,
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
        // A tag that no function has written here decides nothing.
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
