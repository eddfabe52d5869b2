//! Users that move between stations under traffic, as the experiment and the demo have it.

use std::time::Duration;

use weft_dpdk::{Eal, EalOptions};
use weft_rig::Cores;
use weft_rig::handover::{Chain, Course, Phase, Scene, World};

use crate::turn;

fn cores(two: bool) -> Cores {
    let cores = Cores::choose();
    Cores { traffic: cores.traffic.filter(|_| two), ..cores }
}

fn move_to_and_fro(name: &str, two: bool, scene: Scene, course: Course) {
    let options = EalOptions { memory_megabytes: 256, huge_pages: false, ..Default::default() };
    let eal = Eal::start(&options).expect("the environment starts");
    let mut world = World::build(eal, cores(two), name, scene).expect("a world");
    let outcome = world.perform(&course).expect("all users move");
    assert!(outcome.faults.is_none(), "{}: {:?}", outcome.faults, outcome.drops);
    assert_eq!(outcome.drops, Vec::<String>::new());
    assert!(outcome.packets > 0);
    assert_eq!(outcome.handovers.len(), course.moves as usize);
    for handover in &outcome.handovers {
        for user in [0, scene.users - 1] {
            let ends = handover.ends(user);
            // Contexts go before the switch, and the switch before the end.
            let known: Vec<_> = ends.iter().copied().flatten().collect();
            assert_eq!(known.len(), Phase::ALL.len(), "user {user}: {ends:?}");
            assert!(ends[1] <= ends[2] && ends[2] <= ends[3] && ends[3] <= ends[6], "{ends:?}");
        }
    }
}

#[test]
fn nothing_is_lost_of_users_that_move() {
    let _turn = turn();
    let one =
        Scene { users: 1, chain: Chain::Metered, frame_bytes: 124, buffers: 8191, is_kept: false };
    let pause = Duration::from_millis(20);
    let course = Course { rate: 1000.0, moves: 6, pause };
    for (name, two) in [("test-two", true), ("test-one", false)] {
        move_to_and_fro(name, two, one, course);
    }
    let many = Scene {
        users: 300,
        chain: Chain::Compressed,
        frame_bytes: 124,
        buffers: 8191,
        is_kept: false,
    };
    let course = Course { rate: 1500.0, moves: 2, pause };
    move_to_and_fro("test-many", true, many, course);
}
