//! A packet behaves as a vector of bytes with so much room on either side.

use crate::common::{open, pool, queues};
use proptest::prelude::*;
use weft_dpdk::{Batch, Packet, Pool};

const HEADROOM: usize = 128;

/// Metadata of a type of the caller's.
type Mark = [u32; 16];

#[derive(Clone, Debug)]
enum Step {
    Prepend(usize, u8),
    Append(usize, u8),
    TrimFront(usize),
    Truncate(usize),
    Reframe(i32, usize, u8),
    Reset,
    Duplicate,
}

fn step() -> impl Strategy<Value = Step> {
    // Mostly as long as headers are; now and then beyond every limit.
    let count = || prop_oneof![8 => 0usize..80, 1 => 0usize..2400, 1 => 65_500usize..66_000];
    let offset = prop_oneof![8 => -80..80, 1 => -70_000..70_000, 1 => any::<i32>()];
    prop_oneof![
        (count(), any::<u8>()).prop_map(|(count, byte)| Step::Prepend(count, byte)),
        (count(), any::<u8>()).prop_map(|(count, byte)| Step::Append(count, byte)),
        count().prop_map(Step::TrimFront),
        count().prop_map(Step::Truncate),
        (offset, count(), any::<u8>())
            .prop_map(|(offset, length, byte)| Step::Reframe(offset, length, byte)),
        Just(Step::Reset),
        Just(Step::Duplicate),
    ]
}

/// What a packet should hold, and how many bytes fit in front of it.
struct Model {
    bytes: Vec<u8>,
    headroom: usize,
}

impl Model {
    fn apply(&mut self, step: &Step, packet: &mut Packet, pool: &Pool) {
        match *step {
            Step::Prepend(count, byte) => {
                let fits = count <= self.headroom;
                assert_eq!(filled(packet.prepend(count), byte), fits.then_some(count));
                if fits {
                    self.bytes.splice(0..0, std::iter::repeat_n(byte, count));
                    self.headroom -= count;
                }
            }
            Step::Append(count, byte) => {
                let room = HEADROOM + Pool::PACKET_BYTES - self.headroom - self.bytes.len();
                let fits = count <= room;
                assert_eq!(filled(packet.append(count), byte), fits.then_some(count));
                if fits {
                    self.bytes.extend(std::iter::repeat_n(byte, count));
                }
            }
            Step::TrimFront(count) => {
                let fits = count <= self.bytes.len();
                assert_eq!(packet.trim_front(count), fits);
                if fits {
                    self.bytes.drain(..count);
                    self.headroom += count;
                }
            }
            Step::Truncate(length) => {
                packet.truncate(length);
                self.bytes.truncate(length);
            }
            Step::Reframe(offset, length, byte) => {
                let (offset, start) = (i64::from(offset), self.headroom as i64);
                let end = self.bytes.len() as i64;
                let fits = start + offset >= 0 && offset + length as i64 <= end && offset <= end;
                assert_eq!(packet.reframe(offset as i32, length), fits);
                if fits {
                    let fresh = length.min((-offset).max(0) as usize);
                    packet.data_mut()[..fresh].fill(byte);
                    let rest = self.bytes.drain(offset.max(0) as usize..).take(length - fresh);
                    let rest: Vec<u8> = rest.collect();
                    self.bytes = [vec![byte; fresh], rest].concat();
                    self.headroom = (start + offset) as usize;
                }
            }
            Step::Reset => {
                packet.reset();
                (self.bytes, self.headroom) = (Vec::new(), HEADROOM);
            }
            Step::Duplicate => {
                // The copy lies at the start of its buffer, if it fits there.
                if let Some(copy) = packet.duplicate(pool) {
                    *packet = copy;
                    self.headroom = HEADROOM;
                } else {
                    assert!(self.bytes.len() > Pool::PACKET_BYTES);
                }
            }
        }
    }
}

/// Fills new room with `byte`; returns how much there is.
fn filled(room: Option<&mut [u8]>, byte: u8) -> Option<usize> {
    room.map(|room| {
        room.fill(byte);
        room.len()
    })
}

