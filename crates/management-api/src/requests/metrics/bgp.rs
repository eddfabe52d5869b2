//! Routers that are told of networks.

use std::fmt;

use weft_bgp::{BgpView, PeerView};
use weft_http::metrics::Families;

pub(super) fn families(families: &mut Families<'_>, view: &BgpView) -> fmt::Result {
    let samples = |value: fn(&PeerView) -> u64| {
        let peers = view.peers.iter();
        peers.map(move |peer| ([("peer", peer.address.to_string())], value(peer)))
    };
    let is_up = |peer: &PeerView| u64::from(peer.state == "established");
    let help = "Whether the router is told of networks.";
    families.gauge("weft_bgp_peer_up", help, samples(is_up))?;
    let help = "Networks that the router was told of.";
    families.gauge("weft_bgp_announced_networks", help, samples(|peer| peer.announced))?;
    let help = "Sessions with the router that were established.";
    families.counter("weft_bgp_sessions", help, samples(|peer| peer.sessions))
}
