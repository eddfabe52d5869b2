//! A control plane at a UDP socket.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use socket2::{Domain, Protocol, Socket, Type};
use weft_pfcp::codec::element::Time;

use crate::{ControlPlane, Phase, Profile};

/// Datagrams that are received between two turns at most.
const BURST: u32 = 64;
/// How long a control plane that has nothing to do waits.
const IDLE: Duration = Duration::from_micros(50);
/// Octets that the socket holds.
const ROOM: usize = 8 << 20;
/// Longest datagram.
const DATAGRAM: usize = 65_536;

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
    let mut buffer = vec![0; DATAGRAM];
    let mut failure = None;
    let mut stopped = false;
    while control_plane.phase() != Phase::Ended {
        let mut worked = false;
        let mut send = |octets: &[u8]| {
            worked = true;
            // What finds no room is as lost as on a wire, and sent again.
            match socket.send_to(octets, profile.user_plane) {
                Err(error) if !is_passing(&error) => failure = Some(error),
                _ => {}
            }
        };
        for _ in 0..BURST {
            match socket.recv_from(&mut buffer) {
                Ok((length, from)) if from.ip() == profile.user_plane.ip() => {
                    control_plane.receive(&buffer[..length], start.elapsed(), &mut send);
                }
                Ok(_) => {}
                Err(error) if is_passing(&error) => break,
                Err(error) => return Err(error),
            }
        }
        control_plane.turn(start.elapsed(), &mut send);
        if let Some(error) = failure.take() {
            return Err(error);
        }
        if !stopped && stop() {
            stopped = true;
            control_plane.stop(start.elapsed());
        }
        look(&control_plane, start.elapsed());
        if !worked {
            thread::sleep(IDLE);
        }
    }
    Ok(control_plane)
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
