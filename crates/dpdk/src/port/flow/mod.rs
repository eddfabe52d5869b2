//! Flow rules (`rte_flow`): a device that can match sends packets of a user to the receive queue of
//! the worker that owns the user.
//!
//! What a device takes is found out by asking: drivers tell it in no other way. While a port is
//! opened, a sample of each shape is validated, created and destroyed.

mod pattern;
mod support;
mod trial;

use std::collections::HashMap;
use std::ffi::CStr;
use std::fmt;
use std::ptr::{NonNull, from_ref};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use weft_dpdk_sys as sys;

use super::Port;
use crate::lock;

use pattern::{TunnelItem, with_pattern};
use support::Encoding;

pub use pattern::{FlowField, FlowMatch};
pub use support::{FlowSupport, FlowTaking};

pub(super) use trial::{by_creation, by_validation};

/// Which of two rules counts that match one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FlowLevel {
    /// This one.
    First,
    /// Only where none of the first level matches.
    Rest,
}

/// Where packets go that match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowRule {
    /// Which packets.
    pub of: FlowMatch,
    /// Their receive queue.
    pub queue: u16,
    /// Ahead of which others.
    pub level: FlowLevel,
}

/// A rule that a device has; of one port, and never of a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowId(u64);

impl FlowId {
    /// The next one of all.
    fn fresh() -> FlowId {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        FlowId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Why a device does not take a rule, or does not give it back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRefusal {
    /// errno(3); 0 where the driver gives none.
    pub number: i32,
    /// What the driver says.
    pub reason: String,
}

impl fmt::Display for FlowRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&*self.reason, self.number) {
            ("", 0) => f.write_str("no reason given"),
            ("", number) => write!(f, "{}", std::io::Error::from_raw_os_error(number)),
            (reason, _) => f.write_str(reason),
        }
    }
}

/// The rules of one device.
#[derive(Debug, Default)]
pub(super) struct Flows {
    support: FlowSupport,
    rules: Mutex<Rules>,
}

#[derive(Debug, Default)]
struct Rules(HashMap<FlowId, NonNull<sys::rte_flow>>);

// SAFETY: a rule is a handle that any thread may give back; `rte_flow` calls are made by one thread
// at a time, under the lock around it.
unsafe impl Send for Rules {}

impl Flows {
    /// Of a device that takes these.
    pub(super) fn of(support: FlowSupport) -> Flows {
        Flows { support, rules: Mutex::default() }
    }

    fn add(&self, device: u16, rule: &FlowRule) -> Result<FlowId, FlowRefusal> {
        let encoding = self.support.encoding(rule.of.field);
        let encoding =
            encoding.and_then(|encoding| Some((encoding, encoding.priority(rule.level)?)));
        let Some((encoding, priority)) = encoding else {
            let reason = "the device has no rules of this kind".to_owned();
            return Err(FlowRefusal { number: libc::ENOTSUP, reason });
        };
        let mut rules = lock(&self.rules);
        let made = create(device, rule, encoding.tunnel, priority)?;
        let id = FlowId::fresh();
        rules.0.insert(id, made);
        Ok(id)
    }

    fn remove(&self, device: u16, id: FlowId) -> Result<(), FlowRefusal> {
        let mut rules = lock(&self.rules);
        let Some(rule) = rules.0.get(&id).copied() else { return Ok(()) };
        destroy(device, rule)?;
        rules.0.remove(&id);
        Ok(())
    }

    /// Takes all rules back; how many those were.
    pub(super) fn clear(&self, device: u16) -> usize {
        let mut rules = lock(&self.rules);
        let count = rules.0.len();
        if count > 0 {
            let mut error = sys::rte_flow_error::default();
            rules.0.clear();
            // SAFETY: the device exists; no handle of its rules is left.
            unsafe { sys::rte_flow_flush(device, &mut error) };
        }
        count
    }
}

