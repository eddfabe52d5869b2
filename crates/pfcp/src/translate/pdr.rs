//! Packet detection rules and traffic endpoints.

use std::net::IpAddr;

use weft_functions::common::prefix::Prefix;
use weft_functions::session::rules::{
    FarId, Interface, LocalTunnel, Pdr, PdrId, Period, QerId, Rare, Removal, UeAddress, UrrId,
};

use super::flow;
use super::{DetectionPart, Draft, Endpoint, PdrExtras, name, rule_of_pdr, unread};
use crate::codec::Cause;
use crate::codec::element::{self, FTeid, GivenFTeid, OuterHeaderRemoval, Text, Time, UeIpAddress};
use crate::codec::ie::*;
use crate::codec::rule::{
    CreatePdr, CreateTrafficEndpoint, CreatedPdr, CreatedTrafficEndpoint, Pdi, UpdatePdr,
    UpdateTrafficEndpoint,
};
use crate::interfaces::{Found, Traits};
use crate::refusal::Refusal;

/// Most filters of one rule.
const FILTERS: usize = 64;
/// Most framed routes of one rule.
const ROUTES: usize = 64;

impl Draft<'_> {
    /// Create PDR.
    pub fn create_pdr(&mut self, rule: &CreatePdr<'_>) -> Result<(), Refusal> {
        let id = PdrId(rule.id.0);
        self.new_pdr(id, rule).map_err(|refusal| refusal.of(rule_of_pdr(id)))
    }

    fn new_pdr(&mut self, id: PdrId, rule: &CreatePdr<'_>) -> Result<(), Refusal> {
        unread(rule.refused)?;
        if self.rules.pdrs.iter().any(|pdr| pdr.id == id) {
            return Err(Refusal::rule(rule_of_pdr(id)));
        }
        let far = rule.far.ok_or(Refusal::missing(FAR_ID))?;
        self.rules.pdrs.push(Pdr {
            id,
            precedence: rule.precedence,
            source: Interface::Access,
            network: None,
            local: None,
            ue: None,
            filters: Rare::default(),
            routes: Rare::default(),
            period: period(None, rule.activation, rule.deactivation),
            qfis: Rare::default(),
            removal: rule.outer_header_removal.map(removal).transpose()?,
            far: Some(FarId(far.0)),
            urrs: rule.urrs.iter().map(|urr| UrrId(urr.0)).collect(),
            qers: rule.qers.iter().map(|qer| QerId(qer.0)).collect(),
            chain: None,
        });
        let at = self.rules.pdrs.len() - 1;
        let mut extras = PdrExtras { id, ..PdrExtras::default() };
        self.activate(&rule.activate_predefined, &mut extras.traits)?;
        self.detect(at, &rule.pdi, &mut extras)?;
        self.keep(extras);
        Ok(())
    }

    /// Update PDR.
    pub fn update_pdr(&mut self, rule: &UpdatePdr<'_>) -> Result<(), Refusal> {
        let id = PdrId(rule.id.0);
        self.changed_pdr(id, rule).map_err(|refusal| refusal.of(rule_of_pdr(id)))
    }

    fn changed_pdr(&mut self, id: PdrId, rule: &UpdatePdr<'_>) -> Result<(), Refusal> {
        unread(rule.refused)?;
        let at = self.rules.pdrs.iter().position(|pdr| pdr.id == id);
        let at = at.ok_or(Refusal::rule(rule_of_pdr(id)))?;
        let pdr = &mut self.rules.pdrs[at];
        if let Some(header) = rule.outer_header_removal {
            pdr.removal = Some(removal(header)?);
        }
        pdr.period = period(pdr.period.take(), rule.activation, rule.deactivation);
        pdr.precedence = rule.precedence.unwrap_or(pdr.precedence);
        pdr.far = rule.far.map(|far| FarId(far.0)).or(pdr.far);
        if !rule.urrs.is_empty() {
            pdr.urrs = rule.urrs.iter().map(|urr| UrrId(urr.0)).collect();
        }
        if !rule.qers.is_empty() {
            pdr.qers = rule.qers.iter().map(|qer| QerId(qer.0)).collect();
        }
        let known = self.extras.pdrs.iter().position(|extras| extras.id == id);
        let mut extras = known.map_or_else(
            || PdrExtras { id, ..PdrExtras::default() },
            |known| self.extras.pdrs.remove(known),
        );
        for ended in &rule.deactivate_predefined {
            let ended = name(*ended);
            extras.traits.predefined.retain(|active| *active != ended);
        }
        self.activate(&rule.activate_predefined, &mut extras.traits)?;
        if let Some(pdi) = &rule.pdi {
            self.detect(at, pdi, &mut extras)?;
        }
        self.keep(extras);
        Ok(())
    }

    /// Remove PDR.
    pub fn remove_pdr(&mut self, id: element::PdrId) -> Result<(), Refusal> {
        let id = PdrId(id.0);
        let at = self.rules.pdrs.iter().position(|pdr| pdr.id == id);
        self.rules.pdrs.remove(at.ok_or(Refusal::rule(rule_of_pdr(id)))?);
        self.extras.pdrs.retain(|extras| extras.id != id);
        Ok(())
    }

    /// Remembers what a PDR has beside, if there is anything or chains depend on it.
    fn keep(&mut self, extras: PdrExtras) {
        let Traits { application, predefined, instance } = &extras.traits;
        let by_traits = !predefined.is_empty() || instance.is_some();
        if !extras.endpoints.is_empty()
            || application.is_some()
            || by_traits && self.node.interfaces.has_chains()
        {
            self.extras.pdrs.push(extras);
        }
    }

    fn activate(&self, rules: &[Text<'_>], traits: &mut Traits) -> Result<(), Refusal> {
        for rule in rules {
            let rule = name(*rule);
            if !self.node.interfaces.has_predefined(&rule) {
                return Err(Refusal {
                    offending: Some(ACTIVATE_PREDEFINED_RULES),
                    ..Refusal::cause(Cause::UNKNOWN_PREDEFINED_RULE)
                });
            }
            if !traits.predefined.contains(&rule) {
                traits.predefined.push(rule);
            }
        }
        Ok(())
    }

    /// What packets of the PDR at `at` look like.
    fn detect(&mut self, at: usize, pdi: &Pdi<'_>, extras: &mut PdrExtras) -> Result<(), Refusal> {
        unread(pdi.refused)?;
        let source = side(pdi.source).ok_or(Refusal::incorrect(SOURCE_INTERFACE))?;
        if pdi.filters.len() > FILTERS {
            return Err(Refusal::cause(Cause::NO_RESOURCES));
        }
        let mut filters =
            pdi.filters.iter().map(|one| self.filter(one)).collect::<Result<Vec<_>, _>>()?;
        extras.traits.application = pdi.application.map(name);
        extras.filters.clear();
        if let Some(application) = &extras.traits.application {
            extras.filters.clone_from(&filters);
            self.add_application(application, &mut filters)?;
        }
        extras.endpoints = pdi.endpoints.iter().map(|endpoint| endpoint.0).collect();
        let mut part = DetectionPart {
            fteid: pdi.fteid,
            instance: pdi.network_instance.map(|text| text.0.into()),
            ue: pdi.ue_addresses.clone(),
            routes: routes(&pdi.framed_routes, &pdi.framed_ipv6_routes)?,
            qfis: pdi.qfis.iter().map(|qfi| qfi.0).collect(),
            chosen: None,
        };
        let of_endpoint = match pdi.endpoints.as_slice() {
            [] => None,
            [one] => Some(self.endpoint(one.0)?),
            _ => return Err(Refusal::unsupported(TRAFFIC_ENDPOINT_ID)),
        };
        if let Some(of_endpoint) = of_endpoint {
            let known = self.extras.endpoints[of_endpoint].part.clone();
            part = DetectionPart {
                qfis: if part.qfis.is_empty() { known.qfis.clone() } else { part.qfis },
                ..known
            };
        }
        let pdr = &mut self.rules.pdrs[at];
        (pdr.source, pdr.filters, pdr.qfis) = (source, filters.into(), part.qfis.clone().into());
        self.place(at, &mut part, extras)?;
        if let Some(of_endpoint) = of_endpoint {
            self.extras.endpoints[of_endpoint].part.chosen = part.chosen;
            self.extras.endpoints[of_endpoint].part.ue.clone_from(&part.ue);
        }
        Ok(())
    }

    /// Where packets of a PDR come in: tunnel, network and addresses.
    fn place(
        &mut self,
        at: usize,
        part: &mut DetectionPart,
        extras: &mut PdrExtras,
    ) -> Result<(), Refusal> {
        let source = self.rules.pdrs[at].source;
        let instance = part.instance.as_deref().map(Text);
        extras.traits.instance = instance.map(name);
        let found = self.node.interfaces.find(source, instance).ok_or(Refusal {
            offending: Some(if instance.is_some() { NETWORK_INSTANCE } else { SOURCE_INTERFACE }),
            ..Refusal::cause(Cause::RULE_FAILURE)
        })?;
        let network = self.node.interfaces.network(found);
        let was_chosen = part.chosen.is_some();
        let mut created =
            CreatedPdr { id: element::PdrId(self.rules.pdrs[at].id.0), ..CreatedPdr::default() };
        // A tunnel that is chosen follows the user's address.
        let ue = self.ue_address(found, &mut part.ue, &mut created)?;
        self.note_user(&part.ue);
        let local = match (part.fteid, &part.chosen) {
            (None, _) => None,
            (Some(_), Some((_, known))) => Some(*known),
            (Some(fteid), None) => Some(self.tunnel(found, fteid)?),
        };
        part.chosen = local.map(|local| (network.clone(), local));
        let pdr = &mut self.rules.pdrs[at];
        (pdr.network, pdr.local, pdr.ue) = (Some(network), local, ue);
        pdr.routes = part.routes.clone().into();
        let is_choice = matches!(part.fteid, Some(FTeid::Choose { .. }));
        // What belongs to a traffic endpoint is told of the endpoint.
        if let Some(local) = local.filter(|_| is_choice && extras.endpoints.is_empty()) {
            created.fteid = Some(given(local));
        }
        if let Some(endpoint) = extras.endpoints.first() {
            let told = self.created_endpoints.iter().any(|one| one.id.0 == *endpoint);
            let chosen = local.filter(|_| is_choice && !was_chosen);
            if !told && (chosen.is_some() || !created.ue_addresses.is_empty()) {
                self.created_endpoints.push(CreatedTrafficEndpoint {
                    id: element::TrafficEndpointId(*endpoint),
                    fteid: chosen.map(given),
                    ue_addresses: std::mem::take(&mut created.ue_addresses),
                    refused: None,
                });
            }
        } else if created.fteid.is_some() || !created.ue_addresses.is_empty() {
            self.created.push(created);
        }
        Ok(())
    }

    /// The user's addresses of a PDI; those that are to be chosen are, and are then given.
    fn ue_address(
        &mut self,
        found: Found,
        elements: &mut [UeIpAddress],
        created: &mut CreatedPdr,
    ) -> Result<Option<UeAddress>, Refusal> {
        let mut all = UeAddress::default();
        for ue in elements {
            if ue.choose_ipv4 || ue.choose_ipv6 {
                self.choose_ue_address(found, ue)?;
                created.ue_addresses.push(*ue);
            }
            if let Some(ipv4) = ue.ipv4
                && all.ipv4.replace(ipv4).is_some_and(|other| other != ipv4)
            {
                return Err(Refusal::unsupported(UE_IP_ADDRESS));
            }
            if let Some(ipv6) = ue.ipv6 {
                let length = match (ue.prefix_length, ue.delegation) {
                    (Some(length), _) => length,
                    (None, bits) => 64 - bits.unwrap_or(0),
                };
                let prefix = flow::prefix_of(ipv6.into(), Some(length));
                let prefix = prefix.ok_or(Refusal::incorrect(UE_IP_ADDRESS))?;
                if all.ipv6.replace(prefix).is_some_and(|other| other != prefix) {
                    return Err(Refusal::unsupported(UE_IP_ADDRESS));
                }
            }
        }
        for address in super::addresses_of(&all) {
            if !self.acquired_addresses.contains(&address)
                && self.node.interfaces.note_address(address)
            {
                self.acquired_addresses.push(address);
            }
        }
        Ok((all != UeAddress::default()).then_some(all))
    }

    /// Chooses the addresses of a user. A session has one of each family (§5.21.1).
    fn choose_ue_address(&mut self, found: Found, ue: &mut UeIpAddress) -> Result<(), Refusal> {
        let occupied =
            Refusal { offending: Some(UE_IP_ADDRESS), ..Refusal::cause(Cause::ADDRESSES_OCCUPIED) };
        let mut known = self.rules.pdrs.iter().filter_map(|pdr| pdr.ue.as_ref());
        if std::mem::take(&mut ue.choose_ipv4) {
            let chosen = match known.clone().find_map(|ue| ue.ipv4) {
                Some(known) => known,
                None => {
                    let chosen = self.node.interfaces.choose_ipv4(found).ok_or(occupied)?;
                    self.acquired_addresses.push(chosen.into());
                    chosen
                }
            };
            ue.ipv4 = Some(chosen);
        }
        if std::mem::take(&mut ue.choose_ipv6) {
            let first = |prefix: weft_functions::common::prefix::Prefix| {
                prefix.v6().map(|masked| std::net::Ipv6Addr::from_bits(masked.first()))
            };
            let chosen = match known.find_map(|ue| ue.ipv6.and_then(first)) {
                Some(known) => known,
                None => {
                    let chosen = self.node.interfaces.choose_ipv6(found).ok_or(occupied)?;
                    self.acquired_addresses.push(IpAddr::from(chosen));
                    chosen
                }
            };
            ue.ipv6 = Some(chosen);
        }
        Ok(())
    }

    fn endpoint(&self, id: u8) -> Result<usize, Refusal> {
        let at = self.extras.endpoints.iter().position(|endpoint| endpoint.id == id);
        at.ok_or(Refusal {
            offending: Some(TRAFFIC_ENDPOINT_ID),
            ..Refusal::cause(Cause::RULE_FAILURE)
        })
    }

    /// Create Traffic Endpoint.
    pub fn create_endpoint(&mut self, one: &CreateTrafficEndpoint<'_>) -> Result<(), Refusal> {
        unread(one.refused)?;
        if self.endpoint(one.id.0).is_ok() {
            return Err(Refusal::incorrect(TRAFFIC_ENDPOINT_ID));
        }
        self.extras.endpoints.push(Endpoint {
            id: one.id.0,
            part: DetectionPart {
                fteid: one.fteid,
                instance: one.network_instance.map(|text| text.0.into()),
                ue: one.ue_addresses.clone(),
                routes: routes(&one.framed_routes, &one.framed_ipv6_routes)?,
                qfis: one.qfis.iter().map(|qfi| qfi.0).collect(),
                chosen: None,
            },
        });
        Ok(())
    }

    /// Update Traffic Endpoint, and all PDRs that have it.
    pub fn update_endpoint(&mut self, one: &UpdateTrafficEndpoint<'_>) -> Result<(), Refusal> {
        unread(one.refused)?;
        let at = self.endpoint(one.id.0)?;
        let behind = routes(&one.framed_routes, &one.framed_ipv6_routes)?;
        let part = &mut self.extras.endpoints[at].part;
        if let Some(fteid) = one.fteid {
            (part.fteid, part.chosen) = (Some(fteid), None);
        }
        if let Some(instance) = one.network_instance {
            part.instance = Some(instance.0.into());
        }
        if !one.ue_addresses.is_empty() {
            part.ue.clone_from(&one.ue_addresses);
        }
        if !behind.is_empty() {
            part.routes = behind;
        }
        if !one.qfis.is_empty() {
            part.qfis = one.qfis.iter().map(|qfi| qfi.0).collect();
        }
        let users = self.extras.pdrs.iter().enumerate();
        let users: Vec<_> = users
            .filter(|(_, extras)| extras.endpoints.contains(&one.id.0))
            .map(|(at, extras)| (at, extras.clone()))
            .collect();
        for (known, mut extras) in users {
            let pdr = self.rules.pdrs.iter().position(|pdr| pdr.id == extras.id);
            let mut part = self.extras.endpoints[at].part.clone();
            if let Some(pdr) = pdr {
                self.rules.pdrs[pdr].qfis = part.qfis.clone().into();
                self.place(pdr, &mut part, &mut extras)?;
            }
            self.extras.endpoints[at].part = part;
            self.extras.pdrs[known] = extras;
        }
        Ok(())
    }

    /// Remove Traffic Endpoint, and all PDRs that have it (§7.5.4.14).
    pub fn remove_endpoint(&mut self, id: element::TrafficEndpointId) -> Result<(), Refusal> {
        let at = self.endpoint(id.0)?;
        self.extras.endpoints.remove(at);
        let of = |extras: &PdrExtras| extras.endpoints.contains(&id.0);
        let gone: Vec<_> =
            self.extras.pdrs.iter().filter(|one| of(one)).map(|extras| extras.id).collect();
        self.rules.pdrs.retain(|pdr| !gone.contains(&pdr.id));
        self.extras.pdrs.retain(|extras| !gone.contains(&extras.id));
        Ok(())
    }

    /// The chain of each PDR, once all rules are known.
    pub fn choose_chains(&mut self) {
        if !self.node.interfaces.has_chains() {
            return;
        }
        for pdr in &mut self.rules.pdrs {
            let extras = self.extras.pdrs.iter().find(|extras| extras.id == pdr.id);
            let policies = &self.extras.policies;
            let policy = policies.iter().find(|(far, _)| Some(*far) == pdr.far);
            let policy = policy.map(|(_, policy)| policy);
            let none = Traits::default();
            let traits = extras.map_or(&none, |extras| &extras.traits);
            pdr.chain = self.node.interfaces.chain(traits, policy);
        }
    }
}