proptest! {
    #[test]
    fn a_packet_holds_what_a_vector_holds(steps in prop::collection::vec(step(), 0..40)) {
        let pool = pool(7);
        {
            let mut packet = pool.allocate().unwrap();
            let marked = Mark::from([5; 16]);
            *packet.metadata_as_mut::<Mark>() = marked;
            let mut model = Model { bytes: Vec::new(), headroom: HEADROOM };
            for step in &steps {
                model.apply(step, &mut packet, &pool);
                prop_assert_eq!(packet.data(), &model.bytes[..]);
                prop_assert_eq!(packet.len(), model.bytes.len());
                prop_assert_eq!(packet.metadata_as::<Mark>(), &marked);
                prop_assert!(packet.is_linear());
            }
        }
        prop_assert_eq!(pool.available(), 7);
    }
}

#[test]
fn the_headroom_and_the_tailroom_end_exactly() {
    let pool = pool(7);
    let mut packet = pool.packet(&[1; Pool::PACKET_BYTES]).unwrap();
    assert!(packet.append(1).is_none());
    assert!(packet.prepend(HEADROOM + 1).is_none());
    assert!(packet.prepend(HEADROOM).is_some());
    assert!(packet.prepend(1).is_none());
    assert_eq!(packet.len(), HEADROOM + Pool::PACKET_BYTES);
    assert!(!packet.trim_front(packet.len() + 1));
    assert!(packet.trim_front(packet.len()));
    assert_eq!(packet.data(), []);
    assert!(pool.packet(&[1; Pool::PACKET_BYTES + 1]).is_none());
    drop(packet);
    assert_eq!(pool.available(), 7);
}

#[test]
fn bytes_and_metadata_are_apart() {
    let pool = pool(7);
    let mut packet = pool.packet(&[1; 60]).unwrap();
    let (bytes, metadata) = packet.parts_as_mut::<Mark>();
    *metadata = [1; 16];
    bytes.fill(0xff);
    assert_eq!(packet.metadata_as::<Mark>(), &[1; 16]);
    assert!(packet.data().iter().all(|byte| *byte == 0xff));
}

#[test]
fn a_packet_used_again_has_all_its_headroom() {
    let pool = pool(1);
    let mut packet = pool.allocate().unwrap();
    packet.prepend(HEADROOM).unwrap();
    drop(packet);
    let mut packet = pool.allocate().unwrap();
    assert_eq!(packet.len(), 0);
    assert!(packet.prepend(HEADROOM).is_some());
}

#[test]
fn a_batch_keeps_order_and_gives_back_what_it_drops() {
    let pool = pool(127);
    let batch_of = |count: u8| {
        let mut batch = Batch::new();
        batch.extend((0..count).map(|n| pool.packet(&[n]).unwrap()));
        batch
    };
    let first_bytes = |batch: &Batch| batch.iter().map(|p| p.data()[0]).collect::<Vec<_>>();

    let mut batch = batch_of(10);
    batch.truncate(7);
    assert_eq!(pool.available(), 120);
    batch.truncate(9);
    batch.retain(|packet| packet.data()[0] % 2 == 0);
    assert_eq!((first_bytes(&batch), pool.available()), (vec![0, 2, 4, 6], 123));
    assert_eq!(batch.pop().unwrap().data(), [6]);
    assert_eq!(batch.drain().map(|packet| packet.data()[0]).collect::<Vec<_>>(), [0, 2, 4]);
    assert!(batch.is_empty());

    let mut full = batch_of(Batch::CAPACITY as u8);
    assert!(full.is_full());
    let refused = full.push(pool.packet(&[99]).unwrap()).unwrap_err();
    assert_eq!(refused.data(), [99]);
    assert!(!pool.allocate_bulk(&mut full, 1), "there is no room");
    assert_eq!(full.len(), Batch::CAPACITY);
    drop((refused, full));
    assert_eq!(pool.available(), 127);
}

#[test]
fn a_batch_is_filled_behind_what_it_holds() {
    let pool = pool(255);
    let port = open("net_null3,size=64", &pool);
    let (mut rx, _) = queues(&port);
    let mut batch = Batch::new();
    batch.push(pool.packet(&[1; 60]).unwrap()).unwrap();
    assert_eq!(rx.receive(&mut batch, 32), 32);
    assert_eq!(rx.receive(&mut batch, 100), Batch::CAPACITY - 33);
    assert_eq!(rx.receive(&mut batch, 1), 0);
    assert_eq!((batch.len(), batch[0].len()), (Batch::CAPACITY, 60));
    assert!(batch[1..].iter().all(|packet| packet.len() == 64));
}
