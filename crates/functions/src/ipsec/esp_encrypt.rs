//! `esp-encrypt`: protects packets by ESP in tunnel mode (RFC 4303) with AES-GCM
//! (RFC 4106). Each bearer has a security association, with a key of its own.
//!
//! **No nonce is used twice.** AES-GCM loses all it promises where two packets have one
//! key and one initialization vector. The vectors of an association are a counter of 64
//! bits that begins at the time in nanoseconds at which the association was set up, so
//! one that is set up again with the same key (the node was started anew, or a panic
//! reset the context) begins above all that it used before, as long as no more than one
//! packet is sent in a nanosecond and the clock is not set back. Who moves goes on with
//! both counters exactly where they stood: the source has stopped before it exports, and
//! a checkpoint is never gone back to (`ROLLBACK`).

mod association;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use schemars::JsonSchema;
use serde::Deserialize;
use weft_dpdk::crypto::{Direction, Session, Sessions};
use weft_function::{
    ConfigError, ContextError, Emit, Fields, Headers as _, IpMut, Metadata, Packet, Reason, Scope,
    Setup, Tunnel as _, UserPlaneFunction, Verdict,
};
use weft_wire::ip::traffic_class;
use weft_wire::{Dscp, Ecn, Protocol};

use self::association::Association;
use crate::common::export::{read_option, write_option};
use crate::common::icmp_error::{Errors, Problem};
use crate::common::text;
use crate::ipsec::esp::key::Key;
use crate::ipsec::esp::keys::{Checked, InUse};
use crate::ipsec::esp::outer::{Ends, Outside};
use crate::ipsec::esp::recorded::{Recorded, Recorder};
use crate::ipsec::esp::{
    ALIGNMENT, FRONT, ICV, KEY_NOT_WRITTEN, KEY_USED, Lifetime, NO_ASSOCIATION, TRAILER, USED_UP,
    Usage, check_alone, check_spi, default_associations, default_device, session, sessions, yes,
};

const TUNNELLED: Reason = Reason::new("esp_tunnelled", "the packet is in a tunnel already");
const NOT_IP: Reason = Reason::new("esp_not_ip", "neither IPv4 nor IPv6");
const HOPS_USED_UP: Reason = Reason::new("esp_ttl_exceeded", "time to live is used up");
const TOO_BIG: Reason =
    Reason::new("esp_too_big", "longer than the tunnel takes, and not to be fragmented");
const OVERFLOW: Reason =
    Reason::new("esp_sequence_overflow", "all sequence numbers of the association are used");
const NO_ROOM: Reason = Reason::new("esp_no_room", "no room for headers or trailer");
const DEVICE: Reason = Reason::new("esp_device", "the cryptographic device refused the packet");

/// Least MTU of IPv6 (RFC 8200 §5).
const LEAST_IPV6: usize = 1280;

/// How packets are protected.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// DPDK's cryptographic device, which must work in the calling thread.
    #[serde(default = "default_device")]
    pub device: String,
    /// Security associations of a worker at most.
    #[serde(default = "default_associations")]
    #[schemars(range(min = 1))]
    pub associations: u32,
    /// Octets of the tunnel's packets at most.
    #[serde(default = "mtu")]
    #[schemars(range(min = 576, max = 9000))]
    pub mtu: u16,
    /// DSCP of the tunnel's packets: a name or a number. Without it, that of the
    /// packet inside.
    #[serde(default, deserialize_with = "text::optional")]
    #[schemars(with = "Option<String>", extend("examples" = ["ef", "af41"]))]
    pub dscp: Option<Dscp>,
    /// Whether tunnels over IPv4 forbid to fragment their packets.
    #[serde(default)]
    pub dont_fragment: DontFragment,
    /// IPv4 address that ICMP errors come from. None are sent without it.
    #[serde(default)]
    pub ipv4_address: Option<Ipv4Addr>,
    /// IPv6 address that ICMPv6 errors come from. None are sent without it.
    #[serde(default)]
    pub ipv6_address: Option<Ipv6Addr>,
    /// File in which the node remembers which keys it has used, so that it refuses them after
    /// a restart. Without it, that of `weft run`.
    #[serde(default)]
    pub used_keys: Option<PathBuf>,
}

