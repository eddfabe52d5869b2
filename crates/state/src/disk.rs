//! A disk that loses what was not synced when the machine stops: any part of it, in any order.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;
use redb::StorageBackend;

/// Octets that the disk writes at once, or not at all.
const SECTOR: usize = 512;

#[derive(Clone, Debug)]
enum Operation {
    /// One sector or a part of it.
    Write(usize, Vec<u8>),
    SetLength(usize),
}

#[derive(Debug, Default)]
struct Inner {
    /// What a sync has made durable.
    durable: Vec<u8>,
    /// What is read.
    cached: Vec<u8>,
    /// What was done since, in order.
    unsynced: Vec<Operation>,
    /// Operations that still succeed; then the power is gone.
    left: Option<u64>,
}

/// The disk; clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Disk(Arc<Mutex<Inner>>);

impl Disk {
    /// A disk with that on it.
    pub fn with(octets: Vec<u8>) -> Disk {
        let inner = Inner { durable: octets.clone(), cached: octets, ..Inner::default() };
        Disk(Arc::new(Mutex::new(inner)))
    }

    /// The power is gone after so many more operations.
    pub fn fail_after(&self, operations: u64) {
        self.lock().left = Some(operations);
    }

    /// What is on it once the power is back: what was synced, and of the rest any part. Sectors
    /// get to the disk in any order, as long as nothing was synced between them.
    pub fn after_power_loss(&self, random: &mut Xoshiro256PlusPlus) -> Vec<u8> {
        let inner = self.lock();
        let mut octets = inner.durable.clone();
        let mut unsynced = inner.unsynced.clone();
        let keep = random.next_u64() % 4;
        // Nothing, a prefix in order, or any of it in any order.
        match keep {
            0 => unsynced.clear(),
            1 => unsynced.truncate((random.next_u64() % (unsynced.len() as u64 + 1)) as usize),
            _ => {
                let chance = random.next_u64() % 101;
                unsynced.retain(|_| random.next_u64() % 100 < chance);
                for at in (1..unsynced.len()).rev() {
                    unsynced.swap(at, (random.next_u64() % (at as u64 + 1)) as usize);
                }
            }
        }
        for operation in unsynced {
            apply(&operation, &mut octets);
        }
        octets
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn operate(&self, operation: impl FnOnce(&mut Inner)) -> io::Result<()> {
        let mut inner = self.lock();
        match &mut inner.left {
            Some(0) => return Err(io::Error::other("the power is gone")),
            Some(left) => *left -= 1,
            None => {}
        }
        operation(&mut inner);
        Ok(())
    }
}

fn apply(operation: &Operation, octets: &mut Vec<u8>) {
    match operation {
        Operation::Write(at, data) => {
            // The length of the file may not have got there before.
            if octets.len() < at + data.len() {
                octets.resize(at + data.len(), 0);
            }
            octets[*at..at + data.len()].copy_from_slice(data);
        }
        Operation::SetLength(length) => octets.resize(*length, 0),
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.lock().cached.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let inner = self.lock();
        let at = offset as usize;
        let there = inner.cached.get(at..at + out.len());
        out.copy_from_slice(there.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.operate(|inner| {
            let operation = Operation::SetLength(length as usize);
            apply(&operation, &mut inner.cached);
            inner.unsynced.push(operation);
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.operate(|inner| {
            inner.durable = inner.cached.clone();
            inner.unsynced.clear();
        })
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.operate(|inner| {
            let (mut at, mut data) = (offset as usize, data);
            while !data.is_empty() {
                let (sector, rest) = data.split_at(data.len().min(SECTOR - at % SECTOR));
                let operation = Operation::Write(at, sector.to_vec());
                apply(&operation, &mut inner.cached);
                inner.unsynced.push(operation);
                (at, data) = (at + sector.len(), rest);
            }
        })
    }
}
