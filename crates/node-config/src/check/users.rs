//! Groups and users.

mod collisions;
mod keys;

use std::collections::HashMap;

use weft_compose::Settings;
use weft_function::{TAG_SLOTS, TagSlot, TagValues};
use weft_rules::NO_CHAIN;

use self::collisions::Collisions;
use self::keys::Located;
use super::functions::{Functions, Whose};
use super::names;
use super::rules::Rules;
use crate::blueprint::{BearerPlan, GroupPlan, PortPlan, UserPlan};
use crate::locate::Source;
use crate::values::NameOrNumber;
use crate::yaml::{NodeFile, Users};

/// Tags that are not the users': the first ones of every node.
const OWN_TAGS: [TagSlot; 3] = [TagSlot::DIRECTION, TagSlot::CHAIN, TagSlot::NETWORK];

/// What users refer to.
pub(super) struct Scene<'a> {
    pub file: &'a NodeFile,
    pub ports: &'a [PortPlan],
    pub networks: &'a [String],
    pub functions: &'a Functions,
}

/// Groups, users and their dedicated bearers.
pub(super) struct Population {
    pub groups: Vec<GroupPlan>,
    pub users: Vec<UserPlan>,
    pub bearer_profiles: Vec<Vec<BearerPlan>>,
}

pub(super) fn users(scene: &Scene<'_>, rules: &Rules, source: &mut Source<'_>) -> Population {
    let mut population = Population {
        groups: groups(scene, source),
        users: Vec::with_capacity(scene.file.users.len()),
        bearer_profiles: Vec::new(),
    };
    let mut classes: HashMap<[u32; TAG_SLOTS], usize> = HashMap::new();
    let mut located = Vec::with_capacity(scene.file.users.len());
    for (index, users) in scene.file.users.iter().enumerate() {
        let path = format!("users.{index}");
        let (keys, network) = keys::keys(users, &path, scene, source);
        let mut reader = Reader { users, path, scene, rules, source };
        let tags = reader.tags(network);
        let next = classes.len();
        population.users.push(UserPlan {
            name: users.name.clone(),
            count: users.count,
            keys: keys.iter().map(|located| located.key).collect(),
            tags,
            class: *classes.entry(tags).or_insert(next),
            group: reader.group(),
            settings: reader.settings(keys.is_empty()),
            bearers: reader.bearers(&mut population.bearer_profiles),
        });
        located.push(keys);
    }
    collisions(scene, &located, source);
    population
}

fn collisions(scene: &Scene<'_>, located: &[Vec<Located>], source: &mut Source<'_>) {
    let mut collisions = Collisions::default();
    for (users, keys) in scene.file.users.iter().zip(located) {
        for key in keys {
            collisions.add(users, key);
        }
    }
    collisions.report(scene.ports, source);
}

fn groups(scene: &Scene<'_>, source: &mut Source<'_>) -> Vec<GroupPlan> {
    let mut groups = Vec::with_capacity(scene.file.groups.0.len());
    for (name, group) in &scene.file.groups.0 {
        let path = format!("groups.{name}.functions");
        let settings = scene.functions.settings(&group.functions, &path, Whose::Group, 1, source);
        groups.push(GroupPlan { name: name.clone(), settings });
    }
    groups
}

struct Reader<'r, 's, 't> {
    users: &'r Users,
    path: String,
    scene: &'r Scene<'r>,
    rules: &'r Rules,
    source: &'s mut Source<'t>,
}

