//! Ports for those that have to be told of them beforehand.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// A port that is free, and stays so: below the ports that connections begin at, as an end that
/// dials again and again would meet its own sooner or later.
pub fn free(address: IpAddr) -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = std::process::id().wrapping_mul(24) + NEXT.fetch_add(1, Ordering::Relaxed);
        let address = SocketAddr::from((address, 20_000 + (number % 12_000) as u16));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}
