//! Datagrams by the dozen: those of one peer that are equally long go through the kernel as one.
//!
//! A system call and the way through the kernel cost several times what most messages cost to
//! be read. Linux lets a program hand over up to 64 equally long datagrams as one (UDP
//! segmentation offload, `udp(7)`), which become datagrams on the wire, and hands over such as
//! arrive behind one another in the same way. Where the system or a device cannot do that, each
//! is sent by itself.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt,
    sockopt,
};

/// Datagrams that go as one, at most: what Linux allows.
const MOST: usize = 64;
/// Fewer go one by one: captures at the interface of the sender show them as one, and at low rates
/// those should have a message in each datagram.
const FEWEST: usize = 8;
/// Octets of them, at most: what an IPv4 packet may have.
const MOST_OCTETS: usize = 65_000;
/// Longer ones may be longer than a device takes in one piece, and would be refused.
const LONGEST: usize = 1_400;
/// Octets that come at once, at most.
const ROOM: usize = 65_535;

/// Receives datagrams.
#[derive(Debug)]
pub struct Receiver {
    buffer: Vec<u8>,
    control: Vec<u8>,
}

/// Datagrams of one peer that came as one; all but the last are equally long.
#[derive(Clone, Copy, Debug)]
pub struct Received<'b> {
    /// Where they came from.
    pub from: SocketAddr,
    /// One behind the other.
    pub octets: &'b [u8],
    /// Octets of each.
    pub each: usize,
}

impl<'b> Received<'b> {
    /// How many there are. One without octets is one, too.
    #[must_use]
    pub fn count(&self) -> usize {
        self.octets.len().div_ceil(self.each).max(1)
    }

    /// One after the other.
    pub fn datagrams(&self) -> impl Iterator<Item = &'b [u8]> + use<'b> {
        split(self.octets, self.each)
    }
}

/// Datagrams that lie one behind the other.
pub(crate) fn split(octets: &[u8], each: usize) -> impl Iterator<Item = &[u8]> {
    let starts = (0..octets.len().max(1)).step_by(each.max(1));
    starts.map(move |at| &octets[at..octets.len().min(at + each)])
}

impl Receiver {
    /// For this socket.
    #[must_use]
    pub fn of(socket: &UdpSocket) -> Receiver {
        // Without it they come one by one.
        let _ = setsockopt(socket, sockopt::UdpGroSegment, &true);
        Receiver { buffer: vec![0; ROOM], control: nix::cmsg_space!(i32) }
    }

    /// What has come, as the socket waits or does not.
    ///
    /// # Errors
    /// Nothing has come, or a datagram that was sent before was refused.
    pub fn receive(&mut self, socket: &UdpSocket) -> io::Result<Received<'_>> {
        let Receiver { buffer, control } = self;
        let mut room = [IoSliceMut::new(buffer)];
        let flags = MsgFlags::empty();
        let (length, from, each) = {
            let got =
                recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut room, Some(control), flags)?;
            let each = got.cmsgs()?.find_map(|message| match message {
                ControlMessageOwned::UdpGroSegments(each) => usize::try_from(each).ok(),
                _ => None,
            });
            (got.bytes, got.address.as_ref().and_then(address), each)
        };
        let from = from.ok_or(ErrorKind::AddrNotAvailable)?;
        let each = each.unwrap_or(length).max(1);
        Ok(Received { from, octets: &self.buffer[..length], each })
    }
}

fn address(of: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = of.as_sockaddr_in().map(|one| std::net::SocketAddrV4::from(*one).into());
    v4.or_else(|| of.as_sockaddr_in6().map(|one| std::net::SocketAddrV6::from(*one).into()))
}

/// Sends datagrams.
#[derive(Debug, Default)]
pub struct Sender {
    octets: Vec<u8>,
    /// The system, or a device, takes one at a time only.
    is_single: bool,
}

