//! Usage reporting rules.

use weft_functions::session::rules::urr::{Method, Volumes};
use weft_functions::session::rules::{FarId, Trigger, Triggers, Urr, UrrId};

use super::{Draft, rule_of_urr, unread};
use crate::codec::element::{
    self, MeasurementInformation, MeasurementMethod, ReportingTriggers, UsageTrigger, Volume,
};
use crate::codec::ie::*;
use crate::codec::rule::{CreateUrr, UpdateUrr};
use crate::refusal::Refusal;

/// What leads to reports, in rules and in reports, and what it is here.
const TRIGGERS: [(Option<ReportingTriggers>, UsageTrigger, Trigger); 16] = [
    (Some(ReportingTriggers::PERIO), UsageTrigger::PERIO, Trigger::Periodic),
    (Some(ReportingTriggers::VOLTH), UsageTrigger::VOLTH, Trigger::VolumeThreshold),
    (Some(ReportingTriggers::TIMTH), UsageTrigger::TIMTH, Trigger::TimeThreshold),
    (Some(ReportingTriggers::QUHTI), UsageTrigger::QUHTI, Trigger::QuotaHoldingTime),
    (Some(ReportingTriggers::START), UsageTrigger::START, Trigger::StartOfTraffic),
    (Some(ReportingTriggers::STOPT), UsageTrigger::STOPT, Trigger::StopOfTraffic),
    (Some(ReportingTriggers::DROTH), UsageTrigger::DROTH, Trigger::DroppedDownlink),
    (Some(ReportingTriggers::LIUSA), UsageTrigger::LIUSA, Trigger::Linked),
    (Some(ReportingTriggers::VOLQU), UsageTrigger::VOLQU, Trigger::VolumeQuota),
    (Some(ReportingTriggers::TIMQU), UsageTrigger::TIMQU, Trigger::TimeQuota),
    (Some(ReportingTriggers::EVETH), UsageTrigger::EVETH, Trigger::EventThreshold),
    (Some(ReportingTriggers::EVEQU), UsageTrigger::EVEQU, Trigger::EventQuota),
    (Some(ReportingTriggers::QUVTI), UsageTrigger::QUVTI, Trigger::QuotaValidityTime),
    (None, UsageTrigger::IMMER, Trigger::Immediate),
    (None, UsageTrigger::MONIT, Trigger::MonitoringTime),
    (None, UsageTrigger::TERMR, Trigger::Termination),
];

/// What led to a report.
pub(crate) fn usage_trigger(triggers: Triggers) -> UsageTrigger {
    let led = TRIGGERS.iter().filter(|(_, _, here)| triggers.has(*here));
    led.fold(UsageTrigger::default(), |all, (_, trigger, _)| all | *trigger)
}

impl Draft<'_> {
    /// Create URR.
    pub fn create_urr(&mut self, rule: &CreateUrr<'_>) -> Result<(), Refusal> {
        let id = UrrId(rule.id.0);
        if self.rules.urrs.iter().any(|urr| urr.id == id) {
            return Err(Refusal::rule(rule_of_urr(id)));
        }
        let update = as_update(rule);
        let created = self.extras.creations;
        let mut urr = Urr { id, created, ..Urr::default() };
        measure(&mut urr, &update).map_err(|refusal| refusal.of(rule_of_urr(id)))?;
        urr.grant = 0;
        self.note_packets(id, rule.information);
        self.rules.urrs.push(urr);
        Ok(())
    }

    /// Update URR. Each one with a quota is a new grant.
    pub fn update_urr(&mut self, rule: &UpdateUrr<'_>) -> Result<(), Refusal> {
        let id = UrrId(rule.id.0);
        let urr = self.rules.urrs.iter_mut().find(|urr| urr.id == id);
        let urr = urr.ok_or(Refusal::rule(rule_of_urr(id)))?;
        measure(urr, rule).map_err(|refusal| refusal.of(rule_of_urr(id)))?;
        if rule.information.is_some() {
            self.note_packets(id, rule.information);
        }
        Ok(())
    }

    /// Remove URR. Rules that have it lose it.
    pub fn remove_urr(&mut self, id: element::UrrId) -> Result<(), Refusal> {
        let id = UrrId(id.0);
        let at = self.rules.urrs.iter().position(|urr| urr.id == id);
        self.rules.urrs.remove(at.ok_or(Refusal::rule(rule_of_urr(id)))?);
        self.rules.pdrs.iter_mut().for_each(|pdr| pdr.urrs.retain(|urr| *urr != id));
        self.rules.urrs.iter_mut().for_each(|urr| urr.linked.retain(|linked| *linked != id));
        self.extras.packets.retain(|urr| *urr != id);
        Ok(())
    }

    fn note_packets(&mut self, id: UrrId, information: Option<MeasurementInformation>) {
        self.extras.packets.retain(|urr| *urr != id);
        if information.is_some_and(|flags| flags.has(MeasurementInformation::MNOP)) {
            self.extras.packets.push(id);
        }
    }
}

