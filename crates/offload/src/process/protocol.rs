//! The control protocol beside a ring: messages over a UNIX socket.
//!
//! A message is its length (four octets, little endian, without themselves), its
//! type (one octet) and its fields. Numbers are little endian; a text or a run of
//! octets at the end of a message is as long as the message says.
//!
//! | from | message | answered by |
//! |---|---|---|
//! | function | `Hello`: version, process, name of the function | `Welcome` or `Refuse` |
//! | node | `Order`s: configure, release, import | nothing: packets carry their numbers |
//! | node | `Start`: the orders for now are complete, attach to the ring | `Ready` |
//! | node | `Ping` | `Pong` |
//! | node | `Fence` | `Fenced` |
//! | node | `Checkpoint`: what has changed | `Context`s, then `Checkpointed` |
//! | node | `Export` of one context | `Exported` |
//! | function | `NotImported`: a context that it could not take | nothing |
//! | function | `Counted`: what its devices behind a NIC have counted, once a second | nothing |
//!
//! Questions of the node are answered once all orders that came before them were carried
//! out. Packets that were before them in the ring need not have been handled: a node
//! that wants a context as they leave it asks when they are back.

mod connection;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use weft_dpdk::PortStatistics;

use crate::vf::fabric::Ends;

pub use connection::Connection;

/// Version of the protocol that this program speaks.
pub const VERSION: u16 = 3;

/// Octets of the longest message.
pub const MAX_MESSAGE: usize = 1 << 20;

/// All that a function is told about its place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Welcome {
    /// Version of the protocol.
    pub version: u16,
    /// Name of the instance.
    pub instance: String,
    /// Its configuration.
    pub config: Value,
    /// The node's tags in the order of their slots, with the names of their
    /// values where they have names.
    pub tags: Vec<(String, Option<Vec<String>>)>,
    /// Contexts of each worker.
    pub contexts: usize,
    /// Workers of the node: pairs of queues of the ring.
    pub workers: u16,
    /// Packets that each queue of the ring holds.
    pub descriptors: u16,
    /// Service path of the function's packets.
    pub path: u32,
    /// The ends of the way of packets through a NIC; none where they go by the ring.
    pub fabric: Option<Ends>,
    /// Functions that it can send packets to through the NIC, by their numbers.
    #[serde(default)]
    pub peers: Vec<(u16, [u8; 6])>,
    /// Longest sleep in microseconds while there is nothing to do; none for a
    /// process that asks again at once.
    pub max_sleep_us: Option<u32>,
}

/// What devices have counted: packets and bytes received, packets missed as the receive queue was
/// full, those received in error, packets and bytes sent, and those that could not be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters(pub [u64; 7]);

impl PortCounters {
    /// Those of one device that is received at, and one that is sent at.
    pub fn of(receives: &PortStatistics, sends: &PortStatistics) -> PortCounters {
        let (rx, tx) = (receives, sends);
        PortCounters([
            rx.rx_packets,
            rx.rx_bytes,
            rx.rx_missed,
            rx.rx_errors,
            tx.tx_packets,
            tx.tx_bytes,
            tx.tx_errors,
        ])
    }
}

