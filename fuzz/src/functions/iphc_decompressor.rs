//! The decompressor at work: the input is a list of records, each the type of a frame
//! of the link, a length and the frame's octets. Contexts go on from frame to frame,
//! and from time to time the user moves.

use std::cell::RefCell;

use weft_compose::{Burst, Instance, Outcome, Positions, SlotShift};
use weft_dpdk::{Batch, Pool, tsc};
use weft_function::{Metadata, Setup, TagTable};
use weft_functions::KINDS;
use weft_wire::EtherType;

use crate::support::eal;

/// PPP's numbers of what the link carries (RFC 3544, RFC 5072), and one that it does not.
const PROTOCOLS: [u16; 8] = [0x0061, 0x0063, 0x2063, 0x0065, 0x2065, 0x0021, 0x0057, 0xc021];
/// Octets in front of a PPP frame: Ethernet, PPPoE, the protocol.
const FRONT: usize = 14 + 6 + 2;

struct Link {
    decompressor: Box<dyn Instance>,
    pool: Pool,
    now: u64,
}

thread_local! {
    static LINK: &'static RefCell<Link> = Box::leak(Box::new(RefCell::new(Link::new())));
}

impl Link {
    fn new() -> Link {
        let eal = eal();
        let kind =
            KINDS.iter().find(|kind| kind.name == "ip-header-decompressor").expect("it is there");
        let mut tags = TagTable::default();
        for tag in kind.reads.iter().chain(kind.writes) {
            tags.declare(tag.name, tag.values.into()).expect("a slot for the tag");
        }
        let (contexts, tsc_hz) = (2, tsc::hz());
        let setup = Setup {
            instance: "fuzzed",
            tags: &tags,
            contexts,
            worker: 0,
            tsc_hz,
            trial: false,
            events: None,
        };
        let config = serde_json::json!({ "nonTcpFlows": 300 });
        let decompressor = kind.make(&config, &setup, SlotShift(0)).expect("a configuration");
        Link { decompressor, pool: Pool::new(eal, "far", 255).expect("a pool"), now: 0 }
    }

    fn receive(&mut self, protocol: u16, octets: &[u8]) {
        let mut frame = vec![2; FRONT];
        frame[12..14].copy_from_slice(&EtherType::PPPOE_SESSION.0.to_be_bytes());
        frame[14..18].copy_from_slice(&[0x11, 0, 0, 1]);
        frame[18..20].copy_from_slice(&(octets.len() as u16 + 2).to_be_bytes());
        frame[20..22].copy_from_slice(&protocol.to_be_bytes());
        frame.extend_from_slice(octets);
        let mut packet = self.pool.packet(&frame).expect("a buffer");
        let metadata = packet.metadata_mut();
        (metadata.user, metadata.bearer) = (0, 0);
        metadata.network_offset = 14;
        metadata.ether_type = EtherType::PPPOE_SESSION.0;
        let mut burst = Burst { packets: Batch::new(), now: self.now, pool: self.pool.clone() };
        burst.packets.push(packet).expect("room");
        let mut outcome = Outcome::default();
        self.decompressor.visit(&mut burst, Positions::first(1), &mut outcome);
        assert!(outcome.resets.is_empty(), "the decompressor panicked");
    }

    /// The user goes to another node and comes back.
    fn moves(&mut self) {
        let mut context = Vec::new();
        self.decompressor.export(0, self.now, &mut context);
        self.decompressor.release(0);
        self.decompressor.import(0, self.now, &context).expect("what was exported is imported");
    }
}

/// Runs one input.
pub fn run(bytes: &[u8]) {
    LINK.with(|link| {
        let mut link = link.borrow_mut();
        link.decompressor.release(0);
        let mut rest = bytes;
        while let [what, length, behind @ ..] = rest {
            let (octets, behind) = behind.split_at(usize::from(*length).min(behind.len()));
            link.now += u64::from(*what) << 20;
            if what & 0xf0 == 0xf0 {
                link.moves();
            }
            link.receive(PROTOCOLS[usize::from(what % 8)], octets);
            rest = behind;
        }
    })
}
