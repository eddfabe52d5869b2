//! When a worker may sleep until something comes, and for what.

use std::time::Duration;

use weft_dpdk::{Sleep, Wakeup};

use crate::worker::Worker;

/// The longest sleep of a worker, whatever tells of packets.
const LONGEST: Duration = Duration::from_millis(100);

impl Worker {
    /// Who gives it commands or packets ends its sleep by this.
    pub fn set_wakeup(&mut self, wakeup: Wakeup) {
        self.wakeup = Some(wakeup);
    }

    /// Adds to `sleep` all that it may sleep for, and returns for how long it may at most. None
    /// where it has to look for something that nothing tells of: packets of a device without
    /// interrupts, or what functions elsewhere have. Behind that, [`disarm`](Self::disarm) in
    /// either case.
    pub fn arm(&self, sleep: &mut Sleep) -> Option<Duration> {
        let wakeup = self.wakeup.as_ref().filter(|_| self.is_at_rest())?;
        sleep.add_wakeup(wakeup);
        let mut inlets = self.inlets.iter();
        inlets.all(|inlet| sleep.add_queue(&inlet.queue)).then(|| {
            let now = self.clock.now();
            let timer = self.queues.next_timer();
            let left = timer.map(|time| Duration::from_nanos(time.saturating_sub(now)));
            left.map_or(LONGEST, |left| left.min(LONGEST))
        })
    }

    /// It is awake.
    pub fn disarm(&self) {
        self.inlets.iter().for_each(|inlet| inlet.queue.disarm());
    }

    /// Whether nothing is under way that goes on by itself.
    fn is_at_rest(&self) -> bool {
        self.remote_queues.is_empty()
            && !self.remote_queues.has_stages()
            && self.departure.service.is_none()
            && self.delay_bound.is_none()
            && self.copies.is_none()
            && !self.is_loading
            && self.state.changing.is_none()
            && self.state.unreported.is_empty()
            && self.state.leaving.is_empty()
            && !self.queues.has_resets()
            && !self.queues.has_reports()
            && !self.queues.has_answers()
            && self.inlets.iter().all(|inlet| inlet.queue.has_interrupt())
    }
}
