//! The ports of a node, as its agent looks after them: what they answer for the node
//! itself, and what they tell workers.

pub(crate) mod device;
pub(crate) mod flow_rules;
pub(crate) mod gtpu;
mod icmp;
mod loss;
mod neighbour;
mod port_control;
pub(crate) mod redirection;

use std::net::IpAddr;

use weft_dataplane::command::Command;
use weft_dataplane::counters::DropReason;
use weft_dataplane::worker::Attachment;
use weft_dpdk::{Packet, Pool};
use weft_function::Metadata;
use weft_wire::MacAddress;

use self::device::Step;
use self::flow_rules::FlowRules;
use self::gtpu::Heard;
pub(crate) use self::loss::Loss;
pub(crate) use self::port_control::PortControl;
pub use self::port_control::{ExtendedView, LinkState, NeighbourView};
use crate::workers::Workers;

/// Why an answer of a neighbour, or the question, may have been dropped.
const NEIGHBOURS_LOST: [DropReason; 3] =
    [DropReason::NeighbourFull, DropReason::NeighbourAnswerRate, DropReason::PoolExhausted];

/// All ports, by number.
pub(crate) struct Ports(Vec<PortControl>);

/// What ports send by: the workers, and where packets come from.
pub(crate) struct Means<'a> {
    /// The workers.
    pub workers: &'a mut Workers,
    /// Where packets of the node's own come from: as many as it holds may wait to be sent.
    pub pool: &'a Pool,
}

