//! Asking a device which flow rules it takes.

use weft_dpdk_sys as sys;

use super::support::FlowSupport;
use super::{create, destroy, is_valid};

/// What the started device takes: samples are made, and are gone again behind this. Some drivers
/// call valid what they then do not make.
pub(in crate::port) fn by_creation(device: u16) -> FlowSupport {
    let mut made = Vec::new();
    let found = FlowSupport::find(|rule, encoding, priority| {
        if !is_valid(device, rule, encoding, priority) {
            return false;
        }
        let sample = create(device, rule, encoding.tunnel, priority);
        made.extend(sample.as_ref().ok().copied());
        sample.is_ok()
    });
    let left = made.into_iter().filter(|rule| destroy(device, *rule).is_err()).count();
    if left > 0 {
        let mut error = sys::rte_flow_error::default();
        // SAFETY: the device exists, and no handle of a rule is used any more.
        unsafe { sys::rte_flow_flush(device, &mut error) };
    }
    found
}

/// What the driver of a device calls valid that is not started, which is configured for so many
/// receive queues: rules lead to one of them. That of TAP wants as many to transmit.
pub(in crate::port) fn by_validation(
    device: u16,
    queues: u16,
    most_to_transmit: u16,
) -> FlowSupport {
    let to_transmit = queues.min(most_to_transmit.max(1));
    let conf = sys::rte_eth_conf::default();
    // SAFETY: the device exists and is not started; `conf` is only read.
    if unsafe { sys::rte_eth_dev_configure(device, queues, to_transmit, &conf) } != 0 {
        return FlowSupport::default();
    }
    FlowSupport::find(|rule, encoding, priority| is_valid(device, rule, encoding, priority))
}
