//! What goes wrong.

use super::{Action, Event, Party, SECOND, World, pair};
use weft_mobility_protocol::NodeId;

/// A cut lasts so much longer when users of a node are to be adopted meanwhile.
const LONG_CUT: u64 = 20 * SECOND;

impl World {
    /// Something goes wrong; after the last order it is the last time.
    pub(super) fn fault(&mut self) -> Action {
        if self.orders >= self.scenario.orders {
            self.heal();
            return Action::Nothing;
        }
        let pause = self.random.between(200_000, 3 * SECOND);
        self.after(pause, Event::Fault);
        let faults = self.scenario.faults;
        let kinds = [
            (faults.deaths, 0),
            (faults.deaths, 1),
            (faults.standstills, 2),
            (faults.standstills, 2),
            (faults.cuts, 3),
            (faults.etcd, 4),
            (faults.full, 5),
            (faults.compaction, 6),
        ];
        let kinds: Vec<u8> = kinds.iter().filter(|(is, _)| *is).map(|(_, kind)| *kind).collect();
        let lasts = self.random.between(100_000, 8 * SECOND);
        match self.random.pick(&kinds) {
            Some(0) => {
                let replica = self.any_replica();
                if !self.replicas[replica].is_dead {
                    return self.kill_replica(replica);
                }
            }
            Some(1) => {
                let nodes: Vec<_> = self.nodes.keys().copied().collect();
                if let Some(node) = self.random.pick(&nodes)
                    && self.nodes[&node].machine.is_some()
                {
                    self.kill_node(node);
                    let dead = self.random.between(SECOND / 2, 16 * SECOND);
                    self.after(dead, Event::Restart(node));
                }
            }
            Some(2) => self.stand_still(lasts),
            Some(3) => self.cut(lasts),
            Some(4) => self.trouble_etcd(lasts),
            Some(5) => {
                self.statistics.etcd_faults += 1;
                self.note(|| "etcd is full".to_owned());
                self.model.set_full(true);
                self.after(lasts, Event::NotFull);
            }
            Some(6) => {
                self.statistics.etcd_faults += 1;
                let kept = self.random.between(0, 4);
                self.model.compact(self.model.revision().saturating_sub(kept));
            }
            _ => {}
        }
        Action::Nothing
    }

    /// One of the replicas; often the one that leads.
    fn any_replica(&mut self) -> usize {
        let leader = self.replicas.iter().position(|replica| replica.leads.is_some());
        let any = self.random.between(0, self.replicas.len() as u64) as usize;
        leader.filter(|_| self.random.one_in_thousand(600)).unwrap_or(any)
    }

    fn stand_still(&mut self, lasts: u64) {
        let replica = self.any_replica();
        self.statistics.standstills += 1;
        self.note(|| format!("replica {replica} stands still for {lasts} us"));
        self.replicas[replica].stands_until = self.time() + lasts;
        for node in self.nodes.keys().copied().collect::<Vec<_>>() {
            self.silence(replica, node, lasts);
        }
    }

    fn cut(&mut self, lasts: u64) {
        self.statistics.cuts += 1;
        let replica = self.any_replica();
        let nodes: Vec<NodeId> = self.nodes.keys().copied().collect();
        let (Some(one), Some(other)) = (self.random.pick(&nodes), self.random.pick(&nodes)) else {
            return;
        };
        let kind = self.random.between(0, 4);
        // A node is often cut off from all for so long that its users are adopted.
        let is_long = kind == 3 && one == other && self.random.one_in_thousand(500);
        let lasts = if is_long { lasts + LONG_CUT } else { lasts };
        let until = self.time() + lasts;
        let cut = |world: &mut World, one: Party, other: Party| {
            world.note(|| format!("{one:?} and {other:?} are cut off for {lasts} us"));
            world.cuts.insert((one.min(other), one.max(other)), until);
        };
        match kind {
            0 => {
                for member in 0..self.members.len() {
                    cut(self, Party::Replica(replica), Party::Member(member));
                }
            }
            1 => {
                let member = self.random.between(0, self.members.len() as u64) as usize;
                cut(self, Party::Replica(replica), Party::Member(member));
            }
            2 => {
                cut(self, Party::Replica(replica), Party::Node(one));
                self.silence(replica, one, lasts);
            }
            _ if one != other => cut(self, Party::Node(one), Party::Node(other)),
            _ => {
                // From all that is around it.
                if let Some(partner) = pair::partner(one) {
                    cut(self, Party::Node(one), Party::Node(partner));
                }
                for replica in 0..self.replicas.len() {
                    cut(self, Party::Replica(replica), Party::Node(one));
                    self.silence(replica, one, lasts);
                }
            }
        }
    }

    fn trouble_etcd(&mut self, lasts: u64) {
        self.statistics.etcd_faults += 1;
        let member = self.random.between(0, self.members.len() as u64) as usize;
        let others = self.members.iter().filter(|member| member.is_dead).count();
        if self.random.one_in_thousand(500) && others == 0 {
            self.note(|| format!("member {member} of etcd dies"));
            self.members[member].is_dead = true;
            self.after(lasts, Event::MemberBack(member));
        }
        // The dead one may have led; another one does, and lets all leases last anew.
        if self.random.one_in_thousand(500) {
            let lasts = lasts.min(3 * SECOND);
            self.note(|| format!("etcd has no leader for {lasts} us"));
            self.leaderless = self.time() + lasts;
            self.model.new_leader(std::time::Duration::from_micros(self.leaderless));
        }
    }

    /// All faults end.
    fn heal(&mut self) {
        self.note(|| "the last fault is over".to_owned());
        let time = self.time();
        self.calm = Some(time);
        self.cuts.clear();
        self.leaderless = self.leaderless.min(time);
        self.model.set_full(false);
        self.members.iter_mut().for_each(|member| member.is_dead = false);
        for node in self.nodes.keys().copied().collect::<Vec<_>>() {
            self.after(1000, Event::Restart(node));
        }
        self.after(SECOND, Event::Look);
    }
}
