//! A compressor and a decompressor with a link between them.

use serde_json::{Value, json};
use weft_compose::{Burst, Outcome, Positions};
use weft_dpdk::Batch;
use weft_function::{EmissionKind, Metadata, PacketMetadata};
use weft_functions::kind;
use weft_wire::pppoe::{self, PppProtocol};
use weft_wire::{EtherType, ethernet};

use crate::common::testing::{Rig, metadata, pool};

/// One end of the link.
pub struct End {
    pub rig: Rig,
    pub config: Value,
    pub name: &'static str,
}

/// What an end makes of a packet.
pub struct Made {
    pub bytes: Vec<u8>,
    pub dropped: bool,
    /// Packets that it sends of its own.
    pub emitted: Vec<Vec<u8>>,
}

impl End {
    pub fn new(name: &'static str, config: Value) -> End {
        let rig = Rig::new(kind(name).expect("it is there"), config.clone());
        End { rig: rig.expect("a valid configuration"), config, name }
    }

    pub fn take(&mut self, frame: &[u8]) -> Made {
        let mut packet = pool().packet(frame).expect("the pool has a packet");
        *packet.metadata_mut() = noted(frame);
        let mut burst = Burst { packets: Batch::new(), now: self.rig.now, pool: pool() };
        burst.packets.push(packet).expect("there is room");
        let mut outcome = Outcome::default();
        self.rig.instance.visit(&mut burst, Positions::first(1), &mut outcome);
        assert!(outcome.resets.is_empty(), "{} panicked", self.name);
        let emitted = outcome.emissions.into_iter().map(|emission| match emission.what {
            EmissionKind::Send(packet, _) => packet.data().to_vec(),
            other => panic!("{other:?}"),
        });
        let bytes = burst.packets[0].data().to_vec();
        if !outcome.dropped.contains(0) {
            let found = *burst.packets[0].metadata();
            let wanted = PacketMetadata { tags: found.tags, ..noted(&bytes) };
            assert_eq!(found, wanted, "metadata");
        }
        Made { bytes, dropped: outcome.dropped.contains(0), emitted: emitted.collect() }
    }

    /// Moves to another node, whose clock shows `now`.
    pub fn move_to(&mut self, now: u64) {
        let bytes = self.rig.export(0);
        self.rig.instance.release(0);
        let mut next = End::new(self.name, self.config.clone());
        next.rig.now = now;
        next.rig.instance.import(0, now, &bytes).expect("a whole context");
        *self = next;
    }
}

/// What a node's parser would note.
pub fn noted(frame: &[u8]) -> PacketMetadata {
    let ether_type = ethernet::Frame::new_checked(frame).expect("a frame").ether_type();
    if ether_type != EtherType::PPPOE_SESSION {
        return metadata(frame);
    }
    let session = pppoe::Frame::new_checked(&frame[14..]).expect("a session frame");
    PacketMetadata {
        user: 0,
        bearer: 0,
        group: 0,
        network_offset: 14,
        network_length: session.total_length() as u16,
        ether_type: ether_type.0,
        ..Default::default()
    }
}

/// Both ends. Octets of headers that went in, and that went over the link.
pub struct Link {
    pub compressor: End,
    pub decompressor: End,
}

impl Link {
    pub fn new() -> Link {
        Link::with(json!({}), json!({}))
    }

    /// One whose other end knows nothing from before.
    pub fn with(mut compressor: Value, decompressor: Value) -> Link {
        compressor["freshLink"] = true.into();
        Link::between(compressor, decompressor)
    }

    pub fn between(compressor: Value, decompressor: Value) -> Link {
        Link {
            compressor: End::new("ip-header-compressor", compressor),
            decompressor: End::new("ip-header-decompressor", decompressor),
        }
    }

    pub fn wait(&mut self, nanoseconds: u64) {
        self.compressor.rig.now += nanoseconds;
        self.decompressor.rig.now += nanoseconds;
    }

    /// Onto the link, where short frames are padded.
    pub fn send(&mut self, frame: &[u8]) -> Vec<u8> {
        let made = self.compressor.take(frame);
        assert!(!made.dropped && made.emitted.is_empty());
        let mut bytes = made.bytes;
        bytes.resize(bytes.len().max(60), 0);
        bytes
    }

    /// From the link; a request goes back unless it is lost as well.
    pub fn receive(&mut self, frame: &[u8], lose_request: bool) -> Option<Vec<u8>> {
        let made = self.decompressor.take(frame);
        for request in made.emitted {
            assert_eq!((&request[..6], &request[6..12]), (&frame[6..12], &frame[..6]));
            if !lose_request {
                assert!(self.compressor.take(&request).dropped, "a request ends here");
            }
        }
        (!made.dropped).then(|| stripped(&made.bytes))
    }
}

/// The frame without padding.
pub fn stripped(frame: &[u8]) -> Vec<u8> {
    let found = metadata(frame);
    let end = found.network_offset + found.network_length;
    frame[..end.into()].to_vec()
}

pub fn protocol(frame: &[u8]) -> Option<PppProtocol> {
    let ether_type = ethernet::Frame::new_checked(frame).expect("a frame").ether_type();
    let session = pppoe::Frame::new_checked(&frame[14..]);
    (ether_type == EtherType::PPPOE_SESSION).then(|| session.expect("a session").protocol())
}

/// Whether a frame has a full header.
pub fn is_full(sent: &[u8]) -> bool {
    protocol(sent) == Some(PppProtocol::FULL_HEADER)
}