impl Ports {
    /// These, in the order of their numbers.
    pub fn new(ports: Vec<PortControl>) -> Ports {
        Ports(ports)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The port of that number.
    pub fn get(&self, port: usize) -> &PortControl {
        &self.0[port]
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &PortControl> {
        self.0.iter()
    }

    /// Closes all devices for another process; workers have given their queues back.
    pub fn give_away(&mut self) {
        self.0.iter_mut().for_each(|port| port.port_device_mut().give_away());
    }

    /// Opens the devices that another process has had; what workers get of them: for each port in
    /// the order of their numbers.
    ///
    /// # Errors
    /// Which one does not open, and why: all stay closed then.
    pub fn take(&mut self) -> Result<Vec<Vec<Attachment>>, String> {
        let mut taken = Vec::new();
        for number in 0..self.0.len() {
            let port = &mut self.0[number];
            match port.port_device_mut().take() {
                Ok(attachments) => taken.push(attachments),
                Err(why) => {
                    let why = format!("port {}: {why}", port.name());
                    drop(taken);
                    self.0[..number].iter_mut().for_each(|port| port.port_device_mut().give_away());
                    return Err(why);
                }
            }
            port.announce();
        }
        Ok(taken)
    }

    /// Goes on without devices that another process has had, and looks for them.
    pub fn wait_for_return(&mut self) {
        self.0.iter_mut().for_each(|port| port.port_device_mut().wait_for_return());
    }

    /// Their devices are this process's alone.
    pub fn own(&mut self) {
        self.0.iter_mut().for_each(|port| port.port_device_mut().own());
    }

    /// The port that has an address of the node.
    pub fn with_address(&self, local: IpAddr) -> Option<u16> {
        self.0.iter().position(|port| port.has(local)).map(|port| port as u16)
    }

    /// Takes in a packet for the node itself: with what was heard in GTP-U, and the port.
    pub fn receive(&mut self, packet: Packet, now: u64) -> Option<(u16, Option<Heard>)> {
        let port = packet.metadata().port;
        Some((port, self.0.get_mut(usize::from(port))?.receive(packet, now)))
    }

    /// Puts an IP packet of the node's own into what a port sends.
    pub fn put(&mut self, port: u16, packet: Vec<u8>) {
        if let Some(port) = self.0.get_mut(usize::from(port)) {
            port.send(packet);
        }
    }

    /// The same with one that answers a packet.
    pub fn answer(&mut self, port: u16, packet: Vec<u8>) {
        if let Some(port) = self.0.get_mut(usize::from(port)) {
            port.answer(packet);
        }
    }

    /// A worker wants to know the MAC address of a neighbour.
    pub fn resolve(&mut self, port: u16, address: IpAddr, now: u64, means: &mut Means<'_>) {
        if let Some(control) = self.0.get_mut(usize::from(port)) {
            control.resolve(address, now);
        }
        self.send(port, means);
    }

    /// Sends what a port wants to have sent. Every worker learns of neighbours; the first
    /// sends.
    pub fn send(&mut self, port: u16, means: &mut Means<'_>) {
        let Some(control) = self.0.get_mut(usize::from(port)) else { return };
        for command in control.outgoing(means.pool) {
            match command {
                Command::Neighbour { port, address, mac } => {
                    for link in means.workers.iter_mut() {
                        link.send(Command::Neighbour { port, address, mac });
                    }
                }
                Command::Answer(packet) => {
                    let worker = means.workers.owner(packet.metadata().user);
                    if worker < means.workers.count() {
                        means.workers[worker].send(Command::Answer(packet));
                    }
                }
                command => means.workers[0].send(command),
            }
        }
    }

    /// The next hop to `peer` is there: the peer has answered what went through the port.
    pub fn confirm(&mut self, port: u16, peer: IpAddr, now: u64) {
        if let Some(port) = self.0.get_mut(usize::from(port)) {
            port.confirm(peer, now);
        }
    }

    /// The port of that name knows a neighbour from another process of the node. Returns its
    /// number.
    pub fn restore(&mut self, name: &str, of: IpAddr, mac: MacAddress, now: u64) -> Option<u16> {
        let number = self.0.iter().position(|port| port.name() == name)?;
        self.0[number].restore(of, mac, now);
        Some(number as u16)
    }

    /// Says at all ports where the addresses are.
    pub fn announce(&mut self, means: &mut Means<'_>) {
        for number in 0..self.0.len() {
            self.0[number].announce();
            self.send(number as u16, means);
        }
    }

    /// Packets that the devices had no room for.
    pub fn missed(&self) -> u64 {
        self.0.iter().map(PortControl::missed).sum()
    }

    /// Packets of the node's own for which there was no buffer.
    pub fn unsent(&self) -> u64 {
        self.0.iter().map(PortControl::unsent).sum()
    }

    /// The flow rules of the ports that have some.
    pub fn flow_rules(&mut self) -> impl Iterator<Item = (usize, &mut FlowRules)> {
        let ports = self.0.iter_mut().enumerate();
        ports.filter_map(|(number, port)| Some((number, port.port_device_mut().flow_rules()?)))
    }

    /// Gives devices flow rules, and takes others back; whether there was anything to do.
    pub fn keep_flow_rules(&mut self) -> bool {
        let ports = self.0.iter_mut();
        ports.fold(false, |busy, port| port.port_device_mut().keep_flow_rules() | busy)
    }

    /// Sets the redirection table of a port.
    ///
    /// # Errors
    /// Why the device does not take it.
    pub fn redirect(&mut self, port: usize, table: Vec<u16>) -> std::io::Result<()> {
        self.0[port].port_device_mut().redirect(table)
    }

    /// Looks after devices and neighbours. Returns the links that have changed, by port.
    pub fn look_after(&mut self, now: u64, means: &mut Means<'_>) -> Vec<(String, LinkState)> {
        let lost = means.workers.dropped(&NEIGHBOURS_LOST);
        let mut news = Vec::new();
        for number in 0..self.0.len() {
            let (step, changed) = self.0[number].look_after(now, lost);
            if let Some(step) = step {
                take_step(number as u16, step, means.workers);
            }
            news.extend(changed.map(|state| (self.0[number].name().to_owned(), state)));
            self.send(number as u16, means);
        }
        news
    }
}

/// Tells the workers that the device of a port has gone, or is back.
fn take_step(port: u16, step: Step, workers: &mut Workers) {
    match step {
        Step::Leave(answer) => {
            for link in workers.iter_mut() {
                link.send(Command::Detach { port, answer: answer.clone() });
            }
        }
        Step::Return(attachments) => {
            for (link, attachment) in workers.iter_mut().zip(attachments) {
                link.send(Command::Attach(Box::new(attachment)));
            }
        }
    }
}
