//! What commands have added moves with its user: dedicated bearers of users of the
//! configuration, and users that the configuration does not have.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use weft_mobility_protocol::{NodeId, User};
use weft_node::bearer::{BearerId, WrittenCommand};

use super::frames::{HOST, address};
use super::nodes::{BEARER_COUNT, GATEWAY, NOTHING, station, wide};
use super::world::{ANCHOR, FIRST, SOURCE, TARGET, World, moves, turn};
use crate::common::Rig;

/// The first of the users that commands add.
const ADDED: u64 = FIRST + 20;

/// What is wrong with commands, if something is.
fn apply(rig: &mut Rig, commands: Value) -> Result<(), String> {
    let commands: Vec<WrittenCommand> = serde_json::from_value(commands).unwrap();
    let done = rig.node.agent().change_written(&commands);
    done.map(|_| ()).map_err(|error| error.to_string())
}

fn with_room(yaml: &str) -> String {
    yaml.replace("first: 100}", "first: 100, added: 30}").replace(
        "gtpu: {echoInterval: 0}\n",
        "gtpu: {echoInterval: 0}\nlimits: {users: 64, bearers: 64}\n",
    )
}

fn world(users: u64) -> World {
    let [source, target] = [2, 3].map(|number| with_room(&station(number, BEARER_COUNT)));
    World::new(&with_room(GATEWAY), &source, &target, users)
}

/// A bearer of all that a user of the configuration sends to the host, and gets from it.
fn bearer(id: u64, user: User) -> Value {
    let number = user.0 - FIRST;
    let meter = json!({"meter": {"singleRate":
        {"committedRate": "1 Gbit/s", "committedBurst": "1 MiB"}}});
    json!({"add": {"id": id, "of": format!("ue-{number}"), "functions": {"police": meter},
        "match": {"flow": {"protocol": 17, "remote": "198.51.100.1"}}}})
}

/// A user that the configuration does not have, known by its address.
fn newcomer(id: u64, user: User) -> Value {
    let address = std::net::Ipv4Addr::from(address(user)).to_string();
    json!({"add": {"id": id, "like": "ue", "user": user.0, "match": {"ipv4": address}}})
}

impl World {
    fn at(&mut self, node: NodeId) -> &mut Rig {
        self.rigs.get_mut(&node).unwrap()
    }

    /// Adds a user that the configuration does not have.
    fn come(&mut self, user: User) {
        for node in [ANCHOR, SOURCE] {
            assert_eq!(apply(self.at(node), json!([newcomer(user.0, user)])), Ok(()));
        }
        self.add_user(user);
    }

    /// What a bearer has counted at a node; none where it is not.
    fn counted_by(&mut self, node: NodeId, id: u64) -> Option<u64> {
        let rig = self.at(node);
        let (_, answer) = rig.node.agent().bearer(BearerId(id))?;
        rig.settle();
        let shown = answer.recv().unwrap();
        shown.iter().find(|(name, _)| name == "count").map(|(_, values)| values[0].1)
    }

    fn bearers_at(&mut self, node: NodeId) -> Vec<u64> {
        let bearers = self.at(node).node.agent().bearers(BearerId(0), 100);
        bearers.into_iter().map(|bearer| bearer.id.0).collect()
    }

    fn packets_of(&self, user: User) -> u64 {
        let ue = &self.users[&user];
        u64::from(ue.down.sent + ue.up.sent)
    }
}

#[test]
fn bearers_that_commands_added_move_with_their_user() {
    let _turn = turn();
    let mut world = world(4);
    let [user, other] = [User(FIRST), User(FIRST + 1)];
    assert_eq!(apply(world.at(SOURCE), json!([bearer(9, user), bearer(10, other)])), Ok(()));
    world.rest();
    for to in [TARGET, SOURCE, TARGET] {
        world.move_under_traffic(to);
        let from = if to == TARGET { SOURCE } else { TARGET };
        assert_eq!(world.bearers_at(to), [9, 10]);
        assert_eq!(world.bearers_at(from), [] as [u64; 0]);
        assert_eq!(world.counted_by(to, 9), Some(world.packets_of(user)));
        assert_eq!(world.tally(to, user), 0, "all packets are the bearer's");
        assert_eq!(world.counted_by(to, 10), Some(world.packets_of(other)));
        assert_eq!(world.tally(to, User(FIRST + 2)), world.packets_of(User(FIRST + 2)));
    }
    world.check_all_arrived();
    assert_eq!(world.drops(), BTreeMap::new());
    world.settle();
    assert_eq!(apply(world.at(TARGET), json!([{"remove": 9}])), Ok(()));
    let before = world.packets_of(user);
    world.check_all_arrived();
    assert_eq!(world.tally(TARGET, user), world.packets_of(user) - before);
}

