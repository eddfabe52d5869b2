//! A user's belongings as octets.
//!
//! ```text
//! octets 0..2   version, 2
//! user          name of its plan, number within it (u32)
//! tags          count (u8), then for each: name, kind of value (u8), value
//! bearers       count (u16), then the name of each dedicated bearer of the configuration
//! given         count (u16), then for each bearer that a command has added: length (u32),
//!               what was written (JSON)
//! functions     count (u16), then for each: name of the instance, name of the function
//! contexts      count (u32), then for each: owner, length (u32), octets
//! timers        count (u32), then for each: owner, nanoseconds until it runs out (u64)
//! kept packets  count (u32), then for each: owner, port, metadata, length (u32), octets
//! ```
//! Numbers are little endian, names are UTF-8 behind their length (u16). An owner is
//! the position of a function in the list (u16), and 0 for the default bearer or
//! 1 + the position of a dedicated one (u16), those of the configuration first. A kept
//! packet of function 65535 waits for its bearer.

use weft_dataplane::buffering::limits::WAITING;
use weft_function::{ContextError, Fields};

use super::provisioned_bearers::ProvisionedBearer;
use crate::bearer::BearerId;

/// The version that is written, and the only one that is read.
pub const VERSION: u16 = 2;

/// All that belongs to a user, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Form {
    /// Name of the plan that the user is one of.
    pub plan: String,
    /// Which one, from 0.
    pub nth: u32,
    /// Its tags: what its path is found by.
    pub tags: Vec<(String, Value)>,
    /// Its dedicated bearers in the configuration.
    pub bearers: Vec<String>,
    /// Its bearers that commands have added.
    pub given: Vec<ProvisionedBearer>,
    /// Functions that it has something at: name of the instance, and which function.
    pub functions: Vec<(String, String)>,
    /// Contexts as functions export them.
    pub contexts: Vec<(Owner, Vec<u8>)>,
    /// Timers, with nanoseconds until they run out.
    pub timers: Vec<(Owner, u64)>,
    /// Packets that functions keep, oldest first.
    pub kept: Vec<(Owner, Kept)>,
}

/// Whose a context is: positions among functions, and among bearers, of which the
/// default one is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// Position of the function in the form.
    pub function: u16,
    /// 0, or 1 + the position of the dedicated bearer in the form.
    pub bearer: u16,
}

/// The value of a tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Number(u32),
    /// One of the names that the tag's values have.
    Named(String),
    /// The tag's values have names, and this is none of them: no chain, say.
    None,
}

/// A packet that is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Name of the port that it came in at.
    pub port: String,
    /// Tags that it carries beyond the user's.
    pub tags: Vec<(String, Value)>,
    /// As in the metadata.
    pub vlan: u16,
    /// As in the metadata.
    pub ether_type: u16,
    /// As in the metadata.
    pub network_offset: u16,
    /// As in the metadata.
    pub outer_offset: u16,
    /// As in the metadata.
    pub flags: u8,
    /// The frame.
    pub frame: Vec<u8>,
}

/// Why octets are no form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormError {
    /// A version that is not read.
    #[error("the export is of version {0}, and only version 2 is read")]
    Version(u16),
    /// Cut off, too long, or with values that cannot be.
    #[error("the export is damaged")]
    Damaged,
}

impl From<ContextError> for FormError {
    fn from(_: ContextError) -> FormError {
        FormError::Damaged
    }
}

impl Form {
    /// The form as octets. Lists that are longer than their count can say are cut.
    pub fn emit(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(VERSION.to_le_bytes());
        put_text(&self.plan, &mut out);
        out.extend(self.nth.to_le_bytes());
        put_tags(&self.tags, &mut out);
        out.extend((self.bearers.len() as u16).to_le_bytes());
        self.bearers.iter().for_each(|name| put_text(name, &mut out));
        out.extend((self.given.len() as u16).to_le_bytes());
        self.given.iter().for_each(|given| put_octets(&given.written(), &mut out));
        out.extend((self.functions.len() as u16).to_le_bytes());
        for (name, kind) in &self.functions {
            put_text(name, &mut out);
            put_text(kind, &mut out);
        }
        out.extend((self.contexts.len() as u32).to_le_bytes());
        for (owner, context) in &self.contexts {
            put_owner(*owner, &mut out);
            put_octets(context, &mut out);
        }
        out.extend((self.timers.len() as u32).to_le_bytes());
        for (owner, left) in &self.timers {
            put_owner(*owner, &mut out);
            out.extend(left.to_le_bytes());
        }
        out.extend((self.kept.len() as u32).to_le_bytes());
        for (owner, kept) in &self.kept {
            put_owner(*owner, &mut out);
            kept.emit(&mut out);
        }
        out
    }