fn mtu() -> u16 {
    1500
}

/// The bit in the outer header (RFC 4301 §8.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DontFragment {
    /// As in the packet inside; set around IPv6.
    #[default]
    Copy,
    /// Always.
    Set,
    /// Never.
    Clear,
}

/// The security association of a bearer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Settings {
    /// Security parameters index, which the peer has given out.
    #[schemars(range(min = 256))]
    pub spi: u32,
    /// Key and salt, hexadecimal: of 16 or 32 octets, and 4 (RFC 4106 §8.1). It must be
    /// used for nothing else.
    pub key: Key,
    /// Address of the node that packets come from.
    pub local: IpAddr,
    /// Address of the peer, of the same family.
    pub peer: IpAddr,
    /// Sequence numbers of 64 bits (RFC 4303 §2.2.1).
    #[serde(default = "yes")]
    pub extended_sequence_numbers: bool,
    /// Shorter packets are filled up to so many octets, which hides their length
    /// (RFC 4303 §2.7).
    #[serde(default)]
    pub pad_to: u16,
    /// When the association is over.
    #[serde(default)]
    pub lifetime: Option<Lifetime>,
    /// Where initialization vectors begin, in place of the clock: for tests that want the
    /// same octets again. Never give it twice with one key.
    #[serde(default)]
    pub first_iv: Option<u64>,
}

/// What is kept for a bearer.
#[derive(Debug, Default)]
pub struct Context(Option<Box<Association>>);

/// Protects packets.
#[derive(Debug)]
pub struct EspEncrypt {
    sessions: Option<Sessions>,
    mtu: usize,
    dscp: Option<Dscp>,
    dont_fragment: DontFragment,
    errors: Errors,
    /// No association begins below what one here has used.
    floor: u64,
    /// Where settings are checked, before they come to an instance that runs.
    checked: Option<Checked>,
    in_use: InUse,
    recorder: Recorder,
}

