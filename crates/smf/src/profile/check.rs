//! What the values of a profile mean, and which mean nothing.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use weft_yaml::locate::Source;

use super::yaml::{
    BothFile, ControlPlaneFile, FamilyFile, InterfaceFile, LoadFile, RulesFile, SessionsFile,
    TunnelsFile,
};
use super::{Directions, Far, Interface, Load, Pdr, Profile, Qer, Rules, Sessions, Tunnels, Urr};

/// UDP port of PFCP (TS 29.244 §6.3).
const PORT: u16 = 8805;

/// The profile, or none if there are mistakes, which are noted in `source`.
pub fn profile(file: &ControlPlaneFile, source: &mut Source<'_>) -> Option<Profile> {
    let (local, user_plane) = (file.local.0, file.user_plane.0);
    if local.is_ipv4() != user_plane.is_ipv4() {
        source.wrong("userPlane", "control plane and user plane have addresses of one family");
    }
    within(source, "heartbeat", file.heartbeat.into(), 0.0..=3600.0);
    within(source, "outstanding", file.outstanding.into(), 1.0..=1e6);
    within(source, "answerWithin", file.answer_within, 0.001..=60_000.0);
    within(source, "retransmission.t1", file.retransmission.t1, 0.01..=60.0);
    within(source, "retransmission.n1", file.retransmission.n1.into(), 0.0..=20.0);
    let load = file.load.map(|load| checked_load(&load, source));
    let rules = file.rules.as_ref().map_or_else(usual, |rules| checked_rules(rules, source));
    let sessions = sessions(&file.sessions, &rules, source);
    if !source.mistakes.is_empty() {
        return None;
    }
    Some(Profile {
        name: file.metadata.name.clone(),
        local: SocketAddr::new(local, PORT),
        user_plane: SocketAddr::new(user_plane, file.port),
        seed: file.seed,
        t1: Duration::from_secs_f64(file.retransmission.t1),
        n1: file.retransmission.n1,
        heartbeat: (file.heartbeat > 0).then(|| Duration::from_secs(file.heartbeat.into())),
        outstanding: file.outstanding,
        answer_within: Duration::from_secs_f64(file.answer_within / 1e3),
        sessions,
        rules,
        load,
        keep: file.keep,
    })
}

fn sessions(file: &SessionsFile, rules: &Rules, source: &mut Source<'_>) -> Sessions {
    let count = u64::from(file.count);
    within(source, "sessions.count", count as f64, 1.0..=4e6);
    if let Some(rate) = file.rate {
        within(source, "sessions.rate", rate, 0.001..=1e7);
    }
    if file.ipv4.is_none() && file.ipv6.is_none() {
        source.wrong("sessions", "users have an address: `ipv4`, `ipv6` or both");
    }
    if file.ipv4.is_some_and(|first| u64::from(u32::from(first.0)) + count > 1 << 32) {
        source.wrong("sessions.ipv4", "there are not so many addresses behind this one");
    }
    let ipv6 = file.ipv6.map(|prefix| (prefix.0, prefix.1));
    if let Some((first, length)) = ipv6 {
        within(source, "sessions.ipv6", length.into(), 16.0..=128.0);
        if nth_prefix(first, length, file.count).is_none() {
            source.wrong("sessions.ipv6", "there are not so many prefixes behind this one");
        }
    }
    let tunnels = match file.tunnels {
        TunnelsFile::Choose(family) => Tunnels::Choose { ipv4: matches!(family, FamilyFile::Ipv4) },
        TunnelsFile::Given(given) => {
            let last = (1u64 << 32).saturating_sub(count * u64::from(rules.tunnels().max(1)));
            let (path, first) = ("sessions.tunnels.given.firstTeid", given.first_teid);
            within(source, path, first.into(), 1.0..=last as f64);
            Tunnels::Given { address: given.address.0, first_teid: first }
        }
    };
    let last = ((1u64 << 32) - count.min(1 << 32)) as f64;
    within(source, "sessions.stationTeid", file.station_teid.into(), 1.0..=last);
    if file.stations.is_empty() && rules.fars.iter().any(|far| far.tunnel) {
        source.wrong("sessions.stations", "there is a FAR with a tunnel, but no station");
    }
    let stations: Vec<IpAddr> = file.stations.iter().map(|station| station.0).collect();
    Sessions {
        count: file.count,
        rate: file.rate,
        ipv4: file.ipv4.map(|first| first.0),
        ipv6,
        tunnels,
        stations,
        station_teid: file.station_teid,
    }
}

/// The prefix so many behind `first`, if there is one.
pub fn nth_prefix(first: Ipv6Addr, length: u8, nth: u32) -> Option<Ipv6Addr> {
    let step = 1u128.checked_shl(128 - u32::from(length))?;
    let offset = step.checked_mul(nth.into())?;
    u128::from(first).checked_add(offset).map(Ipv6Addr::from)
}

fn checked_load(file: &LoadFile, source: &mut Source<'_>) -> Load {
    within(source, "load.duration", file.duration, 0.001..=31_536_000.0);
    within(source, "load.rate", file.rate, 0.001..=1e7);
    let mix = file.mix;
    let weights =
        [mix.establish, mix.delete, mix.idle, mix.service_request, mix.handover, mix.query];
    if weights.iter().all(|weight| *weight == 0) {
        source.wrong("load.mix", "at least one request has a weight");
    }
    let duration = Duration::from_secs_f64(file.duration.clamp(0.001, 31_536_000.0));
    Load { duration, rate: file.rate, weights }
}

