//! Checks what a profile says and makes plans of it.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use weft_wire::MacAddress;
use weft_wire::gtpu::{Qfi, Teid};
use weft_wire::nsh::ServicePathId;
use weft_yaml::locate::Source;
use weft_yaml::values::{Ip, Mac};

use super::yaml::{
    ArrivalsFile, CaptureFile, DirectionFile, EncapsulationFile, ProfileFile, RateFile,
    SelectionFile, SizesFile, SourceFile, StreamFile, WireFile,
};
use super::{PortPlan, Profile, SourcePlan, StreamPlan, WirePlan, capture};
use crate::receiver::stream::Expected;
use crate::source::load::{Arrivals, CapturedShare, Load, Rate, Share};
use crate::source::selection::Selection;
use crate::template::encapsulation::Encapsulation;
use crate::template::endpoints::{Direction, Endpoints};
use crate::template::prototype::Prototype;
use crate::template::sizes::Sizes;
use crate::template::{Template, TemplateError};
use crate::wire::Harm;

/// Flows that a stream may have: each takes some bytes of memory.
const MOST_FLOWS: u32 = 1 << 24;

/// The profile, or none if there are mistakes, which are noted in `source`.
pub fn profile(file: &ProfileFile, source: &mut Source<'_>) -> Option<Profile> {
    within(source, "duration", file.duration, 0.001..=31_536_000.0);
    let ports = ports(file, source);
    let mut number = 0;
    let sources = (0..).zip(&file.sources).map(|(nth, sent)| {
        let path = format!("sources.{nth}");
        source_plan(sent, &path, &ports, file.seed, &mut number, source)
    });
    let sources: Vec<_> = sources.collect();
    let wires = (0..).zip(&file.wires);
    let wires: Vec<_> =
        wires.map(|(nth, wire)| wire_plan(wire, &format!("wires.{nth}"), &ports, source)).collect();
    if file.sources.is_empty() {
        source.wrong("sources", "a profile has at least one source");
    }
    if !source.mistakes.is_empty() {
        return None;
    }
    Some(Profile {
        name: file.metadata.name.clone(),
        duration: Duration::from_secs_f64(file.duration),
        seed: file.seed,
        generator_core: file.cores.generator.map(|core| core as usize),
        receiver_core: file.cores.receiver.map(|core| core as usize),
        ports,
        sources: sources.into_iter().collect::<Option<_>>()?,
        wires: wires.into_iter().collect::<Option<_>>()?,
    })
}

fn ports(file: &ProfileFile, source: &mut Source<'_>) -> Vec<PortPlan> {
    let plans = file.ports.0.iter().map(|(name, port)| {
        let path = format!("ports.{name}.descriptors");
        within(source, &path, f64::from(port.descriptors), 32.0..=32_768.0);
        let (name, device) = (name.clone(), port.device.clone());
        PortPlan { name, device, descriptors: port.descriptors }
    });
    plans.collect()
}

/// The index of the port that stands at `path`.
fn port(name: &str, path: &str, ports: &[PortPlan], source: &mut Source<'_>) -> Option<usize> {
    let known = ports.iter().position(|port| port.name == name);
    if known.is_none() {
        let names = ports.iter().map(|port| port.name.as_str());
        source.wrong(path, format!("there is no port `{name}`")).suggest(name, names);
    }
    known
}

fn source_plan(
    file: &SourceFile,
    path: &str,
    ports: &[PortPlan],
    seed: u64,
    number: &mut u16,
    source: &mut Source<'_>,
) -> Option<SourcePlan> {
    let from = port(&file.from, &format!("{path}.from"), ports, source);
    let to = file.to.as_deref().map(|to| port(to, &format!("{path}.to"), ports, source));
    let rate = rate(file.rate, &format!("{path}.rate"), source);
    let arrivals = match file.arrivals {
        ArrivalsFile::Constant => Arrivals::Constant,
        ArrivalsFile::Poisson => Arrivals::Poisson,
        ArrivalsFile::Burst(count) => {
            within(source, &format!("{path}.arrivals.burst"), count.into(), 1.0..=1e6);
            Arrivals::Burst(count)
        }
    };
    if !(1..=1000).contains(&(file.streams.len() + file.captures.len())) {
        let key = if file.captures.is_empty() { "streams" } else { "captures" };
        source.wrong(&format!("{path}.{key}"), "a source has 1 to 1000 streams");
        return None;
    }
    let (mut shares, mut streams) = (Vec::new(), Vec::new());
    for (nth, stream) in file.streams.iter().enumerate() {
        *number = number.checked_add(1)?;
        let path = format!("{path}.streams.{nth}");
        let (share, plan) = stream_plan(stream, *number, &path, source)?;
        shares.push(share);
        streams.push(plan);
    }
    let mut captured = Vec::new();
    for (nth, capture) in file.captures.iter().enumerate() {
        *number = number.checked_add(1)?;
        let path = format!("{path}.captures.{nth}");
        let (share, plan) = capture_plan(capture, *number, &path, source)?;
        captured.push(share);
        streams.push(plan);
    }
    // Every source draws numbers of its own.
    let seed = seed.wrapping_add(u64::from(*number) << 32);
    Some(SourcePlan {
        from: from?,
        to: match to {
            Some(to) => Some(to?),
            None => None,
        },
        load: Load { rate, arrivals, shares, captured, seed },
        streams,
    })
}

