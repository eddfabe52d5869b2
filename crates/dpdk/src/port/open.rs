//! An open device, as its port and its queues hold it together.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::device::Device;
use crate::buffer::Pool;

/// What the port and its queues hold together; the device goes with the last.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) device: Device,
    pub(super) name: String,
    pub(super) mac: [u8; 6],
    chained: AtomicU64,
    is_gone: AtomicBool,
    /// Behind the device, which gives its packets back when it goes.
    _pool: Pool,
}

impl Open {
    pub(super) fn new(device: Device, name: &str, pool: &Pool) -> Open {
        Open {
            mac: device.mac(),
            device,
            name: name.to_owned(),
            chained: AtomicU64::new(0),
            is_gone: AtomicBool::new(false),
            _pool: pool.clone(),
        }
    }

    pub(super) fn note_gone(&self) {
        self.is_gone.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Relaxed)
    }

    /// Received packets that were dropped for lying in several buffers.
    pub(super) fn chained(&self) -> u64 {
        self.chained.load(Ordering::Relaxed)
    }

    pub(crate) fn count_chained(&self, count: u64) {
        self.chained.fetch_add(count, Ordering::Relaxed);
    }
}
