//! Node, control plane and traffic, and what they counted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weft_dpdk::{Eal, Pool};
use weft_node::{Node, Running};
use weft_node_config::{self as config, Blueprint};
use weft_pfcp::Server;
use weft_smf::profile::Tunnels;
use weft_smf::{Kind, Phase, Profile, Statistics};
use weft_traffic::{Direction, Encapsulation, Endpoints, Sizes, Source, Stream, Tally, Template};
use weft_wire::gtpu::{self, MessageType, Qfi, Teid};
use weft_wire::{ethernet, ipv4, udp};

use super::SessionsReport;
use crate::commands::measure::demo::end::End;
use crate::commands::measure::demo::scene::{Chain, FRAME_BYTES, Plan};
use crate::failure::Failure;

/// The node's configuration, and what drives it.
const USER_PLANE: &str = include_str!("../../../../../../../examples/demo-upf.yaml");
const CONTROL_PLANE: &str = include_str!("../../../../../../../examples/demo-smf.yaml");

/// Packets of the traffic.
const PACKETS: u32 = 8191;
/// Packets per second in each direction, ...
const RATE: u64 = 20_000;
/// ... for so long at most.
const LONGEST: Duration = Duration::from_secs(1);
/// The QoS flow that base stations mark packets with.
const FLOW: Option<Qfi> = Qfi::new(9);
/// Turns between two looks at the clock.
const TURNS: u32 = 64;
/// Pause between two looks at what others do.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Packets that do not arrive for so long do not arrive any more.
const PATIENCE: Duration = Duration::from_secs(2);

/// Node and control plane as their files describe them.
#[derive(Debug)]
pub struct Means {
    blueprint: Blueprint,
    profile: Profile,
}

/// What was counted. Of two numbers the first is uplink, the second downlink.
pub struct Outcome {
    pub statistics: Statistics,
    pub streams: [(Tally, Stream); 2],
    pub missed: [u64; 2],
    /// By the node.
    pub dropped: u64,
    /// What is no packet of a stream, or has a wrong checksum.
    pub unreadable: u64,
    pub wrong_tunnel: u64,
    pub end_markers: u64,
    /// Sessions that the node still has.
    pub left: u64,
}

impl Means {
    /// As the examples say.
    ///
    /// # Errors
    /// Mistakes in the examples.
    pub fn read() -> Result<Means, Failure> {
        let name = "examples/demo-upf.yaml";
        let blueprint = config::read(USER_PLANE, name, weft_functions::KINDS)?;
        let profile = Profile::read(CONTROL_PLANE, "examples/demo-smf.yaml")?;
        Ok(Means { blueprint, profile })
    }

    /// Packet buffers in all.
    pub fn buffers(&self) -> u32 {
        PACKETS + self.blueprint.memory.packets
    }

    /// Uplink in the tunnels that the control plane gives, and downlink without.
    fn plans(&self) -> Result<[Plan; 2], Failure> {
        let sessions = &self.profile.sessions;
        let (Some(first), [station, ..], Tunnels::Given { address, first_teid }) =
            (sessions.ipv4, &sessions.stations[..], sessions.tunnels)
        else {
            return Err(Failure::broken("examples/demo-smf.yaml: no addresses or no tunnels"));
        };
        let endpoints = |direction| Endpoints {
            direction,
            first_user: first.into(),
            peer: [198, 51, 100, 10].into(),
        };
        let plan = |stream, direction, encapsulation| {
            let plain = Template::new(stream, endpoints(direction));
            let carried = Template { encapsulation, ..plain.clone() };
            let outer = carried.least_bytes() - plain.least_bytes();
            Plan {
                chain: Chain::Empty,
                direction,
                template: Template { sizes: Sizes::Fixed(FRAME_BYTES + outer), ..carried },
                arriving: endpoints(direction),
                weights: vec![1; sessions.count as usize],
                rate: RATE,
            }
        };
        let tunnel = Encapsulation::Gtpu {
            source: *station,
            destination: address,
            first_teid: Teid(first_teid),
            qfi: FLOW,
        };
        let downlink = plan(2, Direction::Downlink, Encapsulation::None);
        Ok([plan(1, Direction::Uplink, tunnel), downlink])
    }
}

