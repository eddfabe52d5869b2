//! How workers are told to treat a user.

use weft_compose::Settings;
use weft_function::Metadata;
use weft_node_config::Blueprint;

use super::*;

impl Mobility {
    /// A station treats a user so.
    pub(super) fn steer(&mut self, host: &mut dyn Host, user: User, posture: Posture) {
        let number = user.0 as u32;
        let fresh = self.teids.tunnel(Purpose::Fresh, number, posture.epoch);
        let [up, down] = [Direction::Uplink, Direction::Downlink].map(|direction| {
            self.teids.tunnel(Purpose::Forwarded(direction), number, posture.link)
        });
        let Some(mobile) = self.mobiles.get_mut(&user) else { return };
        let known = mobile.posture.replace(posture).map(|before| before.epoch);
        let end = mobile.anchor.filter(|_| known != Some(posture.epoch));
        let settings =
            end.map_or(Vec::new(), |anchor| self.settings(host, user, (anchor, fresh.teid)));
        self.settle(host, user, is_plain(&posture));
        self.order(host, user, Tunnels::from([fresh, up, down]), settings, Act::Station(posture));
    }

    /// An anchor treats a user so.
    pub(super) fn steer_anchor(&mut self, host: &mut dyn Host, user: User, posture: AnchorPosture) {
        let number = user.0 as u32;
        let next =
            posture.next.map(|(epoch, _)| epoch).filter(|next| posture.accept != Some(*next));
        let takes = [posture.accept, next].map(|epoch| epoch.map(|epoch| epoch.0));
        tracing::debug!(%user, takes = takes[0], next = takes[1], "taken by epoch");
        let tunnels = posture.accept.into_iter().chain(next);
        let tunnels =
            tunnels.map(|epoch| self.teids.tunnel(Purpose::Fresh, number, epoch)).collect();
        let leg = posture.downlink;
        let leg = leg.map(|leg| (leg, self.teids.of(Purpose::Fresh, number, leg.epoch)));
        let Some(mobile) = self.mobiles.get_mut(&user) else { return };
        let mut settings = Vec::new();
        if let Some((leg, teid)) = leg.filter(|(leg, _)| mobile.legs[0] != Some(*leg)) {
            mobile.legs = [Some(leg), mobile.legs[0]];
            settings = self.settings(host, user, (leg.node, teid));
        }
        let served = posture.downlink.map(|leg| leg.epoch);
        let plain = served.is_some() && posture.accept == served && posture.next.is_none();
        self.settle(host, user, plain);
        self.order(host, user, tunnels, settings, Act::Anchor(posture));
    }

    /// A user that is settled keeps its gate for a while; one that moves keeps it.
    pub(super) fn settle(&mut self, host: &dyn Host, user: User, is_plain: bool) {
        let Some(mobile) = self.mobiles.get_mut(&user) else { return };
        if let Some(time) = mobile.settled.take() {
            self.settled.remove(&(time, user));
        }
        if is_plain {
            let time = host.now().saturating_add(LINGER.as_nanos() as u64);
            mobile.settled = Some(time);
            self.settled.insert((time, user));
        }
    }

    /// Takes the gates away of users that have been settled for long enough.
    pub(super) fn open_settled(&mut self, host: &mut dyn Host, now: u64) -> bool {
        let mut busy = false;
        while let Some(&(time, user)) = self.settled.first()
            && time <= now
        {
            busy = true;
            self.settled.pop_first();
            let Some(mobile) = self.mobiles.get_mut(&user) else { continue };
            mobile.settled = None;
            // Forwarded packets would not be known from fresh ones without the gate.
            let mut tunnels = mobile.tunnels.clone();
            tunnels.retain(|one| one.purpose == Purpose::Fresh);
            self.order(host, user, tunnels, Vec::new(), Act::Open);
        }
        busy
    }

    /// The user is forgotten.
    pub(super) fn discard(&mut self, host: &mut dyn Host, user: User) {
        self.settle(host, user, false);
        self.order(host, user, Tunnels::new(), Vec::new(), Act::Forget);
        let Some(mobile) = self.mobiles.get_mut(&user) else { return };
        mobile.exported = None;
        mobile.posture = None;
        mobile.legs = [None; 2];
        mobile.pending += 1;
        let leaves = std::mem::take(&mut mobile.had) || matches!(self.machine, Machine::Anchor(_));
        if leaves && let Some(member) = self.member(host, user) {
            host.remove_added(&member);
        }
        match self.member(host, user) {
            Some(member) => {
                host.begin_fresh(Asked::Resumed(user), member, Some(self.plan.tunnel));
            }
            None => self.done.push(Done::Resumed(user)),
        }
    }

