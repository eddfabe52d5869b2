//! A new backend is one folder: what a worker's queue promises holds for one that it has never
//! heard of.

mod carrier;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weft_dataplane::offload::{
    Back, NextHops, Options, Policy, Refusal, RemoteQueue, ResumePoint, Shared, WINDOW,
};
use weft_dpdk::Pool;
use weft_function::{Metadata, PacketMetadata};

use self::carrier::{FarSide, Loopback};
use crate::common::{PLACE, eal};

struct Scene {
    queue: RemoteQueue,
    shared: Arc<Shared>,
    far_side: Arc<FarSide>,
    pool: Pool,
}

impl Scene {
    fn new(name: &str, policy: Policy) -> Scene {
        let (shared, far_side) = (Arc::new(Shared::default()), Arc::new(FarSide::default()));
        let options = Options { writes: 0, policy, shared: shared.clone() };
        let queue = RemoteQueue::new(Box::new(Loopback::new(far_side.clone())), options);
        Scene { queue, shared, far_side, pool: Pool::new(eal(), name, 1023).unwrap() }
    }

    /// The function appears.
    fn go_up(&mut self) {
        self.shared.go_up();
        self.queue.take_news(|ticket| panic!("{ticket:?}"));
    }

    /// Takes a packet of `user` away, from a place of its own.
    fn take(&mut self, user: u32) -> Result<(), Refusal> {
        let mut packet = self.pool.packet(&[user as u8; 60]).unwrap();
        *packet.metadata_mut() = PacketMetadata { user, ..PacketMetadata::default() };
        let place = ResumePoint { state: user, ..PLACE };
        self.queue.take(packet, place, None, (0, &NextHops::NOWHERE))
    }

    fn flush(&mut self) {
        self.queue.flush(|ticket| panic!("{ticket:?}"));
    }

    /// Users of what has come back, each from its place and with its bytes.
    fn back(&mut self) -> Vec<u32> {
        let mut users = Vec::new();
        self.queue.collect(|back| match back {
            Back::Packet(packet, ticket, None) => {
                let user = packet.metadata().user;
                assert_eq!((ticket.metadata.user, ticket.place.state), (user, user));
                assert_eq!(packet.data(), [user as u8; 60]);
                users.push(user);
            }
            other => panic!("{other:?}"),
        });
        users
    }
}

#[test]
fn packets_go_there_and_come_back_in_order() {
    let mut scene = Scene::new("order", Policy::Drop);
    scene.go_up();
    for burst in 0..20_u32 {
        let users: Vec<_> = (burst..burst + 32).collect();
        users.iter().for_each(|user| scene.take(*user).unwrap());
        scene.flush();
        assert_eq!(scene.queue.away(), 32);
        assert_eq!(scene.back(), users);
        assert_eq!((scene.queue.away(), scene.shared.lost()), (0, 0));
    }
    assert_eq!(*scene.far_side.seen.lock().unwrap(), (0..640).collect::<Vec<_>>());
    drop(scene.queue);
    assert_eq!(scene.pool.available(), 1023);
}

#[test]
fn credits_bound_what_is_away() {
    let mut scene = Scene::new("credits", Policy::Drop);
    scene.go_up();
    scene.far_side.holds.store(true, Ordering::Relaxed);
    for user in 0..WINDOW as u32 {
        // What is in hand and not sent leaves room for a burst.
        let (room, in_hand) = (WINDOW - user as usize, user as usize % 32);
        assert_eq!(scene.queue.credit(), if in_hand == 0 { room } else { room.min(32 - in_hand) });
        scene.take(user).unwrap();
        if user % 32 == 31 {
            scene.flush();
        }
    }
    assert_eq!(scene.queue.credit(), 0);
    assert_eq!(scene.take(9), Err(Refusal::Full));
    assert!(scene.back().is_empty());
    scene.far_side.holds.store(false, Ordering::Relaxed);
    assert_eq!(scene.back(), (0..WINDOW as u32).collect::<Vec<_>>());
    assert_eq!(scene.queue.credit(), WINDOW);
}

#[test]
fn packets_wait_for_a_function_that_is_absent_and_are_lost_with_one_that_fails() {
    let mut scene = Scene::new("absent", Policy::Hold(3));
    (1..=3).for_each(|user| scene.take(user).unwrap());
    assert_eq!((scene.take(4), scene.queue.credit()), (Err(Refusal::Full), 0));
    scene.go_up();
    while let Some(sent) = scene.queue.next_held(0) {
        sent.unwrap();
    }
    scene.flush();
    assert_eq!(scene.back(), [1, 2, 3]);

    scene.take(5).unwrap();
    scene.flush();
    scene.shared.go_down();
    let mut lost = Vec::new();
    scene.queue.take_news(|ticket| lost.push(ticket.metadata.user));
    assert_eq!((lost, scene.shared.lost()), (vec![5], 1));
    drop(scene.queue);
    assert_eq!(scene.pool.available(), 1023);
}