fn rate(file: RateFile, path: &str, source: &mut Source<'_>) -> Rate {
    match file {
        RateFile::Unlimited => Rate::Unlimited,
        RateFile::Packets(rate) => {
            within(source, &format!("{path}.packets"), rate, 1e-3..=1e9);
            Rate::Packets(rate)
        }
        RateFile::Link(link) => {
            within(source, &format!("{path}.link.speed"), link.speed.0 as f64, 1e3..=1e12);
            within(source, &format!("{path}.link.share"), link.share, 1e-9..=1.0);
            Rate::Link { bits: link.speed.0, share: link.share }
        }
    }
}

fn stream_plan(
    file: &StreamFile,
    number: u16,
    path: &str,
    source: &mut Source<'_>,
) -> Option<(Share, StreamPlan)> {
    within(source, &format!("{path}.weight"), file.weight.into(), 1.0..=1000.0);
    within(source, &format!("{path}.users"), file.users.into(), 1.0..=f64::from(MOST_FLOWS));
    within(source, &format!("{path}.bearers"), file.bearers.into(), 1.0..=64.0);
    let direction = match file.direction {
        DirectionFile::Uplink => Direction::Uplink,
        DirectionFile::Downlink => Direction::Downlink,
    };
    let (Ip(first_user), Ip(peer)) = (file.first_user, file.peer);
    let endpoints = Endpoints { direction, first_user, peer };
    let sizes = sizes(&file.sizes, &format!("{path}.sizes"), source)?;
    let mut template = Template {
        bearers: file.bearers,
        user_port: file.user_port,
        peer_port: file.peer_port,
        sizes,
        encapsulation: encapsulation(file, path, source)?,
        ..Template::new(number, endpoints)
    };
    if let Some(Mac(mac)) = file.source_mac {
        template.source_mac = MacAddress(mac);
    }
    if let Some(Mac(mac)) = file.destination_mac {
        template.destination_mac = MacAddress(mac);
    }
    let flows = flows(&template, file, path, source)?;
    for (nth, flow) in file.watch.iter().enumerate() {
        within(source, &format!("{path}.watch.{nth}"), (*flow).into(), 0.0..=f64::from(flows - 1));
    }
    let selection = match file.selection {
        SelectionFile::RoundRobin => Selection::RoundRobin,
        SelectionFile::Random => Selection::Random,
        SelectionFile::Zipf(exponent) => {
            within(source, &format!("{path}.selection.zipf"), exponent, 0.0..=10.0);
            Selection::Zipf(exponent)
        }
    };
    let arriving = arriving(file, endpoints, path, source);
    let arriving = Expected { endpoints: arriving, ..Expected::of(&template, file.users) };
    let (name, watch) = (file.name.clone(), file.watch.clone());
    let plan = StreamPlan { name, arriving, addresses: None, watch };
    Some((Share { template, users: file.users, selection, weight: file.weight }, plan))
}

/// A stream of captured packets.
fn capture_plan(
    file: &CaptureFile,
    stream: u16,
    path: &str,
    source: &mut Source<'_>,
) -> Option<(CapturedShare, StreamPlan)> {
    within(source, &format!("{path}.weight"), file.weight.into(), 1.0..=1000.0);
    let packets = match capture::packets(&file.file, file.stamps) {
        Ok(packets) => packets,
        Err(reason) => {
            let message = format!("cannot send the capture `{}`: {reason}", file.file);
            source.wrong(&format!("{path}.file"), message);
            return None;
        }
    };
    let plan = StreamPlan {
        name: file.name.clone(),
        arriving: packets.expected(stream),
        addresses: Some(packets.flows().to_vec()),
        watch: Vec::new(),
    };
    Some((CapturedShare { stream, packets, weight: file.weight }, plan))
}