#[test]
fn users_that_commands_added_move_with_their_bearers() {
    let _turn = turn();
    let mut world = world(2);
    let (user, other) = (User(ADDED), User(ADDED + 7));
    world.come(user);
    world.come(other);
    let voice = json!({"add": {"id": 5, "of": user.0,
        "match": {"flow": {"protocol": 17, "userPort": 1000}}}});
    assert_eq!(apply(world.at(SOURCE), json!([voice])), Ok(()));
    world.rest();
    for to in [TARGET, SOURCE, TARGET] {
        world.move_under_traffic(to);
        let from = if to == TARGET { SOURCE } else { TARGET };
        assert_eq!(world.bearers_at(to), [5, user.0, other.0]);
        assert_eq!(world.bearers_at(from), [] as [u64; 0]);
        // What goes up is the dedicated bearer's, what goes down the user's own.
        let ue = world.users[&user].clone();
        assert_eq!(world.counted_by(to, 5), Some(u64::from(ue.up.sent)));
        assert_eq!(world.counted_by(to, user.0), Some(u64::from(ue.down.sent)));
        assert_eq!(world.counted_by(to, other.0), Some(world.packets_of(other)));
    }
    world.check_all_arrived();
    assert_eq!(world.drops(), BTreeMap::new());
    world.settle();

    // Who removes a user is the controller.
    let refused = apply(world.at(TARGET), json!([{"remove": 5}, {"remove": user.0}]));
    assert_eq!(
        refused.unwrap_err(),
        "command 2 (bearer 120): user 120 is the controller's: remove it there \
         (`weft ctl user remove 120`), and it goes here too"
    );
    assert_eq!(world.bearers_at(TARGET), [5, user.0, other.0]);
    world.forget(user);
    for node in [TARGET, ANCHOR] {
        assert_eq!(world.bearers_at(node).last(), Some(&other.0), "{node}");
        assert!(!world.bearers_at(node).contains(&user.0), "{node}");
    }
    // And it may come back.
    world.come(user);
    world.check_all_arrived();
    assert_eq!(world.counted_by(SOURCE, user.0), Some(2));
    world.settle();
}

#[test]
fn a_move_that_is_given_up_leaves_what_commands_added() {
    let _turn = turn();
    let source = with_room(&station(2, BEARER_COUNT));
    let target = with_room(&station(3, NOTHING));
    let mut world = World::new(&with_room(GATEWAY), &source, &target, 1);
    let (user, added) = (User(FIRST), User(ADDED));
    world.come(added);
    assert_eq!(apply(world.at(SOURCE), json!([bearer(9, user)])), Ok(()));
    world.rest();
    world.move_under_traffic(TARGET);
    world.check_all_arrived();
    assert_eq!(world.drops(), BTreeMap::new());
    assert_eq!(world.bearers_at(SOURCE), [9, added.0]);
    assert_eq!(world.bearers_at(TARGET), [] as [u64; 0]);
    assert_eq!(world.counted_by(SOURCE, 9), Some(world.packets_of(user)));
    assert_eq!(world.counted_by(SOURCE, added.0), Some(world.packets_of(added)));
    world.settle();
}

#[test]
fn a_number_that_is_taken_at_the_target_is_named_and_the_user_stays() {
    let _turn = turn();
    let mut world = world(2);
    let user = User(FIRST);
    assert_eq!(apply(world.at(SOURCE), json!([bearer(9, user)])), Ok(()));
    let stranger = json!({"add": {"id": 9, "like": "ue", "match": {"ipv4": "10.99.0.1"}}});
    assert_eq!(apply(world.at(TARGET), json!([stranger])), Ok(()));
    world.move_under_traffic(TARGET);
    assert_eq!(world.controller.owner(user).map(|leg| leg.node), Some(SOURCE));
    assert_eq!(world.controller.owner(User(FIRST + 1)).map(|leg| leg.node), Some(TARGET));
    world.check_all_arrived();
    assert_eq!(world.counted_by(SOURCE, 9), Some(world.packets_of(user)));
    world.settle();
}

#[test]
fn packets_that_wait_for_an_idle_bearer_move_with_it() {
    let _turn = turn();
    let mut world = world(1);
    let user = User(ADDED);
    world.come(user);
    assert_eq!(
        apply(world.at(SOURCE), json!([{"change": {"id": user.0, "action": "notify"}}])),
        Ok(())
    );
    let events = world.at(TARGET).node.agent().listen();
    for _ in 0..5 {
        world.send_to_all();
        world.round();
    }
    world.move_all(TARGET);
    world.rest();
    let ue = &world.users[&user];
    assert_eq!((ue.down.sent, ue.down.came), (5, 0));
    // The source has told of them.
    assert_eq!(events.try_iter().count(), 0);
    assert_eq!(
        apply(world.at(TARGET), json!([{"change": {"id": user.0, "action": "forward"}}])),
        Ok(())
    );
    world.check_all_arrived();
    assert_eq!(world.counted_by(TARGET, user.0), Some(world.packets_of(user)));
    assert_eq!(world.drops(), BTreeMap::new());
    world.settle();
}

