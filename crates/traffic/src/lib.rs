//! Traffic that can be accounted for: a generator and a receiver.
//!
//! A [`Source`] sends what a [`Load`] describes: streams of Ethernet, IP and UDP
//! packets in a set ratio, each with a [`Template`] for all its packets, from or
//! to a number of users. It is an open loop: when a packet is due follows from
//! the rate and the time-stamp counter alone, never from what happened to the
//! packets before. What was due and did not leave is told apart from what was
//! lost, and how well the set gaps were kept is measured ([`Pacing`]).
//!
//! Every packet carries a [`Stamp`]: its stream, its flow, its number among the
//! flow's packets and the time it was sent. So a [`Receiver`] can tell for each
//! flow what arrived, what arrived twice and what was overtaken (RFC 4737), and
//! how long packets took (RFC 7679). What was lost is what a source sent and no
//! receiver saw.
//!
//! A [`Wire`] between the two loses, damages, copies, delays and overtakes packets
//! on purpose, and counts what it does: what the receiver finds must be that.
//!
//! A [`Profile`] is a file that describes all of this.
//!
//! All are driven by their caller, a burst at a time; source and receiver
//! allocate nothing while they run.
//!
//! ```no_run
//! use weft_dpdk::{Eal, EalOptions, Pool, Port, PortOptions};
//! use weft_traffic::{Direction, Endpoints, Expected, Receiver, Source, Template};
//!
//! let eal = Eal::start(&EalOptions::default())?;
//! let pool = Pool::new(eal, "traffic", 8191)?;
//! let open = || Port::open(eal, "ring:loop", &PortOptions::default(), &pool);
//! let (near, far) = (open()?, open()?);
//! let (mut tx, mut rx) = (near.take_tx(0).unwrap(), far.take_rx(0).unwrap());
//!
//! let endpoints = Endpoints {
//!     direction: Direction::Uplink,
//!     first_user: "10.0.0.1".parse()?,
//!     peer: "192.0.2.1".parse()?,
//! };
//! let template = Template::new(1, endpoints);
//! let mut source = Source::new(&template, &[1; 1000], 100_000)?;
//! let mut receiver = Receiver::new([Expected::of(&template, 1000)]);
//! while source.tally().sent < 1_000_000 {
//!     source.send(&mut tx, &pool);
//!     receiver.receive(&mut rx);
//! }
//! let arrived = &receiver.streams()[0];
//! println!("p99 {} ns", arrived.delays.value_at_quantile(0.99));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

pub mod capture;
pub mod profile;
mod random;
mod receiver;
mod source;
mod stamp;
mod template;
mod wire;

pub use profile::Profile;
pub use receiver::Receiver;
pub use receiver::density::Density;
pub use receiver::flow::Flow;
pub use receiver::stream::{Expected, Seen, Stream, Timeline};
pub use source::captured::{Captured, CapturedError};
pub use source::link::link_bits;
pub use source::load::{Arrivals, CapturedShare, Load, Rate, Share};
pub use source::pacing::Pacing;
pub use source::selection::Selection;
pub use source::{Sending, Source, Tally};
pub use stamp::Stamp;
pub use template::encapsulation::Encapsulation;
pub use template::endpoints::{Direction, Endpoints};
pub use template::sizes::Sizes;
pub use template::{Template, TemplateError};
pub use wire::{Done, Harm, Wire};
