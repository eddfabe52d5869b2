//! What is told, and by which templates it is read. Numbers are those of IANA's registry of
//! IPFIX information elements.

use std::net::{IpAddr, Ipv4Addr};

use weft_function::FunctionEvent;

use crate::message::{Field, Record, Template, VARIABLE};

const OCTET_DELTA_COUNT: Field = (1, 8);
const PACKET_DELTA_COUNT: Field = (2, 8);
const SOURCE_IPV4_ADDRESS: Field = (8, 4);
const SOURCE_IPV6_ADDRESS: Field = (27, 16);
const SOURCE_IPV6_PREFIX_LENGTH: Field = (29, 1);
const METERING_PROCESS_ID: Field = (143, 4);
const EXPORTING_PROCESS_ID: Field = (144, 4);
const OBSERVATION_DOMAIN_ID: Field = (149, 4);
const FLOW_START_MILLISECONDS: Field = (152, 8);
const FLOW_END_MILLISECONDS: Field = (153, 8);
const NOT_SENT_FLOW_TOTAL_COUNT: Field = (165, 8);
const POST_NAT_SOURCE_IPV4_ADDRESS: Field = (225, 4);
const NAT_EVENT: Field = (230, 1);
const OBSERVATION_DOMAIN_NAME: Field = (300, VARIABLE);
const OBSERVATION_TIME_MILLISECONDS: Field = (323, 8);
const PORT_RANGE_START: Field = (361, 2);
const PORT_RANGE_END: Field = (362, 2);
const USER_NAME: Field = (371, VARIABLE);

/// What a user with an IPv4 address has used since the record before.
pub const USAGE_IPV4: Template = Template {
    id: 256,
    fields: &[
        FLOW_START_MILLISECONDS,
        FLOW_END_MILLISECONDS,
        PACKET_DELTA_COUNT,
        OCTET_DELTA_COUNT,
        METERING_PROCESS_ID,
        SOURCE_IPV4_ADDRESS,
        USER_NAME,
    ],
    scope: 0,
};

/// The same of a user with an IPv6 address or prefix.
pub const USAGE_IPV6: Template = Template {
    id: 257,
    fields: &[
        FLOW_START_MILLISECONDS,
        FLOW_END_MILLISECONDS,
        PACKET_DELTA_COUNT,
        OCTET_DELTA_COUNT,
        METERING_PROCESS_ID,
        SOURCE_IPV6_ADDRESS,
        SOURCE_IPV6_PREFIX_LENGTH,
        USER_NAME,
    ],
    scope: 0,
};

/// The same of a user that is known by something else: a TEID, a VLAN, a port.
pub const USAGE_NAME: Template = Template {
    id: 258,
    fields: &[
        FLOW_START_MILLISECONDS,
        FLOW_END_MILLISECONDS,
        PACKET_DELTA_COUNT,
        OCTET_DELTA_COUNT,
        METERING_PROCESS_ID,
        USER_NAME,
    ],
    scope: 0,
};

/// A block of public ports was given to an inside address, or came back (RFC 8158 section 5.6).
pub const PORT_BLOCK: Template = Template {
    id: 259,
    fields: &[
        OBSERVATION_TIME_MILLISECONDS,
        NAT_EVENT,
        SOURCE_IPV4_ADDRESS,
        POST_NAT_SOURCE_IPV4_ADDRESS,
        PORT_RANGE_START,
        PORT_RANGE_END,
    ],
    scope: 0,
};

/// The name of the node.
pub const NODE: Template =
    Template { id: 260, fields: &[OBSERVATION_DOMAIN_ID, OBSERVATION_DOMAIN_NAME], scope: 1 };

/// How much was not told (RFC 7011 section 4.3).
pub const UNSENT: Template =
    Template { id: 261, fields: &[EXPORTING_PROCESS_ID, NOT_SENT_FLOW_TOTAL_COUNT], scope: 1 };

/// All templates, in the order of their numbers.
pub const TEMPLATES: [&Template; 6] =
    [&USAGE_IPV4, &USAGE_IPV6, &USAGE_NAME, &PORT_BLOCK, &NODE, &UNSENT];