/// One message.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// A function is there.
    Hello {
        /// Version of the protocol that it speaks.
        version: u16,
        /// Its process.
        process: u32,
        /// Which function it is.
        function: String,
    },
    /// It is welcome.
    Welcome(Box<Welcome>),
    /// It is not, for this reason.
    Refuse(String),
    /// A context gets settings.
    Configure {
        /// Worker and number of the order.
        order: (u16, u32),
        /// Slot of the context.
        slot: u32,
        /// Which of the users that the settings were written for.
        nth: u32,
        /// The settings, as JSON.
        settings: String,
    },
    /// A context starts afresh.
    Release {
        /// Worker and number of the order.
        order: (u16, u32),
        /// Slot of the context.
        slot: u32,
    },
    /// A context becomes what was exported.
    Import {
        /// Worker and number of the order.
        order: (u16, u32),
        /// Slot of the context.
        slot: u32,
        /// Nanoseconds since the node started.
        now: u64,
        /// What was exported.
        context: Vec<u8>,
    },
    /// Orders up to these, by worker, are part of the beginning: attach to the
    /// ring.
    Start(Vec<u32>),
    /// Attached.
    Ready,
    /// Is the function there?
    Ping(u32),
    /// Yes.
    Pong(u32),
    /// What the devices of a function behind a NIC have counted.
    Counted(PortCounters),
    /// Say when all orders that came before are carried out.
    Fence(u32),
    /// It is.
    Fenced(u32),
    /// Export what has changed since the last time.
    Checkpoint {
        /// Nanoseconds since the node started.
        now: u64,
    },
    /// A context that has changed, as it is.
    Context {
        /// Worker that it belongs to.
        worker: u16,
        /// Slot of the context.
        slot: u32,
        /// What was exported; empty for one that is fresh.
        context: Vec<u8>,
    },
    /// All that had changed was sent.
    Checkpointed,
    /// Export one context.
    Export {
        /// Worker that it belongs to.
        worker: u16,
        /// Slot of the context.
        slot: u32,
        /// Nanoseconds since the node started.
        now: u64,
    },
    /// The context that was asked for.
    Exported {
        /// Worker that it belongs to.
        worker: u16,
        /// Slot of the context.
        slot: u32,
        /// What was exported; empty for one that is fresh.
        context: Vec<u8>,
    },
    /// A context could not be imported; it is as it was.
    NotImported {
        /// Worker that it belongs to.
        worker: u16,
        /// Slot of the context.
        slot: u32,
        /// Why.
        reason: String,
    },
}

