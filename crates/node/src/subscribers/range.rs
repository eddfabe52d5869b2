//! Users of one plan.

use weft_compose::SlotShift;
use weft_dataplane::classify::UserRecord;
use weft_dataplane::command::Configure;
use weft_function::PacketMetadata;
use weft_node_config::{BearerPlan, UserPlan};

use super::settings::configure;

/// Users of one plan and their slots.
#[derive(Clone, Debug)]
pub(super) struct Range {
    pub(super) plan: UserPlan,
    pub(super) bearer_plans: Vec<BearerPlan>,
    /// Class and bearer profile by the numbers of the node.
    pub(super) class: u16,
    pub(super) profile: u16,
    pub(super) group: u32,
    pub(super) slots: Vec<u32>,
    /// First dedicated bearer of each user; empty without bearers.
    pub(super) bearers: Vec<u32>,
}

impl Range {
    /// Whether users of the one may go on as users of the other.
    pub(super) fn is_same_as(&self, other: &Range) -> bool {
        let same_bearers = |(a, b): (&BearerPlan, &BearerPlan)| a.when == b.when;
        self.plan.name == other.plan.name
            && self.plan.keys == other.plan.keys
            && (self.plan.count == 1) == (other.plan.count == 1)
            && self.group == other.group
            && self.bearer_plans.len() == other.bearer_plans.len()
            && self.bearer_plans.iter().zip(&other.bearer_plans).all(same_bearers)
    }

    pub(super) fn record(&self, nth: usize) -> UserRecord {
        UserRecord {
            group: self.group,
            bearers: self.bearers.get(nth).copied().unwrap_or(PacketMetadata::NONE),
            class: self.class,
            bearer_profile: self.profile,
            present: true,
            ..UserRecord::VACANT
        }
    }

    /// Slots of the dedicated bearers of the `nth` user.
    pub(super) fn bearer_slots(
        &self,
        shift: SlotShift,
        nth: usize,
    ) -> impl Iterator<Item = u32> + use<> {
        let first = self.bearers.get(nth).copied();
        let count = self.bearer_plans.len();
        first.into_iter().flat_map(move |first| {
            (0..count).map(move |at| shift.slot(shift.worker(first), shift.index(first) + at))
        })
    }

    /// Settings of all contexts of the `nth` user.
    pub(super) fn settings(
        &self,
        shift: SlotShift,
        nth: usize,
    ) -> impl Iterator<Item = Configure> + '_ {
        let own = configure(&self.plan.settings, self.slots[nth], nth as u32);
        let bearers = self.bearer_slots(shift, nth).zip(&self.bearer_plans);
        let of_bearers =
            bearers.flat_map(move |(slot, bearer)| configure(&bearer.settings, slot, nth as u32));
        own.chain(of_bearers)
    }
}
