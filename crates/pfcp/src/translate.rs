//! Rules of PFCP as rules of the data plane.
//!
//! A [`Draft`] begins as what a session has. Each part of a request changes it or is refused,
//! and the session becomes what the draft is, or stays what it was.

mod enforce;
mod filter;
pub(crate) mod flow;
mod forward;
mod pdr;
mod shared;
mod usage;

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use weft_functions::common::prefix::Prefix;
use weft_functions::session::rules::filter::SdfFilter;
use weft_functions::session::rules::{FarId, LocalTunnel, Name, PdrId, QerId, Session, UrrId};

use crate::associations::AssociationId;
use crate::codec::Cause;
use crate::codec::element::{self, FTeid, GivenFTeid, RuleId, Text, UeIpAddress};
use crate::codec::ie::*;
use crate::codec::rule::{CreatedPdr, CreatedTrafficEndpoint};
use crate::interfaces::{Entropy, Found, Interfaces, Traits};
use crate::refusal::Refusal;

pub(crate) use self::shared::Known;
pub(crate) use self::usage::usage_trigger;

/// Applications, and the filters that a control plane has given for them.
pub(crate) type Applications = HashMap<Box<str>, Vec<SdfFilter>>;

/// What a session has beside the rules of the data plane. Most sessions have nothing of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Extras {
    /// Traffic endpoints.
    pub endpoints: Vec<Endpoint>,
    /// What PDRs have beside.
    pub pdrs: Vec<PdrExtras>,
    /// Filters by their number, for references to them.
    pub filters: Vec<(u32, SdfFilter)>,
    /// Tunnel endpoints by CHOOSE ID.
    pub chosen: Vec<(u8, LocalTunnel)>,
    /// URRs that report numbers of packets.
    pub packets: Vec<UrrId>,
    /// Forwarding policies of FARs.
    pub policies: Vec<(FarId, Name)>,
    /// Sets that the session belongs to.
    pub sets: Vec<element::FqCsid>,
    /// Modifications that have created URRs.
    pub creations: u32,
}

/// A traffic endpoint (§7.5.2.7).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Endpoint {
    /// Its number.
    pub id: u8,
    /// The part of a PDI that it identifies.
    pub part: DetectionPart,
}

/// What a PDI and a traffic endpoint have in common. An F-TEID to be chosen is chosen once the
/// interface is known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct DetectionPart {
    pub fteid: Option<FTeid>,
    pub instance: Option<Box<[u8]>>,
    pub ue: Vec<UeIpAddress>,
    pub routes: Vec<Prefix>,
    pub qfis: Vec<u8>,
    /// The network and the tunnel that the F-TEID has become.
    pub chosen: Option<(Name, LocalTunnel)>,
}

/// What a PDR has beside the rule of the data plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PdrExtras {
    pub id: PdrId,
    pub endpoints: Vec<u8>,
    pub traits: Traits,
    /// Filters beside those of its application, if it has one.
    pub filters: Vec<SdfFilter>,
}

/// What a session is to become.
pub(crate) struct Draft<'n> {
    pub rules: Session,
    pub extras: Extras,
    /// What is told of PDRs.
    pub created: Vec<CreatedPdr>,
    /// What is told of traffic endpoints.
    pub created_endpoints: Vec<CreatedTrafficEndpoint>,
    /// FARs whose old tunnels end with an End Marker.
    pub end_markers: Vec<FarId>,
    acquired_tunnels: Vec<(Name, LocalTunnel)>,
    acquired_addresses: Vec<IpAddr>,
    /// That of the user's address, by which it has its worker.
    number: Option<u32>,
    node: Surroundings<'n>,
}

/// The parts of the node that a draft needs.
pub(crate) struct Surroundings<'n> {
    pub interfaces: &'n mut Interfaces,
    pub applications: &'n Applications,
    pub entropy: &'n mut Entropy,
    /// Most rules of a session.
    pub most_rules: usize,
    pub owner: Owner<'n>,
    /// Rules that sessions have in common.
    pub known: &'n mut Known,
}

/// The control plane that a session belongs to.
#[derive(Clone, Copy)]
pub(crate) struct Owner<'n> {
    /// Where the node listens.
    pub listen: &'n [IpAddr],
    pub association: Option<AssociationId>,
}

impl Owner<'_> {
    /// Its number, and no other's. Few sessions have a use for it.
    pub fn number(self) -> u32 {
        let mut hasher = std::hash::DefaultHasher::new();
        // A process may have several nodes.
        (self.listen, self.association.map(|id| id.0)).hash(&mut hasher);
        hasher.finish() as u32
    }
}

