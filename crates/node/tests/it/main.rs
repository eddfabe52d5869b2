//! The integration tests of this crate, as one program: one to link, not one for each file.
//!
//! Beside it are those that need a process of their own: `allocation` counts what the
//! allocator gives, `million` measures the memory of the process, `fused` counts its mappings
//! of machine code, and `watchdog` starts nodes that end.

mod bearers;
mod captured;
mod carried;
mod changes;
mod classification;
mod common;
mod floods;
mod forwarding;
mod gateway_faults;
mod gtpu;
mod handover;
mod kept_sessions;
mod mixtures;
mod outer_checksums;
mod overload;
mod paths;
mod peers;
mod quality;
mod random;
mod relay;
mod remote;
mod routed;
mod router;
mod sessions;
mod stages;
mod standing;
mod state;
mod transfer;
mod upgrades;
mod vf;
