//! Which user of the configuration sends into which tunnel.

use weft_compose::Settings;
use weft_dataplane::classify::UserRecord;
use weft_function::TunnelEnd;

use super::Users;
use crate::gtpu_peers::Ends;
use crate::plan::Trials;

/// A bearer of a user, found by a tunnel.
pub struct Found {
    /// Name of the user.
    pub user: String,
    /// Slot of the bearer.
    pub slot: u32,
    /// What its worker has to know of it when it is to have an action of its own.
    pub record: UserRecord,
    /// What its worker knows of it when it has none.
    pub usual: UserRecord,
}

impl Users {
    /// The paths that tunnels of users are on; each range and tunnel once.
    pub fn paths<'a>(&'a self, trials: &'a Trials) -> impl Iterator<Item = Ends> + 'a {
        let in_use = self.ranges.iter().filter(|range| !range.slots.is_empty());
        in_use
            .flat_map(|range| {
                let of_bearers = range.bearer_plans.iter().flat_map(|bearer| &bearer.settings);
                range.plan.settings.iter().chain(of_bearers).flat_map(|(function, settings)| {
                    trials.instance(*function).tunnels(settings, 0).into_iter()
                })
            })
            .map(|end| (end.local, end.peer))
    }

    /// The bearer that sends into a tunnel, which is found without a look at every
    /// user: TEIDs of a range are in a row.
    pub fn with_tunnel(
        &self,
        trials: &Trials,
        (local, peer): Ends,
        teid: u32,
    ) -> Option<(Found, TunnelEnd)> {
        let is_it = |end: &TunnelEnd| (end.local, end.peer, end.teid.0) == (local, peer, teid);
        let nth_of = |settings: &[(usize, Settings)], count: usize| {
            settings.iter().find_map(|(function, settings)| {
                let instance = trials.instance(*function);
                instance.tunnels(settings, 0).iter().find_map(|first| {
                    let nth = teid.wrapping_sub(first.teid.0);
                    let within = usize::try_from(nth).is_ok_and(|nth| nth < count);
                    let end = within.then(|| instance.tunnels(settings, nth))?;
                    Some((nth, *end.iter().find(|end| is_it(end))?))
                })
            })
        };
        self.ranges.iter().find_map(|range| {
            let count = range.slots.len();
            if let Some((nth, end)) = nth_of(&range.plan.settings, count) {
                let (user, slot) = (range.plan.name_of(nth), range.slots[nth as usize]);
                let record = self.record(range, nth as usize);
                return Some((Found { user, slot, record, usual: record }, end));
            }
            range.bearer_plans.iter().enumerate().find_map(|(at, bearer)| {
                let (nth, end) = nth_of(&bearer.settings, count)?;
                let slot = range.bearer_slots(self.shift, nth as usize).nth(at)?;
                let own = self.record(range, nth as usize);
                let record = UserRecord { bearer_profile: 0, selects: false, ..own };
                let user = format!("{} ({})", range.plan.name_of(nth), bearer.name);
                Some((Found { user, slot, record, usual: UserRecord::VACANT }, end))
            })
        })
    }
}
