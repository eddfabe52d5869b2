//! QERs and BARs (§7.5.2.5, §7.5.2.6, §7.5.4.5, §7.5.4.11, §7.5.9.2).

use crate::codec::element::{
    BarId, Bits, DlFlowLevelMarking, GateStatus, GracePeriod, PacketCount, PacketRate, QerControl,
    QerId, Rate,
};
use crate::codec::group::group;
use crate::codec::ie::*;

group! {
    /// Create QER (§7.5.2.5).
    CreateQer {
        /// Its number.
        id: must QerId = QER_ID,
        /// QERs of several sessions with the same number share their rates.
        correlation: may u32 = QER_CORRELATION_ID,
        /// Whether packets may pass.
        gates: must GateStatus = GATE_STATUS,
        /// Rate that packets are held to.
        mbr: may Rate = MBR,
        /// Rate that is guaranteed.
        gbr: may Rate = GBR,
        /// Packets in a time.
        packet_rate: may PacketRate = PACKET_RATE,
        /// Marking of downlink packets.
        marking: may DlFlowLevelMarking = DL_FLOW_LEVEL_MARKING,
        /// QoS flow that packets are marked with.
        qfi: may Bits<6> = QFI,
        /// Reflective QoS: 1 if packets are marked so.
        rqi: may Bits<1> = RQI,
        /// Paging policy indicator.
        ppi: may Bits<3> = PAGING_POLICY_INDICATOR,
        /// Time over which the guaranteed rate is averaged, ms.
        averaging_window: may u32 = AVERAGING_WINDOW,
        /// How packet rates are controlled.
        control: may QerControl = QER_CONTROL_INDICATIONS,
    } refuse PACKET_RATE_STATUS
}

group! {
    /// Update QER (§7.5.4.5). What is absent stays.
    UpdateQer {
        /// Its number.
        id: must QerId = QER_ID,
        /// QERs of several sessions with the same number share their rates.
        correlation: may u32 = QER_CORRELATION_ID,
        /// Whether packets may pass.
        gates: may GateStatus = GATE_STATUS,
        /// Rate that packets are held to.
        mbr: may Rate = MBR,
        /// Rate that is guaranteed.
        gbr: may Rate = GBR,
        /// Packets in a time.
        packet_rate: may PacketRate = PACKET_RATE,
        /// Marking of downlink packets.
        marking: may DlFlowLevelMarking = DL_FLOW_LEVEL_MARKING,
        /// QoS flow that packets are marked with.
        qfi: may Bits<6> = QFI,
        /// Reflective QoS: 1 if packets are marked so.
        rqi: may Bits<1> = RQI,
        /// Paging policy indicator.
        ppi: may Bits<3> = PAGING_POLICY_INDICATOR,
        /// Time over which the guaranteed rate is averaged, ms.
        averaging_window: may u32 = AVERAGING_WINDOW,
        /// How packet rates are controlled.
        control: may QerControl = QER_CONTROL_INDICATIONS,
    }
}

group! {
    /// Remove QER (§7.5.4.9).
    RemoveQer {
        /// Its number.
        id: must QerId = QER_ID,
    }
}

group! {
    /// Create BAR (§7.5.2.6).
    CreateBar {
        /// Its number.
        id: must BarId = BAR_ID,
        /// How long the user plane waits before it notifies: units of 50 ms.
        notification_delay: may u8 = DOWNLINK_DATA_NOTIFICATION_DELAY,
        /// How many packets the user plane should buffer.
        packets: may u8 = SUGGESTED_BUFFERING_PACKETS_COUNT,
    } refuse MT_EDT_CONTROL_INFORMATION
}

group! {
    /// Update BAR in a Session Modification Request (§7.5.4.11).
    UpdateBar {
        /// Its number.
        id: must BarId = BAR_ID,
        /// How long the user plane waits before it notifies: units of 50 ms.
        notification_delay: may u8 = DOWNLINK_DATA_NOTIFICATION_DELAY,
        /// How many packets the user plane should buffer.
        packets: may u8 = SUGGESTED_BUFFERING_PACKETS_COUNT,
    } refuse MT_EDT_CONTROL_INFORMATION
}

group! {
    /// Update BAR in a Session Report Response (§7.5.9.2).
    UpdateBarInReport {
        /// Its number.
        id: must BarId = BAR_ID,
        /// How long the user plane waits before it notifies: units of 50 ms.
        notification_delay: may u8 = DOWNLINK_DATA_NOTIFICATION_DELAY,
        /// How long packets are buffered without another report.
        buffering_duration: may GracePeriod = DL_BUFFERING_DURATION,
        /// How many packets are buffered in that time.
        buffering_packets: may PacketCount = DL_BUFFERING_SUGGESTED_PACKET_COUNT,
        /// How many packets the user plane should buffer.
        packets: may u8 = SUGGESTED_BUFFERING_PACKETS_COUNT,
    }
}

group! {
    /// Remove BAR (§7.5.4.12).
    RemoveBar {
        /// Its number.
        id: must BarId = BAR_ID,
    }
}