/// What a draft has come to.
pub(crate) struct Drafted {
    pub rules: Session,
    pub extras: Extras,
    pub created: Vec<CreatedPdr>,
    pub created_endpoints: Vec<CreatedTrafficEndpoint>,
    pub end_markers: Vec<FarId>,
    pub acquired: Acquired,
}

/// What was taken for a session, to be given back if it is not established or changed.
#[derive(Debug, Default)]
pub(crate) struct Acquired {
    tunnels: Vec<(Name, LocalTunnel)>,
    addresses: Vec<IpAddr>,
}

impl Acquired {
    /// Gives all of it back.
    pub fn give_back(self, interfaces: &mut Interfaces) {
        for (network, tunnel) in self.tunnels {
            interfaces.release(Some(&network), tunnel);
        }
        for address in self.addresses {
            interfaces.release_address(address);
        }
    }
}

impl<'n> Draft<'n> {
    /// A change of a session, or a new one.
    pub fn new(rules: Session, extras: Extras, node: Surroundings<'n>) -> Self {
        let mut known = rules.pdrs.iter().flat_map(|pdr| &pdr.ue).flat_map(addresses_of);
        let number = known.next().map(number_of);
        drop(known);
        Draft {
            number,
            rules,
            extras,
            created: Vec::new(),
            created_endpoints: Vec::new(),
            end_markers: Vec::new(),
            acquired_tunnels: Vec::new(),
            acquired_addresses: Vec::new(),
            node,
        }
    }

    /// The whole, if every rule that is named is there, and what was taken for it.
    ///
    /// # Errors
    /// A rule names one that is not there; there are too many. What was taken is given back.
    pub fn finish(mut self, outcome: Result<(), Refusal>) -> Result<Drafted, Refusal> {
        let (tunnels, _) = keys(&self.rules, Some(&self.extras));
        self.extras.chosen.retain(|(_, chosen)| tunnels.iter().any(|(_, one)| one == chosen));
        let outcome = outcome.and_then(|()| self.check());
        let acquired =
            Acquired { tunnels: self.acquired_tunnels, addresses: self.acquired_addresses };
        if let Err(refusal) = outcome {
            acquired.give_back(self.node.interfaces);
            return Err(refusal);
        }
        // There may be a million sessions: none keeps room for rules to come.
        shrink(&mut self.rules);
        self.node.known.share(&mut self.rules);
        Ok(Drafted {
            rules: self.rules,
            extras: self.extras,
            created: self.created,
            created_endpoints: self.created_endpoints,
            end_markers: self.end_markers,
            acquired,
        })
    }

    fn check(&self) -> Result<(), Refusal> {
        let rules = &self.rules;
        let count = rules.pdrs.len()
            + rules.fars.len()
            + rules.qers.len()
            + rules.urrs.len()
            + rules.bars.len();
        if count > self.node.most_rules {
            return Err(Refusal::cause(Cause::NO_RESOURCES));
        }
        for pdr in &rules.pdrs {
            let refusal = Refusal::rule(rule_of_pdr(pdr.id));
            let far = pdr.far.is_some_and(|id| rules.fars.iter().any(|far| far.id == id));
            let urrs = pdr.urrs.iter().all(|id| rules.urrs.iter().any(|urr| urr.id == *id));
            let qers = pdr.qers.iter().all(|id| rules.qers.iter().any(|qer| qer.id == *id));
            if !(far && urrs && qers) {
                return Err(refusal);
            }
        }
        for far in &rules.fars {
            if far.bar.is_some_and(|id| rules.bars.iter().all(|bar| bar.id != id)) {
                return Err(Refusal::rule(rule_of_far(far.id)));
            }
        }
        for urr in &rules.urrs {
            let action =
                urr.quota_action.is_none_or(|id| rules.fars.iter().any(|far| far.id == id));
            if !action {
                return Err(Refusal::rule(rule_of_urr(urr.id)));
            }
        }
        Ok(())
    }

