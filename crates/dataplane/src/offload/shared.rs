//! What a queue and the supervisor of its function tell each other.

use std::sync::atomic::{AtomicU32, Ordering};

/// What the two share: the session is written by who looks after the function, the
/// counts by the worker.
#[derive(Debug, Default)]
pub struct Shared {
    /// Odd while the function is there; every change adds one.
    session: AtomicU32,
    away: AtomicU32,
    returned: AtomicU32,
    strays: AtomicU32,
    lost: AtomicU32,
}

impl Shared {
    /// The function is there: packets go to it from now on. If it was there before,
    /// what is away is lost.
    #[inline]
    pub fn go_up(&self) {
        let session = self.session.load(Ordering::Relaxed);
        self.session.store((session + 1) | 1, Ordering::Release);
    }

    /// The function is not there any more: what is away is lost.
    #[inline]
    pub fn go_down(&self) {
        let session = self.session.load(Ordering::Relaxed);
        if session & 1 == 1 {
            self.session.store(session.wrapping_add(1), Ordering::Release);
        }
    }

    /// Whether the function is there.
    #[inline]
    pub fn is_up(&self) -> bool {
        self.session() & 1 == 1
    }

    /// Times that the function was there and went.
    #[inline]
    pub fn failures(&self) -> u32 {
        self.session() / 2
    }

    /// Packets of this worker that are away.
    #[inline]
    pub fn away(&self) -> u32 {
        self.away.load(Ordering::Relaxed)
    }

    /// Frames that came back; wraps.
    #[inline]
    pub fn returned(&self) -> u32 {
        self.returned.load(Ordering::Relaxed)
    }

    /// Frames that came back and were none that a function may send; wraps.
    #[inline]
    pub fn strays(&self) -> u32 {
        self.strays.load(Ordering::Relaxed)
    }

    /// Packets that were away when the function failed, or that it passed over; wraps.
    #[inline]
    pub fn lost(&self) -> u32 {
        self.lost.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn session(&self) -> u32 {
        self.session.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn set_away(&self, away: usize) {
        self.away.store(away as u32, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn count_returned(&self, count: usize) {
        let returned = self.returned.load(Ordering::Relaxed).wrapping_add(count as u32);
        self.returned.store(returned, Ordering::Relaxed);
    }

    #[cold]
    pub(crate) fn count_stray(&self) {
        let strays = self.strays.load(Ordering::Relaxed).wrapping_add(1);
        self.strays.store(strays, Ordering::Relaxed);
    }

    #[cold]
    pub(crate) fn count_lost(&self) {
        let lost = self.lost.load(Ordering::Relaxed).wrapping_add(1);
        self.lost.store(lost, Ordering::Relaxed);
    }
}
