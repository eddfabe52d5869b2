//! Reads commands as they are written, and writes bearers as commands.

mod form;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

use serde_json::Value;
use weft_node_config::{Blueprint, DEFAULT_NETWORK, UserKey};
use weft_wire::esp::Spi;
use weft_wire::gtpu::Qfi;

pub use self::form::{WrittenBearer, WrittenChange, WrittenCommand, WrittenMatch};
use super::bearers::Bearers;
use super::change::refused;
use super::entry::BearerRole;
use super::new::NewBearer;
use super::{BearerCommand, BearerId, BearerSettings, Detection, Selector, Settings, User, Wrong};
use crate::plan::Trials;

/// Reads commands for a node of this configuration.
pub(crate) struct Reader<'a> {
    /// The configuration at work.
    pub blueprint: &'a Blueprint,
    /// Functions made on trial.
    pub trials: &'a Trials,
}

impl Reader<'_> {
    /// Settings of the function instance of that name, as `users` in the configuration would
    /// give them.
    ///
    /// # Errors
    /// [`Wrong`], when there is no such function or it refuses them.
    pub fn settings(&self, function: &str, written: &Value) -> Result<Settings, Wrong> {
        let number = self.trials.number(function);
        let number = number.ok_or_else(|| Wrong::NoFunction(function.to_owned()))?;
        let kind = self.blueprint.functions[number].kind;
        let settings = kind.settings(written).map_err(|error| refused(function, &error))?;
        self.check_tunnels(function, number, &settings)?;
        Ok(settings)
    }

    /// Whether tunnels of a bearer that a record says begin at the node.
    ///
    /// # Errors
    /// [`Wrong`].
    pub fn check(&self, bearer: &NewBearer) -> Result<(), Wrong> {
        bearer.settings.iter().try_for_each(|one| {
            let number = usize::from(one.function);
            self.check_tunnels(self.trials.name(number), number, &one.settings)
        })
    }

    fn check_tunnels(
        &self,
        function: &str,
        number: usize,
        settings: &Settings,
    ) -> Result<(), Wrong> {
        for end in self.trials.instance(number).tunnels(settings, 0) {
            let addresses = || self.blueprint.ports.iter().flat_map(|port| &port.addresses);
            if addresses().next().is_some() && addresses().all(|one| one.0 != end.local) {
                let what = format!("{function}: no port has the address {}", end.local);
                return Err(Wrong::Written(what));
            }
        }
        Ok(())
    }

    /// A command as it is written.
    ///
    /// # Errors
    /// [`Wrong`].
    pub fn command(&self, command: &WrittenCommand) -> Result<BearerCommand, Wrong> {
        Ok(match command {
            WrittenCommand::Add(bearer) => self.bearer(bearer)?,
            WrittenCommand::Change(WrittenChange { id, action, functions, end_marker }) => {
                let (id, action, end_marker) = (*id, *action, *end_marker);
                let settings = self.read_settings(functions)?;
                BearerCommand::Change { id, action, settings, end_marker }
            }
            WrittenCommand::Remove(id) => BearerCommand::Remove { id: *id },
        })
    }

    /// A bearer that comes.
    ///
    /// # Errors
    /// [`Wrong`].
    pub fn bearer(&self, bearer: &WrittenBearer) -> Result<BearerCommand, Wrong> {
        Ok(BearerCommand::Add {
            id: bearer.id,
            detection: self.read_detection(bearer)?,
            action: bearer.action,
            settings: self.read_settings(&bearer.functions)?,
        })
    }

    fn read_settings(
        &self,
        functions: &BTreeMap<String, Value>,
    ) -> Result<Vec<BearerSettings>, Wrong> {
        let given = functions.iter().map(|(function, written)| {
            let settings = self.settings(function, written)?;
            Ok(BearerSettings { function: function.clone(), settings, nth: 0 })
        });
        given.collect()
    }

    fn read_detection(&self, bearer: &WrittenBearer) -> Result<Detection, Wrong> {
        let WrittenMatch { ipv4, ipv6, teid, spi, qfi, flow, .. } = &bearer.r#match;
        let says_user = ipv4.is_some() || ipv6.is_some() || teid.is_some() || spi.is_some();
        if bearer.of.is_some() && bearer.user.is_some() {
            return wrong("a dedicated bearer is its user's, which has the number");
        }
        match (&bearer.like, &bearer.of) {
            (Some(_), None) if qfi.is_some() || flow.is_some() => {
                wrong("qfi and flow are of dedicated bearers, which are `of` a user")
            }
            (Some(like), None) => {
                let keys = self.read_keys(&bearer.r#match)?;
                let (like, user) = (like.clone(), bearer.user.map(User));
                Ok(Detection::User { like, nth: bearer.nth, keys, user })
            }
            (None, Some(_)) if says_user => {
                wrong("ipv4, ipv6, teid and spi are the user's; a dedicated bearer has qfi or flow")
            }
            (None, Some(of)) => {
                let selector = match (qfi, flow) {
                    (Some(qfi), None) => match Qfi::new(*qfi) {
                        Some(qfi) => Selector::Qfi(qfi),
                        None => return wrong("a QFI is within 0..63"),
                    },
                    (None, Some(filter)) => Selector::Filter(*filter),
                    _ => return wrong("a dedicated bearer has either qfi or flow"),
                };
                Ok(Detection::Dedicated { of: of.clone(), selector })
            }
            _ => wrong("give either `like`, a plan of users, or `of`, a user's default bearer"),
        }
    }

    fn read_keys(&self, written: &WrittenMatch) -> Result<Vec<UserKey>, Wrong> {
        let name = written.network.as_deref().unwrap_or(DEFAULT_NETWORK);
        let mut keys = Vec::new();
        if let Some(first) = written.ipv4 {
            if first.is_unspecified() || first.is_multicast() || first.is_broadcast() {
                return wrong(&format!("{first} is not the address of one user"));
            }
            self.check_not_own(first.into())?;
            keys.push(UserKey::Ipv4 { network: self.network(name)?, first });
        }
        if let Some(text) = &written.ipv6 {
            let (first, prefix_len) = read_ipv6(text)?;
            if prefix_len == 128 {
                self.check_not_own(first.into())?;
            }
            keys.push(UserKey::Ipv6 { network: self.network(name)?, first, prefix_len });
        }
        match written.teid {
            Some(0) => return wrong("0 is not the TEID of a tunnel"),
            Some(first) => {
                let network = written.teid_network.as_deref().unwrap_or(name);
                keys.push(UserKey::Teid { network: self.network(network)?, first });
            }
            None => {}
        }
        match written.spi {
            Some(first) if Spi(first) < Spi::FIRST => {
                return wrong(&format!("{first} is a reserved SPI; they begin with 256"));
            }
            Some(first) => {
                let network = written.spi_network.as_deref().unwrap_or(name);
                keys.push(UserKey::Spi { network: self.network(network)?, first });
            }
            None => {}
        }
        Ok(keys)
    }

    fn network(&self, name: &str) -> Result<u32, Wrong> {
        let number = self.blueprint.networks.iter().position(|known| known == name);
        let number = number.map(|number| number as u32);
        number.ok_or_else(|| Wrong::Written(format!("no port is in the network `{name}`")))
    }

    fn check_not_own(&self, address: IpAddr) -> Result<(), Wrong> {
        let own = self.blueprint.ports.iter().flat_map(|port| &port.addresses);
        match own.clone().any(|(own, _)| *own == address) {
            true => wrong(&format!("{address} is an address of the node")),
            false => Ok(()),
        }
    }
}