impl UserPlaneFunction for EspEncrypt {
    const NAME: &'static str = "esp-encrypt";
    const SUMMARY: &'static str = "Protects packets by IPsec ESP in tunnel mode, with AES-GCM.";
    const DROPS: &'static [Reason] = &[
        NO_ASSOCIATION,
        KEY_USED,
        KEY_NOT_WRITTEN,
        TUNNELLED,
        NOT_IP,
        HOPS_USED_UP,
        TOO_BIG,
        OVERFLOW,
        USED_UP,
        NO_ROOM,
        DEVICE,
    ];
    /// A sequence number or nonce must never be used twice.
    const ROLLBACK: bool = false;
    /// A node that goes on skips what it may have used since: see `go_on`.
    const CHECKPOINTED: bool = true;
    const PREFETCHES: bool = true;

    type Config = Config;
    type Settings = Settings;
    type Context = Context;

    fn new(config: Config, setup: &Setup<'_>) -> Result<EspEncrypt, ConfigError> {
        if !(576..=9000).contains(&config.mtu) {
            return Err(ConfigError::at("mtu", "576 to 9000 octets"));
        }
        Ok(EspEncrypt {
            sessions: sessions(&config.device, config.associations, setup)?,
            mtu: config.mtu.into(),
            dscp: config.dscp,
            dont_fragment: config.dont_fragment,
            errors: Errors::new(config.ipv4_address, config.ipv6_address),
            floor: 0,
            checked: setup.trial.then(Checked::default),
            in_use: InUse::default(),
            recorder: Recorder::new(Self::NAME, config.used_keys.as_deref(), setup.trial)?,
        })
    }

    fn scope(&self) -> Scope {
        Scope::Bearer
    }

    #[inline]
    fn prefetch(&self, context: &Context) {
        if let Some(association) = &context.0 {
            weft_dpdk::prefetch(std::slice::from_ref(&**association), 0);
        }
    }

    #[inline]
    fn process(
        &mut self,
        packet: &mut Packet,
        context: &mut Context,
        emit: &mut Emit<'_>,
    ) -> Verdict {
        let done = match &mut context.0 {
            Some(association) => self.protect(packet, association, emit),
            None => Err(NO_ASSOCIATION),
        };
        done.map_or_else(Verdict::Drop, |()| Verdict::Forward)
    }

    fn check(&self, settings: &Settings, count: u32) -> Result<(), ConfigError> {
        check_spi(settings.spi)?;
        check_alone(count)?;
        Ends::new(settings.local, settings.peer)?;
        match &self.checked {
            Some(checked) => checked.note(&settings.key, settings.spi),
            None => Ok(()),
        }
    }

    fn configure(&mut self, context: &mut Context, settings: &Settings, _: u32) {
        let Ok(ends) = Ends::new(settings.local, settings.peer) else { return };
        let Settings { spi, ref key, extended_sequence_numbers: extended, .. } = *settings;
        let before = context.0.take();
        let used = before.as_ref().map_or(0, |before| before.iv);
        self.floor = self.floor.max(used);
        // Other settings of the same association: its numbers go on.
        let is_same =
            |old: &Association| old.spi == spi && old.key == *key && old.extended == extended;
        let same = match before {
            Some(old) if is_same(&old) => Some(old),
            before => {
                self.release(Context(before));
                if !self.in_use.claim(key, spi) {
                    return;
                }
                None
            }
        };
        let mut association = same.unwrap_or_else(|| {
            Box::new(Association {
                spi,
                ends,
                extended,
                pad_to: 0,
                salt: key.salt(),
                session: None,
                sequence: 0,
                iv: settings.first_iv.unwrap_or_else(nanoseconds).max(self.floor),
                usage: Usage::new(None),
                key: key.clone(),
                recorded: self.recorder.claim(key),
            })
        });
        association.ends = ends;
        association.pad_to = settings.pad_to;
        association.usage = association.usage.within(settings.lifetime);
        if association.session.is_none() {
            association.session = self.session(&association.key, extended);
        }
        context.0 = Some(association);
    }

    fn export(&self, context: &Context, out: &mut Vec<u8>) {
        let association = context.0.as_deref();
        // One that was refused has no counters to move.
        let association = association.filter(|one| !one.recorded.is_refused());
        write_option(association, out, |association, out| association.export(out));
    }

    fn import(&mut self, version: u16, bytes: &[u8]) -> Result<Context, ContextError> {
        if version != Self::CONTEXT_VERSION {
            return Err(ContextError::Version(version));
        }
        let mut fields = Fields::new(bytes);
        let association = read_option(&mut fields, Association::import)?;
        fields.end()?;
        Ok(Context(association.map(|mut association| {
            association.session = self.session(&association.key, association.extended);
            self.in_use.join(&association.key, association.spi);
            association.recorded = self.recorder.note(&association.key);
            Box::new(association)
        })))
    }

    /// Counters go on far ahead of their checkpoints. Vectors go on above the clock as well.
    fn go_on(&mut self, contexts: &mut [Context], _: u64) {
        let now = nanoseconds();
        for association in contexts.iter_mut().filter_map(|context| context.0.as_mut()) {
            association.skip(now);
        }
    }

    fn adopt(&mut self, previous: &mut EspEncrypt) {
        self.floor = previous.floor;
        self.in_use.adopt(&mut previous.in_use);
    }

    fn release(&mut self, context: Context) {
        if let Some(Association { key, recorded, sequence, .. }) = context.0.as_deref() {
            self.recorder.leave(key, *recorded, *sequence > 0);
        }
        self.abandon(context);
    }

    fn abandon(&mut self, context: Context) {
        if let Some(association) = context.0 {
            self.floor = self.floor.max(association.iv);
            self.in_use.leave(&association.key);
        }
    }

    fn show(&self, context: &Context) -> Vec<(&'static str, u64)> {
        let Some(association) = &context.0 else { return Vec::new() };
        vec![
            ("spi", association.spi.into()),
            ("sequence", association.sequence),
            ("packets", association.usage.packets),
            ("bytes", association.usage.bytes),
        ]
    }
}