/// Sets the users up, sends packets through their sessions for so long but a second at most, and
/// deletes them.
///
/// # Errors
/// What the machine lacks, or that the node does not serve the control plane at all.
pub fn run(eal: &'static Eal, means: &Means, length: Duration) -> Result<SessionsReport, Failure> {
    thread::scope(|scope| {
        let traffic = scope.spawn(|| {
            let _registration = eal.register_thread();
            drive(eal, means, length.min(LONGEST))
        });
        traffic.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
    .map(|outcome| SessionsReport::new(&outcome))
}

fn drive(eal: &'static Eal, means: &Means, length: Duration) -> Result<Outcome, Failure> {
    let plans = means.plans()?;
    let pool = Pool::new(eal, "session-traffic", PACKETS)?;
    let blueprint = &means.blueprint;
    let node = Node::build(eal, blueprint.clone())?;
    let end = |port: usize, nth: usize| {
        let Plan { template, weights, rate, direction, .. } = &plans[nth];
        let source = Source::new(template, weights, *rate).map_err(Failure::broken)?;
        End::open(eal, &blueprint.ports[port].device, &pool, &plans, *direction, vec![source])
    };
    let ends = [end(0, 0)?, end(1, 1)?];
    let mut plan = blueprint.pfcp.clone().ok_or_else(|| Failure::broken("a node without PFCP"))?;
    plan.port = 0;
    let running = node.start(eal).map_err(Failure::broken)?;
    let server = Server::start(&plan, running.handle()).map_err(Failure::broken)?;
    let [address] = server.addresses() else {
        return Err(Failure::broken("examples/demo-upf.yaml: PFCP at one address is expected"));
    };
    let mut profile = means.profile.clone();
    profile.local.set_port(0);
    profile.user_plane = *address;
    let counts = Counts { first_teid: profile.sessions.station_teid, ..Counts::default() };
    let mut traffic = Traffic { ends, pool, running: &running, counts };
    let statistics = traffic.under(&profile, length)?;
    let left = server.handle().view().map_or(0, |view| view.sessions as u64);
    drop(server);
    let Traffic { ends, counts, .. } = traffic;
    let node = running.stop().ok_or_else(|| Failure::broken(weft_node::Stopped))?;
    let [access, core] = &ends;
    let streams = [(access, core), (core, access)]
        .map(|(from, to)| (from.sources[0].tally(), to.receiver.streams()[0].clone()));
    Ok(Outcome {
        statistics,
        streams,
        missed: [core.missed(), access.missed()],
        dropped: node.drops.iter().map(|drop| drop.packets).sum(),
        unreadable: ends.iter().map(|end| end.receiver.damaged() + end.receiver.foreign()).sum(),
        wrong_tunnel: counts.wrong_tunnel,
        end_markers: counts.end_markers,
        left,
    })
}

/// The generator at both ports of the node.
struct Traffic<'a> {
    ends: [End; 2],
    pool: Pool,
    running: &'a Running,
    counts: Counts,
}

impl Traffic<'_> {
    /// Sends packets for so long once all sessions are there, and lets the control plane go on
    /// when the last has arrived. Returns what the control plane has counted.
    fn under(&mut self, profile: &Profile, length: Duration) -> Result<Statistics, Failure> {
        let (is_loading, is_settled) = (AtomicBool::new(false), AtomicBool::new(false));
        let run = thread::scope(|scope| {
            let control = scope.spawn(|| {
                let settled = || is_settled.load(Ordering::Acquire);
                weft_smf::run(profile, settled, |control_plane, _| {
                    is_loading.fetch_or(control_plane.phase() == Phase::Loading, Ordering::AcqRel);
                })
            });
            while !is_loading.load(Ordering::Acquire) && !control.is_finished() {
                thread::sleep(LOOK_EVERY);
            }
            let sent = if control.is_finished() { Ok(()) } else { self.send(length) };
            is_settled.store(true, Ordering::Release);
            let run = control.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            sent.map(|()| run)
        })?;
        let run = run.map_err(|error| Failure::broken(format!("PFCP on loopback: {error}")))?;
        match run.failure() {
            Some(failure) => Err(Failure::broken(format!("the demo's control plane: {failure}"))),
            None => {
                let statistics = run.statistics().clone();
                self.wait_for_markers(statistics.of(Kind::Handover).answered);
                Ok(statistics)
            }
        }
    }

    fn send(&mut self, length: Duration) -> Result<(), Failure> {
        let start = Instant::now();
        while start.elapsed() < length {
            for _ in 0..TURNS {
                self.receive();
                self.ends.iter_mut().for_each(|end| end.send(&self.pool));
            }
            // Node and control plane may have no other core.
            thread::yield_now();
        }
        self.ends.iter_mut().for_each(End::finish);
        self.settle()
    }

    /// Waits until every packet has arrived or was counted as lost, or nothing happens any more.
    fn settle(&mut self) -> Result<(), Failure> {
        let sum = |ends: &[End; 2], what: fn(&End) -> u64| ends.iter().map(what).sum::<u64>();
        let sent = sum(&self.ends, End::sent);
        let (mut known, mut since) = (0, Instant::now());
        loop {
            thread::sleep(LOOK_EVERY);
            self.receive();
            let node = self.running.handle().ask(|agent| agent.snapshot());
            let node = node.map_err(Failure::broken)?;
            let lost: u64 = node.drops.iter().map(|drop| drop.packets).sum();
            let arrived = self.ends.iter().map(|end| end.receiver.streams()[0].received);
            let now_known = arrived.sum::<u64>() + lost + sum(&self.ends, End::missed);
            if now_known != known {
                (known, since) = (now_known, Instant::now());
            }
            if known >= sent || since.elapsed() > PATIENCE {
                return Ok(());
            }
        }
    }

    /// Those of the last handovers came behind the last packet.
    fn wait_for_markers(&mut self, handovers: u64) {
        let start = Instant::now();
        self.receive();
        while self.counts.end_markers < handovers && start.elapsed() < PATIENCE {
            thread::sleep(LOOK_EVERY);
            self.receive();
        }
    }

    fn receive(&mut self) {
        let Traffic { ends: [access, core], counts, .. } = self;
        access.receive_and(|frame| counts.see(frame));
        core.receive();
    }
}

