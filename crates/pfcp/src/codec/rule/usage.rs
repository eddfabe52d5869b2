//! URRs (§7.5.2.4, §7.5.4.4).

use crate::codec::element::{
    DroppedDownlink, FarId, MeasurementInformation, MeasurementMethod, ReportingTriggers,
    SdfFilter, Seconds, Text, Time, UrrId, Volume,
};
use crate::codec::group::group;
use crate::codec::ie::*;

group! {
    /// Create URR (§7.5.2.4).
    CreateUrr<'a> {
        /// Its number.
        id: must UrrId = URR_ID,
        /// What it measures.
        method: must MeasurementMethod = MEASUREMENT_METHOD,
        /// When it reports.
        triggers: must ReportingTriggers = REPORTING_TRIGGERS,
        /// Time between periodic reports.
        period: may Seconds = MEASUREMENT_PERIOD,
        /// Volume after which it reports.
        volume_threshold: may Volume = VOLUME_THRESHOLD,
        /// Volume that may pass.
        volume_quota: may Volume = VOLUME_QUOTA,
        /// Events after which it reports.
        event_threshold: may u32 = EVENT_THRESHOLD,
        /// Events that may pass.
        event_quota: may u32 = EVENT_QUOTA,
        /// Time after which it reports.
        time_threshold: may Seconds = TIME_THRESHOLD,
        /// Time in which packets may pass.
        time_quota: may Seconds = TIME_QUOTA,
        /// Time without packets after which the quota ends.
        quota_holding_time: may Seconds = QUOTA_HOLDING_TIME,
        /// Dropped downlink traffic after which it reports.
        dropped_downlink: may DroppedDownlink = DROPPED_DL_TRAFFIC_THRESHOLD,
        /// How long the quota holds.
        quota_validity: may Seconds = QUOTA_VALIDITY_TIME,
        /// When the subsequent values come into force.
        monitoring_time: may Time = MONITORING_TIME,
        /// Threshold from the monitoring time on.
        subsequent_volume_threshold: may Volume = SUBSEQUENT_VOLUME_THRESHOLD,
        /// Threshold from the monitoring time on.
        subsequent_time_threshold: may Seconds = SUBSEQUENT_TIME_THRESHOLD,
        /// Quota from the monitoring time on.
        subsequent_volume_quota: may Volume = SUBSEQUENT_VOLUME_QUOTA,
        /// Quota from the monitoring time on.
        subsequent_time_quota: may Seconds = SUBSEQUENT_TIME_QUOTA,
        /// Threshold from the monitoring time on.
        subsequent_event_threshold: may u32 = SUBSEQUENT_EVENT_THRESHOLD,
        /// Quota from the monitoring time on.
        subsequent_event_quota: may u32 = SUBSEQUENT_EVENT_QUOTA,
        /// Time without packets after which time is not counted.
        inactivity_detection: may Seconds = INACTIVITY_DETECTION_TIME,
        /// Other URRs whose report makes this one report.
        linked: many UrrId = LINKED_URR_ID,
        /// How it measures.
        information: may MeasurementInformation = MEASUREMENT_INFORMATION,
        /// The FAR of packets beyond the quota.
        quota_action: may FarId = FAR_ID,
        /// Further monitoring times.
        additional_monitoring: many AdditionalMonitoringTime = ADDITIONAL_MONITORING_TIME,
        /// How many reports it sends.
        reports: may u16 = NUMBER_OF_REPORTS,
        /// Time without packets after which it reports.
        inactivity_timer: may Seconds = USER_PLANE_INACTIVITY_TIMER,
        /// Applications that go on when the quota is used up.
        exempted_applications: many Text<'a> = APPLICATION_ID,
        /// Packets that go on when the quota is used up.
        exempted_filters: many SdfFilter<'a> = SDF_FILTER,
    } refuse TIME_QUOTA_MECHANISM, AGGREGATED_URRS, ETHERNET_INACTIVITY_TIMER
}

