//! What the experiments of the serving gateway have in common: a gateway on either
//! kind of I/O, the highest rate that it loses nothing at, and how long a packet is
//! in it.

use std::time::Duration;

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_traffic::Rate;

use weft_rig::Failure;
use weft_rig::network::environments::{Environment, Loopback, Opened};
use weft_rig::search::{BinarySearch, Bracket, SystemUnderTest, Trial};
use weft_rig::{Arrivals, Gateway, Offer, OpenLoop, Rig, Setup};

/// Packets that a queue in memory holds.
const DESCRIPTORS: u16 = 1024;

/// How packets reach the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Io {
    /// Through the kernel: AF_PACKET sockets on veth interfaces, in the place of the
    /// paper's NAPI.
    Kernel,
    /// Polled rings in memory, in the place of the paper's NIC with DPDK.
    Poll,
}

impl Io {
    /// Both.
    pub const ALL: [Io; 2] = [Io::Kernel, Io::Poll];

    /// What series call it.
    pub fn name(self) -> &'static str {
        match self {
            Io::Kernel => "AF_PACKET",
            Io::Poll => "poll mode",
        }
    }

    /// What derived numbers call it.
    pub fn key(self) -> &'static str {
        match self {
            Io::Kernel => "kernel",
            Io::Poll => "poll",
        }
    }

    /// A serving gateway with so many bearers.
    ///
    /// # Errors
    /// When the machine lacks something.
    pub fn open<'r>(self, rig: &'r Rig, bearers: u32) -> Result<System<'r>, Failure> {
        let setup = Setup::gateway(Gateway::Relay, bearers, Vec::new());
        Ok(match self {
            Io::Kernel => System::Kernel(Environment::AfPacket.open(rig, &setup)?),
            Io::Poll => System::Poll(OpenLoop::rings(rig, &setup, DESCRIPTORS)?),
        })
    }

    /// The same way without a gateway.
    ///
    /// # Errors
    /// As [`Io::open`].
    pub fn loopback(self, rig: &Rig) -> Result<Loopback, Failure> {
        match self {
            Io::Kernel => Loopback::cable(rig),
            Io::Poll => Loopback::ring(rig),
        }
    }
}

/// A gateway with its traffic.
pub enum System<'r> {
    /// Between interfaces of the kernel.
    Kernel(Opened<'r>),
    /// Between rings in memory.
    Poll(OpenLoop<'r>),
}

impl System<'_> {
    /// What comes of an offer, and how disturbed the trial was.
    ///
    /// # Errors
    /// As [`OpenLoop::offer`].
    pub fn offer(&mut self, offer: &Offer) -> Result<(Arrivals, f64), Failure> {
        let open_loop = match self {
            System::Kernel(opened) => &mut opened.open_loop,
            System::Poll(open_loop) => open_loop,
        };
        let ((arrivals, _), disturbance) = open_loop.offer(offer)?;
        Ok((arrivals, disturbance))
    }
}

/// Packets of so many bearers, one of each in turn.
pub fn offer(bearers: u32, frame_bytes: usize, rate: Rate, duration: Duration) -> Offer {
    Offer { load: Gateway::Relay.load_in_turn(bearers, frame_bytes, rate), duration }
}

/// How the highest rate without loss is searched for.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Search {
    /// Seconds of a trial.
    seconds: f64,
    /// The width, relative to the rate, at which a search ends.
    width: f64,
    /// How often a trial with loss is repeated before it is believed.
    repeats: u32,
    /// The least rate that is tried, packets per second.
    least: f64,
    /// The highest.
    most: f64,
}

impl Search {
    /// The least rate that is tried, packets per second.
    pub fn least(&self) -> f64 {
        self.least
    }

    /// The highest rate at which `system` carries the packets of so many bearers
    /// without loss, up to `most` where the generator sends no more.
    ///
    /// # Errors
    /// When a trial cannot be made.
    pub fn lossless(
        &self,
        rig: &Rig,
        system: &mut System<'_>,
        bearers: u32,
        frame_bytes: usize,
        most: Option<f64>,
    ) -> Result<Bracket, Failure> {
        let search = BinarySearch {
            least: self.least,
            most: most.map_or(self.most, |most| most.clamp(self.least, self.most)),
            loss_ratio: 0.0,
            width: self.width,
            trial: Duration::from_secs_f64(self.seconds),
            repeats: self.repeats,
        };
        let bracket = search.run(&mut Searched { rig, system, bearers, frame_bytes })?;
        bracket.count(rig);
        Ok(bracket)
    }
}

/// A gateway that is offered frames of one size.
struct Searched<'s, 'r> {
    rig: &'s Rig,
    system: &'s mut System<'r>,
    bearers: u32,
    frame_bytes: usize,
}

impl SystemUnderTest for Searched<'_, '_> {
    type Error = Failure;

    fn offer(&mut self, rate: f64, duration: Duration) -> Result<Trial, Failure> {
        let offer = offer(self.bearers, self.frame_bytes, Rate::Packets(rate), duration);
        // What the machine took is not the gateway's loss.
        let arrivals = self.rig.steady_in_search(|| self.system.offer(&offer))?;
        let (sent, unsent, lost) = (arrivals.sent, arrivals.unsent, arrivals.lost());
        Ok(Trial { rate, duration, sent, unsent, lost })
    }
}

/// How long packets are in a gateway: their delay through it, less that of the same
/// way without it (§III-B of the paper).
#[derive(Clone, Copy, Debug)]
pub struct ProcessingTime {
    /// Mean, in microseconds.
    pub mean: f64,
    /// The 99th percentile of the delays, less the median of the way without it.
    pub p99: f64,
    /// Packets that were sent through the gateway, as a share of those that were due.
    pub share_sent: f64,
}

impl ProcessingTime {
    /// Measures it, with how disturbed the trial was; none where nothing arrived.
    ///
    /// # Errors
    /// As [`OpenLoop::offer`].
    pub fn measure(
        rig: &Rig,
        system: &mut System<'_>,
        loopback: &mut Loopback,
        offer: &Offer,
    ) -> Result<(Option<ProcessingTime>, f64), Failure> {
        let without = rig.offer(&mut loopback.ends, offer)?;
        let (arrivals, disturbance) = system.offer(offer)?;
        let disturbance = disturbance.max(without.disturbance);
        if without.delays.is_empty() || arrivals.delays.is_empty() {
            return Ok((None, disturbance));
        }
        let (delays, base) = (&arrivals.delays, &without.delays);
        let time = ProcessingTime {
            mean: (delays.mean() - base.mean()) / 1e3,
            p99: (quantile(delays, 0.99) - quantile(base, 0.5)) / 1e3,
            share_sent: arrivals.share_sent(),
        };
        Ok((Some(time), disturbance))
    }
}

fn quantile(delays: &Histogram<u64>, share: f64) -> f64 {
    delays.value_at_quantile(share) as f64
}
