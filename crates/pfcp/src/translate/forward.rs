//! Forwarding action rules.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weft_functions::session::check::is_url;
use weft_functions::session::rules::{
    Apply, BarId, Far, FarId, Forwarding, Interface, Name, OuterHeader,
};

use super::{Draft, name, rule_of_far, unread};
use crate::codec::Cause;
use crate::codec::element::{
    self, ApplyAction, Change, ForwardingPolicy, ModificationFlags, OuterHeaderCreation,
    RedirectInformation, Text, TransportLevelMarking,
};
use crate::codec::ie::*;
use crate::codec::rule::{
    CreateFar, DuplicatingParameters, ForwardingParameters, UpdateDuplicatingParameters, UpdateFar,
    UpdateForwardingParameters,
};
use crate::interfaces::Found;
use crate::refusal::Refusal;

impl Draft<'_> {
    /// Create FAR.
    pub fn create_far(&mut self, rule: &CreateFar<'_>) -> Result<(), Refusal> {
        let id = FarId(rule.id.0);
        self.new_far(id, rule).map_err(|refusal| refusal.of(rule_of_far(id)))
    }

    fn new_far(&mut self, id: FarId, rule: &CreateFar<'_>) -> Result<(), Refusal> {
        unread(rule.refused)?;
        if self.rules.fars.iter().any(|far| far.id == id) {
            return Err(Refusal::rule(rule_of_far(id)));
        }
        let forward = rule.forwarding.as_ref().map(|one| self.forwarding(one)).transpose()?;
        if let Some(policy) = rule.forwarding.as_ref().and_then(|one| one.policy) {
            self.set_policy(id, Change::Set(policy))?;
        }
        let duplicate = rule
            .duplicating
            .iter()
            .map(|one| self.duplicate(one))
            .collect::<Result<Vec<_>, _>>()?;
        let far = Far {
            id,
            action: action(rule.action, &duplicate)?,
            forward,
            duplicate: duplicate.into(),
            bar: rule.bar.map(|bar| BarId(bar.0)),
            end_marker: false,
        };
        whole(&far)?;
        self.rules.fars.push(far);
        Ok(())
    }

    /// Update FAR.
    pub fn update_far(&mut self, rule: &UpdateFar<'_>) -> Result<(), Refusal> {
        let id = FarId(rule.id.0);
        self.changed_far(id, rule).map_err(|refusal| refusal.of(rule_of_far(id)))
    }

    fn changed_far(&mut self, id: FarId, rule: &UpdateFar<'_>) -> Result<(), Refusal> {
        unread(rule.refused)?;
        let at = self.rules.fars.iter().position(|far| far.id == id);
        let at = at.ok_or(Refusal::rule(rule_of_far(id)))?;
        let mut far = self.rules.fars[at].clone();
        if let Some(update) = &rule.forwarding {
            let sends_marker =
                update.flags.is_some_and(|flags| flags.has(ModificationFlags::SNDEM));
            if sends_marker && !self.end_markers.contains(&id) {
                self.end_markers.push(id);
            }
            far.forward = Some(self.changed_forwarding(far.forward.as_ref(), update)?);
            if let Some(change) = update.policy {
                self.set_policy(id, change)?;
            }
        }
        self.changed_duplicates(&mut far.duplicate, &rule.duplicating)?;
        if let Some(flags) = rule.action {
            if !flags.has(ApplyAction::DUPL) {
                far.duplicate.clear();
            }
            far.action = action(flags, &far.duplicate)?;
        }
        far.bar = rule.bar.map(|bar| BarId(bar.0)).or(far.bar);
        whole(&far)?;
        self.rules.fars[at] = far;
        Ok(())
    }

    /// Remove FAR.
    pub fn remove_far(&mut self, id: element::FarId) -> Result<(), Refusal> {
        let id = FarId(id.0);
        let at = self.rules.fars.iter().position(|far| far.id == id);
        self.rules.fars.remove(at.ok_or(Refusal::rule(rule_of_far(id)))?);
        self.extras.policies.retain(|(far, _)| *far != id);
        Ok(())
    }

    fn forwarding(&self, one: &ForwardingParameters<'_>) -> Result<Forwarding, Refusal> {
        unread(one.refused)?;
        let interface = destination(one.destination)?;
        let found = self.towards(interface, one.network_instance)?;
        Ok(Forwarding {
            interface: Some(interface),
            network: Some(self.node.interfaces.network(found)),
            outer: one.outer_header.map(|header| self.outer(found, header)).transpose()?,
            dscp: one.marking.map(dscp),
            redirect: one.redirect.map(redirect).transpose()?,
        })
    }

    fn duplicate(&self, one: &DuplicatingParameters<'_>) -> Result<Forwarding, Refusal> {
        if one.policy.is_some() {
            return Err(Refusal::unsupported(FORWARDING_POLICY));
        }
        let interface = destination(one.destination)?;
        let found = self.towards(interface, None)?;
        Ok(Forwarding {
            interface: Some(interface),
            network: Some(self.node.interfaces.network(found)),
            outer: one.outer_header.map(|header| self.outer(found, header)).transpose()?,
            dscp: one.marking.map(dscp),
            redirect: None,
        })
    }

    /// Copies have no number: the nth change is one of the nth copy.
    fn changed_duplicates(
        &self,
        copies: &mut Vec<Forwarding>,
        updates: &[UpdateDuplicatingParameters<'_>],
    ) -> Result<(), Refusal> {
        for (at, update) in updates.iter().enumerate() {
            if update.policy.is_some() {
                return Err(Refusal::unsupported(FORWARDING_POLICY));
            }
            let update = UpdateForwardingParameters {
                destination: update.destination,
                outer_header: update.outer_header,
                marking: update.marking,
                ..UpdateForwardingParameters::default()
            };
            let changed = self.changed_forwarding(copies.get(at), &update)?;
            match copies.get_mut(at) {
                Some(copy) => *copy = changed,
                None => copies.push(changed),
            }
        }
        Ok(())
    }

    fn changed_forwarding(
        &self,
        before: Option<&Forwarding>,
        update: &UpdateForwardingParameters<'_>,
    ) -> Result<Forwarding, Refusal> {
        unread(update.refused)?;
        let given = update.destination.map(destination).transpose()?;
        let known = before.and_then(|before| before.interface);
        let interface = given.or(known).ok_or(Refusal::missing(DESTINATION_INTERFACE))?;
        // What is not given does not change (table 7.5.4.3-2): without another interface or an
        // instance, packets stay in their network.
        let stays =
            update.network_instance.is_none() && known.is_none_or(|known| known == interface);
        let before_there = before.and_then(|before| before.network.as_ref()).filter(|_| stays);
        let there =
            before_there.and_then(|network| self.node.interfaces.of_network(interface, network));
        let found = match there {
            Some(found) => found,
            None => self.towards(interface, update.network_instance)?,
        };
        let header = |change: Change<OuterHeaderCreation>| match change {
            Change::Clear => Ok(None),
            Change::Set(header) => self.outer(found, header).map(Some),
        };
        Ok(Forwarding {
            interface: Some(interface),
            network: Some(self.node.interfaces.network(found)),
            outer: match update.outer_header {
                Some(change) => header(change)?,
                None => before.and_then(|before| before.outer),
            },
            dscp: match update.marking {
                Some(change) => change.value().map(dscp),
                None => before.and_then(|before| before.dscp),
            },
            redirect: match update.redirect {
                Some(change) => change.value().map(redirect).transpose()?,
                None => before.and_then(|before| before.redirect.clone()),
            },
        })
    }

    /// The interface of the node that packets leave by.
    fn towards(&self, interface: Interface, instance: Option<Text<'_>>) -> Result<Found, Refusal> {
        let element = if instance.is_some() { NETWORK_INSTANCE } else { DESTINATION_INTERFACE };
        let found = self.node.interfaces.find(interface, instance);
        found.ok_or(Refusal { offending: Some(element), ..Refusal::cause(Cause::RULE_FAILURE) })
    }

    /// The outer header, with an address of the node of the same family as a peer's.
    fn outer(&self, found: Found, header: OuterHeaderCreation) -> Result<OuterHeader, Refusal> {
        let peers = [header.ipv4.map(IpAddr::from), header.ipv6.map(IpAddr::from)];
        let ends = peers.into_iter().flatten().find_map(|peer| {
            self.node.interfaces.local_for(found, peer).map(|local| (peer, local))
        });
        let (peer, local) = ends.ok_or(Refusal {
            offending: Some(OUTER_HEADER_CREATION),
            ..Refusal::cause(Cause::RULE_FAILURE)
        })?;
        match (header.teid, header.port) {
            // Any TEID is the peer's to choose, but for 0 (TS 29.281 §5.1).
            (Some(0), _) => Err(Refusal::incorrect(OUTER_HEADER_CREATION)),
            (Some(teid), None) => Ok(OuterHeader::Gtpu { teid, peer, local }),
            (None, Some(port)) => Ok(OuterHeader::Udp { port, peer, local }),
            _ => Err(Refusal::unsupported(OUTER_HEADER_CREATION)),
        }
    }

    fn set_policy(
        &mut self,
        id: FarId,
        change: Change<ForwardingPolicy<'_>>,
    ) -> Result<(), Refusal> {
        let policy = change.value().map(|policy| name(policy.0));
        if policy.as_ref().is_some_and(|policy| !self.node.interfaces.has_policy(policy)) {
            return Err(Refusal {
                offending: Some(FORWARDING_POLICY),
                ..Refusal::cause(Cause::INVALID_FORWARDING_POLICY)
            });
        }
        self.extras.policies.retain(|(far, _)| *far != id);
        self.extras.policies.extend(policy.map(|policy| (id, policy)));
        Ok(())
    }
}