    /// Reads what [`emit`](Self::emit) wrote; the octets are not trusted.
    ///
    /// # Errors
    /// [`FormError`].
    pub fn parse(bytes: &[u8]) -> Result<Form, FormError> {
        let mut fields = Reader(Fields::new(bytes), bytes.len());
        match fields.0.u16()? {
            VERSION => {}
            version => return Err(FormError::Version(version)),
        }
        let form = Form {
            plan: fields.text()?,
            nth: fields.0.u32()?,
            tags: fields.tags()?,
            bearers: {
                let count = fields.0.u16()?;
                fields.list(count.into(), Reader::text)?
            },
            given: {
                let count = fields.0.u16()?;
                fields.list(count.into(), |fields| {
                    let octets = fields.octets()?;
                    ProvisionedBearer::read(&octets).ok_or(FormError::Damaged)
                })?
            },
            functions: {
                let count = fields.0.u16()?;
                fields.list(count.into(), |fields| Ok((fields.text()?, fields.text()?)))?
            },
            contexts: fields.owned(Reader::octets)?,
            timers: fields.owned(|fields| Ok(fields.0.u64()?))?,
            kept: fields.owned(Reader::kept)?,
        };
        fields.0.end()?;
        let owners = form.contexts.iter().map(|(owner, _)| owner);
        let mut owners = owners.chain(form.timers.iter().map(|(owner, _)| owner));
        let mut owners_of_kept = form.kept.iter().map(|(owner, _)| owner);
        let bearers = form.bearers.len() + form.added().count();
        let has_bearer = |owner: &Owner| usize::from(owner.bearer) <= bearers;
        let is_known =
            |owner: &Owner| usize::from(owner.function) < form.functions.len() && has_bearer(owner);
        let keeps =
            |owner: &Owner| is_known(owner) || owner.function == WAITING && has_bearer(owner);
        if owners.all(is_known) && owners_of_kept.all(keeps) {
            Ok(form)
        } else {
            Err(FormError::Damaged)
        }
    }

    /// Dedicated bearers that commands have added, in order.
    pub fn added(&self) -> impl Iterator<Item = BearerId> + '_ {
        self.given.iter().filter(|one| one.bearer.of.is_some()).map(|one| one.bearer.id)
    }

    /// The default bearer, if a command has added it.
    pub fn default_bearer(&self) -> Option<&ProvisionedBearer> {
        self.given.iter().find(|one| one.bearer.of.is_none())
    }
}

impl Kept {
    fn emit(&self, out: &mut Vec<u8>) {
        put_text(&self.port, out);
        put_tags(&self.tags, out);
        for number in [self.vlan, self.ether_type, self.network_offset, self.outer_offset] {
            out.extend(number.to_le_bytes());
        }
        out.push(self.flags);
        put_octets(&self.frame, out);
    }
}

fn put_text(text: &str, out: &mut Vec<u8>) {
    out.extend((text.len() as u16).to_le_bytes());
    out.extend(text.as_bytes());
}

fn put_octets(octets: &[u8], out: &mut Vec<u8>) {
    out.extend((octets.len() as u32).to_le_bytes());
    out.extend(octets);
}

fn put_owner(owner: Owner, out: &mut Vec<u8>) {
    out.extend(owner.function.to_le_bytes());
    out.extend(owner.bearer.to_le_bytes());
}

fn put_tags(tags: &[(String, Value)], out: &mut Vec<u8>) {
    out.push(tags.len() as u8);
    for (name, value) in tags {
        put_text(name, out);
        match value {
            Value::Number(number) => {
                out.push(0);
                out.extend(number.to_le_bytes());
            }
            Value::Named(name) => {
                out.push(1);
                put_text(name, out);
            }
            Value::None => out.push(2),
        }
    }
}

/// What is left to read, and how many octets there were.
struct Reader<'a>(Fields<'a>, usize);

