//! What becomes of packets of each packet detection rule of a session.

use weft_function::{ContextError, Fields};
use weft_wire::Dscp;
use weft_wire::gtpu::{Extensions, PduSession, Qfi};

use super::{container, session};
use crate::common::export::{read_list, read_option, write_list, write_option};
use crate::gtpu::tunnel::{Locals, Tunnel};
use crate::session::check::is_url;
use crate::session::rules::{self, Far, FarId, Forwarding, Interface, Name, Pdr, Session};
use crate::session::session_detection::Names;

/// What packets are put into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Nothing.
    #[default]
    Plain,
    /// A GTP-U tunnel.
    Gtpu,
    /// UDP to this port.
    Udp(u16),
    /// They end here: HTTP requests are answered with a URL.
    Redirect,
}

/// What becomes of packets with one value of the tag `pdr`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The value of the tag.
    pub tag: u32,
    /// The forwarding action rule.
    pub far: FarId,
    /// Whether packets come from the access side.
    pub uplink: bool,
    /// What they are put into.
    pub kind: Kind,
    /// The tunnel, if there is one.
    pub tunnel: Tunnel,
    /// QoS flow identifier that they get.
    pub qfi: Option<u8>,
    /// Reflective QoS indication.
    pub reflective: bool,
    /// Paging policy indicator.
    pub paging_policy: Option<u8>,
    /// DSCP that the rule sets.
    pub dscp: Option<Dscp>,
    /// DSCP that packets get themselves.
    pub marking: Option<Dscp>,
    /// Service Class Indicator of their tunnel.
    pub service_class: Option<u8>,
    /// Where HTTP requests are sent.
    pub redirect: Option<Name>,
    /// The tag `destination`.
    pub destination: u8,
    /// The tag `network`.
    pub network: Option<u16>,
    /// Where copies go.
    pub copies: Vec<Entry>,
}

/// DSCP that packets are marked with.
pub fn dscp(to: &Forwarding) -> Option<Dscp> {
    to.dscp.and_then(Dscp::new)
}

