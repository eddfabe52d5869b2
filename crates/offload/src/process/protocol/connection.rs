//! One end of a control connection: messages over a stream that does not block.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

use super::{MAX_MESSAGE, Message};

/// Octets that are read at once.
const CHUNK: usize = 16 << 10;
/// Octets that wait for an end that does not read, besides what it is told at first.
const QUEUE: usize = 64 << 20;

/// One end of a control connection.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    incoming: Vec<u8>,
    /// Octets at the front of `incoming` that were read.
    taken: usize,
    /// Where octets come first: made once, as it is looked for them often.
    chunk: Box<[u8]>,
    outgoing: Vec<u8>,
    /// Octets at the front of `outgoing` that were sent.
    sent: usize,
    /// Octets that may wait in `outgoing`.
    most: usize,
    /// More would have waited.
    is_overrun: bool,
}

impl Connection {
    /// Over a stream, which does not block from now on.
    ///
    /// # Errors
    /// When the stream cannot do that.
    pub fn new(stream: UnixStream) -> io::Result<Connection> {
        stream.set_nonblocking(true)?;
        let chunk = vec![0; CHUNK].into_boxed_slice();
        Ok(Connection {
            stream,
            incoming: Vec::new(),
            taken: 0,
            chunk,
            outgoing: Vec::new(),
            sent: 0,
            most: QUEUE,
            is_overrun: false,
        })
    }

    /// The stream, to wait on.
    pub fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Sends a message, or keeps it until [`flush`](Self::flush) can.
    ///
    /// # Errors
    /// When the other end is gone, or has not read for so long that 64 MiB wait.
    pub fn send(&mut self, message: &Message) -> io::Result<()> {
        self.put(message);
        self.flush()
    }

    /// The same of a message behind which more follow at once: it leaves with them, or with the
    /// next [`flush`](Self::flush).
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_with_next(&mut self, message: &Message) -> io::Result<()> {
        self.put(message);
        if self.waiting() >= CHUNK { self.flush() } else { Ok(()) }
    }

    fn put(&mut self, message: &Message) {
        match self.waiting() > self.most {
            true => self.is_overrun = true,
            false => message.write(&mut self.outgoing),
        }
    }

    /// Sends all that the other end must know at first, however much that is.
    ///
    /// # Errors
    /// When the other end is gone.
    pub fn send_all(&mut self, messages: impl IntoIterator<Item = Message>) -> io::Result<()> {
        messages.into_iter().for_each(|message| message.write(&mut self.outgoing));
        self.most = QUEUE + self.waiting();
        self.flush()
    }

    /// Octets that wait until the other end reads.
    fn waiting(&self) -> usize {
        self.outgoing.len() - self.sent
    }

    /// Whether something is still to be sent.
    pub fn is_sending(&self) -> bool {
        self.waiting() > 0
    }

    /// Sends what waits, as far as the socket takes it.
    ///
    /// # Errors
    /// When the other end is gone, or has not read for too long.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.is_overrun {
            return Err(ErrorKind::StorageFull.into());
        }
        while self.is_sending() {
            match (&self.stream).write(&self.outgoing[self.sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.sent += count;
                    forget(&mut self.outgoing, &mut self.sent);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The next message, if a whole one is there.
    ///
    /// # Errors
    /// When the other end is gone, or what it sends is no message.
    pub fn receive(&mut self) -> io::Result<Option<Message>> {
        loop {
            if let Some(message) = self.next()? {
                return Ok(Some(message));
            }
            match (&self.stream).read(&mut self.chunk) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.incoming.extend_from_slice(&self.chunk[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn next(&mut self) -> io::Result<Option<Message>> {
        let invalid = |reason: &'static str| io::Error::new(ErrorKind::InvalidData, reason);
        let incoming = &self.incoming[self.taken..];
        let Some(length) = incoming.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > MAX_MESSAGE {
            return Err(invalid("a message that is too long"));
        }
        let Some(bytes) = incoming.get(4..4 + length) else { return Ok(None) };
        let message = Message::read(bytes).map_err(|error| invalid(error.0))?;
        self.taken += 4 + length;
        forget(&mut self.incoming, &mut self.taken);
        Ok(Some(message))
    }
}

/// Takes what is done out of the front of a queue, once it is half of it: what is behind
/// is moved seldom, however small the pieces are.
fn forget(queue: &mut Vec<u8>, done: &mut usize) {
    if *done * 2 >= queue.len() {
        queue.drain(..*done);
        *done = 0;
    }
}
