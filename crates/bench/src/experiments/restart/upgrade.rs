//! A node that another process takes over, as both in this one: everything but what a kernel
//! interface adds to it.

use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use weft_node::bearer::BearerId;
use weft_node::{Node, Predecessor};

use super::trial::{add_bearers, blueprint_at};
use weft_rig::Failure;
use weft_rig::Rig;

/// For how long packets wait while a node with so many users, each with a tunnel, a counter and
/// a meter, goes over.
///
/// # Errors
/// When the machine has no room, or the node does not go over whole.
pub fn upgrade(rig: &Rig, users: u32) -> Result<Duration, Failure> {
    let device = || format!("net_null{},no-rx=1", rig.serial());
    let mut old = Node::build(rig.eal, blueprint_at(&[device(), device()], users)?)?;
    add_bearers(&mut old, users)?;
    let next = blueprint_at(&[device(), device()], users)?;
    let mut old = old.start(rig.eal)?;
    let (to_new, to_old) = UnixStream::pair()?;
    let (taken, given) = thread::scope(|scope| {
        let given = scope.spawn(|| {
            let _registration = rig.eal.register_thread();
            old.hand_over(rig.eal, to_new, &mut ()).map_err(|error| error.to_string())
        });
        let taken = Predecessor::hear(to_old).and_then(|mut predecessor| {
            predecessor.accept(&next)?;
            predecessor.take(rig.eal, next, None, |_, _| {})
        });
        (taken.map_err(|error| error.to_string()), given.join())
    });
    let (mut new, waited) = taken?;
    given.map_err(|_| "the old node did not come to its end")??;
    old.stop();
    let now = new.agent().bearers(BearerId(0), users as usize).len();
    if now < users as usize {
        return Err(format!("{now} of {users} users have gone over").into());
    }
    Ok(waited)
}
