//! GTP-U tunnels (TS 29.281): their ends, and the relay between two of them.

pub mod tunnel;

functions! {
    gtpu_decapsulate::GtpuDecapsulate: Lower,
    gtpu_encapsulate::GtpuEncapsulate: Lower,
    gtpu_relay::GtpuRelay: Lower,
}