/// A new rule as a change of an empty one.
fn as_update<'a>(rule: &CreateUrr<'a>) -> UpdateUrr<'a> {
    let rule = rule.clone();
    UpdateUrr {
        id: rule.id,
        method: Some(rule.method),
        triggers: Some(rule.triggers),
        period: rule.period,
        volume_threshold: rule.volume_threshold,
        volume_quota: rule.volume_quota,
        event_threshold: rule.event_threshold,
        event_quota: rule.event_quota,
        time_threshold: rule.time_threshold,
        time_quota: rule.time_quota,
        quota_holding_time: rule.quota_holding_time,
        dropped_downlink: rule.dropped_downlink,
        quota_validity: rule.quota_validity,
        monitoring_time: rule.monitoring_time,
        subsequent_volume_threshold: rule.subsequent_volume_threshold,
        subsequent_time_threshold: rule.subsequent_time_threshold,
        subsequent_volume_quota: rule.subsequent_volume_quota,
        subsequent_time_quota: rule.subsequent_time_quota,
        subsequent_event_threshold: rule.subsequent_event_threshold,
        subsequent_event_quota: rule.subsequent_event_quota,
        inactivity_detection: rule.inactivity_detection,
        linked: rule.linked,
        information: rule.information,
        quota_action: rule.quota_action,
        additional_monitoring: rule.additional_monitoring,
        reports: rule.reports,
        inactivity_timer: rule.inactivity_timer,
        exempted_applications: rule.exempted_applications,
        exempted_filters: rule.exempted_filters,
        refused: rule.refused,
    }
}

/// Refuses what is not measured here.
fn supported(rule: &UpdateUrr<'_>) -> Result<(), Refusal> {
    let unsupported = [
        (!rule.additional_monitoring.is_empty(), ADDITIONAL_MONITORING_TIME),
        (rule.reports.is_some(), NUMBER_OF_REPORTS),
        (rule.inactivity_timer.is_some(), USER_PLANE_INACTIVITY_TIMER),
        (!rule.exempted_applications.is_empty(), APPLICATION_ID),
        (!rule.exempted_filters.is_empty(), SDF_FILTER),
        (rule.subsequent_event_threshold.is_some(), SUBSEQUENT_EVENT_THRESHOLD),
        (rule.subsequent_event_quota.is_some(), SUBSEQUENT_EVENT_QUOTA),
    ];
    if let Some((_, element)) = unsupported.into_iter().find(|(there, _)| *there) {
        return Err(Refusal::unsupported(element));
    }
    Ok(())
}