/// Apply Action: one of DROP, FORW and BUFF; with BUFF perhaps NOCP.
fn action(flags: ApplyAction, duplicate: &[Forwarding]) -> Result<Apply, Refusal> {
    let known = ApplyAction::DROP
        | ApplyAction::FORW
        | ApplyAction::BUFF
        | ApplyAction::NOCP
        | ApplyAction::DUPL;
    if !flags.without(known).is_empty() {
        return Err(Refusal::unsupported(APPLY_ACTION));
    }
    if flags.has(ApplyAction::DUPL) && duplicate.is_empty() {
        return Err(Refusal::missing(DUPLICATING_PARAMETERS));
    }
    let (buffers, notifies) = (flags.has(ApplyAction::BUFF), flags.has(ApplyAction::NOCP));
    match (flags.has(ApplyAction::DROP), flags.has(ApplyAction::FORW), buffers, notifies) {
        (true, false, false, false) => Ok(Apply::Drop),
        (false, true, false, false) => Ok(Apply::Forward),
        (false, false, true, false) => Ok(Apply::Buffer),
        (false, false, true, true) => Ok(Apply::Notify),
        _ => Err(Refusal::incorrect(APPLY_ACTION)),
    }
}

/// What is forwarded must go somewhere (§7.5.2.3).
fn whole(far: &Far) -> Result<(), Refusal> {
    if far.action == Apply::Forward && far.forward.is_none() {
        return Err(Refusal::missing(FORWARDING_PARAMETERS));
    }
    Ok(())
}

