//! Slots that are free, and slots that are taken.

use std::collections::{HashSet, VecDeque};

/// Slots of one kind, dealt out to workers.
#[derive(Clone, Debug)]
pub struct Slots {
    /// For each worker: indexes that are free again, and the next fresh one.
    workers: Vec<(VecDeque<u32>, u32)>,
    /// Indexes that each worker has.
    capacity: u32,
    first: u32,
}

impl Slots {
    /// As many slots as `capacity` for each worker, from `first` on.
    pub fn new(workers: usize, first: u32, capacity: u32) -> Slots {
        Slots { workers: vec![(VecDeque::new(), first); workers], capacity, first }
    }

    /// Workers there are.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Slots that each worker has.
    pub fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// Slots of a worker that are free.
    pub fn free(&self, worker: usize) -> usize {
        let (returned, next) = &self.workers[worker];
        returned.len() + (self.first + self.capacity - next) as usize
    }

    /// Indexes of a worker's slots that are taken.
    pub fn taken(&self, worker: usize) -> impl Iterator<Item = u32> + '_ {
        let (returned, next) = &self.workers[worker];
        let returned: HashSet<u32> = returned.iter().copied().collect();
        (self.first..*next).filter(move |index| !returned.contains(index))
    }

    /// A free slot of a worker, by its index: one that has rested as long as can
    /// be, as packets of its last user may still be on their way between workers.
    pub fn take(&mut self, worker: usize) -> Option<u32> {
        let end = self.first + self.capacity;
        let (returned, next) = &mut self.workers[worker];
        if *next < end {
            *next += 1;
            return Some(*next - 1);
        }
        returned.pop_front()
    }

    /// Takes a slot that was given back a short while ago.
    pub fn take_again(&mut self, worker: usize, index: u32) {
        let returned = &mut self.workers[worker].0;
        if let Some(at) = returned.iter().rposition(|one| *one == index) {
            returned.remove(at);
        }
    }

    /// `count` indexes in a row: those of a run that was given back, or fresh
    /// ones. Runs given back are known by their length.
    pub fn take_run(&mut self, worker: usize, count: u32) -> Option<u32> {
        let end = self.first + self.capacity;
        let (returned, next) = &mut self.workers[worker];
        let run = |first: u32| (first..first + count).all(|index| returned.contains(&index));
        if let Some(first) = returned.iter().copied().find(|first| run(*first)) {
            returned.retain(|index| !(first..first + count).contains(index));
            return Some(first);
        }
        let first = *next;
        (first + count <= end).then(|| {
            *next += count;
            first
        })
    }

    /// The slot is free again.
    pub fn give_back(&mut self, worker: usize, index: u32) {
        self.workers[worker].0.push_back(index);
    }
}