/// What the elements say; the rest of the rule stays.
fn measure(urr: &mut Urr, rule: &UpdateUrr<'_>) -> Result<(), Refusal> {
    unread(rule.refused)?;
    supported(rule)?;
    if let Some(method) = rule.method {
        urr.method = Method {
            volume: method.has(MeasurementMethod::VOLUM),
            duration: method.has(MeasurementMethod::DURAT),
            event: method.has(MeasurementMethod::EVENT),
        };
    }
    if let Some(flags) = rule.triggers {
        urr.triggers = triggers(flags)?;
    }
    let seconds = |new: Option<element::Seconds>, old: Option<u32>| new.map(|one| one.0).or(old);
    urr.period = seconds(rule.period, urr.period);
    if urr.triggers.has(Trigger::Periodic) && urr.period.is_none_or(|period| period == 0) {
        return Err(Refusal::missing(MEASUREMENT_PERIOD));
    }
    let volumes = |new: Option<Volume>, old: Volumes| {
        new.map_or(old, |Volume { total, uplink, downlink }| Volumes { total, uplink, downlink })
    };
    urr.volume_threshold = volumes(rule.volume_threshold, urr.volume_threshold);
    urr.volume_quota = volumes(rule.volume_quota, urr.volume_quota);
    urr.time_threshold = seconds(rule.time_threshold, urr.time_threshold);
    urr.time_quota = seconds(rule.time_quota, urr.time_quota);
    urr.event_threshold = rule.event_threshold.or(urr.event_threshold);
    urr.event_quota = rule.event_quota.or(urr.event_quota);
    if rule.volume_quota.is_some() || rule.time_quota.is_some() || rule.event_quota.is_some() {
        urr.grant = urr.grant.wrapping_add(1);
    }
    urr.quota_holding = seconds(rule.quota_holding_time, urr.quota_holding);
    urr.quota_validity = seconds(rule.quota_validity, urr.quota_validity);
    urr.quota_action = rule.quota_action.map(|far| FarId(far.0)).or(urr.quota_action);
    if let Some(dropped) = rule.dropped_downlink {
        (urr.dropped_packets, urr.dropped_octets) = (dropped.packets, dropped.octets);
    }
    urr.inactivity = seconds(rule.inactivity_detection, urr.inactivity);
    urr.monitoring_time = rule.monitoring_time.map(element::Time::unix).or(urr.monitoring_time);
    urr.subsequent_volume_threshold =
        volumes(rule.subsequent_volume_threshold, urr.subsequent_volume_threshold);
    urr.subsequent_volume_quota =
        volumes(rule.subsequent_volume_quota, urr.subsequent_volume_quota);
    urr.subsequent_time_threshold =
        seconds(rule.subsequent_time_threshold, urr.subsequent_time_threshold);
    urr.subsequent_time_quota = seconds(rule.subsequent_time_quota, urr.subsequent_time_quota);
    if !rule.linked.is_empty() {
        urr.linked = rule.linked.iter().map(|linked| UrrId(linked.0)).collect();
    }
    rule.information.map_or(Ok(()), |flags| inform(urr, flags))
}

fn inform(urr: &mut Urr, flags: MeasurementInformation) -> Result<(), Refusal> {
    let unsupported = MeasurementInformation::SSPOC
        | MeasurementInformation::ASPOC
        | MeasurementInformation::CIAM;
    if flags.any(unsupported) {
        return Err(Refusal::unsupported(MEASUREMENT_INFORMATION));
    }
    urr.before_qos = flags.has(MeasurementInformation::MBQE);
    urr.paused = flags.has(MeasurementInformation::INAM);
    urr.immediate_start = flags.has(MeasurementInformation::ISTM);
    Ok(())
}

fn triggers(flags: ReportingTriggers) -> Result<Triggers, Refusal> {
    let mut rest = flags;
    let mut all = Triggers::NONE;
    for (flag, _, trigger) in TRIGGERS {
        if let Some(flag) = flag.filter(|flag| rest.has(*flag)) {
            rest = rest.without(flag);
            all = all.with(trigger);
        }
    }
    if rest.is_empty() { Ok(all) } else { Err(Refusal::unsupported(REPORTING_TRIGGERS)) }
}