/// The forwarding action rules that packets of a rule may go on by, with the values of the
/// tag `pdr`.
pub fn actions<'a>(
    rules: &'a Session,
    rule: &'a Pdr,
) -> impl Iterator<Item = (&'a Far, u32)> + use<'a> {
    let own = rules.fars.iter().filter(|far| rule.far == Some(far.id));
    let own = own.map(|far| (far, u32::from(rule.id.0)));
    let urrs = rules.urrs.iter().filter(|urr| rule.urrs.contains(&urr.id));
    let beyond = urrs.filter_map(|urr| {
        let place = rules.fars.iter().position(|far| urr.quota_action == Some(far.id))?;
        Some((&rules.fars[place], u32::from(rule.id.0) | (place as u32 + 1) << 16))
    });
    own.chain(beyond)
}

impl Entry {
    /// What the rules say of packets of `rule` that go on by `far`, but for the tunnel.
    pub fn new(rules: &Session, rule: &Pdr, far: &Far, tag: u32, names: &Names) -> Entry {
        let to = far.forward.as_ref();
        let qers = || rules.qers.iter().filter(|qer| rule.qers.contains(&qer.id));
        let network = to.and_then(|to| names.network(to.network.as_deref()?));
        let downlink = rule.source != Interface::Access;
        Entry {
            tag,
            far: far.id,
            uplink: rule.source == Interface::Access,
            qfi: qers().find_map(|qer| qer.qfi),
            reflective: qers().any(|qer| qer.reflective),
            paging_policy: qers().find_map(|qer| qer.paging_policy),
            dscp: to.and_then(dscp),
            // Both are of downlink packets only.
            marking: qers().find_map(|qer| qer.marking.filter(|_| downlink)).and_then(Dscp::new),
            service_class: qers().find_map(|qer| qer.service_class.filter(|_| downlink)),
            redirect: to.and_then(|to| to.redirect.clone()),
            destination: to.and_then(|to| to.interface).map_or(0, |interface| interface as u8 + 1),
            network,
            ..Entry::default()
        }
    }

    /// Extension headers that packets get in a tunnel.
    pub fn extensions(&self) -> Extensions {
        let qfi = self.qfi.and_then(Qfi::new);
        let flow = qfi.map(|qfi| session(self.uplink, qfi, self.reflective, self.paging_policy));
        container(flow, self.service_class)
    }

    /// Whether the context itself can say all of it: nothing rare.
    fn is_usual(&self) -> bool {
        self.tag < 1 << 16
            && self.dscp.is_none()
            && self.paging_policy.is_none()
            && self.marking.is_none()
            && self.service_class.is_none()
            && self.copies.is_empty()
            && matches!(self.kind, Kind::Plain | Kind::Gtpu)
    }
}

/// In `flags` of a context: there is a rule whose packets go into the tunnel.
const TUNNEL: u8 = 1;
/// Packets of it get a QoS flow identifier.
const FLOW: u8 = 2;
/// Packets of it get a reflective QoS indication.
const REFLECTIVE: u8 = 4;
/// Packets of it come from the access side.
const UPLINK: u8 = 8;
/// There is a rule whose packets go on as they are.
const PLAIN: u8 = 16;
/// Packets of that come from the access side.
const PLAIN_UPLINK: u8 = 32;
/// Its rule has a QoS flow identifier, which a packet without a tunnel has no place for.
const PLAIN_FLOW: u8 = 64;
/// Its rule has a reflective QoS indication.
const PLAIN_REFLECTIVE: u8 = 128;

/// The state of one session: one cache line, with the first rule that has a tunnel and the
/// first that has none; the others lie behind it.
#[derive(Clone, Debug, Default)]
#[repr(C, align(64))]
pub struct Context {
    /// The tunnel of the first.
    pub tunnel: Tunnel,
    pdr: u16,
    flags: u8,
    qfi: u8,
    far: FarId,
    plain: u16,
    destination: u8,
    plain_destination: u8,
    network: u16,
    plain_network: u16,
    plain_far: FarId,
    plain_qfi: u8,
    more: rules::Rare<Entry>,
}

const _: () = assert!(size_of::<Context>() == 64);

/// No network instance.
const NONE: u16 = u16::MAX;

impl Context {
    /// The state with these entries.
    pub fn of(mut entries: Vec<Entry>) -> Context {
        let mut context = Context { network: NONE, plain_network: NONE, ..Context::default() };
        let usual = |kind: Kind| move |one: &Entry| one.kind == kind && one.is_usual();
        if let Some(at) = entries.iter().position(usual(Kind::Gtpu)) {
            let entry = entries.remove(at);
            let flags = [
                (TUNNEL, true),
                (FLOW, entry.qfi.is_some()),
                (REFLECTIVE, entry.reflective),
                (UPLINK, entry.uplink),
            ];
            flags.iter().filter(|(_, is_set)| *is_set).for_each(|(flag, _)| context.flags |= flag);
            (context.tunnel, context.pdr, context.far) =
                (entry.tunnel, entry.tag as u16, entry.far);
            context.qfi = entry.qfi.unwrap_or_default();
            (context.destination, context.network) =
                (entry.destination, entry.network.unwrap_or(NONE));
        }
        if let Some(at) = entries.iter().position(usual(Kind::Plain)) {
            let entry = entries.remove(at);
            let flags = [
                (PLAIN, true),
                (PLAIN_UPLINK, entry.uplink),
                (PLAIN_FLOW, entry.qfi.is_some()),
                (PLAIN_REFLECTIVE, entry.reflective),
            ];
            flags.iter().filter(|(_, is_set)| *is_set).for_each(|(flag, _)| context.flags |= flag);
            context.plain_qfi = entry.qfi.unwrap_or_default();
            (context.plain, context.plain_far) = (entry.tag as u16, entry.far);
            (context.plain_destination, context.plain_network) =
                (entry.destination, entry.network.unwrap_or(NONE));
        }
        context.more = entries.into();
        context
    }

    /// All entries.
    pub fn entries(&self) -> Vec<Entry> {
        let network = |network: u16| (network != NONE).then_some(network);
        let tunnel = (self.flags & TUNNEL != 0).then(|| Entry {
            tag: self.pdr.into(),
            far: self.far,
            uplink: self.flags & UPLINK != 0,
            kind: Kind::Gtpu,
            tunnel: self.tunnel,
            qfi: (self.flags & FLOW != 0).then_some(self.qfi),
            reflective: self.flags & REFLECTIVE != 0,
            destination: self.destination,
            network: network(self.network),
            ..Entry::default()
        });
        let plain = (self.flags & PLAIN != 0).then(|| Entry {
            tag: self.plain.into(),
            far: self.plain_far,
            uplink: self.flags & PLAIN_UPLINK != 0,
            qfi: (self.flags & PLAIN_FLOW != 0).then_some(self.plain_qfi),
            reflective: self.flags & PLAIN_REFLECTIVE != 0,
            destination: self.plain_destination,
            network: network(self.plain_network),
            ..Entry::default()
        });
        let more = self.more.iter().cloned();
        tunnel.into_iter().chain(plain).chain(more).collect()
    }

    /// Whether packets with this tag go on as they are.
    #[inline(always)]
    pub fn is_plain(&self, tag: u32) -> bool {
        self.flags & PLAIN != 0 && u32::from(self.plain) == tag
    }

    /// Whether packets with this tag go into the tunnel.
    #[inline(always)]
    pub fn is_tunnel(&self, tag: u32) -> bool {
        self.flags & TUNNEL != 0 && u32::from(self.pdr) == tag
    }

    /// The QoS flow that packets of the tunnel get.
    #[inline(always)]
    pub fn flow(&self, uplink: bool) -> Option<PduSession> {
        if self.flags & FLOW == 0 {
            return None;
        }
        Some(session(uplink, Qfi::new(self.qfi)?, self.flags & REFLECTIVE != 0, None))
    }

    /// The entry of a tag that the context does not say all of itself.
    pub fn entry(&mut self, tag: u32) -> Option<&mut Entry> {
        // A session without others gets no list by being asked for one.
        if self.more.is_empty() {
            return None;
        }
        self.more.iter_mut().find(|entry| entry.tag == tag)
    }
}

/// Writes an entry as bytes.
pub fn write_entry(entry: &Entry, locals: &Locals, names: &Names, out: &mut Vec<u8>) {
    for field in [entry.tag, entry.far.0] {
        out.extend_from_slice(&field.to_le_bytes());
    }
    let (kind, port) = match entry.kind {
        Kind::Plain => (0, 0),
        Kind::Gtpu => (1, 0),
        Kind::Udp(port) => (2, port),
        Kind::Redirect => (3, 0),
    };
    let is_rare =
        entry.marking.is_some() || entry.service_class.is_some() || entry.redirect.is_some();
    let kind = if is_rare { kind | RARE } else { kind };
    out.extend([u8::from(entry.uplink), kind, u8::from(entry.reflective), entry.destination]);
    out.extend_from_slice(&port.to_le_bytes());
    write_option(entry.tunnel.get(), out, |tunnel, out| locals.export(&tunnel, out));
    for field in [entry.qfi, entry.paging_policy, entry.dscp.map(|dscp| dscp.value())] {
        write_option(field, out, |field, out| out.push(field));
    }
    // Other nodes have other numbers.
    write_option(entry.network.and_then(|network| names.name_of(network)), out, |name, out| {
        write_list(name.as_bytes(), out, |octet, out| out.push(*octet));
    });
    if is_rare {
        for field in [entry.marking.map(|dscp| dscp.value()), entry.service_class] {
            write_option(field, out, |field, out| out.push(field));
        }
        write_option(entry.redirect.as_deref(), out, |url, out| {
            write_list(url.as_bytes(), out, |octet, out| out.push(*octet));
        });
    }
    write_list(&entry.copies, out, |copy, out| write_entry(copy, locals, names, out));
}

/// In the octet of the kind: what few entries have follows the network.
const RARE: u8 = 1 << 4;

/// What few entries have: marking, service class and URL.
type Rare = (Option<Dscp>, Option<u8>, Option<Name>);

fn read_rare(fields: &mut Fields<'_>) -> Result<Rare, ContextError> {
    let marking = read_option(fields, |fields| fields.u8())?;
    let dscp = |octet: u8| Dscp::new(octet).ok_or(ContextError::Damaged);
    let marking = marking.map(dscp).transpose()?;
    let service_class = read_option(fields, |fields| fields.u8())?;
    let redirect = read_option(fields, |fields| {
        let url = read_list(fields, |fields| fields.u8())?;
        let url = String::from_utf8(url).map_err(|_| ContextError::Damaged)?;
        if is_url(&url) { Ok(Name::from(url.as_str())) } else { Err(ContextError::Damaged) }
    })?;
    Ok((marking, service_class, redirect))
}

/// Reads what [`write_entry`] wrote.
pub fn read_entry(
    fields: &mut Fields<'_>,
    locals: &mut Locals,
    names: &Names,
) -> Result<Entry, ContextError> {
    read_within(fields, (locals, names), true)
}

fn read_within(
    fields: &mut Fields<'_>,
    (locals, names): (&mut Locals, &Names),
    may_copy: bool,
) -> Result<Entry, ContextError> {
    let (tag, far) = (fields.u32()?, FarId(fields.u32()?));
    let [uplink, kind, reflective, destination] = fields.array()?;
    let port = fields.u16()?;
    let (is_rare, kind) = (kind & RARE != 0, kind & !RARE);
    let kind = match (kind, port) {
        (0, 0) => Kind::Plain,
        (1, 0) => Kind::Gtpu,
        (2, port) => Kind::Udp(port),
        (3, 0) => Kind::Redirect,
        _ => return Err(ContextError::Damaged),
    };
    let tunnel = read_option(fields, |fields| locals.import(fields))?;
    let has_tunnel = matches!(kind, Kind::Gtpu | Kind::Udp(_));
    if has_tunnel != tunnel.is_some() || uplink > 1 || reflective > 1 || destination > 6 {
        return Err(ContextError::Damaged);
    }
    let octet = |fields: &mut Fields<'_>, most: u8| {
        let read = read_option(fields, |fields| fields.u8())?;
        match read.is_none_or(|octet| octet <= most) {
            true => Ok(read),
            false => Err(ContextError::Damaged),
        }
    };
    let (qfi, paging_policy) = (octet(fields, 63)?, octet(fields, 7)?);
    let dscp = octet(fields, 63)?.and_then(Dscp::new);
    let network = read_option(fields, |fields| {
        let name = read_list(fields, |fields| fields.u8())?;
        let name = String::from_utf8(name).map_err(|_| ContextError::Damaged)?;
        names.network(&name).ok_or(ContextError::Damaged)
    })?;
    let rare = if is_rare { read_rare(fields)? } else { Rare::default() };
    let (marking, service_class, redirect) = rare;
    let copies = read_list(fields, |fields| match may_copy {
        true => read_within(fields, (&mut *locals, names), false),
        false => Err(ContextError::Damaged),
    })?;
    Ok(Entry {
        tag,
        far,
        uplink: uplink == 1,
        kind,
        tunnel: tunnel.unwrap_or_default(),
        qfi,
        reflective: reflective == 1,
        paging_policy,
        dscp,
        marking,
        service_class,
        redirect,
        destination,
        network,
        copies,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry of each rule of the usual session: its QER gives both directions a QoS flow
    /// identifier.
    fn usual() -> Vec<Entry> {
        let rule = Entry { qfi: Some(9), reflective: true, destination: 1, ..Entry::default() };
        let tunnel = Locals::default()
            .tunnel(weft_function::TunnelEnd::new(
                weft_wire::gtpu::Teid(7),
                "192.0.2.1".parse().unwrap(),
                "192.0.2.9".parse().unwrap(),
            ))
            .unwrap();
        vec![
            Entry { tag: 2, far: FarId(2), kind: Kind::Gtpu, tunnel, ..rule.clone() },
            Entry { tag: 1, far: FarId(1), uplink: true, network: Some(3), ..rule },
        ]
    }

    #[test]
    fn the_context_says_all_of_the_usual_session() {
        let context = Context::of(usual());
        assert!(context.more.is_empty(), "nothing lies behind a pointer");
        assert!(context.is_plain(1) && context.is_tunnel(2));
        assert_eq!(context.entries(), usual());
        let flow = context.flow(false).unwrap();
        assert_eq!(flow.qfi().value(), 9);
    }

    #[test]
    fn what_is_rare_lies_behind() {
        let mut entries = usual();
        entries[1].dscp = Dscp::new(10);
        entries.push(Entry { tag: 3, far: FarId(3), ..Entry::default() });
        let mut context = Context::of(entries.clone());
        assert!(context.is_plain(3) && !context.is_plain(1));
        assert_eq!(context.entry(1), Some(&mut entries[1]));
        assert_eq!(context.entry(2), None);
        assert_eq!(context.entries().len(), 3);
        assert!(entries.iter().all(|entry| context.entries().contains(entry)));
    }
}