/// A user with one QoS flow, as a core establishes it.
fn usual() -> Rules {
    let pdr = |id: u16, source, instance: &str, tunnel, far| Pdr {
        id,
        precedence: 255,
        source,
        instance: Some(instance.to_owned()),
        tunnel,
        user: true,
        qfis: Vec::new(),
        filters: Vec::new(),
        far,
        qers: vec![1],
        urrs: vec![1],
    };
    let far = |id, destination, instance: &str, tunnel| Far {
        id,
        destination: Some(destination),
        instance: Some(instance.to_owned()),
        tunnel,
    };
    let mbr = Directions { uplink: 100_000, downlink: 100_000 };
    Rules {
        pdrs: vec![
            pdr(1, Interface::Access, "access", Some(0), 1),
            pdr(2, Interface::Core, "internet", None, 2),
        ],
        fars: vec![
            far(1, Interface::Core, "internet", false),
            far(2, Interface::Access, "access", true),
        ],
        qers: vec![Qer { id: 1, mbr: Some(mbr), gbr: None, qfi: Some(9) }],
        urrs: vec![Urr { id: 1, volume_threshold: None, time_threshold: None, period: None }],
    }
}

fn checked_rules(file: &RulesFile, source: &mut Source<'_>) -> Rules {
    let fars: HashSet<_> = file.fars.iter().map(|far| far.id).collect();
    let qers: HashSet<_> = file.qers.iter().map(|qer| qer.id).collect();
    let urrs: HashSet<_> = file.urrs.iter().map(|urr| urr.id).collect();
    distinct(source, "pdrs", file.pdrs.iter().map(|pdr| pdr.id.into()));
    distinct(source, "fars", file.fars.iter().map(|far| far.id));
    distinct(source, "qers", file.qers.iter().map(|qer| qer.id));
    distinct(source, "urrs", file.urrs.iter().map(|urr| urr.id));
    let pdrs = checked_pdrs(file, (&fars, &qers, &urrs), source);
    if pdrs.is_empty() {
        source.wrong("rules.pdrs", "a session has at least one PDR");
    }
    Rules {
        pdrs,
        fars: file
            .fars
            .iter()
            .map(|far| Far {
                id: far.id,
                destination: far.destination.map(interface),
                instance: far.instance.clone(),
                tunnel: far.tunnel,
            })
            .collect(),
        qers: file
            .qers
            .iter()
            .map(|qer| Qer {
                id: qer.id,
                mbr: qer.mbr.map(kilobits),
                gbr: qer.gbr.map(kilobits),
                qfi: qer.qfi,
            })
            .collect(),
        urrs: file
            .urrs
            .iter()
            .map(|urr| Urr {
                id: urr.id,
                volume_threshold: urr.volume_threshold.map(|bytes| bytes.0),
                time_threshold: urr.time_threshold,
                period: urr.period,
            })
            .collect(),
    }
}

type Ids = HashSet<u32>;

/// PDRs that name rules by the ids of those there are.
fn checked_pdrs(
    file: &RulesFile,
    (fars, qers, urrs): (&Ids, &Ids, &Ids),
    source: &mut Source<'_>,
) -> Vec<Pdr> {
    let mut tunnels = 0;
    let pdrs = file.pdrs.iter().enumerate().map(|(nth, pdr)| {
        let mut known = |key: &str, id: u32, ids: &Ids| {
            if !ids.contains(&id) {
                source
                    .wrong(&format!("rules.pdrs.{nth}.{key}"), format!("no rule has the id {id}"));
            }
        };
        known("far", pdr.far, fars);
        pdr.qers.iter().for_each(|id| known("qers", *id, qers));
        pdr.urrs.iter().for_each(|id| known("urrs", *id, urrs));
        for (at, qfi) in pdr.qfi.iter().enumerate() {
            within(source, &format!("rules.pdrs.{nth}.qfi.{at}"), f64::from(*qfi), 0.0..=63.0);
        }
        let tunnel = pdr.tunnel.then(|| {
            tunnels += 1;
            tunnels - 1
        });
        Pdr {
            id: pdr.id,
            precedence: pdr.precedence,
            source: interface(pdr.source),
            instance: pdr.instance.clone(),
            tunnel,
            user: pdr.user,
            qfis: pdr.qfi.clone(),
            filters: pdr.filters.clone(),
            far: pdr.far,
            qers: pdr.qers.clone(),
            urrs: pdr.urrs.clone(),
        }
    });
    pdrs.collect()
}

fn kilobits(rates: BothFile) -> Directions<u64> {
    Directions { uplink: rates.uplink.0.div_ceil(1000), downlink: rates.downlink.0.div_ceil(1000) }
}

fn interface(file: InterfaceFile) -> Interface {
    match file {
        InterfaceFile::Access => Interface::Access,
        InterfaceFile::Core => Interface::Core,
        InterfaceFile::Sgi => Interface::Sgi,
        InterfaceFile::Cp => Interface::ControlPlane,
    }
}

/// Notes a mistake at each rule whose number another has.
fn distinct(source: &mut Source<'_>, kind: &str, ids: impl Iterator<Item = u32>) {
    let mut seen = HashSet::new();
    for (nth, id) in ids.enumerate() {
        let path = format!("rules.{kind}.{nth}.id");
        if id == 0 {
            source.wrong(&path, "a rule has a number from 1 on");
        } else if !seen.insert(id) {
            source.wrong(&path, format!("another rule of this kind has the id {id}"));
        }
    }
}

/// Notes a mistake if the number at `path` lies outside `range`.
fn within(source: &mut Source<'_>, path: &str, number: f64, range: RangeInclusive<f64>) {
    if !range.contains(&number) {
        let (least, most) = (range.start(), range.end());
        source.wrong(path, format!("a number from {least} to {most} is expected, not {number}"));
    }
}