/// Since 1970.
fn nanoseconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_nanos() as u64
}

/// What of the packet inside is seen outside, or said to its sender.
struct Inside {
    length: usize,
    next_header: Protocol,
    dscp: Dscp,
    ecn: Ecn,
    dont_fragment: bool,
}

impl EspEncrypt {
    fn session(&self, key: &Key, extended: bool) -> Option<Session> {
        session(self.sessions.as_ref(), key, extended, Direction::Seal)
    }

    #[inline]
    fn protect(
        &mut self,
        packet: &mut Packet,
        association: &mut Association,
        emit: &mut Emit<'_>,
    ) -> Result<(), Reason> {
        if packet.is_tunnelled() {
            return Err(TUNNELLED);
        }
        if association.session.is_none() {
            return Err(NO_ASSOCIATION);
        }
        if association.recorded != Recorded::Yes {
            self.recorder.ask(&mut association.recorded, association.spi)?;
        }
        let inside = self.enter(packet, emit)?;
        let header = association.ends.header_length();
        // Octets of the packet inside that fit, beside padding and trailer.
        let room = (self.mtu - header - FRONT - ICV) / ALIGNMENT * ALIGNMENT - TRAILER;
        let too_long = inside.length > room;
        if too_long {
            self.may_be_fragmented(packet, association.ends, room, &inside, emit)?;
        }
        let filled = inside.length.max(room.min(association.pad_to.into()));
        let dont_fragment = !too_long
            && match self.dont_fragment {
                DontFragment::Copy => inside.dont_fragment,
                DontFragment::Set => true,
                DontFragment::Clear => false,
            };
        let dscp = self.dscp.unwrap_or(inside.dscp);
        // Congestion is told of through the tunnel (RFC 6040 §4.1, normal mode).
        let traffic_class = traffic_class(dscp, inside.ecn);
        association.usage.count(inside.length)?;
        let (sequence, iv) = association.next().ok_or(OVERFLOW)?;
        let outside = Outside { traffic_class, dont_fragment, number: sequence as u16 };
        association.seal(packet, &inside, filled, (sequence, iv), outside)
    }

    /// What the packet says of itself, with one hop less (RFC 4301 §5.1.2.1).
    #[inline]
    fn enter(&mut self, packet: &mut Packet, emit: &mut Emit<'_>) -> Result<Inside, Reason> {
        let length = usize::from(packet.metadata().network_length);
        let inside = match packet.ip_mut().ok_or(NOT_IP)? {
            IpMut::V4(mut ip) => ip.decrement_time_to_live().then(|| Inside {
                length,
                next_header: Protocol::IPV4,
                dscp: ip.dscp(),
                ecn: ip.ecn(),
                dont_fragment: ip.dont_fragment(),
            }),
            IpMut::V6(mut ip) => ip.decrement_hop_limit().then(|| Inside {
                length,
                next_header: Protocol::IPV6,
                dscp: ip.dscp(),
                ecn: ip.ecn(),
                // No router fragments IPv6 on its way.
                dont_fragment: true,
            }),
        };
        if inside.is_none() {
            self.errors.tell(packet, Problem::TimeExceeded, emit);
        }
        inside.ok_or(HOPS_USED_UP)
    }

    /// Whether a packet that is too long for the tunnel may be fragmented outside: if
    /// not, its sender is told what fits (RFC 4301 §8.2.1).
    #[cold]
    fn may_be_fragmented(
        &mut self,
        packet: &mut Packet,
        ends: Ends,
        room: usize,
        inside: &Inside,
        emit: &mut Emit<'_>,
    ) -> Result<(), Reason> {
        let is_ipv6 = inside.next_header == Protocol::IPV6;
        let may = match is_ipv6 {
            true => inside.length <= LEAST_IPV6,
            false => !inside.dont_fragment,
        };
        if may && ends.is_ipv4() {
            return Ok(());
        }
        let fits = if is_ipv6 { room.max(LEAST_IPV6) } else { room };
        self.errors.tell(packet, Problem::TooBig(fits as u16), emit);
        Err(TOO_BIG)
    }
}
