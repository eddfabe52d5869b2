//! The safe layer over DPDK.
//!
//! Five nouns carry a packet: an [`Eal`] is the environment, started once per
//! process; a [`Pool`] holds the buffers; a [`Packet`] is one owned buffer and
//! the metadata that travel with it, of a type that the crates above define; a [`Batch`] is up to
//! [`Batch::CAPACITY`] of them; a [`Port`] is one Ethernet device, named by its
//! DPDK device string, whose queues are handed out as [`RxQueue`] and
//! [`TxQueue`]. Beside them stand the [`Ring`], which hands packets or commands
//! from one thread to another, and the [`Table`], which finds many keys at once;
//! [`crypto`] encrypts and decrypts by a cryptographic device, and the
//! [`watchdog`] looks after the threads that all this happens in.
//!
//! Nothing else in Weft sees a DPDK pointer, and apart from the bindings this
//! is the only crate on the way of a packet that contains `unsafe`.
//!
//! ```no_run
//! use weft_dpdk::{Batch, Eal, EalOptions, Pool, Port, PortOptions};
//!
//! let eal = Eal::start(&EalOptions::default())?;
//! let pool = Pool::new(eal, "packets", 2047)?;
//! let port = Port::open(eal, "net_null0,size=64", &PortOptions::default(), &pool)?;
//! let (mut rx, mut tx) = (port.take_rx(0).unwrap(), port.take_tx(0).unwrap());
//! let mut batch = Batch::new();
//! rx.receive(&mut batch, 32);
//! tx.transmit(&mut batch);
//! # Ok::<(), weft_dpdk::Error>(())
//! ```

use std::sync::{Mutex, MutexGuard, PoisonError};

mod buffer;
pub mod crypto;
mod eal;
mod error;
pub mod numa;
mod port;
mod ring;
mod room;
mod sleep;
mod table;
pub mod tsc;
pub mod watchdog;

pub use buffer::{Batch, METADATA_BYTES, Packet, Pool, layout};
pub use eal::{Eal, EalOptions, KeptOff, Memory, Registration, keep_off_core, pin_to_core};
pub use error::{Error, Result};
pub use port::{
    Capabilities, Checksums, FlowField, FlowId, FlowLevel, FlowMatch, FlowRefusal, FlowRule,
    FlowSupport, FlowTaking, Holder, Ingress, Link, Port, PortOptions, PortStatistics, RxQueue,
    Spreading, Steering, SteeringKey, SteeringRun, TxQueue, WakeSource, await_delivery,
    close_inherited, devices_sum_udp, is_pci_address, is_shared, keep_from_children,
    kernel_offloads, may_steer, pci_addresses,
};
pub use ring::{Consumer, Producer, Ring};
pub use room::with_room;
pub use sleep::{Sleep, Wakeup};
pub use table::{Full, Key, Table, Value, prefetch, prefetch_at};

/// Locks a mutex of this crate: what a panic may leave behind in one is valid.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