#[test]
fn commands_are_applied_where_the_user_is() {
    let _turn = turn();
    let mut world = world(1);
    let (user, added) = (User(FIRST), User(ADDED));
    world.come(added);
    let refused = |world: &mut World, node, command: Value| {
        apply(world.at(node), json!([command])).unwrap_err()
    };
    assert_eq!(
        refused(&mut world, TARGET, bearer(9, user)),
        "command 1 (bearer 9): user 100 is not at this node; ask its controller where it is"
    );
    assert_eq!(
        refused(&mut world, SOURCE, bearer(9, User(FIRST + 77))),
        "command 1 (bearer 9): no user of the configuration is called `ue-77` (users are `ue-0` to \
         `ue-19`)"
    );
    assert_eq!(
        refused(&mut world, SOURCE, newcomer(9, User(FIRST + 50))),
        "command 1 (bearer 9): number 150 is none of those that `handover.users` has for users \
         added like `ue`"
    );
    assert_eq!(
        refused(&mut world, SOURCE, newcomer(9, added).tap("ipv4", "10.45.0.99")),
        "command 1 (bearer 9): bearer 120 is user 120 already"
    );
    let teid = json!({"add": {"id": 9, "like": "ue", "match": {"teid": 0x4000_0001}}});
    assert_eq!(
        refused(&mut world, SOURCE, teid),
        "command 1 (bearer 9): TEIDs from 0x40000000 on are those of users that move"
    );
    let tunnel = json!({"tunnel": {"teid": 1, "peer": "10.1.0.254", "local": "10.1.0.1"}});
    let tunnel = json!({"change": {"id": added.0, "functions": {"to-anchor": tunnel}}});
    assert_eq!(
        refused(&mut world, SOURCE, tunnel),
        "command 1 (bearer 120): `to-anchor` is the tunnel of users that move, and the node gives \
         it its settings"
    );
    // While it moves.
    assert_eq!(apply(world.at(SOURCE), json!([bearer(9, user)])), Ok(()));
    world.move_all(TARGET);
    let mut moving = 0;
    while world.controller.owner(user).map(|leg| leg.node) != Some(TARGET) {
        world.round();
        if let Err(why) = apply(world.at(SOURCE), json!([{"change": {"id": 9, "action": "drop"}}]))
        {
            moving += u64::from(why.contains("user 100 is on the move; try again"));
        } else {
            // Not yet: it is to forward.
            let back = json!([{"change": {"id": 9, "action": "forward"}}]);
            assert_eq!(apply(world.at(SOURCE), back), Ok(()));
        }
    }
    assert!(moving > 0);
    world.rest();
    assert_eq!(world.bearers_at(TARGET), [9, added.0]);
    world.check_all_arrived();
    let host = std::net::Ipv4Addr::from(HOST).to_string();
    let second = json!({"add": {"id": 10, "of": "ue-0", "match": {"flow": {"remote": host}}}});
    assert_eq!(apply(world.at(TARGET), json!([second])), Ok(()));
    world.check_all_arrived();
    world.settle();
}

trait Tap {
    /// The same command with another value to match.
    fn tap(self, key: &str, value: &str) -> Self;
}

impl Tap for Value {
    fn tap(mut self, key: &str, value: &str) -> Value {
        self["add"]["match"][key] = json!(value);
        self
    }
}

/// `MOVES` says how many.
#[test]
fn random_moves_of_what_commands_added_lose_nothing() {
    let (moves, _turn) = (moves(150), turn());
    let [source, target] = [2, 3].map(|number| wide(&with_room(&station(number, BEARER_COUNT))));
    let mut world = World::new(&wide(&with_room(GATEWAY)), &source, &target, 6);
    for user in (ADDED..ADDED + 6).map(User) {
        world.come(user);
    }
    let users: Vec<_> = world.users.keys().copied().collect();
    let bearers = |user: &User| match user.0 >= ADDED {
        true => {
            json!({"add": {"id": 1000 + user.0, "of": user.0, "match": {"flow": {"protocol": 17}}}})
        }
        false => bearer(1000 + user.0, *user),
    };
    let bearers: Vec<_> = users.iter().map(bearers).collect();
    assert_eq!(apply(world.at(SOURCE), json!(bearers)), Ok(()));
    world.move_with_messages_lost(moves);
    for user in users {
        let owner = world.controller.owner(user).unwrap().node;
        let other = if owner == TARGET { SOURCE } else { TARGET };
        let id = 1000 + user.0;
        assert_eq!(world.counted_by(owner, id), Some(world.packets_of(user)), "{user}");
        assert_eq!(world.counted_by(other, id), None, "{user}");
    }
    world.settle();
}