    /// Tells the workers; the user's next output waits until they have done so.
    pub(super) fn order(
        &mut self,
        host: &mut dyn Host,
        user: User,
        tunnels: Tunnels,
        mut settings: Vec<Configure>,
        act: Act,
    ) {
        let network = self.plan.network;
        let key = |one: &MovingTunnel| UserKey::Teid { network, first: one.teid };
        let Some(mobile) = self.mobiles.get_mut(&user) else { return };
        let before = std::mem::replace(&mut mobile.tunnels, tunnels);
        let has = |tunnels: &Tunnels, teid| tunnels.iter().any(|one| one.teid == teid);
        let gone = before.iter().filter(|one| !has(&mobile.tunnels, one.teid)).map(key);
        let come = mobile.tunnels.iter().filter(|one| !has(&before, one.teid)).map(key);
        let (gone, keys): (Vec<_>, Vec<_>) = (gone.collect(), come.collect());
        let (slot, tunnels) = (mobile.slot, mobile.tunnels.clone());
        let own = host.workers().owner(slot);
        mobile.pending += host.workers().count();
        mobile.gated = matches!(act, Act::Station(_) | Act::Anchor(_));
        for (worker, link) in host.workers().iter_mut().enumerate() {
            let is_own = worker == own;
            link.send(Command::Order(Box::new(Order {
                user,
                slot,
                gone: gone.clone(),
                keys: keys.clone(),
                tunnels: tunnels.clone(),
                settings: if is_own { std::mem::take(&mut settings) } else { Vec::new() },
                act: if is_own { act } else { Act::None },
            })));
        }
    }

    /// Settings that put the user's packets into the tunnel to a node.
    pub(super) fn settings(
        &self,
        host: &dyn Host,
        user: User,
        (node, teid): (NodeId, u32),
    ) -> Vec<Configure> {
        let settings = self.tunnel_to(host.blueprint(), node, teid);
        let (Some(settings), Some(member)) = (settings, self.member(host, user)) else {
            return Vec::new();
        };
        let function = self.plan.tunnel;
        let of_bearers = host.trials().instance(function.into()).scope() == Scope::Bearer;
        let slots = &member.slots;
        let slots = if of_bearers { &slots[..] } else { &slots[..1] };
        slots
            .iter()
            .map(|slot| Configure { function, slot: *slot, settings: settings.clone(), nth: 0 })
            .collect()
    }

    /// Settings that put packets into the tunnel to a node.
    pub(super) fn tunnel_to(
        &self,
        blueprint: &Blueprint,
        node: NodeId,
        teid: u32,
    ) -> Option<Settings> {
        let Some(peer) = self.peer(node) else {
            tracing::error!(%node, "no such node in `handover.peers`");
            return None;
        };
        let plan = &blueprint.functions[usize::from(self.plan.tunnel)];
        let written = json!({"tunnel": {"teid": teid, "peer": peer, "local": self.plan.local}});
        // The function was asked for such settings when the configuration was read.
        plan.kind.settings(&written).ok()
    }

    fn peer(&self, node: NodeId) -> Option<IpAddr> {
        self.plan.peers.iter().find(|(known, _)| *known == node).map(|(_, address)| *address)
    }

    /// Sends an End Marker in the tunnel whose packets it stands behind.
    pub(super) fn send_end_marker(
        &mut self,
        host: &mut dyn Host,
        user: User,
        to: NodeId,
        marker: EndMarker,
    ) {
        let (Some(peer), Some(mobile)) = (self.peer(to), self.mobiles.get(&user)) else { return };
        let fresh = match &self.machine {
            Machine::Anchor(_) => {
                mobile.legs.into_iter().flatten().find(|leg| leg.node == to).map(|leg| leg.epoch)
            }
            Machine::Station(_) => {
                mobile.posture.filter(|_| mobile.anchor == Some(to)).map(|posture| posture.epoch)
            }
        };
        let (purpose, epoch) = match fresh {
            Some(epoch) => (Purpose::Fresh, epoch),
            None => (Purpose::Forwarded(marker.direction), marker.epoch),
        };
        let teid = self.teids.of(purpose, user.0 as u32, epoch);
        let octets = tunnel::end_marker((self.plan.local, peer), teid, marker);
        let port = self.plan.port;
        let packet = octets.and_then(|octets| packet(host, port, &octets));
        match packet {
            Some(packet) => {
                let worker = host.workers().owner(mobile.slot);
                host.workers()[worker].send(Command::Originate { port, packet });
            }
            // Gates open after their time.
            None => tracing::warn!(%user, "no buffer for an End Marker"),
        }
    }
}

/// Whether all packets are processed.
fn is_plain(posture: &Posture) -> bool {
    let all = Ways::both(Treatment::Process);
    posture.fresh == all && posture.forwarded == all
}

/// An IP packet of the node's own.
fn packet(host: &dyn Host, port: u16, octets: &[u8]) -> Option<Packet> {
    let mut packet = host.pool().allocate()?;
    packet.append(ethernet::HEADER_LENGTH)?.fill(0);
    packet.append(octets.len())?.copy_from_slice(octets);
    let ether_type = if octets.first()? >> 4 == 4 { EtherType::IPV4 } else { EtherType::IPV6 };
    *packet.metadata_mut() = PacketMetadata {
        ether_type: ether_type.0,
        network_offset: ethernet::HEADER_LENGTH as u16,
        network_length: octets.len() as u16,
        port,
        user: PacketMetadata::NONE,
        protocol: Protocol::UDP.0,
        ..PacketMetadata::default()
    };
    Some(packet)
}