/// What the packets of a stream are carried in.
fn encapsulation(file: &StreamFile, path: &str, source: &mut Source<'_>) -> Option<Encapsulation> {
    let path = format!("{path}.encapsulation");
    let ends = |source: &mut Source<'_>, kind: &str, near: Ip, far: Ip| {
        if near.0.is_ipv4() != far.0.is_ipv4() {
            let message = "the two ends of a tunnel are of one family";
            source.wrong(&format!("{path}.{kind}.destination"), message);
        }
        (near.0, far.0)
    };
    Some(match file.encapsulation {
        EncapsulationFile::None => Encapsulation::None,
        EncapsulationFile::Gtpu(gtpu) => {
            let (near, far) = ends(source, "gtpu", gtpu.source, gtpu.destination);
            let flows = u64::from(file.users) * u64::from(file.bearers);
            let last = (f64::from(u32::MAX) + 1.0 - flows as f64).max(1.0);
            let first = f64::from(gtpu.first_teid);
            within(source, &format!("{path}.gtpu.firstTeid"), first, 1.0..=last);
            let qfi = gtpu.qfi.unwrap_or_default();
            within(source, &format!("{path}.gtpu.qfi"), qfi.into(), 0.0..=63.0);
            Encapsulation::Gtpu {
                source: near,
                destination: far,
                first_teid: Teid(gtpu.first_teid),
                qfi: gtpu.qfi.and_then(Qfi::new),
            }
        }
        EncapsulationFile::Nsh(nsh) => {
            let over = nsh.over.map(|over| ends(source, "nsh.over", over.source, over.destination));
            within(source, &format!("{path}.nsh.path"), nsh.path.into(), 0.0..=16_777_215.0);
            Encapsulation::Nsh { path: ServicePathId::new(nsh.path)?, index: nsh.index, over }
        }
    })
}

/// How many flows the stream has, if packets can be made for them.
fn flows(
    template: &Template,
    file: &StreamFile,
    path: &str,
    source: &mut Source<'_>,
) -> Option<u32> {
    let made = template.flows(file.users).and_then(|flows| Prototype::new(template).map(|_| flows));
    match made {
        Ok(flows @ 1..=MOST_FLOWS) => Some(flows),
        Ok(_) => {
            let message = format!("a stream has 1 to {MOST_FLOWS} flows, users times bearers");
            source.wrong(&format!("{path}.users"), message);
            None
        }
        Err(error) => {
            let key = match error {
                TemplateError::Families => "peer",
                TemplateError::FrameBytes { .. } => "sizes",
                TemplateError::Addresses => "firstUser",
                TemplateError::Bearers { .. } => "bearers",
                TemplateError::Silent => "users",
            };
            source.wrong(&format!("{path}.{key}"), error.to_string());
            None
        }
    }
}

fn sizes(file: &SizesFile, path: &str, source: &mut Source<'_>) -> Option<Sizes> {
    Some(match file {
        SizesFile::Fixed(bytes) => Sizes::Fixed(*bytes),
        SizesFile::Sweep(sweep) => {
            within(source, &format!("{path}.sweep.step"), sweep.step as f64, 1.0..=9000.0);
            Sizes::Sweep { from: sweep.from, to: sweep.to, step: sweep.step }
        }
        SizesFile::Imix => Sizes::Imix,
        SizesFile::Capture(file) => match capture::lengths(file) {
            Ok(lengths) => Sizes::Listed(lengths),
            Err(reason) => {
                let message = format!("cannot read the capture `{file}`: {reason}");
                source.wrong(&format!("{path}.capture"), message);
                return None;
            }
        },
    })
}

/// The addresses with which packets arrive.
fn arriving(file: &StreamFile, sent: Endpoints, path: &str, source: &mut Source<'_>) -> Endpoints {
    let mut family = |key: &str, ours: IpAddr, other: Option<Ip>| match other {
        Some(Ip(other)) if other.is_ipv4() != ours.is_ipv4() => {
            let message = "packets arrive with the IP version with which they leave";
            source.wrong(&format!("{path}.arriving.{key}"), message);
            ours
        }
        Some(Ip(other)) => other,
        None => ours,
    };
    Endpoints {
        direction: sent.direction,
        first_user: family("firstUser", sent.first_user, file.arriving.first_user),
        peer: family("peer", sent.peer, file.arriving.peer),
    }
}

fn wire_plan(
    file: &WireFile,
    path: &str,
    ports: &[PortPlan],
    source: &mut Source<'_>,
) -> Option<WirePlan> {
    let from = port(&file.from, &format!("{path}.from"), ports, source);
    let to = port(&file.to, &format!("{path}.to"), ports, source);
    let shares = [
        ("loss", file.loss),
        ("damage", file.damage),
        ("duplication", file.duplication),
        ("reordering", file.reordering),
    ];
    for (key, share) in shares {
        within(source, &format!("{path}.{key}"), share, 0.0..=1.0);
    }
    within(source, &format!("{path}.extent"), file.extent.into(), 1.0..=1000.0);
    within(source, &format!("{path}.delay"), file.delay, 0.0..=1e6);
    let harm = Harm {
        loss: file.loss,
        damage: file.damage,
        duplication: file.duplication,
        reordering: file.reordering,
        extent: file.extent,
        delay: Duration::from_secs_f64(file.delay.clamp(0.0, 1e6) / 1e6),
    };
    Some(WirePlan { from: from?, to: to?, harm })
}

/// Notes a mistake if the number at `path` lies outside `range`.
fn within(source: &mut Source<'_>, path: &str, number: f64, range: RangeInclusive<f64>) {
    if !range.contains(&number) {
        let (least, most) = (range.start(), range.end());
        source.wrong(path, format!("a number from {least} to {most} is expected, not {number}"));
    }
}
