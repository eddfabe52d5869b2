//! Stands between a function process and the node's end of its ring (vhost-user).
//!
//! Workers read the memory that the process shares, and write to the descriptor by which it
//! wants to be called. Both must never wait for the process. So memory is taken of file systems
//! alone whose pages the kernel has, and not of one that the process may serve itself (FUSE);
//! and workers call by a descriptor of the node's own, from which this thread passes the call
//! on. All other messages go through as they are.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::fstatfs;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use weft_dpdk::watchdog::{self, Watch};

/// Requests of the vhost-user protocol that have descriptors.
mod request {
    pub const SET_MEM_TABLE: u32 = 5;
    pub const SET_LOG_BASE: u32 = 6;
    pub const SET_LOG_FD: u32 = 7;
    pub const SET_VRING_KICK: u32 = 12;
    pub const SET_VRING_CALL: u32 = 13;
    pub const SET_VRING_ERR: u32 = 14;
    pub const SET_BACKEND_REQ_FD: u32 = 21;
    pub const SET_INFLIGHT_FD: u32 = 32;
    pub const ADD_MEM_REG: u32 = 37;
    pub const REM_MEM_REG: u32 = 38;
}

/// Octets of a message before its payload: request, flags and size of that.
const HEAD: usize = 12;
/// Octets of the longest payload; that of the protocol's messages is below 1,024.
const PAYLOAD: usize = 4096;
/// Descriptors of a message: one for each region of memory.
const DESCRIPTORS: usize = 8;
/// Connections at once; what comes beyond waits.
const CONNECTIONS: usize = 4;
/// A message that does not come to its end, or is not taken, ends the connection.
const PATIENCE: Duration = Duration::from_secs(1);
/// Ended connections that the log names each; then each power of two.
const NAMED: u64 = 8;

/// File systems whose pages the kernel has (`linux/magic.h`): tmpfs, also that of memfd, and
/// hugetlbfs.
const IN_MEMORY: [u32; 2] = [0x0102_1994, 0x9584_58f6];

/// The thread; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Gate {
    stop: Arc<OwnedFd>,
}

impl Gate {
    /// Listens at `ring` for a function, and passes on to the node's end at `inner`.
    ///
    /// # Errors
    /// When the socket cannot be made, or there is no thread.
    pub(super) fn start(function: &str, ring: &Path, inner: PathBuf) -> io::Result<Gate> {
        let listener = UnixListener::bind(ring)?;
        listener.set_nonblocking(true)?;
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let passage = Passage {
            function: function.to_owned(),
            listener,
            inner,
            stop: stop.clone(),
            connections: Vec::new(),
            ended: 0,
        };
        let run = || watchdog::watched(Watch::Life, || passage.run());
        thread::Builder::new().name("function-gate".to_owned()).spawn(run)?;
        Ok(Gate { stop })
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        // It is not waited for: a process may hold it up.
        call(&self.stop);
    }
}

/// What the thread has.
struct Passage {
    function: String,
    listener: UnixListener,
    inner: PathBuf,
    stop: Arc<OwnedFd>,
    connections: Vec<Connection>,
    ended: u64,
}

/// A function at the ring.
struct Connection {
    function: UnixStream,
    node: UnixStream,
    /// By the numbers of queues.
    calls: BTreeMap<u8, Call>,
}

/// How a function is called about a queue.
struct Call {
    /// What workers write to. It never blocks.
    ours: OwnedFd,
    theirs: OwnedFd,
}

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("it was closed")]
    Closed,
    #[error("{0}")]
    Broken(#[from] io::Error),
    #[error("a message of {0} octets")]
    TooLong(usize),
    #[error("request {0} has descriptors that it cannot have")]
    Descriptors(u32),
    #[error(
        "its memory is of a file system ({0:#x}) that may hold up who reads it: it must be of \
         memfd, tmpfs or hugetlbfs"
    )]
    Memory(u32),
    #[error("it wants to be called by what is no eventfd")]
    NoEventfd,
}

impl From<rustix::io::Errno> for End {
    fn from(error: rustix::io::Errno) -> End {
        End::Broken(error.into())
    }
}

impl Passage {
    fn run(mut self) {
        while self.round() {}
    }

    /// Waits until there is something to do, and does it; false at the end.
    fn round(&mut self) -> bool {
        let has_room = self.connections.len() < CONNECTIONS;
        let fixed = [self.stop.as_fd(), self.listener.as_fd()];
        let ends = self.connections.iter().flat_map(Connection::descriptors);
        let fixed = fixed.into_iter().take(1 + usize::from(has_room));
        let mut all: Vec<_> =
            fixed.chain(ends).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        if poll(&mut all, None).is_err() {
            return true;
        }
        let mut ready =
            all.iter().map(|fd| !fd.revents().is_empty()).collect::<Vec<_>>().into_iter();
        if ready.next() == Some(true) {
            return false;
        }
        let comes = has_room && ready.next() == Some(true);
        let mut ends = Vec::new();
        self.connections.retain_mut(|connection| {
            let ready: Vec<bool> = ready.by_ref().take(connection.descriptors().count()).collect();
            connection.serve(&ready).map_err(|end| ends.push(end)).is_ok()
        });
        ends.into_iter().for_each(|end| self.tell(&end));
        if comes {
            self.accept();
        }
        true
    }

    fn accept(&mut self) {
        let Ok((function, _)) = self.listener.accept() else { return };
        match Connection::new(function, &self.inner) {
            Ok(connection) => self.connections.push(connection),
            Err(error) => self.tell(&End::Broken(error)),
        }
    }

