//! Functions that run elsewhere: one module for each way to be elsewhere.
//!
//! The data plane keeps the account of packets that are away and defines the traits that
//! are implemented here ([`Carrier`](weft_dataplane::offload::Carrier),
//! [`ContextOrders`](weft_dataplane::offload::ContextOrders) and the endpoints of
//! [`service_path`](weft_dataplane::service_path)); it knows none of these modules.

#![forbid(unsafe_code)]

pub mod frame;
pub mod process;
pub mod service_path;
pub mod thread;
pub mod vf;
