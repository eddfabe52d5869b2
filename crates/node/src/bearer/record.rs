//! Bearers that commands have added as the node's store keeps them.
//!
//! ```text
//! 0         what becomes of its packets: forward 0, drop 1, buffer 2, notify 3
//! 1         default bearer of a user 0, dedicated bearer 1
//! default   plan that it is like, which of its users (u32), 1 and the number it moves by
//!           (u64) or 0, count of keys (u8), keys
//! a key     IPv4 0: network, 4 octets; IPv6 1: network, 16 octets, length of the prefix;
//!           TEID 2, SPI 3: network, u32; VLAN 4, session 5: port, u16; port 6: port;
//!           flow 7: network, protocol, addresses and ports of source and destination
//! dedicated of a bearer 0: number (u64), or of a user of the configuration 1: name;
//!           QFI 0: u8, or filter 1: JSON
//! settings  count (u16), then for each: function, which of several users they were for
//!           (u32), JSON
//! ```
//! Numbers are little endian. Names and JSON stand behind their length (u16). Networks, ports
//! and functions are named, as their numbers are those of one configuration. An address is 4
//! and 4 octets, or 6 and 16.

use std::hash::BuildHasher;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use weft_function::{ContextError, Fields};
use weft_node_config::{Blueprint, UserKey};
use weft_wire::gtpu::Qfi;

use super::change::refused;
use super::entry::{BearerRole, Entry, Setting};
use super::new::{NewBearer, NewRole};
use super::{Action, BearerId, DefaultBearer, Selector, Settings, User, Wrong};

/// The version that is written. All up to it are read.
pub(crate) const VERSION: u8 = 1;

const ACTIONS: [Action; 4] = [Action::Forward, Action::Drop, Action::Buffer, Action::Notify];

/// Why a record means no bearer of this configuration.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unreadable(String);

impl From<ContextError> for Unreadable {
    fn from(_: ContextError) -> Unreadable {
        Unreadable("the record is damaged".to_owned())
    }
}

impl From<serde_json::Error> for Unreadable {
    fn from(error: serde_json::Error) -> Unreadable {
        Unreadable(error.to_string())
    }
}

/// The record of a bearer.
pub(crate) fn write(entry: &Entry, blueprint: &Blueprint) -> Vec<u8> {
    let mut out = Vec::with_capacity(192);
    let action = ACTIONS.iter().position(|action| *action == entry.record.action);
    out.push(action.unwrap_or_default() as u8);
    match &entry.place {
        BearerRole::Default { like, nth, keys, user } => {
            out.push(0);
            put(like.as_bytes(), &mut out);
            out.extend(nth.to_le_bytes());
            out.push(user.is_some().into());
            if let Some(user) = user {
                out.extend(u64::from(*user).to_le_bytes());
            }
            out.push(keys.len() as u8);
            keys.iter().for_each(|key| put_key(key, blueprint, &mut out));
        }
        BearerRole::Dedicated { of, selector, .. } => {
            out.push(1);
            match of {
                DefaultBearer::Added(id) => {
                    out.push(0);
                    out.extend(id.0.to_le_bytes());
                }
                DefaultBearer::Configured(name) => {
                    out.push(1);
                    put(name.as_bytes(), &mut out);
                }
            }
            match selector {
                Selector::Qfi(qfi) => out.extend([0, qfi.value()]),
                Selector::Filter(filter) => {
                    out.push(1);
                    // A filter has nothing that JSON does not.
                    put(&serde_json::to_vec(filter).unwrap_or_default(), &mut out);
                }
            }
        }
    }
    let given = entry.settings.iter().filter(|one| one.is_given);
    out.extend((given.clone().count() as u16).to_le_bytes());
    for setting in given {
        put(blueprint.functions[usize::from(setting.function)].name.as_bytes(), &mut out);
        out.extend(setting.nth.to_le_bytes());
        put(setting.settings.text().as_bytes(), &mut out);
    }
    out
}

/// Whether the record is of a dedicated bearer, which comes behind its user's default bearer.
pub(crate) fn is_dedicated(entry: &Entry) -> bool {
    matches!(entry.place, BearerRole::Dedicated { .. })
}

