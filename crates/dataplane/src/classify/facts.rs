//! What rules ask of a packet.

use std::net::IpAddr;

use weft_function::{Headers, Metadata, Packet, PacketMetadata, Tunnel};
use weft_rules::{Facts, Field, FieldValue};

/// A packet that was parsed, as the rules see it.
#[derive(Clone, Copy, Debug)]
pub struct PacketFacts<'a>(pub &'a Packet);

impl Facts for PacketFacts<'_> {
    #[inline]
    fn tag(&self, slot: u8) -> u32 {
        self.0.metadata().tags.get(usize::from(slot)).copied().unwrap_or(0)
    }

    #[inline]
    fn field(&self, field: Field) -> Option<FieldValue> {
        let packet = self.0;
        let address = |address| match address {
            IpAddr::V4(address) => FieldValue::V4(address),
            IpAddr::V6(address) => FieldValue::V6(address),
        };
        let number = |number| FieldValue::Number(u32::from(number));
        match field {
            Field::Source => packet.addresses().map(|(source, _)| address(source)),
            Field::Destination => packet.addresses().map(|(_, to)| address(to)),
            Field::Protocol => packet.protocol().map(|protocol| number(protocol.0.into())),
            Field::SourcePort => packet.ports().map(|(source, _)| number(source)),
            Field::DestinationPort => packet.ports().map(|(_, to)| number(to)),
            Field::Dscp => packet.dscp().map(|dscp| number(dscp.value().into())),
            Field::Vlan => match packet.metadata().vlan {
                PacketMetadata::NO_VLAN => None,
                vlan => Some(number(vlan)),
            },
            Field::Qfi => {
                let session = packet.message()?.pdu_session().ok()??;
                Some(number(session.qfi().value().into()))
            }
            Field::Port => Some(number(packet.metadata().port)),
        }
    }
}
