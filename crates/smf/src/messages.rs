//! What goes over the wire: requests from the rules of a profile, and what is read of answers
//! and of the user plane's requests.

use std::net::IpAddr;

use weft_pfcp::codec::element::{self, MeasurementInformation};
use weft_pfcp::codec::element::{
    ApplyAction, Bits, CpFeatures, FSeid, FTeid, FarId, GateStatus, GivenFTeid, MeasurementMethod,
    ModificationFlags, NodeId, OuterHeaderCreation, OuterHeaderRemoval, PdnType, PdrId, QerId,
    Rate, ReportType, ReportingTriggers, SdfFilter, Seconds, Text, Time, UeIpAddress, UrrId,
    Volume,
};
use weft_pfcp::codec::message::{
    AssociationReleaseRequest, AssociationReleaseResponse, AssociationSetupRequest,
    AssociationSetupResponse, AssociationUpdateResponse, Heartbeat, NodeReportResponse,
    SessionDeletionRequest, SessionEstablishmentRequest, SessionModificationRequest,
    SessionReportResponse, SessionSetDeletionResponse,
};
use weft_pfcp::codec::rule::{
    CreateFar, CreatePdr, CreateQer, CreateUrr, ForwardingParameters, Pdi, QueryUrr, UpdateFar,
    UpdateForwardingParameters, UsageReport,
};
use weft_pfcp::codec::{Cause, Header, Message, frames};

use crate::Kind;
use crate::profile::{Directions, Far, Interface, Pdr, Profile, Qer, Tunnels, Urr, nth_prefix};
use crate::sessions::{Sessions, Tunnel};

/// What a Session Report Request reports (TS 29.244 §8.2.21).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Packets wait.
    pub downlink_data: bool,
    /// Usage.
    pub usage: bool,
}

/// One usage report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Of which URR.
    pub urr: u32,
    /// Its number (UR-SEQN).
    pub number: u32,
    /// Octets uplink, downlink and in total.
    pub octets: [u64; 3],
    /// Packets, as far as the user plane counts them (MNOP).
    pub packets: [u64; 3],
}

/// What the control plane needs of a message.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// Its type (§7.3).
    pub message: u8,
    /// Whether it is a request of the user plane.
    pub is_request: bool,
    /// The SEID of its header; 0 without one.
    pub seid: u64,
    /// Its sequence number.
    pub sequence: u32,
    /// The cause of an answer.
    pub cause: Option<u8>,
    /// The user plane's Recovery Time Stamp.
    pub recovery: Option<u32>,
    /// The user plane's SEID.
    pub up_seid: Option<u64>,
    /// F-TEIDs that the user plane has chosen, by PDR.
    pub created: Vec<(u16, Tunnel)>,
    /// Usage.
    pub usage: Vec<Usage>,
    /// What is reported, if it is a session report.
    pub report: Option<Report>,
}

/// Messages of one control plane.
pub struct Messages {
    profile: Profile,
    node: NodeId<'static>,
    recovery: Time,
    /// Network instances as octets, by the index of PDR and FAR.
    instances: [Vec<Option<Vec<u8>>>; 2],
}

impl Messages {
    /// Messages for the rules of this profile.
    pub fn new(profile: &Profile, recovery: u32) -> Messages {
        let octets = |name: &Option<String>| name.as_deref().map(Text::labels_of);
        let pdrs = profile.rules.pdrs.iter().map(|pdr| octets(&pdr.instance)).collect();
        let fars = profile.rules.fars.iter().map(|far| octets(&far.instance)).collect();
        Messages {
            node: NodeId::Address(profile.local.ip()),
            recovery: Time(recovery),
            instances: [pdrs, fars],
            profile: profile.clone(),
        }
    }

    /// Appends a request.
    pub fn request(
        &self,
        kind: Kind,
        sequence: u32,
        session: u32,
        sessions: &Sessions,
        out: &mut Vec<u8>,
    ) {
        let of_node = Header { sequence, ..Header::default() };
        let remote = sessions.get(session).remote;
        let of_session = Header { seid: Some(remote), ..of_node };
        let (node, recovery) = (self.node, self.recovery);
        match kind {
            Kind::Associate => Message::AssociationSetupRequest(AssociationSetupRequest {
                node,
                recovery,
                cp_features: Some(CpFeatures::default()),
                ..Default::default()
            })
            .emit(&of_node, out),
            Kind::Release => Message::AssociationReleaseRequest(AssociationReleaseRequest {
                node,
                ..Default::default()
            })
            .emit(&of_node, out),
            Kind::Heartbeat => {
                Message::HeartbeatRequest(Heartbeat { recovery, ..Default::default() })
                    .emit(&of_node, out);
            }
            Kind::Establish => {
                let header = Header { seid: Some(0), ..of_node };
                Message::SessionEstablishmentRequest(self.establishment(session, sessions))
                    .emit(&header, out);
            }
            Kind::Delete => Message::SessionDeletionRequest(SessionDeletionRequest::default())
                .emit(&of_session, out),
            _ => Message::SessionModificationRequest(self.modification(kind, session, sessions))
                .emit(&of_session, out),
        }
    }

