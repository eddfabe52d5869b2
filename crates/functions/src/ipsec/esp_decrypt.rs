//! `esp-decrypt`: takes packets out of ESP in tunnel mode (RFC 4303) with AES-GCM
//! (RFC 4106), once each and only if they are the peer's.

use std::net::IpAddr;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;
use weft_dpdk::crypto::{Direction, Session, Sessions};
use weft_function::{
    ConfigError, ContextError, Emit, Fields, Headers as _, Metadata, Packet, PacketMetadata,
    Reason, Scope, Setup, Tunnel as _, UserPlaneFunction, Verdict,
};
use weft_wire::esp::{HEADER_LENGTH, Spi};
use weft_wire::{Ecn, Protocol, esp};

use crate::common::congestion::{after_tunnel, mark};
use crate::common::export::{read_address, read_option, write_address, write_option};
use crate::ipsec::esp::inner::Inner;
use crate::ipsec::esp::key::Key;
use crate::ipsec::esp::keys::Checked;
use crate::ipsec::esp::recorded::{Recorded, Recorder};
use crate::ipsec::esp::window::{Refusal, SIZES, Window};
use crate::ipsec::esp::{
    ALIGNMENT, FRONT, ICV, KEY_NOT_WRITTEN, KEY_USED, Lifetime, NO_ASSOCIATION, TRAILER, USED_UP,
    Usage, associated, check_alone, check_spi, default_associations, default_device, nonce,
    session, sessions, yes,
};

const NOT_PROTECTED: Reason = Reason::new("esp_not_protected", "not ESP, or within another tunnel");
const UNKNOWN_SPI: Reason =
    Reason::new("esp_unknown_spi", "not of the bearer's security association");
const WRONG_PEER: Reason = Reason::new("esp_wrong_peer", "the packet is not from the peer");
const FRAGMENT: Reason = Reason::new("esp_fragment", "a fragment, which cannot be verified");
const MALFORMED: Reason = Reason::new("esp_malformed", "too short, or of a length that cannot be");
const REPLAYED: Reason = Reason::new("esp_replayed", "its sequence number was received before");
const LATE: Reason = Reason::new("esp_late", "its sequence number is left of the window");
const BAD_ICV: Reason = Reason::new("esp_bad_icv", "the integrity check value is not right");
const PADDING: Reason = Reason::new("esp_padding", "the padding is not as it must be");
const DUMMY: Reason = Reason::new("esp_dummy", "a dummy packet, sent to hide the others");
const NEXT_HEADER: Reason = Reason::new("esp_next_header", "neither IPv4 nor IPv6 is inside");
const INNER: Reason = Reason::new("esp_inner_malformed", "no sound IP packet is inside");
const CONGESTION: Reason =
    Reason::new("esp_congestion", "congestion met by a packet that cannot tell of it");

/// How packets are verified.
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
    /// File in which the node remembers which keys it has used, so that it refuses them after
    /// a restart. Without it, that of `weft run`.
    #[serde(default)]
    pub used_keys: Option<PathBuf>,
}

/// The security association of a bearer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Settings {
    /// Security parameters index, which the node has given out.
    #[schemars(range(min = 256))]
    pub spi: u32,
    /// Key and salt, hexadecimal: of 16 or 32 octets, and 4 (RFC 4106 §8.1). It must be
    /// used for nothing else.
    pub key: Key,
    /// Address that packets come from. Without it, any.
    #[serde(default)]
    pub peer: Option<IpAddr>,
    /// Sequence numbers of 64 bits (RFC 4303 §2.2.1).
    #[serde(default = "yes")]
    pub extended_sequence_numbers: bool,
    /// How many sequence numbers a packet may be late and still be taken.
    #[serde(default = "window")]
    #[schemars(range(min = 32, max = 8192))]
    pub window: u16,
    /// When the association is over.
    #[serde(default)]
    pub lifetime: Option<Lifetime>,
}

fn window() -> u16 {
    1024
}

/// What is kept for a bearer.
#[derive(Debug, Default)]
pub struct Context(Option<Box<Association>>);

#[derive(Debug)]
struct Association {
    spi: u32,
    salt: [u8; 4],
    /// None where there was no room for it.
    session: Option<Session>,
    peer: Option<IpAddr>,
    window: Window,
    usage: Usage,
    key: Key,
    recorded: Recorded,
}

/// Takes packets out of ESP.
#[derive(Debug)]
pub struct EspDecrypt {
    sessions: Option<Sessions>,
    /// Where settings are checked, before they come to an instance that runs.
    checked: Option<Checked>,
    recorder: Recorder,
    /// The log has said that associations with keys from a file begin anew.
    is_told: bool,
}