/// Reads records of one configuration. What many of them have in common is there once: names of
/// plans, and settings of the same text.
pub(crate) struct Reading<'a> {
    blueprint: &'a Blueprint,
    plans: Vec<Arc<str>>,
    /// Settings that were read of late, by a hash of function and text.
    known: Box<[Option<(u16, Settings)>]>,
}

/// Settings that a [`Reading`] knows at most.
const KNOWN: usize = 256;

impl<'a> Reading<'a> {
    /// One that has read nothing.
    pub fn new(blueprint: &'a Blueprint) -> Reading<'a> {
        Reading { blueprint, plans: Vec::new(), known: vec![None; KNOWN].into() }
    }

    /// The bearer of a record. Whether its tunnels begin at the node is not
    /// [checked](super::Reader::check) here, so that any thread may read records.
    ///
    /// # Errors
    /// What is wrong with the record, or why the configuration cannot have the bearer.
    pub fn read(
        &mut self,
        id: BearerId,
        version: u8,
        record: &[u8],
    ) -> Result<NewBearer, Unreadable> {
        if !(1..=VERSION).contains(&version) {
            return Err(Unreadable(format!("a record of version {version}, of a newer release")));
        }
        let mut fields = Record { fields: Fields::new(record), blueprint: self.blueprint };
        let action = fields.fields.u8()?;
        let action = *ACTIONS.get(usize::from(action)).ok_or(ContextError::Damaged)?;
        let role = match fields.fields.u8()? {
            0 => fields.user(&mut self.plans)?,
            1 => fields.dedicated()?,
            _ => return Err(ContextError::Damaged.into()),
        };
        let count = fields.fields.u16()?;
        // What is there for as many, where the count is true.
        let mut settings = Vec::with_capacity(usize::from(count).min(record.len() / 8));
        for _ in 0..count {
            let (name, nth) = (fields.str()?, fields.fields.u32()?);
            let (function, read) = self.settings(name, fields.str()?)?;
            settings.push(Setting { function, settings: read, nth, is_given: true });
        }
        fields.fields.end()?;
        Ok(NewBearer { id, action, role, settings })
    }

    fn settings(&mut self, name: &str, text: &str) -> Result<(u16, Settings), Unreadable> {
        let number = self.blueprint.functions.iter().position(|plan| plan.name == name);
        let unknown = || Unreadable(Wrong::NoFunction(name.to_owned()).to_string());
        let number = number.ok_or_else(unknown)?;
        let function = number as u16;
        let hash = foldhash::fast::FixedState::default().hash_one((function, text));
        let place = &mut self.known[hash as usize % KNOWN];
        if let Some((of, settings)) = place
            && *of == function
            && *settings.text() == *text
        {
            return Ok((function, settings.clone()));
        }
        let read = self.blueprint.functions[number].kind.settings_of_text(text);
        let read = read.map_err(|error| Unreadable(refused(name, &error).to_string()))?;
        *place = Some((function, read.clone()));
        Ok((function, read))
    }
}

fn put(octets: &[u8], out: &mut Vec<u8>) {
    out.extend((octets.len() as u16).to_le_bytes());
    out.extend(octets);
}

fn put_key(key: &UserKey, blueprint: &Blueprint, out: &mut Vec<u8>) {
    let mut begin = |kind: u8, name: Option<&str>| {
        out.push(kind);
        put(name.unwrap_or_default().as_bytes(), out);
    };
    let network = |number: u32| blueprint.networks.get(number as usize).map(String::as_str);
    let port = |number: usize| blueprint.ports.get(number).map(|port| &*port.name);
    match *key {
        UserKey::Ipv4 { network: number, first } => {
            begin(0, network(number));
            out.extend(first.octets());
        }
        UserKey::Ipv6 { network: number, first, prefix_len } => {
            begin(1, network(number));
            out.extend(first.octets());
            out.push(prefix_len);
        }
        UserKey::Teid { network: number, first } => {
            begin(2, network(number));
            out.extend(first.to_le_bytes());
        }
        UserKey::Spi { network: number, first } => {
            begin(3, network(number));
            out.extend(first.to_le_bytes());
        }
        UserKey::Vlan { port: number, first } => {
            begin(4, port(number));
            out.extend(first.to_le_bytes());
        }
        UserKey::Session { port: number, first } => {
            begin(5, port(number));
            out.extend(first.to_le_bytes());
        }
        UserKey::Port { port: number } => begin(6, port(number)),
        UserKey::Flow {
            network: number,
            protocol,
            source,
            source_port,
            destination,
            destination_port,
        } => {
            begin(7, network(number));
            out.push(protocol);
            put_address(source, out);
            out.extend(source_port.to_le_bytes());
            put_address(destination, out);
            out.extend(destination_port.to_le_bytes());
        }
        UserKey::Route { network: number, first, prefix_len } => {
            begin(8, network(number));
            put_address(first, out);
            out.push(prefix_len);
        }
    }
}

fn put_address(address: IpAddr, out: &mut Vec<u8>) {
    match address {
        IpAddr::V4(address) => {
            out.push(4);
            out.extend(address.octets());
        }
        IpAddr::V6(address) => {
            out.push(6);
            out.extend(address.octets());
        }
    }
}

/// What is left to read of a record.
struct Record<'a> {
    fields: Fields<'a>,
    blueprint: &'a Blueprint,
}