    fn establishment(&self, session: u32, sessions: &Sessions) -> SessionEstablishmentRequest<'_> {
        let rules = &self.profile.rules;
        let plan = &self.profile.sessions;
        let pdn_type = match (plan.ipv4.is_some(), plan.ipv6.is_some()) {
            (true, true) => PdnType::IPV4V6,
            (false, true) => PdnType::IPV6,
            _ => PdnType::IPV4,
        };
        let pdrs = rules.pdrs.iter().zip(&self.instances[0]);
        let fars = rules.fars.iter().zip(&self.instances[1]);
        SessionEstablishmentRequest {
            node: self.node,
            fseid: FSeid::at(sessions.seid(session), self.profile.local.ip()),
            pdrs: pdrs.map(|(pdr, name)| self.pdr(pdr, name, session, sessions)).collect(),
            fars: fars.map(|(far, name)| self.far(far, name, session, sessions)).collect(),
            urrs: rules.urrs.iter().map(create_urr).collect(),
            qers: rules.qers.iter().map(create_qer).collect(),
            pdn_type: Some(pdn_type),
            ..Default::default()
        }
    }

    fn pdr<'a>(
        &'a self,
        pdr: &'a Pdr,
        instance: &'a Option<Vec<u8>>,
        session: u32,
        sessions: &Sessions,
    ) -> CreatePdr<'a> {
        let is_ipv4 = self.profile.sessions.tunnels.is_ipv4();
        let fteid = pdr.tunnel.map(|nth| match self.profile.sessions.tunnels {
            Tunnels::Choose { ipv4 } => FTeid::Choose { ipv4, ipv6: !ipv4, id: None },
            Tunnels::Given { .. } => FTeid::Given(given(sessions.tunnels(session)[nth as usize])),
        });
        let removal = match is_ipv4 {
            true => OuterHeaderRemoval::GTPU_IPV4,
            false => OuterHeaderRemoval::GTPU_IPV6,
        };
        let description = |text: &'a String| Some(Text(text.as_bytes()));
        let filter = |text| SdfFilter { description: description(text), ..SdfFilter::default() };
        CreatePdr {
            id: PdrId(pdr.id),
            precedence: pdr.precedence,
            pdi: Pdi {
                source: interface(pdr.source),
                fteid,
                network_instance: instance.as_deref().map(Text),
                ue_addresses: pdr.user.then(|| self.user(pdr, session)).into_iter().collect(),
                filters: pdr.filters.iter().map(filter).collect(),
                qfis: pdr.qfis.iter().copied().map(Bits).collect(),
                ..Default::default()
            },
            outer_header_removal: fteid
                .map(|_| OuterHeaderRemoval { description: removal, extensions: None }),
            far: Some(FarId(pdr.far)),
            urrs: pdr.urrs.iter().copied().map(UrrId).collect(),
            qers: pdr.qers.iter().copied().map(QerId).collect(),
            ..Default::default()
        }
    }

    fn user(&self, pdr: &Pdr, session: u32) -> UeIpAddress {
        let plan = &self.profile.sessions;
        let ipv6 = plan.ipv6.and_then(|(first, length)| nth_prefix(first, length, session));
        let length = plan.ipv6.map(|(_, length)| length).filter(|length| *length != 64);
        UeIpAddress {
            destination: pdr.source != Interface::Access,
            ipv4: plan.ipv4.map(|first| u32::from(first).wrapping_add(session).into()),
            ipv6,
            prefix_length: length,
            ..Default::default()
        }
    }

    fn far<'a>(
        &'a self,
        far: &Far,
        instance: &'a Option<Vec<u8>>,
        session: u32,
        sessions: &Sessions,
    ) -> CreateFar<'a> {
        let Some(destination) = far.destination else {
            return CreateFar {
                id: FarId(far.id),
                action: ApplyAction::DROP,
                ..Default::default()
            };
        };
        CreateFar {
            id: FarId(far.id),
            action: ApplyAction::FORW,
            forwarding: Some(ForwardingParameters {
                destination: interface(destination),
                network_instance: instance.as_deref().map(Text),
                outer_header: far.tunnel.then(|| self.station(session, sessions)),
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    /// The tunnel to the station that a session is at.
    fn station(&self, session: u32, sessions: &Sessions) -> OuterHeaderCreation {
        let plan = &self.profile.sessions;
        let nth = usize::from(sessions.get(session).station);
        // A profile whose FARs have tunnels has stations.
        let address = plan.stations.get(nth).copied().unwrap_or(IpAddr::from([0; 4]));
        OuterHeaderCreation::gtpu(plan.station_teid + session, address)
    }

    fn modification(
        &self,
        kind: Kind,
        session: u32,
        sessions: &Sessions,
    ) -> SessionModificationRequest<'_> {
        let rules = &self.profile.rules;
        if kind == Kind::Query {
            let query = |urr: &Urr| QueryUrr { id: UrrId(urr.id), ..Default::default() };
            let queries = rules.urrs.iter().map(query).collect();
            return SessionModificationRequest { queries, ..Default::default() };
        }
        let update = |far: &Far| {
            let outer_header = element::Change::Set(self.station(session, sessions));
            let forwarding = UpdateForwardingParameters {
                outer_header: Some(outer_header),
                flags: (kind == Kind::Handover).then_some(ModificationFlags::SNDEM),
                ..Default::default()
            };
            UpdateFar {
                id: FarId(far.id),
                action: Some(match kind {
                    Kind::Idle => ApplyAction::BUFF | ApplyAction::NOCP,
                    _ => ApplyAction::FORW,
                }),
                forwarding: (kind != Kind::Idle).then_some(forwarding),
                ..Default::default()
            }
        };
        let update_fars = rules.fars.iter().filter(|far| far.tunnel).map(update).collect();
        SessionModificationRequest { update_fars, ..Default::default() }
    }

    /// Appends the answer to a request of the user plane: `remote` is its SEID of the session
    /// that a report is about, if there is one. False if the request has no answer.
    pub fn answer(&self, request: &Received, remote: Option<u64>, out: &mut Vec<u8>) -> bool {
        let sequence = request.sequence;
        let header = Header { sequence, ..Header::default() };
        let (node, recovery, cause) = (self.node, self.recovery, Cause::ACCEPTED);
        let message = match request.message {
            1 => Message::HeartbeatResponse(Heartbeat { recovery, ..Default::default() }),
            5 => Message::AssociationSetupResponse(AssociationSetupResponse {
                node,
                cause,
                recovery,
                ..Default::default()
            }),
            7 => Message::AssociationUpdateResponse(AssociationUpdateResponse {
                node,
                cause,
                ..Default::default()
            }),
            9 => Message::AssociationReleaseResponse(AssociationReleaseResponse {
                node,
                cause,
                ..Default::default()
            }),
            12 => Message::NodeReportResponse(NodeReportResponse {
                node,
                cause,
                ..Default::default()
            }),
            14 => Message::SessionSetDeletionResponse(SessionSetDeletionResponse {
                node,
                cause,
                ..Default::default()
            }),
            56 => {
                let header = Header { seid: Some(remote.unwrap_or(0)), ..header };
                let cause = remote.map_or(Cause::SESSION_NOT_FOUND, |_| Cause::ACCEPTED);
                let response = SessionReportResponse { cause, ..Default::default() };
                Message::SessionReportResponse(response).emit(&header, out);
                return true;
            }
            _ => return false,
        };
        message.emit(&header, out);
        true
    }

    /// What a datagram says, if it is a message that a control plane gets.
    pub fn read(datagram: &[u8]) -> Option<Received> {
        let frame = frames(datagram).next()?.ok()?;
        let message = Message::parse(&frame).ok()?;
        let mut received = Received {
            message: frame.message,
            is_request: message.message_type().is_request(),
            seid: frame.header.seid.unwrap_or(0),
            sequence: frame.header.sequence,
            ..Received::default()
        };
        match message {
            Message::HeartbeatRequest(heartbeat) | Message::HeartbeatResponse(heartbeat) => {
                received.recovery = Some(heartbeat.recovery.0);
            }
            Message::AssociationSetupResponse(answer) => {
                received.cause = Some(answer.cause.0);
                received.recovery = Some(answer.recovery.0);
            }
            Message::AssociationReleaseResponse(answer) => received.cause = Some(answer.cause.0),
            Message::SessionEstablishmentResponse(answer) => {
                received.cause = Some(answer.cause.0);
                received.up_seid = answer.fseid.map(|fseid| fseid.seid);
                let tunnels = answer.created.iter().filter_map(|created| match created.fteid {
                    Some(FTeid::Given(fteid)) => Some((created.id.0, chosen(fteid)?)),
                    _ => None,
                });
                received.created = tunnels.collect();
            }
            Message::SessionModificationResponse(answer) => {
                received.cause = Some(answer.cause.0);
                received.usage = answer.reports.iter().map(usage).collect();
            }
            Message::SessionDeletionResponse(answer) => {
                received.cause = Some(answer.cause.0);
                received.usage = answer.reports.iter().map(usage).collect();
            }
            Message::SessionReportRequest(request) => {
                received.usage = request.usage.iter().map(usage).collect();
                received.report = Some(Report {
                    downlink_data: request.report.has(ReportType::DLDR),
                    usage: request.report.has(ReportType::USAR),
                });
            }
            // What else the user plane asks for is answered without a look at it.
            _ if received.is_request => {}
            _ => return None,
        }
        Some(received)
    }
}

fn usage(report: &UsageReport<'_>) -> Usage {
    let volume = report.volume.unwrap_or_default();
    let sums = |[uplink, downlink, total]: [Option<u64>; 3]| {
        let [up, down] = [uplink, downlink].map(Option::unwrap_or_default);
        [up, down, total.unwrap_or(up.saturating_add(down))]
    };
    Usage {
        urr: report.urr.0,
        number: report.sequence,
        octets: sums([volume.uplink, volume.downlink, volume.total]),
        packets: sums([volume.uplink_packets, volume.downlink_packets, volume.total_packets]),
    }
}

fn chosen(fteid: GivenFTeid) -> Option<Tunnel> {
    let address = fteid.ipv4.map(IpAddr::from).or(fteid.ipv6.map(IpAddr::from))?;
    Some((fteid.teid, address))
}

/// The F-TEID that the control plane gives to a tunnel.
fn given(tunnel: Option<Tunnel>) -> GivenFTeid {
    // A profile that gives F-TEIDs has one for each tunnel.
    let (teid, address) = tunnel.unwrap_or((0, IpAddr::from([0; 4])));
    match address {
        IpAddr::V4(address) => GivenFTeid { teid, ipv4: Some(address), ipv6: None },
        IpAddr::V6(address) => GivenFTeid { teid, ipv4: None, ipv6: Some(address) },
    }
}

fn interface(interface: Interface) -> element::Interface {
    match interface {
        Interface::Access => element::Interface::ACCESS,
        Interface::Core => element::Interface::CORE,
        Interface::Sgi => element::Interface::SGI_LAN,
        Interface::ControlPlane => element::Interface::CP_FUNCTION,
    }
}

fn create_qer(qer: &Qer) -> CreateQer {
    let rate = |rates: Directions<u64>| Rate { uplink: rates.uplink, downlink: rates.downlink };
    CreateQer {
        id: QerId(qer.id),
        gates: GateStatus::default(),
        mbr: qer.mbr.map(rate),
        gbr: qer.gbr.map(rate),
        qfi: qer.qfi.map(Bits),
        ..Default::default()
    }
}

fn create_urr<'a>(urr: &Urr) -> CreateUrr<'a> {
    let set = |has: bool, flag| if has { flag } else { ReportingTriggers::default() };
    let threshold = |total| Volume { total: Some(total), ..Volume::default() };
    let triggers = set(urr.volume_threshold.is_some(), ReportingTriggers::VOLTH)
        | set(urr.time_threshold.is_some(), ReportingTriggers::TIMTH)
        | set(urr.period.is_some(), ReportingTriggers::PERIO);
    CreateUrr {
        id: UrrId(urr.id),
        method: MeasurementMethod::VOLUM | MeasurementMethod::DURAT,
        triggers,
        period: urr.period.map(Seconds),
        volume_threshold: urr.volume_threshold.map(threshold),
        time_threshold: urr.time_threshold.map(Seconds),
        information: Some(MeasurementInformation::MNOP),
        ..Default::default()
    }
}