impl UserPlaneFunction for EspDecrypt {
    const NAME: &'static str = "esp-decrypt";
    const SUMMARY: &'static str = "Takes packets out of IPsec ESP in tunnel mode, with AES-GCM.";
    const DROPS: &'static [Reason] = &[
        NOT_PROTECTED,
        NO_ASSOCIATION,
        KEY_USED,
        KEY_NOT_WRITTEN,
        UNKNOWN_SPI,
        WRONG_PEER,
        FRAGMENT,
        MALFORMED,
        REPLAYED,
        LATE,
        BAD_ICV,
        USED_UP,
        PADDING,
        DUMMY,
        NEXT_HEADER,
        INNER,
        CONGESTION,
    ];
    /// A packet must not be taken twice.
    const ROLLBACK: bool = false;
    /// A node that goes on takes nothing that came before the checkpoint.
    const CHECKPOINTED: bool = true;
    const PREFETCHES: bool = true;

    type Config = Config;
    type Settings = Settings;
    type Context = Context;

    fn new(config: Config, setup: &Setup<'_>) -> Result<EspDecrypt, ConfigError> {
        Ok(EspDecrypt {
            sessions: sessions(&config.device, config.associations, setup)?,
            checked: setup.trial.then(Checked::default),
            recorder: Recorder::new(Self::NAME, config.used_keys.as_deref(), setup.trial)?,
            is_told: setup.trial,
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
    fn process(&mut self, packet: &mut Packet, context: &mut Context, _: &mut Emit<'_>) -> Verdict {
        let PacketMetadata { protocol, flags, .. } = *packet.metadata();
        if Protocol(protocol) != Protocol::ESP || packet.is_tunnelled() {
            return Verdict::Drop(NOT_PROTECTED);
        }
        if flags & PacketMetadata::FRAGMENT != 0 {
            return Verdict::Drop(FRAGMENT);
        }
        let done = match &mut context.0 {
            Some(association) => self.open(association, packet),
            None => Err(NO_ASSOCIATION),
        };
        done.map_or_else(Verdict::Drop, |()| Verdict::Forward)
    }

    fn check(&self, settings: &Settings, count: u32) -> Result<(), ConfigError> {
        check_spi(settings.spi)?;
        check_alone(count)?;
        if !SIZES.contains(&settings.window) {
            return Err(ConfigError::at("window", "32 to 8192 sequence numbers"));
        }
        match &self.checked {
            Some(checked) => checked.note(&settings.key, settings.spi),
            None => Ok(()),
        }
    }

    fn configure(&mut self, context: &mut Context, settings: &Settings, _: u32) {
        let Settings { spi, ref key, extended_sequence_numbers: extended, .. } = *settings;
        // Other settings of the same association: what was received stays received.
        let is_same = |old: &Association| {
            old.spi == spi && old.key == *key && old.window.is_extended() == extended
        };
        let same = match context.0.take() {
            Some(old) if is_same(&old) => Some(old),
            before => {
                self.release(Context(before));
                None
            }
        };
        if same.is_none() && !self.is_told && !self.recorder.knows() {
            self.is_told = true;
            tracing::warn!(
                "security associations begin with an empty replay window: what was recorded \
                 before this start is taken again, unless their keys are fresh"
            );
        }
        let mut association = same.unwrap_or_else(|| {
            Box::new(Association {
                spi,
                salt: key.salt(),
                session: None,
                peer: None,
                window: Window::new(settings.window, extended),
                usage: Usage::new(None),
                key: key.clone(),
                recorded: self.recorder.claim(key),
            })
        });
        if association.window.size() != settings.window {
            association.window = association.window.resized(settings.window);
        }
        association.peer = settings.peer;
        association.usage = association.usage.within(settings.lifetime);
        if association.session.is_none() {
            association.session = self.session(&association);
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
            association.session = self.session(&association);
            association.recorded = self.recorder.note(&association.key);
            Box::new(association)
        })))
    }

    /// What may have come just before the node died counts as received: everything up to the
    /// highest number of the checkpoint.
    fn go_on(&mut self, contexts: &mut [Context], _: u64) {
        for association in contexts.iter_mut().filter_map(|context| context.0.as_mut()) {
            association.window = association.window.resized(association.window.size());
        }
    }

    fn adopt(&mut self, previous: &mut EspDecrypt) {
        self.is_told = previous.is_told;
    }

    fn release(&mut self, context: Context) {
        if let Some(Association { key, recorded, window, .. }) = context.0.as_deref() {
            self.recorder.leave(key, *recorded, window.top() > 0);
        }
    }

    fn show(&self, context: &Context) -> Vec<(&'static str, u64)> {
        let Some(association) = &context.0 else { return Vec::new() };
        vec![
            ("spi", association.spi.into()),
            ("highest", association.window.top()),
            ("packets", association.usage.packets),
            ("bytes", association.usage.bytes),
        ]
    }
}