    /// Addresses of the user that are given somewhere in a request, ahead of the tunnels for it.
    pub fn note_user<'e>(&mut self, elements: impl IntoIterator<Item = &'e UeIpAddress>) {
        let given = elements.into_iter().find_map(|ue| {
            let ipv4 = ue.ipv4.map(IpAddr::from);
            ipv4.or(ue.ipv6.map(IpAddr::from))
        });
        self.number = self.number.or(given.map(number_of));
    }

    /// A tunnel endpoint for a PDI or traffic endpoint.
    fn tunnel(&mut self, found: Found, fteid: FTeid) -> Result<LocalTunnel, Refusal> {
        let network = self.node.interfaces.network(found);
        match fteid {
            FTeid::Choose { ipv4, ipv6, id } => {
                let known = id.and_then(|id| self.extras.chosen.iter().find(|one| one.0 == id));
                if let Some((_, tunnel)) = known {
                    return Ok(*tunnel);
                }
                let chosen = self.node.interfaces.choose(
                    found,
                    (ipv4, ipv6),
                    self.number,
                    self.node.entropy,
                );
                let tunnel = chosen.ok_or(Refusal {
                    offending: Some(F_TEID),
                    ..Refusal::cause(Cause::RULE_FAILURE)
                })?;
                self.acquired_tunnels.push((network, tunnel));
                if let Some(id) = id {
                    self.extras.chosen.push((id, tunnel));
                }
                Ok(tunnel)
            }
            FTeid::Given(GivenFTeid { teid, ipv4, ipv6 }) => {
                if teid == 0 {
                    return Err(Refusal::incorrect(F_TEID));
                }
                let tunnel = LocalTunnel { teid, ipv4, ipv6 };
                let own =
                    self.rules.pdrs.iter().any(|pdr| {
                        pdr.network.as_ref() == Some(&network) && pdr.local == Some(tunnel)
                    });
                let own = own || self.acquired_tunnels.contains(&(network.clone(), tunnel));
                if !own {
                    if !self.node.interfaces.take(found, tunnel) {
                        return Err(Refusal {
                            offending: Some(F_TEID),
                            ..Refusal::cause(Cause::RULE_FAILURE)
                        });
                    }
                    self.acquired_tunnels.push((network, tunnel));
                }
                Ok(tunnel)
            }
        }
    }
}

/// Gives back the room of lists that they do not fill.
fn shrink(rules: &mut Session) {
    let Session { pdrs, fars, bars, .. } = rules;
    pdrs.shrink_to_fit();
    fars.shrink_to_fit();
    bars.shrink_to_fit();
}

/// The tunnels and addresses that a session has.
pub(crate) fn keys(
    rules: &Session,
    extras: Option<&Extras>,
) -> (Vec<(Name, LocalTunnel)>, Vec<IpAddr>) {
    let endpoints = extras.into_iter().flat_map(|extras| &extras.endpoints);
    let mut tunnels: Vec<_> =
        endpoints.filter_map(|endpoint| endpoint.part.chosen.clone()).collect();
    let mut addresses = Vec::new();
    for pdr in &rules.pdrs {
        if let (Some(network), Some(tunnel)) = (&pdr.network, pdr.local) {
            let key = (network.clone(), tunnel);
            if !tunnels.contains(&key) {
                tunnels.push(key);
            }
        }
        for address in pdr.ue.iter().flat_map(addresses_of) {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
    }
    (tunnels, addresses)
}

fn addresses_of(ue: &weft_functions::session::rules::UeAddress) -> impl Iterator<Item = IpAddr> {
    let ipv6 = ue.ipv6.and_then(|prefix| prefix.v6());
    let ipv6 = ipv6.map(|masked| std::net::Ipv6Addr::from_bits(masked.first()).into());
    ue.ipv4.map(Into::into).into_iter().chain(ipv6)
}

/// The number of a user's address, as its key has it.
fn number_of(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(address) => address.to_bits(),
        IpAddr::V6(prefix) => (prefix.to_bits() >> 64) as u32,
    }
}

/// A name of the control plane.
fn name(text: Text<'_>) -> Name {
    Name(text.name().collect::<String>().into())
}

pub(crate) fn rule_of_pdr(id: PdrId) -> RuleId {
    RuleId::Pdr(element::PdrId(id.0))
}

pub(crate) fn rule_of_far(id: FarId) -> RuleId {
    RuleId::Far(element::FarId(id.0))
}

pub(crate) fn rule_of_urr(id: UrrId) -> RuleId {
    RuleId::Urr(element::UrrId(id.0))
}

pub(crate) fn rule_of_qer(id: QerId) -> RuleId {
    RuleId::Qer(element::QerId(id.0))
}

/// Refuses a group that has an element which is not read.
fn unread(refused: Option<u16>) -> Result<(), Refusal> {
    refused.map_or(Ok(()), |element| Err(Refusal::unsupported(element)))
}
