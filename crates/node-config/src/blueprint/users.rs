//! Users, their bearers, and how they are found.

use weft_compose::Settings;
use weft_dataplane::classify::UserKey;
use weft_function::TAG_SLOTS;
use weft_rules::Condition;

/// One group of users.
#[derive(Clone, Debug)]
pub struct GroupPlan {
    /// Name.
    pub name: String,
    /// Settings, each with a position in [`Blueprint::functions`](super::Blueprint::functions).
    pub settings: Vec<(usize, Settings)>,
}

/// Users in a row that differ in nothing but their number.
#[derive(Clone, Debug)]
pub struct UserPlan {
    /// Name of the only user, or what stands before the number in the names of
    /// several.
    pub name: String,
    /// How many users; none in an entry that PFCP sessions are like.
    pub count: u32,
    /// What finds the first of them, at least one key if there is one; see [`UserKey::nth`].
    pub keys: Vec<UserKey>,
    /// Tag values by slot. The chain is [`weft_rules::NO_CHAIN`] for none; the
    /// direction is 0, it depends on the port.
    pub tags: [u32; TAG_SLOTS],
    /// Number of the distinct tag vector, see [`Blueprint::classes`](super::Blueprint::classes).
    pub class: usize,
    /// A position in [`Blueprint::groups`](super::Blueprint::groups).
    pub group: Option<usize>,
    /// Settings of the users and their default bearers, each with a position in
    /// [`Blueprint::functions`](super::Blueprint::functions).
    pub settings: Vec<(usize, Settings)>,
    /// A position in [`Blueprint::bearer_profiles`](super::Blueprint::bearer_profiles).
    pub bearers: Option<usize>,
}

impl UserPlan {
    /// Name of the `nth` user, from 0.
    pub fn name_of(&self, nth: u32) -> String {
        match self.count {
            1 => self.name.clone(),
            _ => format!("{}-{nth}", self.name),
        }
    }
}

/// One dedicated bearer (TS 23.401 §4.7.2) of some users.
#[derive(Clone, Debug)]
pub struct BearerPlan {
    /// Name.
    pub name: String,
    /// The user's packets that it carries, unless an earlier one does.
    pub when: Condition,
    /// Settings, each with a position in [`Blueprint::functions`](super::Blueprint::functions).
    pub settings: Vec<(usize, Settings)>,
}
