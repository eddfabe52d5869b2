//! A thread that polls sleeps until there is something for it: packets at a queue whose device
//! tells of them, or something that another thread has put into a ring.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;

use crate::port::RxQueue;

/// Ends the sleep of a thread that may sleep for it; shared by all who hold it.
#[derive(Clone, Debug)]
pub struct Wakeup(Arc<Event>);

#[derive(Debug)]
struct Event {
    /// An eventfd(2).
    descriptor: OwnedFd,
    /// Whether a thread sleeps, or is about to.
    is_armed: AtomicBool,
}

impl Wakeup {
    /// None sleeps for it yet.
    ///
    /// # Errors
    /// When the process may not have a further descriptor.
    pub fn new() -> io::Result<Wakeup> {
        // SAFETY: has no preconditions; the descriptor is given to one owner.
        let descriptor = unsafe {
            match libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) {
                -1 => return Err(io::Error::last_os_error()),
                descriptor => OwnedFd::from_raw_fd(descriptor),
            }
        };
        Ok(Wakeup(Arc::new(Event { descriptor, is_armed: AtomicBool::new(false) })))
    }

    /// There is something: to be called behind what puts it there. Costs a system call only where
    /// a thread sleeps.
    #[inline]
    pub fn ring(&self) {
        // Either the sleeper, which looks once more behind `arm`, sees what was put there, or its
        // arming is seen here.
        fence(Ordering::SeqCst);
        if self.0.is_armed.load(Ordering::Relaxed) {
            self.write();
        }
    }

    #[cold]
    fn write(&self) {
        if self.0.is_armed.swap(false, Ordering::Relaxed) {
            // SAFETY: the descriptor is open; eight octets are read. It is full only once it has
            // woken whom it wakes.
            unsafe {
                let one = 1_u64;
                libc::write(
                    self.0.descriptor.as_raw_fd(),
                    (&raw const one).cast(),
                    size_of::<u64>(),
                );
            }
        }
    }

    fn arm(&self) {
        self.0.is_armed.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    fn disarm(&self) {
        self.0.is_armed.store(false, Ordering::Relaxed);
        let mut count = 0_u64;
        // SAFETY: the descriptor is open and does not block; there is room for eight octets.
        unsafe {
            libc::read(self.0.descriptor.as_raw_fd(), (&raw mut count).cast(), size_of::<u64>());
        }
    }
}

/// What a thread sleeps for. Everything is armed as it is added; behind that the thread has to
/// look once more for what came before, and then may [wait](Self::wait).
#[derive(Debug, Default)]
pub struct Sleep {
    descriptors: Vec<libc::pollfd>,
    wakeups: Vec<Wakeup>,
}

impl Sleep {
    /// For this as well.
    pub fn add_wakeup(&mut self, wakeup: &Wakeup) {
        wakeup.arm();
        self.add(wakeup.0.descriptor.as_raw_fd());
        self.wakeups.push(wakeup.clone());
    }

    /// For packets at this queue as well, which is to be [disarmed](RxQueue::disarm) behind it.
    /// False where the device does not tell of them.
    pub fn add_queue(&mut self, queue: &RxQueue) -> bool {
        let descriptor = queue.arm();
        descriptor.map(|descriptor| self.add(descriptor)).is_some()
    }

    fn add(&mut self, fd: RawFd) {
        self.descriptors.push(libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    }

    /// Sleeps until something comes, but no longer than that.
    pub fn wait(&mut self, longest: Duration) {
        let time = libc::timespec {
            tv_sec: longest.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(longest.subsec_nanos()),
        };
        let (all, count) = (self.descriptors.as_mut_ptr(), self.descriptors.len());
        // SAFETY: the kernel reads and writes `count` entries, and reads the time; no mask of
        // signals is given. Descriptors that were closed meanwhile end the sleep at once.
        unsafe { libc::ppoll(all, count as libc::nfds_t, &time, std::ptr::null()) };
    }

    /// The thread is awake; what it sleeps for next is added anew.
    pub fn end(&mut self) {
        self.descriptors.clear();
        self.wakeups.drain(..).for_each(|wakeup| wakeup.disarm());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::thread;
    use std::time::Instant;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_wakeup_from_before_the_sleep_is_not_slept_over() {
        let wakeup = Wakeup::new().unwrap();
        // None sleeps: nothing is written.
        wakeup.ring();
        let mut sleep = Sleep::default();
        let begun = Instant::now();
        sleep.add_wakeup(&wakeup);
        sleep.wait(Duration::from_millis(1));
        sleep.end();
        assert!(begun.elapsed() >= Duration::from_millis(1));
        sleep.add_wakeup(&wakeup);
        wakeup.ring();
        sleep.wait(LONG);
        sleep.end();
        assert!(begun.elapsed() < LONG);
    }

    #[test]
    fn whatever_is_put_somewhere_is_found_however_threads_meet() {
        const COUNT: u64 = 20_000;
        let (wakeup, put) = (Wakeup::new().unwrap(), Arc::new(AtomicU64::new(0)));
        let (other, others) = (wakeup.clone(), put.clone());
        let producer = thread::spawn(move || {
            for number in 1..=COUNT {
                others.store(number, Ordering::Relaxed);
                other.ring();
                if number % 64 == 0 {
                    thread::yield_now();
                }
            }
        });
        let mut sleep = Sleep::default();
        let begun = Instant::now();
        let mut seen = 0;
        while seen < COUNT {
            sleep.add_wakeup(&wakeup);
            if put.load(Ordering::Relaxed) == seen {
                sleep.wait(LONG);
            }
            sleep.end();
            seen = put.load(Ordering::Relaxed);
        }
        producer.join().unwrap();
        // One that was slept over would have taken a minute.
        assert!(begun.elapsed() < LONG);
    }
}