/// Values of `natEvent` (RFC 8158 section 4.3).
const BLOCK_ALLOCATED: u8 = 16;
const BLOCK_RELEASED: u8 = 17;

/// What a user has used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage<'n> {
    /// Name of the user.
    pub user: &'n str,
    /// Its address and the length of its prefix, if it is known by one.
    pub address: Option<(IpAddr, u8)>,
    /// Which counter has counted, from 1.
    pub counter: u32,
    /// Begin and end of the time, in milliseconds since 1970.
    pub time: (u64, u64),
    /// Packets in it.
    pub packets: u64,
    /// Their octets, from the IP header on.
    pub octets: u64,
}

impl Usage<'_> {
    /// The record, and how it is read.
    pub fn record(&self) -> (&'static Template, Record) {
        let mut record = Record::default();
        for number in [self.time.0, self.time.1, self.packets, self.octets] {
            record.put(number.to_be_bytes());
        }
        record.put(self.counter.to_be_bytes());
        let template = match self.address {
            Some((IpAddr::V4(address), _)) => {
                record.put(address.octets());
                &USAGE_IPV4
            }
            Some((IpAddr::V6(address), length)) => {
                record.put(address.octets()).put([length]);
                &USAGE_IPV6
            }
            None => &USAGE_NAME,
        };
        record.text(self.user);
        (template, record)
    }
}

/// The record of what a function tells, and how it is read; `time` in milliseconds since 1970.
pub fn event(event: &FunctionEvent, time: u64) -> (&'static Template, Record) {
    let FunctionEvent::PortBlock { is_given, inside, outside, first, last } = *event;
    let mut record = Record::default();
    record.put(time.to_be_bytes());
    record.put([if is_given { BLOCK_ALLOCATED } else { BLOCK_RELEASED }]);
    record.put(Ipv4Addr::octets(&inside)).put(Ipv4Addr::octets(&outside));
    record.put(u16::to_be_bytes(first)).put(u16::to_be_bytes(last));
    (&PORT_BLOCK, record)
}

/// The record of the node's name.
pub fn node(domain: u32, name: &str) -> (&'static Template, Record) {
    let mut record = Record::default();
    record.put(domain.to_be_bytes()).text(name);
    (&NODE, record)
}

/// The record of how many records were not sent so far.
pub fn unsent(process: u32, records: u64) -> (&'static Template, Record) {
    let mut record = Record::default();
    record.put(process.to_be_bytes()).put(records.to_be_bytes());
    (&UNSENT, record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Message;

    /// Octets of a record of the template, but for those of its texts.
    fn fixed(template: &Template) -> usize {
        let length = |(_, length): &Field| match *length {
            VARIABLE => 1,
            length => usize::from(length),
        };
        template.fields.iter().map(length).sum()
    }

    #[test]
    fn records_are_as_long_as_their_templates_say() {
        let usage = |address| Usage {
            user: "ue-7",
            address,
            counter: 1,
            time: (1, 2),
            packets: 3,
            octets: 4,
        };
        let block = FunctionEvent::PortBlock {
            is_given: true,
            inside: [10, 0, 0, 1].into(),
            outside: [192, 0, 2, 1].into(),
            first: 1024,
            last: 1535,
        };
        let all = [
            (usage(Some(([10, 0, 0, 1].into(), 32))).record(), 4),
            (usage(Some((IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0]), 64))).record(), 4),
            (usage(None).record(), 4),
            (event(&block, 5), 0),
            (node(1, "gw"), 2),
            (unsent(1, 0), 0),
        ];
        for (((template, record), text), known) in all.into_iter().zip(TEMPLATES) {
            assert_eq!(template, known);
            let mut message = Message::new(1000);
            assert!(message.data(template, &record));
            let octets = message.finish(0, 0, 0).len() - crate::message::HEADER - 4;
            assert_eq!(octets, fixed(template) + text, "{template:?}");
        }
    }

    #[test]
    fn templates_have_numbers_of_their_own_that_data_sets_may_have() {
        for (at, template) in TEMPLATES.iter().enumerate() {
            assert_eq!(usize::from(template.id), 256 + at);
        }
    }
}
