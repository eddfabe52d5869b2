//! How messages get to the collector: UDP (RFC 7011 section 10.3) or TCP (section 10.4).

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use weft_node_config::IpfixTransport;

/// Longest wait for a collector that does not take what it is sent.
const PATIENCE: Duration = Duration::from_secs(2);
/// Pause before a collector is tried again that was not there.
const PAUSE: Duration = Duration::from_secs(5);

/// A way to the collector.
#[derive(Debug)]
pub struct Transport {
    collector: SocketAddr,
    is_tcp: bool,
    open: Option<Open>,
    /// Not to be tried before.
    not_before: Option<Instant>,
}

#[derive(Debug)]
enum Open {
    Udp(UdpSocket),
    Tcp(TcpStream),
}

impl Transport {
    /// A way that is opened as something is to be sent.
    pub fn new(collector: SocketAddr, how: IpfixTransport) -> Transport {
        let is_tcp = how == IpfixTransport::Tcp;
        Transport { collector, is_tcp, open: None, not_before: None }
    }

    /// Whether it stands; where it does not, it is opened. True once for each time that it
    /// was: the collector knows no templates then.
    ///
    /// # Errors
    /// When the collector is not there, or was not a moment ago.
    pub fn ready(&mut self) -> io::Result<bool> {
        if self.open.is_some() {
            return Ok(false);
        }
        if self.not_before.is_some_and(|at| Instant::now() < at) {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let opened = match self.is_tcp {
            true => self.connect().map(Open::Tcp),
            false => self.socket().map(Open::Udp),
        };
        match opened {
            Ok(open) => {
                self.open = Some(open);
                Ok(true)
            }
            Err(error) => {
                self.not_before = Some(Instant::now() + PAUSE);
                Err(error)
            }
        }
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&self.collector, PATIENCE)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    fn socket(&self) -> io::Result<UdpSocket> {
        let any: IpAddr = match self.collector.is_ipv4() {
            true => Ipv4Addr::UNSPECIFIED.into(),
            false => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(self.collector)?;
        socket.set_write_timeout(Some(PATIENCE))?;
        Ok(socket)
    }

    /// Sends a message; the way must be [`ready`](Transport::ready).
    ///
    /// # Errors
    /// When it cannot be sent. A connection is over then: a part of the message may have gone.
    pub fn send(&mut self, message: &[u8]) -> io::Result<()> {
        match &mut self.open {
            // A host that answers that nothing listens there says so of the datagram before:
            // this one goes all the same, for a collector that has come meanwhile.
            Some(Open::Udp(socket)) => match socket.send(message) {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    socket.send(message).map(drop)
                }
                sent => sent.map(drop),
            },
            Some(Open::Tcp(stream)) => {
                let sent = stream.write_all(message);
                if sent.is_err() {
                    self.open = None;
                    self.not_before = Some(Instant::now() + PAUSE);
                }
                sent
            }
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}
