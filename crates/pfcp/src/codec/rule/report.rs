//! Reports (§7.5.5.2, §7.5.7.2, §7.5.8) and load (§7.5.3.3, §7.5.3.4).

use crate::codec::element::{
    Bits, DownlinkDataServiceInformation, FTeid, GracePeriod, Octets, PdrId, Seconds, Text, Time,
    UeIpAddress, UrrId, UsageInformation, UsageTrigger, VolumeMeasurement,
};
use crate::codec::group::group;
use crate::codec::ie::*;

group! {
    /// Usage Report, in whatever message (§7.5.5.2, §7.5.7.2, §7.5.8.3).
    UsageReport<'a> {
        /// Which URR measured.
        urr: must UrrId = URR_ID,
        /// Number of the report.
        sequence: must u32 = UR_SEQN,
        /// Why it is sent.
        trigger: must UsageTrigger = USAGE_REPORT_TRIGGER,
        /// Begin of the measurement.
        start: may Time = START_TIME,
        /// End of the measurement.
        end: may Time = END_TIME,
        /// Volume.
        volume: may VolumeMeasurement = VOLUME_MEASUREMENT,
        /// Time.
        duration: may Seconds = DURATION_MEASUREMENT,
        /// An application that began or ended.
        application: may ApplicationDetection<'a> = APPLICATION_DETECTION_INFORMATION,
        /// The user's address.
        ue_address: may UeIpAddress = UE_IP_ADDRESS,
        /// The address space.
        network_instance: may Text<'a> = NETWORK_INSTANCE,
        /// Time of the first packet.
        first_packet: may Time = TIME_OF_FIRST_PACKET,
        /// Time of the last packet.
        last_packet: may Time = TIME_OF_LAST_PACKET,
        /// Which of several reports at once it is.
        information: may UsageInformation = USAGE_INFORMATION,
        /// The query that it answers.
        query: may u32 = QUERY_URR_REFERENCE,
        /// Times of events.
        events: many Time = EVENT_TIME_STAMP,
    }
}

group! {
    /// Application Detection Information (§7.5.8.3).
    ApplicationDetection<'a> {
        /// Which application.
        application: must Text<'a> = APPLICATION_ID,
        /// Which instance of it.
        instance: may Text<'a> = APPLICATION_INSTANCE_ID,
        /// Its flows: direction and description, as they were sent.
        flow: may Octets<'a> = FLOW_INFORMATION,
    }
}

group! {
    /// Downlink Data Report (§7.5.8.2).
    DownlinkDataReport {
        /// PDRs that packets came by.
        pdrs: many PdrId = PDR_ID,
        /// What the first packet is like.
        information: many DownlinkDataServiceInformation = DOWNLINK_DATA_SERVICE_INFORMATION,
        /// Whether packets were buffered (bit 1) or dropped (bit 0).
        status: may Bits<2> = DATA_STATUS,
    }
}

group! {
    /// Error Indication Report (§7.5.8.4).
    ErrorIndicationReport {
        /// Far ends that do not know their tunnel.
        remote: many FTeid = F_TEID,
    }
}

group! {
    /// Load Control Information (§7.5.3.3).
    LoadControl {
        /// Grows with each change.
        sequence: must u32 = SEQUENCE_NUMBER,
        /// Load in percent.
        metric: must u8 = METRIC,
    }
}

group! {
    /// Overload Control Information (§7.5.3.4).
    OverloadControl {
        /// Grows with each change.
        sequence: must u32 = SEQUENCE_NUMBER,
        /// Part of the messages that should not be sent, in percent.
        metric: must u8 = METRIC,
        /// How long.
        validity: must GracePeriod = TIMER,
        /// 1 if new associations are meant, too.
        flags: may Bits<1> = OCI_FLAGS,
    }
}