impl Sender {
    /// Sends `datagrams` to `to`, in order; calls `failed` for each that is not sent.
    pub fn send<'d>(
        &mut self,
        socket: &UdpSocket,
        to: SocketAddr,
        datagrams: impl Iterator<Item = &'d [u8]>,
        mut failed: impl FnMut(io::Error),
    ) {
        self.octets.clear();
        let (mut each, mut count) = (0, 0);
        for datagram in datagrams {
            let is_like = datagram.len() == each && count < MOST;
            if count > 0 && !(is_like && self.octets.len() + each <= MOST_OCTETS) {
                self.flush(socket, to, each, &mut failed);
                count = 0;
            }
            if count == 0 {
                each = datagram.len();
            }
            if each == 0 || each > LONGEST || self.is_single {
                socket.send_to(datagram, to).map_or_else(&mut failed, drop);
                continue;
            }
            self.octets.extend_from_slice(datagram);
            count += 1;
        }
        if count > 0 {
            self.flush(socket, to, each, &mut failed);
        }
    }

    /// Sends what has been put together.
    fn flush(
        &mut self,
        socket: &UdpSocket,
        to: SocketAddr,
        each: usize,
        failed: &mut impl FnMut(io::Error),
    ) {
        let octets = std::mem::take(&mut self.octets);
        let sent = match octets.len() > each * (FEWEST - 1) {
            true => send_as_one(socket, to, &octets, each),
            false => Err(Errno::EINVAL),
        };
        match sent {
            Ok(()) => {}
            // There is no room for one datagram either.
            Err(Errno::EAGAIN | Errno::ENOBUFS) => {
                octets.chunks(each).for_each(|_| failed(ErrorKind::WouldBlock.into()));
            }
            Err(error) => {
                // The device on the way to the peer cannot do it.
                self.is_single |= error == Errno::EIO;
                for datagram in octets.chunks(each) {
                    socket.send_to(datagram, to).map_or_else(&mut *failed, drop);
                }
            }
        }
        self.octets = octets;
        self.octets.clear();
    }
}

fn send_as_one(
    socket: &UdpSocket,
    to: SocketAddr,
    octets: &[u8],
    each: usize,
) -> Result<(), Errno> {
    let each = u16::try_from(each).map_err(|_| Errno::EINVAL)?;
    let (parts, segments) = ([IoSlice::new(octets)], [ControlMessage::UdpGsoSegments(&each)]);
    let to = SockaddrStorage::from(to);
    sendmsg(socket.as_raw_fd(), &parts, &segments, MsgFlags::empty(), Some(&to)).map(drop)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn pair(local: &str) -> Option<(UdpSocket, UdpSocket)> {
        let sockets = (UdpSocket::bind(local).ok()?, UdpSocket::bind(local).ok()?);
        sockets.1.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        Some(sockets)
    }

    /// Sends datagrams of these lengths, each with its number, and receives all of them.
    fn sent_and_received(local: &str, is_single: bool, lengths: &[usize]) {
        let Some((from, to)) = pair(local) else { return };
        let datagrams: Vec<Vec<u8>> =
            lengths.iter().enumerate().map(|(nth, length)| vec![nth as u8; *length]).collect();
        let mut sender = Sender { is_single, ..Sender::default() };
        let mut receiver = Receiver::of(&to);
        let all = datagrams.iter().map(Vec::as_slice);
        sender.send(&from, to.local_addr().unwrap(), all, |error| panic!("{error}"));
        let mut received = Vec::new();
        while received.len() < datagrams.len() {
            let some = receiver.receive(&to).unwrap();
            assert_eq!(some.from, from.local_addr().unwrap());
            assert_eq!(some.count(), some.datagrams().count());
            received.extend(some.datagrams().map(<[u8]>::to_vec));
        }
        assert_eq!(received, datagrams);
    }

    #[test]
    fn datagrams_arrive_as_they_were_sent() {
        let alike = [100; 150];
        let mixed = [20, 20, 20, 30, 30, 20, 1_400, 1_400, 1_401, 9_000, 9_000, 4, 4];
        // More than fit into one, and few enough for the room of a socket.
        let long = [1_400; 50];
        for local in ["127.0.0.1:0", "[::1]:0"] {
            for is_single in [false, true] {
                for lengths in [&alike[..], &mixed, &long, &[7]] {
                    sent_and_received(local, is_single, lengths);
                }
            }
        }
    }

    #[test]
    fn a_datagram_without_octets_is_one() {
        let (from, to) = pair("127.0.0.1:0").unwrap();
        from.send_to(&[], to.local_addr().unwrap()).unwrap();
        let mut receiver = Receiver::of(&to);
        let received = receiver.receive(&to).unwrap();
        assert_eq!(received.count(), 1);
        assert!(received.datagrams().all(<[u8]>::is_empty));
    }

    #[test]
    fn each_datagram_that_cannot_be_sent_is_told() {
        let (from, _) = pair("127.0.0.1:0").unwrap();
        // A socket of IPv4 has no way to an address of IPv6.
        let to = "[::1]:9".parse().unwrap();
        let mut failures = 0;
        let datagrams = [[1_u8; 8], [2; 8], [3; 8]];
        let all = datagrams.iter().map(<[u8; 8]>::as_slice);
        Sender::default().send(&from, to, all, |_| failures += 1);
        assert_eq!(failures, 3);
    }
}
