//! Tells routers which node the networks of users are reached by: BGP-4 (RFC 4271) with IPv6
//! (RFC 4760), AS numbers of four octets (RFC 6793) and graceful restart (RFC 4724).
//!
//! A [`Speaker`] has a connection to each router of the configuration and announces the same
//! networks to all. It learns no routes: what routers announce is read and not kept. Each
//! connection has a state machine (`session`) without I/O and without a clock.

mod message;
mod session;
mod speaker;
mod view;

pub use message::{LONGEST, Wrong};
pub use session::{Ended, Route, Session, Settings, State};
pub use speaker::{Speaker, StartError};
pub use view::{BgpView, PeerView, Watch};