impl EspDecrypt {
    #[inline]
    fn open(&self, association: &mut Association, packet: &mut Packet) -> Result<(), Reason> {
        if association.recorded != Recorded::Yes {
            self.recorder.ask(&mut association.recorded, association.spi)?;
        }
        association.take(packet)
    }

    fn session(&self, association: &Association) -> Option<Session> {
        let extended = association.window.is_extended();
        session(self.sessions.as_ref(), &association.key, extended, Direction::Open)
    }
}

impl Association {
    /// Verifies a packet, decrypts it and takes the tunnel off (RFC 4303 §3.4).
    #[inline]
    fn take(&mut self, packet: &mut Packet) -> Result<(), Reason> {
        let from_peer = |peer| packet.addresses().is_some_and(|(source, _)| source == peer);
        if !self.peer.is_none_or(from_peer) {
            return Err(WRONG_PEER);
        }
        let start = usize::from(packet.metadata().transport_offset) + FRONT;
        let outer = ecn(packet).ok_or(MALFORMED)?;
        let length = self.open(packet)?;
        let (text, next_header) = trailer(&packet.data()[start..start + length])?;
        let inner = match next_header {
            Protocol::IPV4 | Protocol::IPV6 => Inner::read(text, next_header).ok_or(INNER)?,
            Protocol::NO_NEXT_HEADER => return Err(DUMMY),
            _ => return Err(NEXT_HEADER),
        };
        let ecn = after_tunnel(outer, inner.ecn).ok_or(CONGESTION)?;
        self.usage.count(inner.length)?;
        inner.unwrap(packet, start);
        if ecn != inner.ecn {
            mark(packet, ecn);
        }
        Ok(())
    }

    /// Decrypts in place what was not received before; gives the octets of cleartext.
    #[inline]
    fn open(&mut self, packet: &mut Packet) -> Result<usize, Reason> {
        let payload = packet.transport_mut().ok_or(MALFORMED)?;
        let header = esp::Packet::new_checked(&*payload).map_err(|_| MALFORMED)?;
        let low = header.sequence_number();
        if header.spi() != Spi(self.spi) {
            return Err(UNKNOWN_SPI);
        }
        let (front, rest) = payload.split_at_mut_checked(FRONT).ok_or(MALFORMED)?;
        let (text, tag) = rest.split_last_chunk_mut::<ICV>().ok_or(MALFORMED)?;
        if text.is_empty() || !text.len().is_multiple_of(ALIGNMENT) {
            return Err(MALFORMED);
        }
        let sequence = self.window.whole(low).map_err(|refusal| match refusal {
            Refusal::Replayed => REPLAYED,
            Refusal::Late => LATE,
        })?;
        let iv = front[HEADER_LENGTH..].try_into().map_err(|_| MALFORMED)?;
        let (data, length) = associated(self.spi, sequence, self.window.is_extended());
        let session = self.session.as_ref().ok_or(NO_ASSOCIATION)?;
        if !session.open(&nonce(self.salt, iv), &data[..length], text, tag) {
            return Err(BAD_ICV);
        }
        self.window.take(sequence);
        Ok(text.len())
    }

    fn export(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.spi.to_le_bytes());
        self.key.export(out);
        write_option(self.peer, out, write_address);
        self.window.export(out);
        self.usage.export(out);
    }

    /// Reads what [`export`](Self::export) wrote; the session comes then.
    fn import(fields: &mut Fields<'_>) -> Result<Association, ContextError> {
        let spi = fields.u32()?;
        check_spi(spi).map_err(|_| ContextError::Damaged)?;
        let key = Key::import(fields)?;
        let peer = read_option(fields, read_address)?;
        let window = Window::import(fields)?;
        let usage = Usage::import(fields)?;
        let (salt, session, recorded) = (key.salt(), None, Recorded::Yes);
        Ok(Association { spi, salt, session, peer, window, usage, key, recorded })
    }
}

/// Congestion notification of the tunnel's packet.
#[inline]
fn ecn(packet: &Packet) -> Option<Ecn> {
    let start = usize::from(packet.metadata().network_offset);
    match *packet.data().get(start..)?.first_chunk()? {
        [first, second] if first >> 4 == 6 => Some(Ecn::of_traffic_class(second >> 4)),
        [_, second] => Some(Ecn::of_traffic_class(second)),
    }
}

/// What is in front of padding and trailer, and what it is (RFC 4303 §2.4 to §2.6).
#[inline]
fn trailer(text: &[u8]) -> Result<(&[u8], Protocol), Reason> {
    let Some((text, &[padding, next_header])) = text.split_last_chunk::<TRAILER>() else {
        return Err(MALFORMED);
    };
    let length = text.len().checked_sub(padding.into()).ok_or(PADDING)?;
    let (text, padding) = text.split_at(length);
    match padding.iter().zip(1_u8..).all(|(octet, number)| *octet == number) {
        true => Ok((text, Protocol(next_header))),
        false => Err(PADDING),
    }
}