/// What is wrong with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message that is none: {0}")]
pub struct Malformed(&'static str);

impl Message {
    /// The number of its type.
    pub fn number(&self) -> u8 {
        match self {
            Message::Hello { .. } => 1,
            Message::Welcome(_) => 2,
            Message::Refuse(_) => 3,
            Message::Configure { .. } => 4,
            Message::Release { .. } => 5,
            Message::Import { .. } => 6,
            Message::Start(_) => 7,
            Message::Ready => 8,
            Message::Ping(_) => 9,
            Message::Pong(_) => 10,
            Message::Fence(_) => 11,
            Message::Fenced(_) => 12,
            Message::Checkpoint { .. } => 13,
            Message::Context { .. } => 14,
            Message::Checkpointed => 15,
            Message::Export { .. } => 16,
            Message::Exported { .. } => 17,
            Message::NotImported { .. } => 18,
            Message::Counted(_) => 19,
        }
    }

    /// Adds the message, with its length in front, to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        out.push(self.number());
        match self {
            Message::Hello { version, process, function } => {
                out.extend_from_slice(&version.to_le_bytes());
                out.extend_from_slice(&process.to_le_bytes());
                out.extend_from_slice(function.as_bytes());
            }
            Message::Welcome(welcome) => {
                out.extend(serde_json::to_vec(welcome).unwrap_or_default());
            }
            Message::Refuse(reason) => out.extend_from_slice(reason.as_bytes()),
            Message::Configure { order, slot, nth, settings } => {
                put_order(*order, *slot, out);
                out.extend_from_slice(&nth.to_le_bytes());
                out.extend_from_slice(settings.as_bytes());
            }
            Message::Release { order, slot } => put_order(*order, *slot, out),
            Message::Import { order, slot, now, context } => {
                put_order(*order, *slot, out);
                out.extend_from_slice(&now.to_le_bytes());
                out.extend_from_slice(context);
            }
            Message::Start(numbers) => {
                numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
            }
            Message::Ready | Message::Checkpointed => {}
            Message::Ping(number)
            | Message::Pong(number)
            | Message::Fence(number)
            | Message::Fenced(number) => out.extend_from_slice(&number.to_le_bytes()),
            Message::Counted(counters) => {
                counters.0.iter().for_each(|count| out.extend_from_slice(&count.to_le_bytes()));
            }
            Message::Checkpoint { now } => out.extend_from_slice(&now.to_le_bytes()),
            Message::Context { worker, slot, context }
            | Message::Exported { worker, slot, context } => {
                out.extend_from_slice(&worker.to_le_bytes());
                out.extend_from_slice(&slot.to_le_bytes());
                out.extend_from_slice(context);
            }
            Message::Export { worker, slot, now } => {
                out.extend_from_slice(&worker.to_le_bytes());
                out.extend_from_slice(&slot.to_le_bytes());
                out.extend_from_slice(&now.to_le_bytes());
            }
            Message::NotImported { worker, slot, reason } => {
                out.extend_from_slice(&worker.to_le_bytes());
                out.extend_from_slice(&slot.to_le_bytes());
                out.extend_from_slice(reason.as_bytes());
            }
        }
        let length = (out.len() - start - 4) as u32;
        out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }

    /// Reads a message without its length.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn read(bytes: &[u8]) -> Result<Message, Malformed> {
        let mut fields = Fields(bytes);
        let message = Message::of(&mut fields)?;
        match fields.0.is_empty() {
            true => Ok(message),
            false => Err(Malformed("too long")),
        }
    }

    /// A message of these fields, behind which more may follow.
    fn of(fields: &mut Fields<'_>) -> Result<Message, Malformed> {
        Ok(match fields.array::<1>()?[0] {
            1 => Message::Hello {
                version: fields.u16()?,
                process: fields.u32()?,
                function: fields.text()?,
            },
            2 => {
                let welcome = serde_json::from_slice(fields.rest());
                Message::Welcome(Box::new(welcome.map_err(|_| Malformed("welcome"))?))
            }
            3 => Message::Refuse(fields.text()?),
            4 => Message::Configure {
                order: fields.order()?,
                slot: fields.u32()?,
                nth: fields.u32()?,
                settings: fields.text()?,
            },
            5 => Message::Release { order: fields.order()?, slot: fields.u32()? },
            6 => Message::Import {
                order: fields.order()?,
                slot: fields.u32()?,
                now: fields.u64()?,
                context: fields.rest().to_vec(),
            },
            7 => Message::Start(fields.numbers()?),
            8 => Message::Ready,
            9 => Message::Ping(fields.u32()?),
            10 => Message::Pong(fields.u32()?),
            11 => Message::Fence(fields.u32()?),
            12 => Message::Fenced(fields.u32()?),
            13 => Message::Checkpoint { now: fields.u64()? },
            14 => Message::Context {
                worker: fields.u16()?,
                slot: fields.u32()?,
                context: fields.rest().to_vec(),
            },
            15 => Message::Checkpointed,
            16 => {
                Message::Export { worker: fields.u16()?, slot: fields.u32()?, now: fields.u64()? }
            }
            17 => Message::Exported {
                worker: fields.u16()?,
                slot: fields.u32()?,
                context: fields.rest().to_vec(),
            },
            18 => Message::NotImported {
                worker: fields.u16()?,
                slot: fields.u32()?,
                reason: fields.text()?,
            },
            19 => Message::Counted(fields.counters()?),
            _ => return Err(Malformed("unknown type")),
        })
    }
}

fn put_order((worker, number): (u16, u32), slot: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&worker.to_le_bytes());
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&slot.to_le_bytes());
}

struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// All numbers that follow.
    fn numbers(&mut self) -> Result<Vec<u32>, Malformed> {
        let mut numbers = Vec::new();
        while !self.0.is_empty() {
            numbers.push(self.u32()?);
        }
        Ok(numbers)
    }

    fn counters(&mut self) -> Result<PortCounters, Malformed> {
        let mut counters = PortCounters::default();
        for count in &mut counters.0 {
            *count = self.u64()?;
        }
        Ok(counters)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (field, rest) = self.0.split_first_chunk().ok_or(Malformed("too short"))?;
        self.0 = rest;
        Ok(*field)
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    fn order(&mut self) -> Result<(u16, u32), Malformed> {
        Ok((self.u16()?, self.u32()?))
    }

    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    fn text(&mut self) -> Result<String, Malformed> {
        let text = str::from_utf8(self.rest()).map_err(|_| Malformed("not UTF-8"))?;
        Ok(text.to_owned())
    }
}

#[cfg(test)]
mod tests;