/// What base stations have got.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// TEID of the first user.
    first_teid: u32,
    wrong_tunnel: u64,
    end_markers: u64,
}

impl Counts {
    /// Takes a frame that came to a base station.
    fn see(&mut self, frame: &[u8]) {
        match arrived(frame) {
            Some((MessageType::END_MARKER, ..)) => self.end_markers += 1,
            Some((MessageType::G_PDU, teid, Some(nth))) if teid == self.first_teid + nth => {}
            _ => self.wrong_tunnel += 1,
        }
    }
}

/// What a frame to a base station is: its message type, its TEID, and the number of the user that
/// its packet is for.
fn arrived(frame: &[u8]) -> Option<(MessageType, u32, Option<u32>)> {
    let frame = ethernet::Frame::new_checked(frame).ok()?;
    let outer = ipv4::Packet::new_checked(frame.payload()).ok()?;
    let datagram = udp::Datagram::new_checked(outer.payload()).ok()?;
    let message = gtpu::Message::new_checked(datagram.payload()).ok()?;
    let packet = datagram.payload().get(message.header_length()..);
    let packet = packet.and_then(|packet| ipv4::Packet::new_checked(packet).ok());
    // The stamp says whose packet it is, behind the UDP header.
    let user = packet.and_then(|packet| {
        Some(weft_traffic::Stamp::read(packet.payload().get(udp::HEADER_LENGTH..)?)?.flow)
    });
    Some((message.message_type(), message.teid().0, user))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_and_control_plane_fit_each_other() {
        let means = Means::read().unwrap();
        assert!(means.blueprint.warnings.0.is_empty(), "{}", means.blueprint.warnings);
        let sessions = &means.profile.sessions;
        assert_eq!(sessions.count, 1000);
        assert!(means.blueprint.limits.users >= sessions.count);
        let plan = means.blueprint.pfcp.as_ref().unwrap();
        assert_eq!(plan.listen, [means.profile.user_plane.ip()]);
        let [uplink, downlink] = means.plans().unwrap();
        assert_eq!(uplink.weights.len(), 1000);
        assert_eq!(downlink.template.sizes, Sizes::Fixed(FRAME_BYTES));
    }
}
