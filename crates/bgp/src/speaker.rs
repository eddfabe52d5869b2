//! Connections to routers: a thread for each.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weft_node_config::{BgpPeerPlan, BgpPlan};

use crate::session::{Session, Settings, State};
use crate::view::{BgpView, PeerView, Watch};

/// How long a connection may take to be made, and the end of the node with it: routers are near.
const CONNECTING: Duration = Duration::from_secs(1);
/// How long what is sent may wait for the router.
const SENDING: Duration = Duration::from_secs(5);
/// Pause between two looks whether the speaker is to end.
const LOOK: Duration = Duration::from_millis(100);
/// Pauses between two connections double from the first to the second.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];

const RUNS: u8 = 0;
/// Ends; routers forget what was announced.
const WITHDRAWS: u8 = 1;
/// Ends; routers keep it for the restart time.
const LEAVES: u8 = 2;

/// Announces networks until it is dropped.
#[derive(Debug)]
pub struct Speaker {
    ends: Arc<AtomicU8>,
    threads: Vec<JoinHandle<()>>,
    watch: Watch,
}

/// There is no thread for it.
#[derive(Debug, thiserror::Error)]
#[error("no thread for BGP: {0}")]
pub struct StartError(#[from] io::Error);

impl Speaker {
    /// Connects to all routers of the plan.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(plan: &BgpPlan) -> Result<Speaker, StartError> {
        let peers = plan.peers.iter().map(|peer| PeerView {
            address: peer.address.ip(),
            autonomous_system: peer.autonomous_system,
            state: "connect".to_owned(),
            announced: 0,
            sessions: 0,
            reason: None,
        });
        let networks = plan.networks.iter();
        let watch = Watch::new(BgpView {
            autonomous_system: plan.autonomous_system,
            networks: networks.map(|(network, bits)| format!("{network}/{bits}")).collect(),
            peers: peers.collect(),
        });
        let ends = Arc::new(AtomicU8::new(RUNS));
        let mut speaker = Speaker { ends, threads: Vec::new(), watch };
        for (number, peer) in plan.peers.iter().enumerate() {
            let mut peer = Peer {
                number,
                address: peer.address,
                settings: settings(plan, peer),
                ends: speaker.ends.clone(),
                watch: speaker.watch.clone(),
                has_spoken: false,
            };
            let thread = thread::Builder::new().name("bgp".into()).spawn(move || peer.run())?;
            speaker.threads.push(thread);
        }
        Ok(speaker)
    }

    /// What is shown of it.
    pub fn watch(&self) -> Watch {
        self.watch.clone()
    }

    /// Whether a thread has ended by itself.
    pub fn is_dead(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Ends without a word, so that routers keep what was announced until another process of the
    /// node speaks to them, or the restart time is over (RFC 4724 section 4.2).
    pub fn leave(&self) {
        self.ends.store(LEAVES, Ordering::Relaxed);
    }
}

impl Drop for Speaker {
    fn drop(&mut self) {
        // One that leaves does so.
        let _ = self.ends.compare_exchange(RUNS, WITHDRAWS, Ordering::Relaxed, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // Its panic was logged.
            let _ = thread.join();
        }
    }
}

fn settings(plan: &BgpPlan, peer: &BgpPeerPlan) -> Settings {
    Settings {
        own_as: plan.autonomous_system,
        peer_as: peer.autonomous_system,
        identifier: plan.identifier,
        hold: plan.hold,
        restart: plan.restart,
        next_hops: plan.next_hops.clone(),
        routes: plan.networks.clone(),
    }
}

/// One router, in its thread.
struct Peer {
    number: usize,
    address: SocketAddr,
    settings: Settings,
    ends: Arc<AtomicU8>,
    watch: Watch,
    /// Whether a session has been established.
    has_spoken: bool,
}

impl Peer {
    fn run(&mut self) {
        let mut pause = PAUSES[0];
        while self.ends.load(Ordering::Relaxed) == RUNS {
            let before = self.sessions();
            let ended = TcpStream::connect_timeout(&self.address, CONNECTING)
                .and_then(|stream| self.speak(stream));
            let Err(reason) = ended else { return };
            let was_established = self.sessions() > before;
            self.show(|peer| {
                peer.state = "connect".to_owned();
                peer.announced = 0;
                if was_established || peer.reason.as_deref() != Some(&*reason.to_string()) {
                    tracing::warn!(peer = %peer.address, "BGP: {reason}");
                }
                peer.reason = Some(reason.to_string());
            });
            pause = if was_established { PAUSES[0] } else { (pause * 2).min(PAUSES[1]) };
            let until = Instant::now() + pause;
            while Instant::now() < until && self.ends.load(Ordering::Relaxed) == RUNS {
                thread::sleep(LOOK);
            }
        }
    }

    /// A session on a connection; ends well when the speaker ends.
    fn speak(&mut self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LOOK))?;
        stream.set_write_timeout(Some(SENDING))?;
        let now = Instant::now();
        let mut session = Session::begin(self.settings.clone(), !self.has_spoken, now);
        let mut octets = [0; 4096];
        loop {
            stream.write_all(&session.take_to_send())?;
            self.note(&session);
            match self.ends.load(Ordering::Relaxed) {
                RUNS => {}
                LEAVES if self.settings.restart.is_some() => return Ok(()),
                _ => {
                    session.shut_down();
                    return stream.write_all(&session.take_to_send());
                }
            }
            let went_on = match stream.read(&mut octets) {
                Ok(0) => return Err(io::Error::other("the router has closed the connection")),
                Ok(length) => session.received(&octets[..length], Instant::now()),
                Err(error) if is_timeout(&error) => Ok(()),
                Err(error) => return Err(error),
            };
            if let Err(ended) = went_on.and_then(|()| session.elapsed(Instant::now())) {
                // A NOTIFICATION may be among it; the router may have gone.
                let _ = stream.write_all(&session.take_to_send());
                return Err(io::Error::other(ended));
            }
        }
    }

    fn note(&mut self, session: &Session) {
        let state = match session.state() {
            State::OpenSent => "open-sent",
            State::OpenConfirm => "open-confirm",
            State::Established => "established",
        };
        let announced = session.announced() as u64;
        let mut is_new = false;
        self.show(|peer| {
            is_new = peer.state != state && session.state() == State::Established;
            if is_new {
                tracing::info!(peer = %peer.address, announced, "BGP: networks are announced");
                (peer.sessions, peer.reason) = (peer.sessions + 1, None);
            }
            if peer.state != state {
                state.clone_into(&mut peer.state);
            }
            peer.announced = announced;
        });
        self.has_spoken |= is_new;
    }

    fn sessions(&self) -> u64 {
        self.watch.view().peers.get(self.number).map_or(0, |peer| peer.sessions)
    }

    fn show(&self, change: impl FnOnce(&mut PeerView)) {
        self.watch.change(self.number, change);
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}
