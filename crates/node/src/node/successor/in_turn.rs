//! Ports that two processes cannot have open at the same time. All else is built while the other
//! process carries packets. Then that one closes its ports, and this one opens its own: should one
//! not open, the other process opens its own again.

use std::time::{Duration, Instant};

use weft_dpdk::Eal;
use weft_node_config::Blueprint;
use weft_state::Store;

use super::{Built, Ours, Predecessor, TakeOverError};
use crate::node::Node;
use crate::node::conversation::{Kind, PortTransfer, UpgradeError};

impl Predecessor {
    /// Takes over once the other process has closed its ports.
    pub(super) fn take_in_turn(
        &mut self,
        eal: &Eal,
        from: (Blueprint, Option<Store>),
        ours: Ours<'_>,
    ) -> Result<(Node, Duration), TakeOverError> {
        let mut built = self.build(eal, from, PortTransfer::InTurn)?;
        built.wait_for_functions()?;
        self.conversation.say(Kind::Ready, &[PortTransfer::InTurn.octet()])?;
        let mut since = None;
        loop {
            let heard = self.conversation.hear()?;
            since.get_or_insert_with(Instant::now);
            match heard {
                (Kind::Contexts, octets) => built.import(&octets)?,
                (Kind::Drained, _) => break,
                _ => return Err(UpgradeError::Foreign("not its turn to say that").into()),
            }
        }
        built.settle(&self.offer);
        self.conversation.say(Kind::Taken, &[])?;
        self.conversation.hear_only(Kind::Closed)?;
        built.open_ports().map_err(UpgradeError::Refused)?;
        // Before the other process says that it does not go on.
        let moment = Instant::now();
        self.conversation.say(Kind::Opened, &[])?;
        let said = self.conversation.hear_only(Kind::Yours)?;
        ours(&said, moment);
        built.put_in_place();
        Ok((built.node, since.map_or(Duration::ZERO, |since| since.elapsed())))
    }
}

impl Built {
    /// Opens the ports, which no other process has any more.
    fn open_ports(&mut self) -> Result<(), String> {
        let Node { agent, workers, .. } = &mut self.node;
        for attachments in agent.ports.take()? {
            for (worker, attachment) in workers.iter_mut().zip(attachments) {
                worker.attach(attachment);
            }
        }
        agent.start_flow_rules();
        Ok(())
    }
}
