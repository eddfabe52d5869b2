//! Nodes between interfaces of the kernel.

use crate::Devices;
use crate::Ends;
use crate::Failure;
use crate::FarDevices;
use crate::OpenLoop;
use crate::Rig;
use crate::Setup;
use crate::machine::control_group::ControlGroup;
use crate::network::cable::Cable;
use crate::network::iproute::AF_PACKET_RING;
use crate::network::namespace::Namespace;

/// How a node's ports reach the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Environment {
    /// AF_PACKET sockets on veth interfaces.
    AfPacket,
    /// The same in a container: a network namespace of the node's own, and its worker in a
    /// control group that has one processor.
    AfPacketContained,
    /// AF_XDP sockets on veth interfaces.
    AfXdp,
    /// The same in a container.
    AfXdpContained,
    /// TAP interfaces.
    Tap,
}

/// A node and its interfaces, which go with it.
pub struct Opened<'r> {
    /// The node with its traffic.
    pub open_loop: OpenLoop<'r>,
    _cables: Vec<Cable>,
    _namespace: Option<Namespace>,
}

/// Generator and receiver without a system between them.
pub struct Loopback {
    /// The traffic's ends.
    pub ends: Ends,
    _cable: Option<Cable>,
}

impl Loopback {
    /// Ends that a ring in memory connects.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn ring(rig: &Rig) -> Result<Loopback, Failure> {
        let ring = format!("ring:bench-loopback{}", rig.serial());
        let devices = FarDevices { access: ring.clone(), core: ring };
        Ok(Loopback { ends: Ends::open(rig, &devices, 1024)?, _cable: None })
    }

    /// AF_PACKET sockets at the ends of a cable in the kernel.
    ///
    /// # Errors
    /// When the machine lacks something.
    pub fn cable(rig: &Rig) -> Result<Loopback, Failure> {
        let cable = Cable::lay(rig)?;
        let devices =
            FarDevices { access: af_packet(rig, &cable.near), core: af_packet(rig, &cable.far) };
        Ok(Loopback { ends: Ends::open(rig, &devices, 1024)?, _cable: Some(cable) })
    }
}

impl Environment {
    /// All of them.
    pub const ALL: [Environment; 5] = [
        Environment::AfPacket,
        Environment::AfPacketContained,
        Environment::AfXdp,
        Environment::AfXdpContained,
        Environment::Tap,
    ];

    /// What a series of it is called.
    pub fn name(self) -> &'static str {
        match self {
            Environment::AfPacket => "weft, AF_PACKET on veth",
            Environment::AfPacketContained => "weft, AF_PACKET on veth, in a container",
            Environment::AfXdp => "weft, AF_XDP on veth",
            Environment::AfXdpContained => "weft, AF_XDP on veth, in a container",
            Environment::Tap => "weft, TAP",
        }
    }

    fn is_contained(self) -> bool {
        matches!(self, Environment::AfPacketContained | Environment::AfXdpContained)
    }

    /// What derived numbers call it.
    pub fn key(self) -> &'static str {
        match self {
            Environment::AfPacket => "af_packet",
            Environment::AfPacketContained => "af_packet_container",
            Environment::AfXdp => "af_xdp",
            Environment::AfXdpContained => "af_xdp_container",
            Environment::Tap => "tap",
        }
    }

    /// A node with ports of this kind, and traffic on AF_PACKET at the other ends.
    ///
    /// # Errors
    /// When the machine lacks something.
    pub fn open<'r>(self, rig: &'r Rig, setup: &Setup) -> Result<Opened<'r>, Failure> {
        let namespace = self.is_contained().then(|| Namespace::new(rig)).transpose()?;
        let group = self.is_contained().then(|| ControlGroup::new(rig)).transpose()?;
        let mut cables = Vec::new();
        let (access_near, access_far) = self.port(rig, namespace.as_ref(), &mut cables)?;
        let (core_near, core_far) = self.port(rig, namespace.as_ref(), &mut cables)?;
        let near = Devices { access: vec![access_near], core: core_near, descriptors: 1024 };
        let far = FarDevices { access: access_far, core: core_far };
        let node = match &namespace {
            Some(namespace) => namespace.within(rig, || setup.build(rig, &near))?,
            None => setup.build(rig, &near)?,
        };
        let open_loop = OpenLoop::around(rig, node, near.descriptors, &far)?.within(group);
        Ok(Opened { open_loop, _cables: cables, _namespace: namespace })
    }

    /// The devices at the node's and at the traffic's end of one port.
    fn port(
        self,
        rig: &Rig,
        namespace: Option<&Namespace>,
        cables: &mut Vec<Cable>,
    ) -> Result<(String, String), Failure> {
        let serial = rig.serial();
        if self == Environment::Tap {
            let interface = format!("wt{}-{serial}", std::process::id());
            let near = format!("net_tap{serial},iface={interface}");
            return Ok((near, af_packet(rig, &interface)));
        }
        let cable = match namespace {
            Some(namespace) => Cable::lay_into(rig, namespace)?,
            None => Cable::lay(rig)?,
        };
        let near = match self {
            Environment::AfXdp | Environment::AfXdpContained => {
                format!("net_af_xdp{serial},iface={}", cable.near)
            }
            _ => af_packet(rig, &cable.near),
        };
        let far = af_packet(rig, &cable.far);
        cables.push(cable);
        Ok((near, far))
    }
}

/// The device string of AF_PACKET sockets on an interface.
pub fn af_packet(rig: &Rig, interface: &str) -> String {
    format!("net_af_packet{},iface={interface},{AF_PACKET_RING}", rig.serial())
}