/// A side, as the source of packets.
fn side(source: element::Interface) -> Option<Interface> {
    Some(match source {
        element::Interface::ACCESS => Interface::Access,
        element::Interface::CORE => Interface::Core,
        element::Interface::SGI_LAN => Interface::SgiLan,
        element::Interface::CP_FUNCTION => Interface::CpFunction,
        _ => return None,
    })
}

fn removal(header: OuterHeaderRemoval) -> Result<Removal, Refusal> {
    let with_extensions = header.extensions.is_some_and(|kinds| kinds & 0x01 != 0);
    Ok(match header.description {
        OuterHeaderRemoval::GTPU_IPV4
        | OuterHeaderRemoval::GTPU_IPV6
        | OuterHeaderRemoval::GTPU
            if with_extensions =>
        {
            Removal::GtpuExtensions
        }
        OuterHeaderRemoval::GTPU_IPV4 => Removal::GtpuIpv4,
        OuterHeaderRemoval::GTPU_IPV6 => Removal::GtpuIpv6,
        OuterHeaderRemoval::GTPU => Removal::Gtpu,
        _ => return Err(Refusal::unsupported(OUTER_HEADER_REMOVAL)),
    })
}

/// When a rule holds; what is not given stays.
fn period(
    known: Option<Box<Period>>,
    from: Option<Time>,
    until: Option<Time>,
) -> Option<Box<Period>> {
    let known = known.as_deref().copied().unwrap_or_default();
    let period = Period {
        from: from.map(Time::unix).or(known.from),
        until: until.map(Time::unix).or(known.until),
    };
    (period != Period::default()).then(|| Box::new(period))
}

/// Networks behind a user, as texts say them.
fn routes(ipv4: &[Text<'_>], ipv6: &[Text<'_>]) -> Result<Vec<Prefix>, Refusal> {
    if ipv4.len() + ipv6.len() > ROUTES {
        return Err(Refusal::cause(Cause::NO_RESOURCES));
    }
    let read = |element: u16, texts: &[Text<'_>]| {
        let prefix = |text: &Text<'_>| {
            let prefix = std::str::from_utf8(text.0).ok().and_then(flow::route);
            prefix
                .filter(|prefix| prefix.is_ipv4() == (element == FRAMED_ROUTE))
                .ok_or(Refusal::incorrect(element))
        };
        texts.iter().map(prefix).collect::<Result<Vec<_>, _>>()
    };
    let mut all = read(FRAMED_ROUTE, ipv4)?;
    all.extend(read(FRAMED_IPV6_ROUTE, ipv6)?);
    Ok(all)
}

fn given(tunnel: LocalTunnel) -> FTeid {
    FTeid::Given(GivenFTeid { teid: tunnel.teid, ipv4: tunnel.ipv4, ipv6: tunnel.ipv6 })
}
