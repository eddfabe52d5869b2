//! QoS enforcement rules and buffering action rules.

use weft_functions::session::rules::{Bar, BarId, Extended, PacketRate, PerDirection, Qer, QerId};

use super::{Draft, Owner, rule_of_qer, unread};
use crate::codec::element::{
    self, Bits, DlFlowLevelMarking, GateStatus, QerControl, Rate, RateLimit, RuleId,
};
use crate::codec::ie::*;
use crate::codec::rule::{CreateBar, CreateQer, UpdateQer};
use crate::refusal::Refusal;

/// Milliseconds of a unit of Downlink Data Notification Delay (§8.2.28).
const DELAY_UNIT: u32 = 50;

impl Draft<'_> {
    /// Create QER.
    pub fn create_qer(&mut self, rule: &CreateQer) -> Result<(), Refusal> {
        let id = QerId(rule.id.0);
        if self.rules.qers.iter().any(|qer| qer.id == id) {
            return Err(Refusal::rule(rule_of_qer(id)));
        }
        let update = UpdateQer {
            id: rule.id,
            correlation: rule.correlation,
            gates: Some(rule.gates),
            mbr: rule.mbr,
            gbr: rule.gbr,
            packet_rate: rule.packet_rate,
            marking: rule.marking,
            qfi: rule.qfi,
            rqi: rule.rqi,
            ppi: rule.ppi,
            averaging_window: rule.averaging_window,
            control: rule.control,
            refused: rule.refused,
        };
        let mut qer = Qer {
            id,
            correlation: None,
            closed: PerDirection::default(),
            maximum: PerDirection::default(),
            guaranteed: PerDirection::default(),
            packets: PerDirection::default(),
            qfi: None,
            reflective: false,
            paging_policy: None,
            marking: None,
            service_class: None,
        };
        enforce(&mut qer, &update, self.node.owner)
            .map_err(|refusal| refusal.of(rule_of_qer(id)))?;
        self.rules.qers.push(qer);
        Ok(())
    }

    /// Update QER.
    pub fn update_qer(&mut self, rule: &UpdateQer) -> Result<(), Refusal> {
        let id = QerId(rule.id.0);
        let owner = self.node.owner;
        let qer = self.rules.qers.iter_mut().find(|qer| qer.id == id);
        let qer = qer.ok_or(Refusal::rule(rule_of_qer(id)))?;
        enforce(qer, rule, owner).map_err(|refusal| refusal.of(rule_of_qer(id)))
    }

    /// Remove QER. Rules that have it lose it.
    pub fn remove_qer(&mut self, id: element::QerId) -> Result<(), Refusal> {
        let id = QerId(id.0);
        let at = self.rules.qers.iter().position(|qer| qer.id == id);
        self.rules.qers.remove(at.ok_or(Refusal::rule(rule_of_qer(id)))?);
        self.rules.pdrs.iter_mut().for_each(|pdr| pdr.qers.retain(|qer| *qer != id));
        Ok(())
    }

    /// Create BAR.
    pub fn create_bar(&mut self, rule: &CreateBar) -> Result<(), Refusal> {
        unread(rule.refused)?;
        if !self.rules.bars.is_empty() {
            return Err(Refusal::rule(RuleId::Bar(rule.id)));
        }
        self.rules.bars.push(Bar { id: BarId(rule.id.0), delay: 0, packets: None, extended: None });
        self.update_bar(rule.id, rule.notification_delay, rule.packets)
    }

    /// Update BAR: delay in units of 50 ms.
    pub fn update_bar(
        &mut self,
        id: element::BarId,
        delay: Option<u8>,
        packets: Option<u8>,
    ) -> Result<(), Refusal> {
        let bar = self.rules.bars.iter_mut().find(|bar| bar.id.0 == id.0);
        let bar = bar.ok_or(Refusal::rule(RuleId::Bar(id)))?;
        bar.delay = delay.map_or(bar.delay, |units| u32::from(units) * DELAY_UNIT);
        bar.packets = packets.map(u16::from).or(bar.packets);
        Ok(())
    }

    /// Extended buffering begins or ends (§8.2.29).
    pub fn extend_buffering(&mut self, extended: Option<Extended>) {
        self.rules.bars.iter_mut().for_each(|bar| bar.extended = extended);
    }

    /// Remove BAR. Rules that have it lose it.
    pub fn remove_bar(&mut self, id: element::BarId) -> Result<(), Refusal> {
        let at = self.rules.bars.iter().position(|bar| bar.id.0 == id.0);
        self.rules.bars.remove(at.ok_or(Refusal::rule(RuleId::Bar(id)))?);
        for far in self.rules.fars.iter_mut().filter(|far| far.bar == Some(BarId(id.0))) {
            far.bar = None;
        }
        Ok(())
    }
}

/// What the elements say; the rest of the rule stays. Correlation IDs are those of the control
/// plane `owner`.
fn enforce(qer: &mut Qer, rule: &UpdateQer, owner: Owner<'_>) -> Result<(), Refusal> {
    unread(rule.refused)?;
    if let Some(correlation) = rule.correlation {
        qer.correlation = Some(u64::from(owner.number()) << 32 | u64::from(correlation));
    }
    if let Some(DlFlowLevelMarking { traffic_class, service_class }) = rule.marking {
        let dscp = |(value, mask): (u8, u8)| (value & mask) >> 2;
        qer.marking = traffic_class.map(dscp);
        // The second octet is spare (TS 29.281 §5.2.2.3).
        qer.service_class = service_class.map(|octets| (octets >> 8) as u8);
    }
    if rule.control.is_some_and(|control| !control.without(QerControl(0)).is_empty()) {
        return Err(Refusal::unsupported(QER_CONTROL_INDICATIONS));
    }
    if rule.qfi.is_some_and(|qfi| qfi == Bits(0)) && rule.rqi.is_some_and(|rqi| rqi == Bits(1)) {
        // A reflected packet carries its QoS flow (TS 23.501 §5.7.5.3).
        return Err(Refusal::incorrect(QFI));
    }
    if let Some(GateStatus { uplink_closed, downlink_closed }) = rule.gates {
        qer.closed = PerDirection { uplink: uplink_closed, downlink: downlink_closed };
    }
    if let Some(rate) = rule.mbr {
        qer.maximum = rates(rate);
    }
    if let Some(rate) = rule.gbr {
        qer.guaranteed = rates(rate);
    }
    if let Some(rate) = rule.packet_rate {
        let limit = |limit: RateLimit| PacketRate {
            packets: limit.packets,
            seconds: u32::try_from(limit.seconds()).unwrap_or(u32::MAX),
        };
        qer.packets =
            PerDirection { uplink: rate.uplink.map(limit), downlink: rate.downlink.map(limit) };
    }
    qer.qfi = rule.qfi.map(|qfi| qfi.0).or(qer.qfi);
    qer.reflective = rule.rqi.map_or(qer.reflective, |rqi| rqi.0 == 1);
    qer.paging_policy = rule.ppi.map(|ppi| ppi.0).or(qer.paging_policy);
    Ok(())
}

fn rates(rate: Rate) -> PerDirection<Option<u64>> {
    PerDirection { uplink: Some(rate.uplink), downlink: Some(rate.downlink) }
}