impl Port {
    /// Which flow rules its device takes; none where they were not asked for
    /// ([`PortOptions::flow_rules`](crate::PortOptions::flow_rules)).
    pub fn flow_support(&self) -> FlowSupport {
        self.open.device.flows().support
    }

    /// Gives the device a flow rule.
    ///
    /// # Errors
    /// What the driver says; the device has then what it had before.
    pub fn add_flow(&self, rule: &FlowRule) -> Result<FlowId, FlowRefusal> {
        self.open.device.flows().add(self.open.device.id, rule)
    }

    /// Takes a flow rule back; one that the port does not have is no error.
    ///
    /// # Errors
    /// What the driver says; then the device still has it.
    pub fn remove_flow(&self, id: FlowId) -> Result<(), FlowRefusal> {
        self.open.device.flows().remove(self.open.device.id, id)
    }

    /// Takes all flow rules back, before queues stop that they lead to.
    pub fn clear_flows(&self) {
        self.open.device.flows().clear(self.open.device.id);
    }
}

/// Calls `ask` with what DPDK is asked for with a rule.
fn with_parts<T>(
    rule: &FlowRule,
    tunnel: TunnelItem,
    priority: u32,
    ask: impl FnOnce(
        &sys::rte_flow_attr,
        &[sys::rte_flow_item],
        &[sys::rte_flow_action],
        &mut sys::rte_flow_error,
    ) -> T,
) -> T {
    let mut attributes = sys::rte_flow_attr { priority, ..Default::default() };
    attributes.set_ingress(1);
    let queue = sys::rte_flow_action_queue { index: rule.queue };
    let conf = from_ref(&queue).cast();
    let actions = [
        sys::rte_flow_action { type_: sys::RTE_FLOW_ACTION_TYPE_QUEUE, conf },
        sys::rte_flow_action { type_: sys::RTE_FLOW_ACTION_TYPE_END, ..Default::default() },
    ];
    let mut error = sys::rte_flow_error::default();
    with_pattern(&rule.of, tunnel, |items| ask(&attributes, items, &actions, &mut error))
}

/// Whether the driver says that it would take a rule.
fn is_valid(device: u16, rule: &FlowRule, encoding: Encoding, priority: u32) -> bool {
    with_parts(rule, encoding.tunnel, priority, |attributes, items, actions, error| {
        let (items, actions) = (items.as_ptr(), actions.as_ptr());
        // SAFETY: the device exists; all parts live as long as the call, and both lists end.
        unsafe { sys::rte_flow_validate(device, attributes, items, actions, error) == 0 }
    })
}

fn create(
    device: u16,
    rule: &FlowRule,
    tunnel: TunnelItem,
    priority: u32,
) -> Result<NonNull<sys::rte_flow>, FlowRefusal> {
    with_parts(rule, tunnel, priority, |attributes, items, actions, error| {
        let (items, actions) = (items.as_ptr(), actions.as_ptr());
        // SAFETY: as above.
        let made = unsafe { sys::rte_flow_create(device, attributes, items, actions, error) };
        NonNull::new(made).ok_or_else(|| refusal(error))
    })
}

fn destroy(device: u16, rule: NonNull<sys::rte_flow>) -> Result<(), FlowRefusal> {
    let mut error = sys::rte_flow_error::default();
    // SAFETY: the device exists and has made the rule, whose handle is used no more if it goes.
    match unsafe { sys::rte_flow_destroy(device, rule.as_ptr(), &mut error) } {
        0 => Ok(()),
        _ => Err(refusal(&error)),
    }
}

/// What a driver has said just now.
fn refusal(error: &sys::rte_flow_error) -> FlowRefusal {
    // SAFETY: reads a thread-local integer.
    let number = unsafe { sys::weft_errno() };
    let reason = match error.message.is_null() {
        true => String::new(),
        // SAFETY: drivers point to constant text.
        false => unsafe { CStr::from_ptr(error.message) }.to_string_lossy().into_owned(),
    };
    FlowRefusal { number, reason }
}