impl Bearers {
    /// A bearer that a command has added, as it would be written; and for which of
    /// several users its settings were, where it is not the first.
    pub(crate) fn write(
        &self,
        id: BearerId,
        blueprint: &Blueprint,
    ) -> Option<(WrittenBearer, BTreeMap<String, u32>)> {
        let entry = self.entries.get(&id)?;
        let (mut functions, mut nth) = (BTreeMap::new(), BTreeMap::new());
        for setting in entry.settings.iter().filter(|one| one.is_given) {
            let name = &blueprint.functions[usize::from(setting.function)].name;
            functions.insert(name.clone(), setting.settings.written());
            if setting.nth > 0 {
                nth.insert(name.clone(), setting.nth);
            }
        }
        let mut bearer = WrittenBearer {
            id,
            like: None,
            nth: 0,
            user: None,
            of: None,
            r#match: WrittenMatch::default(),
            action: entry.record.action,
            functions,
        };
        match &entry.place {
            BearerRole::Default { keys, user, .. } => {
                let user = user.map(|number| User(number.into()));
                let dynamic = self.dynamic_users.get(&user?)?;
                (bearer.like, bearer.nth) = (Some(dynamic.like.to_string()), dynamic.nth);
                bearer.user = user.map(|user| user.0);
                keys.iter()
                    .for_each(|key| write_key(key, &blueprint.networks, &mut bearer.r#match));
            }
            BearerRole::Dedicated { of, selector, .. } => {
                bearer.of = Some(of.clone());
                match selector {
                    Selector::Qfi(qfi) => bearer.r#match.qfi = Some(qfi.value()),
                    Selector::Filter(filter) => bearer.r#match.flow = Some(*filter),
                }
            }
        }
        Some((bearer, nth))
    }
}

fn write_key(key: &UserKey, networks: &[String], written: &mut WrittenMatch) {
    let name = |network: u32| networks.get(network as usize).cloned();
    match *key {
        UserKey::Ipv4 { network, first } => {
            (written.network, written.ipv4) = (name(network), Some(first));
        }
        UserKey::Ipv6 { network, first, prefix_len } => {
            written.network = name(network);
            written.ipv6 = Some(format!("{first}/{prefix_len}"));
        }
        UserKey::Teid { network, first } => {
            (written.teid_network, written.teid) = (name(network), Some(first));
        }
        UserKey::Spi { network, first } => {
            (written.spi_network, written.spi) = (name(network), Some(first));
        }
        // No user that moves is known by these.
        UserKey::Route { .. }
        | UserKey::Vlan { .. }
        | UserKey::Session { .. }
        | UserKey::Port { .. }
        | UserKey::Flow { .. } => {}
    }
}

fn read_ipv6(text: &str) -> Result<(Ipv6Addr, u8), Wrong> {
    let (address, length) = text.split_once('/').unwrap_or((text, "128"));
    let read = (address.parse::<Ipv6Addr>(), length.parse::<u8>());
    match read {
        (Ok(first), Ok(length @ (64 | 128))) if length == 128 || first.to_bits() as u64 == 0 => {
            if first.is_multicast() || first.is_unspecified() {
                return wrong(&format!("{first} is not the address of one user"));
            }
            Ok((first, length))
        }
        _ => wrong(&format!(
            "`{text}` is neither an IPv6 address nor a prefix such as 2001:db8::/64"
        )),
    }
}

fn wrong<T>(what: &str) -> Result<T, Wrong> {
    Err(Wrong::Written(what.to_owned()))
}
