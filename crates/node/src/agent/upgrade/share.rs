//! A node's share: what other machines know it by. It goes to another node with all PFCP sessions,
//! whose file says the rest.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use weft_node_config::{Blueprint, PfcpInterfacePlan, PfcpSide};

use super::{Offer, Offering};
use crate::agent::Agent;
use crate::ports::Means;

/// What others know a node by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OfferedShare {
    /// Ports that are devices.
    pub ports: Vec<SharedAddresses>,
    /// Interfaces of PFCP sessions.
    pub interfaces: Vec<SharedInterface>,
    /// Networks that routers are told of, where that is configured.
    pub announced: Option<Vec<(IpAddr, u8)>>,
    /// Bearers that commands have added, beside sessions.
    pub bearers: u64,
}

/// What is at a port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SharedAddresses {
    /// Name of the port.
    pub name: String,
    /// MAC address of its device: frames that are relayed come from there.
    pub mac: [u8; 6],
    /// Longest IP packet, in octets.
    pub mtu: u16,
    /// Its addresses, with the lengths of their subnets.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Next hops beyond the subnets.
    pub gateways: Vec<IpAddr>,
    /// Prefixes for which it answers.
    pub proxy: Vec<(IpAddr, u8)>,
}

/// An interface of sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SharedInterface {
    /// The side.
    pub side: PfcpSide,
    /// The network instance of rules; none for any.
    pub network_instance: Option<String>,
    /// The network of the node.
    pub network: String,
    /// Addresses of tunnels.
    pub addresses: Vec<IpAddr>,
    /// Networks of users.
    pub pools: Vec<(IpAddr, u8)>,
}

impl Offering<'_> {
    /// What this node has, as a node at another machine is to have it.
    ///
    /// # Errors
    /// Why that cannot have it.
    pub fn offer_share(&self) -> Result<Offer, String> {
        let blueprint = self.node.blueprint;
        let Some(pfcp) = &blueprint.pfcp else {
            return Err("it has no PFCP sessions (`pfcp`)".to_owned());
        };
        if blueprint.handover.is_some() || blueprint.standby.is_some() {
            let why = "its users move otherwise (`handover`, `standby`), so its share stays";
            return Err(why.to_owned());
        }
        if let Some(plan) = blueprint.functions.iter().find(|one| !one.composition.is_at_hand()) {
            return Err(format!(
                "function {} is not in the node's workers, and cannot go along; call it back \
                 first (`weft ctl function {} --composition call`)",
                plan.name, plan.name
            ));
        }
        let mut ports = Vec::new();
        for (plan, port) in blueprint.devices().iter().zip(self.node.ports.iter()) {
            let device = port.port_device().offered();
            let device =
                device.ok_or_else(|| format!("the device of port {} is gone", plan.name))?;
            ports.push(SharedAddresses {
                name: plan.name.clone(),
                mac: device.mac,
                mtu: plan.mtu,
                addresses: plan.addresses.clone(),
                gateways: plan.gateways.clone(),
                proxy: plan.proxy.clone(),
            });
        }
        let share = OfferedShare {
            ports,
            interfaces: pfcp.interfaces.iter().map(shared).collect(),
            announced: blueprint.bgp.as_ref().map(|bgp| bgp.networks.clone()),
            bearers: self.node.subscribers.bearers.entries.iter().count() as u64,
        };
        // The store stays at this machine.
        Ok(Offer { share: Some(share), state: false, store: None, ..self.offer()? })
    }
}

fn shared(plan: &PfcpInterfacePlan) -> SharedInterface {
    SharedInterface {
        side: plan.side,
        network_instance: plan.network_instance.clone(),
        network: plan.network.clone(),
        addresses: plan.addresses.clone(),
        pools: plan.pools.clone(),
    }
}

impl OfferedShare {
    /// Gives it to a node of this configuration, in place of what that has of this kind.
    ///
    /// # Errors
    /// What the node lacks.
    pub fn put_into(&self, blueprint: &mut Blueprint) -> Result<(), String> {
        let Some(pfcp) = &mut blueprint.pfcp else {
            return Err("the spare node has no `pfcp`".to_owned());
        };
        if pfcp.proxies.is_empty() {
            return Err("the spare node takes no word of N4 (`pfcp.proxies`)".to_owned());
        }
        for interface in &self.interfaces {
            if !blueprint.networks.contains(&interface.network) {
                return Err(format!("the spare node has no network `{}`", interface.network));
            }
        }
        pfcp.interfaces = self.interfaces.iter().map(planned).collect();
        for plan in blueprint.ports.iter_mut().filter(|plan| plan.path.is_none()) {
            let given = self.ports.iter().find(|one| one.name == plan.name);
            let given = given.cloned().unwrap_or_default();
            if plan.mtu < given.mtu {
                return Err(format!(
                    "port {} of the spare node has an MTU of {}, and needs {}",
                    plan.name, plan.mtu, given.mtu
                ));
            }
            plan.addresses = given.addresses;
            plan.gateways = given.gateways;
            plan.proxy = given.proxy;
        }
        let has = |name: &str| blueprint.devices().iter().any(|plan| plan.name == name);
        let lacking = self.ports.iter().find(|one| !one.addresses.is_empty() && !has(&one.name));
        if let Some(port) = lacking {
            return Err(format!("the spare node has no port `{}`", port.name));
        }
        match (&self.announced, &mut blueprint.bgp) {
            (Some(networks), Some(bgp)) => bgp.networks.clone_from(networks),
            (Some(_), None) => {
                return Err("networks are announced, and the spare node has no `bgp`".to_owned());
            }
            // None of its own addresses are there any more.
            (None, bgp) => *bgp = None,
        }
        Ok(())
    }
}

fn planned(shared: &SharedInterface) -> PfcpInterfacePlan {
    PfcpInterfacePlan {
        side: shared.side,
        network_instance: shared.network_instance.clone(),
        network: shared.network.clone(),
        addresses: shared.addresses.clone(),
        pools: shared.pools.clone(),
    }
}

impl Agent {
    /// Says at all ports where the addresses are: gratuitous ARP (RFC 5227 §3) and unsolicited
    /// neighbour advertisements (RFC 4861 §7.2.6).
    pub fn announce(&mut self) {
        let Agent { ports, workers, answers: pool, .. } = self;
        ports.announce(&mut Means { workers, pool });
    }
}