group! {
    /// Update URR (§7.5.4.4). What is absent stays.
    UpdateUrr<'a> {
        /// Its number.
        id: must UrrId = URR_ID,
        /// What it measures.
        method: may MeasurementMethod = MEASUREMENT_METHOD,
        /// When it reports.
        triggers: may ReportingTriggers = REPORTING_TRIGGERS,
        /// Time between periodic reports.
        period: may Seconds = MEASUREMENT_PERIOD,
        /// Volume after which it reports.
        volume_threshold: may Volume = VOLUME_THRESHOLD,
        /// Volume that may pass.
        volume_quota: may Volume = VOLUME_QUOTA,
        /// Events after which it reports.
        event_threshold: may u32 = EVENT_THRESHOLD,
        /// Events that may pass.
        event_quota: may u32 = EVENT_QUOTA,
        /// Time after which it reports.
        time_threshold: may Seconds = TIME_THRESHOLD,
        /// Time in which packets may pass.
        time_quota: may Seconds = TIME_QUOTA,
        /// Time without packets after which the quota ends.
        quota_holding_time: may Seconds = QUOTA_HOLDING_TIME,
        /// Dropped downlink traffic after which it reports.
        dropped_downlink: may DroppedDownlink = DROPPED_DL_TRAFFIC_THRESHOLD,
        /// How long the quota holds.
        quota_validity: may Seconds = QUOTA_VALIDITY_TIME,
        /// When the subsequent values come into force.
        monitoring_time: may Time = MONITORING_TIME,
        /// Threshold from the monitoring time on.
        subsequent_volume_threshold: may Volume = SUBSEQUENT_VOLUME_THRESHOLD,
        /// Threshold from the monitoring time on.
        subsequent_time_threshold: may Seconds = SUBSEQUENT_TIME_THRESHOLD,
        /// Quota from the monitoring time on.
        subsequent_volume_quota: may Volume = SUBSEQUENT_VOLUME_QUOTA,
        /// Quota from the monitoring time on.
        subsequent_time_quota: may Seconds = SUBSEQUENT_TIME_QUOTA,
        /// Threshold from the monitoring time on.
        subsequent_event_threshold: may u32 = SUBSEQUENT_EVENT_THRESHOLD,
        /// Quota from the monitoring time on.
        subsequent_event_quota: may u32 = SUBSEQUENT_EVENT_QUOTA,
        /// Time without packets after which time is not counted.
        inactivity_detection: may Seconds = INACTIVITY_DETECTION_TIME,
        /// Other URRs whose report makes this one report.
        linked: many UrrId = LINKED_URR_ID,
        /// How it measures.
        information: may MeasurementInformation = MEASUREMENT_INFORMATION,
        /// The FAR of packets beyond the quota.
        quota_action: may FarId = FAR_ID,
        /// Further monitoring times.
        additional_monitoring: many AdditionalMonitoringTime = ADDITIONAL_MONITORING_TIME,
        /// How many reports it sends.
        reports: may u16 = NUMBER_OF_REPORTS,
        /// Time without packets after which it reports.
        inactivity_timer: may Seconds = USER_PLANE_INACTIVITY_TIMER,
        /// Applications that go on when the quota is used up.
        exempted_applications: many Text<'a> = APPLICATION_ID,
        /// Packets that go on when the quota is used up.
        exempted_filters: many SdfFilter<'a> = SDF_FILTER,
    } refuse TIME_QUOTA_MECHANISM, AGGREGATED_URRS, ETHERNET_INACTIVITY_TIMER
}

group! {
    /// Additional Monitoring Time (§7.5.2.4).
    AdditionalMonitoringTime {
        /// When these values come into force.
        time: must Time = MONITORING_TIME,
        /// Threshold from then on.
        volume_threshold: may Volume = SUBSEQUENT_VOLUME_THRESHOLD,
        /// Threshold from then on.
        time_threshold: may Seconds = SUBSEQUENT_TIME_THRESHOLD,
        /// Quota from then on.
        volume_quota: may Volume = SUBSEQUENT_VOLUME_QUOTA,
        /// Quota from then on.
        time_quota: may Seconds = SUBSEQUENT_TIME_QUOTA,
        /// Threshold from then on.
        event_threshold: may u32 = SUBSEQUENT_EVENT_THRESHOLD,
        /// Quota from then on.
        event_quota: may u32 = SUBSEQUENT_EVENT_QUOTA,
    }
}

group! {
    /// Remove URR (§7.5.4.8).
    RemoveUrr {
        /// Its number.
        id: must UrrId = URR_ID,
    }
}

group! {
    /// Query URR (§7.5.4.10).
    QueryUrr {
        /// Its number.
        id: must UrrId = URR_ID,
    }
}