impl Record<'_> {
    fn user(&mut self, plans: &mut Vec<Arc<str>>) -> Result<NewRole, Unreadable> {
        let name = self.str()?;
        let like = match plans.iter().find(|known| ***known == *name) {
            Some(known) => known.clone(),
            None => {
                let name: Arc<str> = name.into();
                plans.push(name.clone());
                name
            }
        };
        let nth = self.fields.u32()?;
        let user = match self.fields.u8()? {
            0 => None,
            _ => Some(User(self.fields.u64()?)),
        };
        let count = self.fields.u8()?;
        let mut keys = Vec::with_capacity(count.into());
        for _ in 0..count {
            keys.push(self.key()?);
        }
        Ok(NewRole::User { like, nth, keys: keys.into(), user })
    }

    fn dedicated(&mut self) -> Result<NewRole, Unreadable> {
        let of = match self.fields.u8()? {
            0 => DefaultBearer::Added(BearerId(self.fields.u64()?)),
            _ => DefaultBearer::Configured(self.str()?.into()),
        };
        let selector = match self.fields.u8()? {
            0 => Selector::Qfi(Qfi::new(self.fields.u8()?).ok_or(ContextError::Damaged)?),
            _ => Selector::Filter(serde_json::from_value(self.json()?)?),
        };
        Ok(NewRole::Dedicated { of, selector })
    }

    fn key(&mut self) -> Result<UserKey, Unreadable> {
        let (kind, name, blueprint) = (self.fields.u8()?, self.str()?, self.blueprint);
        let network = || {
            let known = blueprint.networks.iter().position(|known| *known == name);
            let unknown = || Unreadable(format!("no port is in the network `{name}`"));
            known.map(|number| number as u32).ok_or_else(unknown)
        };
        let port = || {
            let known = blueprint.ports.iter().position(|port| port.name == name);
            known.ok_or_else(|| Unreadable(format!("there is no port `{name}`")))
        };
        Ok(match kind {
            0 => UserKey::Ipv4 { network: network()?, first: self.fields.array::<4>()?.into() },
            1 => UserKey::Ipv6 {
                network: network()?,
                first: self.fields.array::<16>()?.into(),
                prefix_len: self.fields.u8()?,
            },
            2 => UserKey::Teid { network: network()?, first: self.fields.u32()? },
            3 => UserKey::Spi { network: network()?, first: self.fields.u32()? },
            4 => UserKey::Vlan { port: port()?, first: self.fields.u16()? },
            5 => UserKey::Session { port: port()?, first: self.fields.u16()? },
            6 => UserKey::Port { port: port()? },
            7 => UserKey::Flow {
                network: network()?,
                protocol: self.fields.u8()?,
                source: self.address()?,
                source_port: self.fields.u16()?,
                destination: self.address()?,
                destination_port: self.fields.u16()?,
            },
            8 => UserKey::Route {
                network: network()?,
                first: self.address()?,
                prefix_len: self.fields.u8()?,
            },
            _ => return Err(ContextError::Damaged.into()),
        })
    }

    fn address(&mut self) -> Result<IpAddr, ContextError> {
        match self.fields.u8()? {
            4 => Ok(Ipv4Addr::from(self.fields.array::<4>()?).into()),
            6 => Ok(Ipv6Addr::from(self.fields.array::<16>()?).into()),
            _ => Err(ContextError::Damaged),
        }
    }

    fn json(&mut self) -> Result<serde_json::Value, Unreadable> {
        Ok(serde_json::from_slice(self.octets()?)?)
    }
}

