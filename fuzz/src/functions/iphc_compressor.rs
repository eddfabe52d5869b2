//! The compressor at work, with a decompressor behind it: the input is a list of records,
//! each which flow, and octets: changes of its headers, and a payload. What goes in comes
//! out, as nothing is lost between them.

use std::cell::RefCell;

use serde_json::json;
use weft_compose::{Burst, Instance, Outcome, Positions, SlotShift};
use weft_dpdk::{Batch, Pool, tsc};
use weft_function::{EmissionKind, Metadata, PacketMetadata, Setup, TagTable};
use weft_functions::kind;
use weft_wire::{EtherType, Protocol, pppoe};

use crate::support::{NETWORK, eal, fill_checksums, frame, metadata, record};

const PROTOCOLS: [Protocol; 4] = [Protocol::TCP, Protocol::TCP, Protocol::UDP, Protocol::ESP];
/// Octets behind the headers at most, so that they fit a frame.
const PAYLOAD: usize = 1200;
/// Flows of each kind.
const FLOWS: usize = 4;

struct Link {
    compressor: Box<dyn Instance>,
    decompressor: Box<dyn Instance>,
    pool: Pool,
    now: u64,
}

thread_local! {
    static LINK: &'static RefCell<Link> = Box::leak(Box::new(RefCell::new(Link::new())));
}

/// What an end makes of a frame: that, or nothing, and what it sends of its own.
type Made = (Option<Vec<u8>>, Vec<Vec<u8>>);

fn end(name: &str, config: &serde_json::Value) -> Box<dyn Instance> {
    let kind = kind(name).expect("it is there");
    let mut tags = TagTable::default();
    for tag in kind.reads.iter().chain(kind.writes) {
        tags.declare(tag.name, tag.values.into()).expect("a slot for the tag");
    }
    let (contexts, tsc_hz) = (1, tsc::hz());
    let setup = Setup {
        instance: "fuzzed",
        tags: &tags,
        contexts,
        worker: 0,
        tsc_hz,
        trial: false,
        events: None,
    };
    kind.make(config, &setup, SlotShift(0)).expect("a configuration")
}

impl Link {
    fn new() -> Link {
        let pool = Pool::new(eal(), "link", 255).expect("a pool");
        let compressor = end("ip-header-compressor", &json!({ "freshLink": true, "maxPeriod": 6 }));
        Link { compressor, decompressor: end("ip-header-decompressor", &json!({})), pool, now: 1 }
    }

    /// Both ends forget everything.
    fn begin(&mut self) {
        self.now += 60_000_000_000;
        self.compressor.release(0);
        self.decompressor.release(0);
    }

    fn visit(&mut self, compresses: bool, frame: &[u8]) -> Made {
        let mut packet = self.pool.packet(frame).expect("a buffer");
        *packet.metadata_mut() = noted(frame).expect("a whole packet");
        let mut burst = Burst { packets: Batch::new(), now: self.now, pool: self.pool.clone() };
        burst.packets.push(packet).expect("room");
        let mut outcome = Outcome::default();
        let end = if compresses { &mut self.compressor } else { &mut self.decompressor };
        end.visit(&mut burst, Positions::first(1), &mut outcome);
        assert!(outcome.resets.is_empty(), "it panicked");
        let passed = !outcome.dropped.contains(0);
        let bytes = burst.packets[0].data().to_vec();
        let sent = outcome.emissions.iter().filter_map(|emission| match &emission.what {
            EmissionKind::Send(packet, _) => Some(packet.data().to_vec()),
            _ => None,
        });
        (passed.then_some(bytes), sent.collect())
    }

    fn carry(&mut self, sent: &[u8]) {
        let (onto, emitted) = self.visit(true, sent);
        assert!(emitted.is_empty(), "a compressor sends nothing of its own");
        let mut onto = onto.expect("a whole packet passes the compressor");
        assert!(noted(&onto).is_some(), "what goes onto the link is a frame");
        // The link pads.
        onto.resize(onto.len().max(60), 0);
        let (out, requests) = self.visit(false, &onto);
        for request in requests {
            assert_eq!(self.visit(true, &request).0, None, "a request ends at the compressor");
        }
        if let Some(mut out) = out {
            out.truncate(sent.len());
            assert_eq!(out, sent);
        }
    }

    /// Both users go to other nodes and come back.
    fn moves(&mut self) {
        for end in [&mut self.compressor, &mut self.decompressor] {
            let mut context = Vec::new();
            end.export(0, self.now, &mut context);
            end.release(0);
            end.import(0, self.now, &context).expect("what was exported is imported");
        }
    }
}

/// What a node's parser would note.
fn noted(frame: &[u8]) -> Option<PacketMetadata> {
    if frame[12..NETWORK] != EtherType::PPPOE_SESSION.0.to_be_bytes() {
        return metadata(frame);
    }
    let session = pppoe::Frame::new_checked(&frame[NETWORK..]).ok()?;
    Some(PacketMetadata {
        user: 0,
        bearer: 0,
        group: 0,
        network_offset: NETWORK as u16,
        network_length: session.total_length() as u16,
        ether_type: EtherType::PPPOE_SESSION.0,
        ..PacketMetadata::default()
    })
}

/// The headers of a flow.
fn flow(v6: bool, protocol: Protocol, number: usize) -> Vec<u8> {
    let mut transport = match protocol {
        Protocol::TCP => vec![0; 20],
        _ => vec![0; 8],
    };
    (transport[1], transport[3]) = (number as u8, 80);
    if protocol == Protocol::TCP {
        (transport[12], transport[13]) = (0x50, 0x10);
    }
    frame(v6, protocol, [1, 2 + number as u8], &transport)
}

/// Runs one input.
pub fn run(bytes: &[u8]) {
    LINK.with(|link| {
        let mut link = link.borrow_mut();
        link.begin();
        let mut flows: [[Option<Vec<u8>>; FLOWS]; 8] = Default::default();
        let mut rest = bytes;
        while let Some((what, octets)) = record(&mut rest) {
            link.now += 1 << (20 + (what >> 5 & 3) * 5);
            if octets.is_empty() {
                link.moves();
                continue;
            }
            let (v6, protocol) = (what & 4 != 0, PROTOCOLS[usize::from(what & 3)]);
            let number = usize::from(what >> 3 & 3);
            let headers = &mut flows[usize::from(what & 7)][number];
            let headers = headers.get_or_insert_with(|| flow(v6, protocol, number));
            let (changes, payload) =
                octets.split_at(octets.len().min(2 * usize::from(octets[0] & 7)));
            for change in changes.chunks_exact(2) {
                let at = NETWORK + usize::from(change[0] >> 3) % (headers.len() - NETWORK);
                headers[at] = headers[at].wrapping_add(change[1]);
            }
            let payload = &payload[..payload.len().min(PAYLOAD)];
            let mut sent = [&headers[..], payload].concat();
            if what & 0x80 == 0 {
                fill_checksums(&mut sent);
            }
            match metadata(&sent) {
                Some(found) if NETWORK + usize::from(found.network_length) == sent.len() => {
                    link.carry(&sent);
                }
                // A parser would drop it.
                _ => *headers = flow(v6, protocol, number),
            }
        }
    });
}
