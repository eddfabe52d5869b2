//! What a router says, in pieces, to a session.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use weft_bgp::{LONGEST, Session, Settings, State};

/// The first octet says how long pieces are; the rest is said.
pub fn run(input: &[u8]) {
    let Some((size, said)) = input.split_first() else { return };
    let settings = Settings {
        own_as: 65_010,
        peer_as: 65_000,
        identifier: Ipv4Addr::new(192, 0, 2, 1),
        hold: Duration::from_secs(9),
        restart: Some(Duration::from_secs(30)),
        next_hops: vec![Ipv4Addr::new(198, 51, 100, 1).into()],
        routes: vec![(Ipv4Addr::new(10, 45, 0, 0).into(), 16)],
    };
    let now = Instant::now();
    let mut session = Session::begin(settings, false, now);
    for piece in said.chunks(usize::from(*size) + 1) {
        let went_on = session.received(piece, now);
        // What is sent does not grow with what is said.
        assert!(session.take_to_send().len() < 4 * LONGEST);
        if went_on.is_err() {
            return;
        }
    }
    assert!(session.announced() == 0 || session.state() == State::Established);
}