impl<'a> Record<'a> {
    fn str(&mut self) -> Result<&'a str, ContextError> {
        std::str::from_utf8(self.octets()?).map_err(|_| ContextError::Damaged)
    }

    fn octets(&mut self) -> Result<&'a [u8], ContextError> {
        let length = self.fields.u16()?;
        self.fields.take(length.into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weft_dataplane::classify::UserRecord;
    use weft_functions::KINDS;

    use super::*;

    fn blueprint() -> Blueprint {
        let text = "
apiVersion: weft/v1
kind: Node
metadata: {name: records}
ports:
  access: {device: 'ring:access', direction: uplink}
  core: {device: 'ring:core', direction: downlink}
functions:
  one: {function: gtpu-encapsulate}
  two: {function: gtpu-encapsulate}
users: [{name: ue, match: {ipv4: 10.0.0.1}}]
rules: |
  from access -> core
  from core -> one
  from one -> two
  from two -> access
";
        weft_node_config::read(text, "records.yaml", KINDS)
            .unwrap_or_else(|wrong| panic!("{wrong}"))
    }

    fn text(teid: u32) -> String {
        format!(r#"{{"tunnel":{{"local":"10.9.0.2","peer":"10.9.0.1","teid":{teid}}}}}"#)
    }

    fn entry(like: &str, nth: u32, settings: Vec<Setting>) -> Entry {
        let keys = [UserKey::Teid { network: 0, first: 1 + nth }].into();
        let place = BearerRole::Default { like: like.into(), nth, keys, user: None };
        let record = UserRecord { action: Action::Buffer, ..UserRecord::VACANT };
        Entry { slot: 0, record, place, settings: settings.into() }
    }

    proptest! {
        /// More texts than are known at once, and the same ones for two functions.
        #[test]
        fn each_is_read_as_if_it_were_the_only_one(
            all in prop::collection::vec((0_u16..2, 1_u32..1000, 0_u32..9), 1..600),
        ) {
            let blueprint = blueprint();
            let mut reading = Reading::new(&blueprint);
            for (number, (function, teid, nth)) in all.into_iter().enumerate() {
                let text = text(teid);
                let kind = blueprint.functions[usize::from(function)].kind;
                let settings = kind.settings_of_text(&text).unwrap();
                let setting = Setting { function, settings, nth, is_given: true };
                let written = write(&entry("ue", nth, vec![setting]), &blueprint);
                let bearer = reading.read(BearerId(number as u64), VERSION, &written).unwrap();
                prop_assert_eq!(bearer.id, BearerId(number as u64));
                prop_assert_eq!(bearer.action, Action::Buffer);
                prop_assert_eq!(bearer.keys(), [UserKey::Teid { network: 0, first: 1 + nth }]);
                let NewRole::User { like, nth, .. } = &bearer.role else { panic!("a user") };
                prop_assert_eq!(&*bearer.settings[0].settings.text(), &*text);
                let again = write(&entry(like, *nth, bearer.settings), &blueprint);
                prop_assert_eq!(again, written);
            }
        }
    }

    #[test]
    fn octets_that_are_no_record_are_refused() {
        let blueprint = blueprint();
        let kind = blueprint.functions[0].kind;
        let text = text(7);
        let settings = kind.settings_of_text(&text).unwrap();
        let setting = Setting { function: 0, settings, nth: 0, is_given: true };
        let written = write(&entry("ue", 0, vec![setting]), &blueprint);
        let mut reading = Reading::new(&blueprint);
        assert!(reading.read(BearerId(1), VERSION, &written).is_ok());
        for length in 0..written.len() {
            assert!(reading.read(BearerId(1), VERSION, &written[..length]).is_err(), "{length}");
        }
        let refused = reading.read(BearerId(1), VERSION + 1, &written).unwrap_err().to_string();
        assert_eq!(refused, format!("a record of version {}, of a newer release", VERSION + 1));
        // As many settings as there can be no octets for.
        let mut more = written.clone();
        let count = more.len() - text.len() - 2 - 4 - 5 - 2;
        more[count..count + 2].copy_from_slice(&u16::MAX.to_le_bytes());
        assert!(reading.read(BearerId(1), VERSION, &more).is_err());
    }
}