impl Reader<'_> {
    fn list<T>(
        &mut self,
        count: usize,
        mut read: impl FnMut(&mut Self) -> Result<T, FormError>,
    ) -> Result<Vec<T>, FormError> {
        // Whatever is listed takes at least an octet, so memory is bounded by
        // what came.
        if count > self.1 {
            return Err(FormError::Damaged);
        }
        (0..count).map(|_| read(self)).collect()
    }

    fn owned<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, FormError>,
    ) -> Result<Vec<(Owner, T)>, FormError> {
        let count = self.0.u32()? as usize;
        self.list(count, |fields| {
            let owner = Owner { function: fields.0.u16()?, bearer: fields.0.u16()? };
            Ok((owner, read(fields)?))
        })
    }

    fn take(&mut self, count: usize) -> Result<Vec<u8>, FormError> {
        self.list(count, |fields| Ok(fields.0.u8()?))
    }

    fn text(&mut self) -> Result<String, FormError> {
        let length = self.0.u16()?;
        String::from_utf8(self.take(length.into())?).map_err(|_| FormError::Damaged)
    }

    fn octets(&mut self) -> Result<Vec<u8>, FormError> {
        let length = self.0.u32()?;
        self.take(length as usize)
    }

    fn tags(&mut self) -> Result<Vec<(String, Value)>, FormError> {
        let count = self.0.u8()?;
        self.list(count.into(), |fields| {
            let name = fields.text()?;
            let value = match fields.0.u8()? {
                0 => Value::Number(fields.0.u32()?),
                1 => Value::Named(fields.text()?),
                2 => Value::None,
                _ => return Err(FormError::Damaged),
            };
            Ok((name, value))
        })
    }

    fn kept(&mut self) -> Result<Kept, FormError> {
        Ok(Kept {
            port: self.text()?,
            tags: self.tags()?,
            vlan: self.0.u16()?,
            ether_type: self.0.u16()?,
            network_offset: self.0.u16()?,
            outer_offset: self.0.u16()?,
            flags: self.0.u8()?,
            frame: self.octets()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn tags() -> impl Strategy<Value = Vec<(String, Value)>> {
        let value = prop_oneof![
            any::<u32>().prop_map(Value::Number),
            "[a-z]{0,5}".prop_map(Value::Named),
            Just(Value::None)
        ];
        vec(("[a-z]{1,5}", value), 0..4)
    }

    fn kept() -> impl Strategy<Value = Kept> {
        ("[a-z]{1,5}", tags(), any::<[u16; 4]>(), any::<u8>(), vec(any::<u8>(), 0..80)).prop_map(
            |(port, tags, [vlan, ether_type, network_offset, outer_offset], flags, frame)| Kept {
                port,
                tags,
                vlan,
                ether_type,
                network_offset,
                outer_offset,
                flags,
                frame,
            },
        )
    }

    fn form() -> impl Strategy<Value = Form> {
        let owner = || (0..3u16, 0..3u16).prop_map(|(function, bearer)| Owner { function, bearer });
        let names =
            (vec("[a-z]{1,5}", 2), vec(given(), 0..3), vec(("[a-z]{1,5}", "[a-z]{1,5}"), 3));
        let owned = (
            vec((owner(), vec(any::<u8>(), 0..40)), 0..4),
            vec((owner(), any::<u64>()), 0..4),
            vec((owner(), kept()), 0..4),
        );
        ("[a-z]{1,9}", any::<u32>(), tags(), names, owned).prop_map(
            |(plan, nth, tags, (bearers, given, functions), (contexts, timers, kept))| Form {
                plan,
                nth,
                tags,
                bearers,
                given,
                functions,
                contexts,
                timers,
                kept,
            },
        )
    }

    fn given() -> impl Strategy<Value = ProvisionedBearer> {
        let of = prop_oneof![
            any::<u64>().prop_map(|id| json!(id)),
            "[a-z]{1,5}".prop_map(|name| json!(name))
        ];
        let bearer = (any::<u64>(), of, any::<Option<u16>>(), "[a-z]{1,5}", 0..3u32);
        bearer.prop_map(|(id, of, port, name, nth)| {
            let mut given = json!({"bearer": {"id": id, "of": of,
                "match": {"flow": {"protocol": 17, "remotePort": port}},
                "functions": {&name: {"meter": nth}}}});
            if nth > 0 {
                given["nth"] = json!({name: nth});
            }
            ProvisionedBearer::read(&serde_json::to_vec(&given).unwrap()).unwrap()
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(form in form()) {
            prop_assert_eq!(Form::parse(&form.emit()), Ok(form));
        }

        #[test]
        fn what_is_cut_off_or_bent_is_no_panic(
            form in form(),
            cut in any::<prop::sample::Index>(),
            (at, octet) in (any::<prop::sample::Index>(), any::<u8>()),
        ) {
            let mut bytes = form.emit();
            prop_assert!(Form::parse(&bytes[..cut.index(bytes.len())]).is_err());
            let at = at.index(bytes.len());
            bytes[at] = octet;
            let _ = Form::parse(&bytes);
        }

        #[test]
        fn any_octets_are_no_panic(bytes in vec(any::<u8>(), 0..200)) {
            let _ = Form::parse(&bytes);
        }
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = Form::default().emit();
        bytes[0] = 9;
        let refused = Form::parse(&bytes).unwrap_err();
        assert_eq!(refused.to_string(), "the export is of version 9, and only version 2 is read");
    }
}
