//! Session reports (§6.3.5, §7.5.8).

use std::net::IpAddr;

use weft_functions::session::rules::PdrId;
use weft_functions::session::usage::Usage;

use super::session::Record;
use super::{Sent, UserPlane};
use crate::codec::element::{
    self, DownlinkDataServiceInformation, FTeid, GivenFTeid, ReportResponseFlags, ReportType,
    Seconds, UsageInformation, UsageTrigger, VolumeMeasurement,
};
use crate::codec::message::{SessionReportRequest, SessionReportResponse};
use crate::codec::rule::{DownlinkDataReport, ErrorIndicationReport, UsageReport};
use crate::codec::{Cause, Message};
use crate::translate::usage_trigger;

const SECOND: u64 = 1_000_000_000;

impl UserPlane {
    /// What a rule has measured, as a report says it.
    pub(super) fn usage_report(
        &self,
        usage: &Usage,
        record: &Record,
        query: Option<u32>,
    ) -> UsageReport<'static> {
        let rule = record.rules.urrs.iter().find(|urr| urr.id == usage.urr);
        let counts_packets =
            record.extras.as_ref().is_some_and(|extras| extras.packets.contains(&usage.urr));
        let method = rule.map(|rule| rule.method);
        // A rule that has been removed has measured what its report has.
        let (volume, duration) =
            method.map_or((true, usage.duration > 0), |method| (method.volume, method.duration));
        let trigger = usage_trigger(usage.triggers);
        // Start and stop of traffic come without a measurement (§5.2.2.3.1).
        let only_event = trigger.without(UsageTrigger::START).is_empty();
        let volume = volume && !only_event;
        let packets = |count: u64| counts_packets.then_some(count);
        let information = usage.before_monitoring_time.then_some(UsageInformation::BEF);
        UsageReport {
            urr: element::UrrId(usage.urr.0),
            sequence: usage.sequence,
            trigger,
            start: (!only_event).then(|| self.ntp(usage.start)),
            end: (!only_event).then(|| self.ntp(usage.end)),
            volume: volume.then(|| VolumeMeasurement {
                total: Some(usage.volume.octets()),
                uplink: Some(usage.volume.uplink_octets),
                downlink: Some(usage.volume.downlink_octets),
                total_packets: packets(usage.volume.packets()),
                uplink_packets: packets(usage.volume.uplink_packets),
                downlink_packets: packets(usage.volume.downlink_packets),
            }),
            duration: (duration && !only_event)
                .then(|| Seconds(u32::try_from(usage.duration / SECOND).unwrap_or(u32::MAX))),
            first_packet: usage.first_packet.map(|time| self.ntp(time)),
            last_packet: usage.last_packet.map(|time| self.ntp(time)),
            information,
            query: query.filter(|_| trigger.has(UsageTrigger::IMMER)),
            ..UsageReport::default()
        }
    }

    pub(super) fn report_usage(&mut self, now: u64, seid: u64, usage: &[Usage]) {
        self.keep_reported(seid, usage);
        let Some(record) = self.sessions.get(&seid) else { return };
        let usage = usage.iter().map(|one| self.usage_report(one, record, None)).collect();
        let request = SessionReportRequest {
            report: ReportType::USAR,
            usage,
            ..SessionReportRequest::default()
        };
        self.report(now, seid, request);
    }

    pub(super) fn report_downlink_data(&mut self, now: u64, seid: u64, pdr: PdrId) {
        let Some(record) = self.sessions.get(&seid) else { return };
        let rule = record.rules.pdrs.iter().find(|rule| rule.id == pdr);
        let qers = rule.into_iter().flat_map(|rule| &rule.qers);
        let mut flows = qers.filter_map(|id| {
            record.rules.qers.iter().find(|qer| qer.id == *id).and_then(|qer| qer.qfi)
        });
        let information =
            flows.next().map(|qfi| DownlinkDataServiceInformation { dscp: None, qfi: Some(qfi) });
        let request = SessionReportRequest {
            report: ReportType::DLDR,
            downlink_data: Some(DownlinkDataReport {
                pdrs: vec![element::PdrId(pdr.0)],
                information: information.into_iter().collect(),
                ..DownlinkDataReport::default()
            }),
            ..SessionReportRequest::default()
        };
        self.report(now, seid, request);
    }

    pub(super) fn report_error_indication(&mut self, now: u64, seid: u64, teid: u32, peer: IpAddr) {
        let (ipv4, ipv6) = match peer {
            IpAddr::V4(address) => (Some(address), None),
            IpAddr::V6(address) => (None, Some(address)),
        };
        let remote = vec![FTeid::Given(GivenFTeid { teid, ipv4, ipv6 })];
        let request = SessionReportRequest {
            report: ReportType::ERIR,
            error_indication: Some(ErrorIndicationReport { remote, refused: None }),
            ..SessionReportRequest::default()
        };
        self.report(now, seid, request);
    }

    pub(super) fn report_inactivity(&mut self, now: u64, seid: u64) {
        let report = ReportType::UPIR;
        self.report(now, seid, SessionReportRequest { report, ..SessionReportRequest::default() });
    }

    fn report(&mut self, now: u64, seid: u64, request: SessionReportRequest<'_>) {
        let Some(record) = self.sessions.get(&seid) else { return };
        let (to, peer) = (record.cp_address, record.cp_seid);
        let counts = &mut self.counts;
        for (kind, count) in [
            (ReportType::USAR, &mut counts.usage_reports),
            (ReportType::DLDR, &mut counts.downlink_data_reports),
            (ReportType::ERIR, &mut counts.error_reports),
            (ReportType::UPIR, &mut counts.inactivity_reports),
        ] {
            *count += u64::from(request.report.has(kind));
        }
        let message = Message::SessionReportRequest(request);
        self.ask(now, to, Some(peer), &message, Sent::SessionReport { seid, kept: None });
    }

    /// A control plane has answered a report.
    pub(super) fn take_report_response(
        &mut self,
        now: u64,
        seid: u64,
        response: &SessionReportResponse<'_>,
    ) {
        if response.cause == Cause::SESSION_NOT_FOUND {
            // It is of no use to a control plane that does not know it (TS 23.527 §4.3).
            if self.sessions.contains_key(&seid) {
                self.releasing.push(seid);
            }
            return;
        }
        let drops = response.flags.is_some_and(|flags| flags.has(ReportResponseFlags::DROBU));
        if drops || response.update_bar.is_some() {
            self.change_buffering(now, seid, response.update_bar.as_ref(), drops);
        }
    }
}