fn destination(interface: element::Interface) -> Result<Interface, Refusal> {
    Ok(match interface {
        element::Interface::ACCESS => Interface::Access,
        element::Interface::CORE => Interface::Core,
        element::Interface::SGI_LAN => Interface::SgiLan,
        element::Interface::CP_FUNCTION => Interface::CpFunction,
        element::Interface::LI_FUNCTION => Interface::LiFunction,
        // The network of a 5G VN group.
        element::Interface(5) => return Err(Refusal::unsupported(DESTINATION_INTERFACE)),
        _ => return Err(Refusal::incorrect(DESTINATION_INTERFACE)),
    })
}

/// The URL that HTTP requests are answered with. A host that is given by its address gets them
/// at its root.
fn redirect(information: RedirectInformation<'_>) -> Result<Name, Refusal> {
    let incorrect = || Refusal::incorrect(REDIRECT_INFORMATION);
    let text = std::str::from_utf8(information.server.0).map_err(|_| incorrect())?;
    let url = match information.kind {
        RedirectInformation::URL => text.to_owned(),
        // With two addresses, the one of IPv4 is the first.
        RedirectInformation::IPV4 | RedirectInformation::BOTH => {
            let address: Ipv4Addr = text.parse().map_err(|_| incorrect())?;
            format!("http://{address}/")
        }
        RedirectInformation::IPV6 => {
            let address: Ipv6Addr = text.parse().map_err(|_| incorrect())?;
            format!("http://[{address}]/")
        }
        _ => return Err(Refusal::unsupported(REDIRECT_INFORMATION)),
    };
    if is_url(&url) { Ok(Name::from(url.as_str())) } else { Err(incorrect()) }
}

/// The DSCP of a marking: the upper six bits of ToS or Traffic Class.
fn dscp(marking: TransportLevelMarking) -> u8 {
    (marking.value & marking.mask) >> 2
}
