//! A user's belongings, as a worker takes them out and in.

use std::sync::Arc;

use weft_dpdk::Packet;
use weft_function::ContextError;

use crate::classify::UserRecord;
use crate::forward::Configure;

/// What a worker takes out for a user.
#[derive(Debug)]
pub struct Extract {
    /// Tells the one that has asked.
    pub ticket: u64,
    /// Slots of the user's bearers; that of the default bearer is the user's own.
    pub slots: Vec<u32>,
    /// A function whose contexts stay.
    pub without: Option<u16>,
    /// The functions by number, as they were when the contexts were taken out:
    /// name of the instance, and which function.
    pub functions: Vec<(Arc<str>, &'static str)>,
    /// Function, number among `slots`, and what the function has exported.
    pub contexts: Vec<(u16, u16, Vec<u8>)>,
    /// Functions in processes, and how many of `slots` they have contexts for.
    pub away: Vec<(u16, u16)>,
    /// Function, number among `slots`, and nanoseconds until it runs out.
    pub timers: Vec<(u16, u16, u64)>,
    /// Function, or [`WAITING`](crate::buffering::limits::WAITING) for the bearer itself, number among `slots`, and what it
    /// keeps, oldest first.
    pub kept: Vec<(u16, u16, Packet)>,
}

impl Extract {
    /// To be filled.
    pub fn new(ticket: u64, slots: Vec<u32>, without: Option<u16>) -> Extract {
        Extract {
            ticket,
            slots,
            without,
            functions: Vec::new(),
            contexts: Vec::new(),
            away: Vec::new(),
            timers: Vec::new(),
            kept: Vec::new(),
        }
    }
}

/// What a worker is to take in for a user.
#[derive(Debug)]
pub struct Intake {
    /// Tells the one that has asked.
    pub ticket: u64,
    /// Slots of the user's bearers; that of the default bearer is the user's own.
    pub slots: Vec<u32>,
    /// Functions whose contexts stay.
    pub stay: Vec<u16>,
    /// What the user is like from now on, if it is to be like something else.
    pub record: Option<UserRecord>,
    /// Settings of fresh contexts, which those below replace.
    pub settings: Vec<Configure>,
    /// Function, slot, and what a function has exported.
    pub contexts: Vec<(u16, u32, Vec<u8>)>,
    /// Function, slot, and nanoseconds until it runs out.
    pub timers: Vec<(u16, u32, u64)>,
    /// Function, or [`WAITING`](crate::buffering::limits::WAITING) for the bearer itself, slot, and what it is to keep, oldest
    /// first.
    pub kept: Vec<(u16, u32, Packet)>,
    /// The function that could not take a context; the user has fresh ones then.
    pub refused: Option<(u16, ContextError)>,
}