    fn tell(&mut self, end: &End) {
        if matches!(end, End::Closed) {
            return;
        }
        self.ended += 1;
        if self.ended <= NAMED || self.ended.is_power_of_two() {
            let function = &self.function;
            tracing::warn!(function, ended = self.ended, "its end of the ring is refused: {end}");
        }
    }
}

impl Connection {
    fn new(function: UnixStream, inner: &Path) -> io::Result<Connection> {
        let node = UnixStream::connect(inner)?;
        for end in [&function, &node] {
            end.set_nonblocking(false)?;
            end.set_read_timeout(Some(PATIENCE))?;
            end.set_write_timeout(Some(PATIENCE))?;
        }
        Ok(Connection { function, node, calls: BTreeMap::new() })
    }

    /// What it waits for: both ends, and calls.
    fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let calls = self.calls.values().map(|call| call.ours.as_fd());
        [self.function.as_fd(), self.node.as_fd()].into_iter().chain(calls)
    }

    /// Passes on what is ready of its [descriptors](Self::descriptors).
    fn serve(&mut self, ready: &[bool]) -> Result<(), End> {
        for (call, _) in self.calls.values().zip(&ready[2..]).filter(|(_, ready)| **ready) {
            call.pass();
        }
        if ready[1] {
            self.answer()?;
        }
        if ready[0] {
            self.ask()?;
        }
        Ok(())
    }

    /// A message of the node, which is believed.
    fn answer(&self) -> Result<(), End> {
        let mut octets = [0; HEAD + PAYLOAD];
        let (count, descriptors) = receive(&self.node, &mut octets)?;
        send(&self.function, &octets[..count], &descriptors)
    }

    /// A message of the function.
    fn ask(&mut self) -> Result<(), End> {
        let mut octets = [0; HEAD + PAYLOAD];
        let (count, descriptors) = receive(&self.function, &mut octets[..HEAD])?;
        self.function.read_exact(&mut octets[count..HEAD])?;
        let field = |at: usize| {
            u32::from_ne_bytes([octets[at], octets[at + 1], octets[at + 2], octets[at + 3]])
        };
        let (request, size) = (field(0), field(8) as usize);
        if size > PAYLOAD {
            return Err(End::TooLong(size));
        }
        self.function.read_exact(&mut octets[HEAD..HEAD + size])?;
        let descriptors = self.admit(request, octets[HEAD], descriptors)?;
        send(&self.node, &octets[..HEAD + size], &descriptors)
    }

    /// The descriptors that the node gets for these. The payload begins with the number of a
    /// queue where a request is about one.
    fn admit(
        &mut self,
        request: u32,
        queue: u8,
        descriptors: Vec<OwnedFd>,
    ) -> Result<Vec<OwnedFd>, End> {
        use request::*;
        match request {
            SET_MEM_TABLE | ADD_MEM_REG | REM_MEM_REG | SET_LOG_BASE | SET_INFLIGHT_FD => {
                descriptors.iter().try_for_each(is_in_memory)?;
            }
            SET_VRING_CALL => {
                self.calls.remove(&queue);
                let mut descriptors = descriptors.into_iter();
                let Some(theirs) = descriptors.next() else { return Ok(Vec::new()) };
                is_eventfd(&theirs)?;
                let ours = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
                let given = ours.try_clone()?;
                self.calls.insert(queue, Call { ours, theirs });
                return Ok(vec![given]);
            }
            SET_VRING_KICK | SET_VRING_ERR | SET_LOG_FD => {
                descriptors.iter().try_for_each(is_eventfd)?;
            }
            SET_BACKEND_REQ_FD => {}
            _ if descriptors.is_empty() => {}
            _ => return Err(End::Descriptors(request)),
        }
        Ok(descriptors)
    }
}

impl Call {
    fn pass(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.ours, &mut count);
        // One that is full would block, and knows of the call already.
        let mut theirs = [PollFd::new(&self.theirs, PollFlags::OUT)];
        let _ = poll(&mut theirs, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        if theirs[0].revents().contains(PollFlags::OUT) {
            call(&self.theirs);
        }
    }
}

fn call(eventfd: &OwnedFd) {
    // One that is full is read soon.
    let _ = rustix::io::write(eventfd, &1_u64.to_ne_bytes());
}

fn is_in_memory(descriptor: &OwnedFd) -> Result<(), End> {
    let kind = fstatfs(descriptor)?.f_type as u32;
    if IN_MEMORY.contains(&kind) { Ok(()) } else { Err(End::Memory(kind)) }
}

fn is_eventfd(descriptor: &OwnedFd) -> Result<(), End> {
    use std::os::fd::AsRawFd;
    let link = std::fs::read_link(format!("/proc/self/fd/{}", descriptor.as_raw_fd()))?;
    if link == Path::new("anon_inode:[eventfd]") { Ok(()) } else { Err(End::NoEventfd) }
}

/// Takes what has come, with its descriptors.
fn receive(from: &UnixStream, octets: &mut [u8]) -> Result<(usize, Vec<OwnedFd>), End> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut into = [IoSliceMut::new(octets)];
    let message = recvmsg(from, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let descriptors: Vec<OwnedFd> = control
        .drain()
        .filter_map(|part| match part {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        })
        .flatten()
        .collect();
    match message.bytes {
        0 => Err(End::Closed),
        _ if message.flags.contains(ReturnFlags::CTRUNC) => Err(End::Descriptors(0)),
        count => Ok((count, descriptors)),
    }
}

fn send(to: &UnixStream, octets: &[u8], descriptors: &[OwnedFd]) -> Result<(), End> {
    let descriptors: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    let sent = sendmsg(to, &[IoSlice::new(octets)], &mut control, SendFlags::NOSIGNAL)?;
    let mut to = to;
    Ok(to.write_all(&octets[sent..])?)
}