impl Reader<'_, '_, '_> {
    fn path(&self, key: &str) -> String {
        format!("{}.{key}", self.path)
    }

    fn tags(&mut self, network: u32) -> [u32; TAG_SLOTS] {
        let mut tags = [0; TAG_SLOTS];
        tags[TagSlot::NETWORK.index()] = network;
        tags[TagSlot::CHAIN.index()] = self.chain().unwrap_or(NO_CHAIN);
        for (name, value) in &self.users.tags.0 {
            if let Some((slot, value)) = self.tag(name, value) {
                tags[slot.index()] = value;
            }
        }
        tags
    }

    fn chain(&mut self) -> Option<u32> {
        let name = self.users.chain.as_ref()?;
        let chains = &self.rules.chains;
        let chain = chains.iter().position(|known| known == name);
        // A chain whose line cannot be read is not unknown.
        if chain.is_none() && self.rules.set.is_some() {
            let path = self.path("chain");
            let mistake = self.source.wrong(&path, format!("there is no chain `{name}`"));
            mistake.suggest(name, chains.iter().map(String::as_str));
        }
        chain.map(|chain| chain as u32)
    }

    fn tag(&mut self, name: &str, value: &NameOrNumber) -> Option<(TagSlot, u32)> {
        let path = self.path(&format!("tags.{name}"));
        let tags = &self.scene.functions.tags;
        let Some(slot) = tags.slot(name) else {
            let mistake = self.source.wrong_key(&path, format!("there is no tag `{name}`"));
            mistake.suggest(name, tags.iter().map(|(known, _)| known).skip(OWN_TAGS.len()));
            return None;
        };
        if OWN_TAGS.contains(&slot) {
            let message = format!("the tag `{name}` is set by the node");
            self.source.wrong_key(&path, message);
            return None;
        }
        let (_, values) = tags.iter().nth(slot.index())?;
        match (values, value) {
            (TagValues::Number, NameOrNumber::Number(number)) => Some((slot, *number)),
            (TagValues::Number, NameOrNumber::Name(_)) => {
                self.source.wrong(&path, format!("the tag `{name}` is a number"));
                None
            }
            (TagValues::Named(known), value) => {
                let value = value.to_string();
                let number = known.iter().position(|known| *known == value);
                if number.is_none() {
                    let message = format!("`{value}` is not a value of `{name}`");
                    let mistake = self.source.wrong(&path, message);
                    mistake.suggest(&value, known.iter().map(String::as_str));
                }
                Some((slot, number? as u32))
            }
        }
    }

    fn group(&mut self) -> Option<usize> {
        let name = self.users.group.as_ref()?;
        let groups = &self.scene.file.groups;
        let group = groups.names().position(|known| known == name);
        if group.is_none() {
            let path = self.path("group");
            let mistake = self.source.wrong(&path, format!("there is no group `{name}`"));
            mistake.suggest(name, groups.names());
        }
        group
    }

    fn settings(&mut self, has_no_key: bool) -> Vec<(usize, Settings)> {
        if self.users.count == 0 && !has_no_key {
            self.source.wrong(&self.path("count"), "there is at least one user");
        }
        let Users { functions, count, .. } = self.users;
        let path = self.path("functions");
        self.scene.functions.settings(functions, &path, Whose::User, *count, self.source)
    }

    fn bearers(&mut self, profiles: &mut Vec<Vec<BearerPlan>>) -> Option<usize> {
        let mut plans = Vec::with_capacity(self.users.bearers.len());
        for (index, bearer) in self.users.bearers.iter().enumerate() {
            let path = self.path(&format!("bearers.{index}"));
            names::written(&bearer.name, &format!("{path}.name"), self.source);
            if self.users.bearers[..index].iter().any(|other| other.name == bearer.name) {
                let message = format!("there is another bearer `{}`", bearer.name);
                self.source.wrong(&format!("{path}.name"), message);
            }
            let when = self.rules.condition(&bearer.when, &format!("{path}.when"), self.source);
            let path = format!("{path}.functions");
            let (entries, count) = (&bearer.functions, self.users.count);
            let functions = self.scene.functions;
            let settings = functions.settings(entries, &path, Whose::Bearer, count, self.source);
            plans.extend(when.map(|when| BearerPlan { name: bearer.name.clone(), when, settings }));
        }
        if plans.is_empty() {
            return None;
        }
        profiles.push(plans);
        Some(profiles.len() - 1)
    }
}
