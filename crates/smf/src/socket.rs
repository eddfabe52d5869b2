//! A control plane at a UDP socket.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use socket2::{Domain, Protocol, Socket, Type};
use weft_pfcp::codec::element::Time;
use weft_pfcp::datagrams::{Receiver, Sender};

use crate::{ControlPlane, Phase, Profile};

/// Datagrams that are received between two turns, before the next ones are looked for.
const BURST: usize = 64;
/// How long a control plane waits between two turns, unless a turn is full: so that there is
/// something to be done for several sessions at once, and no core is kept from the user plane.
const IDLE: Duration = Duration::from_micros(100);
/// Octets that the socket holds.
const ROOM: usize = 8 << 20;

/// Runs a control plane to its end, or until `stop` says so; `look` sees it now and then.
///
/// # Errors
/// When the socket cannot be had, or fails.
pub fn run(
    profile: &Profile,
    mut stop: impl FnMut() -> bool,
    mut look: impl FnMut(&ControlPlane, Duration),
) -> io::Result<ControlPlane> {
    let socket = bound(profile.local)?;
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let recovery = Time::from_unix(since_1970.as_secs()).0;
    let mut control_plane = ControlPlane::new(profile, recovery);
    let start = Instant::now();
    let (mut receiver, mut sender) = (Receiver::of(&socket), Sender::default());
    let mut going = Going::default();
    let mut stopped = false;
    while control_plane.phase() != Phase::Ended {
        let mut received = 0;
        while received < BURST {
            match receiver.receive(&socket) {
                Ok(some) if some.from.ip() == profile.user_plane.ip() => {
                    let now = start.elapsed();
                    received += some.count();
                    some.datagrams().for_each(|datagram| {
                        control_plane.receive(datagram, now, |octets| going.push(octets));
                    });
                }
                Ok(_) => {}
                Err(error) if is_passing(&error) => break,
                Err(error) => return Err(error),
            }
        }
        control_plane.turn(start.elapsed(), |octets| going.push(octets));
        let is_full = received.max(going.places.len()) >= BURST;
        going.send(&mut sender, &socket, profile.user_plane)?;
        if !stopped && stop() {
            stopped = true;
            control_plane.stop(start.elapsed());
        }
        look(&control_plane, start.elapsed());
        if !is_full {
            thread::sleep(IDLE);
        }
    }
    Ok(control_plane)
}

/// What is to be sent in this turn.
#[derive(Default)]
struct Going {
    octets: Vec<u8>,
    /// Of each datagram: its length and where it begins.
    places: Vec<(usize, usize)>,
}

impl Going {
    fn push(&mut self, octets: &[u8]) {
        self.places.push((octets.len(), self.octets.len()));
        self.octets.extend_from_slice(octets);
    }

    /// Sends all of it. Those of one turn are of different sessions, so that they may go in any
    /// order: equally long ones go through the kernel as one.
    fn send(&mut self, sender: &mut Sender, socket: &UdpSocket, to: SocketAddr) -> io::Result<()> {
        let Going { octets, places } = self;
        places.sort_unstable();
        let datagrams = places.iter().map(|(length, start)| &octets[*start..start + length]);
        let mut failure = None;
        sender.send(socket, to, datagrams, |error| {
            // What finds no room is as lost as on a wire, and sent again.
            if !is_passing(&error) {
                failure = Some(error);
            }
        });
        octets.clear();
        places.clear();
        failure.map_or(Ok(()), Err)
    }
}

/// A socket with room for answers that come in bursts: those that find none are lost, and their
/// requests are made again.
fn bound(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    // The system may allow less.
    let _ = socket.set_recv_buffer_size(ROOM);
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// Whether it is worth to go on: no room, an interruption, or an ICMP error of a user plane
/// that is not there yet.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionRefused
    )
}
