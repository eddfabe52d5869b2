//! *Call*: the function runs in the worker's thread.
//!
//! The loop over the burst is here, once, with `process` inlined into it. A
//! panic is caught around the loop, not around each packet: the position of the
//! packet in hand lies outside, so it names the one at fault, and the loop goes
//! on behind it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use arrayvec::ArrayVec;
use weft_dpdk::watchdog::{self, FunctionName};
use weft_dpdk::{Batch, Packet, Pool};
use weft_function::lower::{Builder, Lower, Program};
use weft_function::{
    ConfigError, ContextError, Emit, Metadata, PacketMetadata, Reason, Scope, Setup, TunnelEnds,
    UserPlaneFunction, Verdict,
};
use zerocopy::IntoBytes;

use crate::instance::{
    Burst, Instance, KEEP_REFUSED, Kind, Outcome, PANIC, PANICKED, Settings, UNDECLARED,
};
use crate::positions::Positions;
use crate::slab::{Slab, SlotShift};

/// Slabs smaller than this stay in the nearest cache by themselves.
const PREFETCH_BYTES: usize = 16 << 10;

/// How a function that can be fused is seen by machine code.
pub(crate) struct Lowering<F: UserPlaneFunction> {
    program: fn(&F) -> Option<Program>,
    bytes: fn(&mut [F::Context]) -> &mut [u8],
}

impl<F: Lower> Lowering<F> {
    pub(crate) fn new() -> Lowering<F> {
        Lowering {
            program: |function| function.lower(Builder::of::<F>()),
            bytes: |contexts| contexts.as_mut_bytes(),
        }
    }
}

pub(crate) struct Called<F: UserPlaneFunction> {
    function: F,
    contexts: Slab<F::Context>,
    scope: Scope,
    kind: &'static Kind,
    /// Under what name the watchdog knows it.
    name: FunctionName,
    lowering: Option<Lowering<F>>,
}

impl<F: UserPlaneFunction> Called<F> {
    pub(crate) fn new(
        function: F,
        setup: &Setup<'_>,
        shift: SlotShift,
        kind: &'static Kind,
        lowering: Option<Lowering<F>>,
    ) -> Called<F> {
        let scope = function.scope();
        let name = match setup.trial {
            // It never meets a packet, and there may be any number of such names.
            true => FunctionName::UNNAMED,
            false => FunctionName::of(setup.instance),
        };
        let contexts = Slab::new(setup.contexts, shift);
        Called { function, contexts, scope, kind, name, lowering }
    }

    fn slot(&self, metadata: &PacketMetadata) -> u32 {
        slot_of(self.scope, metadata)
    }

    /// Whether the contexts are more than stay in the nearest cache anyway.
    #[inline]
    fn is_large(&self) -> bool {
        self.contexts.capacity() * size_of::<F::Context>() >= PREFETCH_BYTES
    }

    /// Lets the function ask for what contexts refer to.
    #[inline]
    fn prefetch_records(&self, packets: &Batch, selected: Positions) {
        for position in selected {
            let context = self.contexts.get(self.slot(packets[position].metadata()));
            context.into_iter().for_each(|context| self.function.prefetch(context));
        }
    }

    /// Shows the function the packets, stage by stage; what it notes of them, and those that
    /// are left. The others it panicked over.
    #[inline(always)]
    fn look_ahead(
        &mut self,
        packets: &Batch,
        selected: Positions,
        outcome: &mut Outcome,
    ) -> (Notes, Positions) {
        let (mut notes, mut left) = ([0; Batch::CAPACITY], selected);
        for stage in 0..F::STAGES {
            let (mut remaining, mut at) = (left, 0);
            loop {
                let run = AssertUnwindSafe(|| {
                    for position in remaining {
                        at = position;
                        let note = &mut notes[position];
                        *note = self.function.look_ahead(stage, &packets[position], *note);
                    }
                });
                if catch_unwind(run).is_ok() {
                    break;
                }
                remaining = remaining.behind(at);
                left.remove(at);
                self.panicked(at, packets, outcome);
            }
        }
        (notes, left)
    }

    /// Handles the packets at `selected`.
    #[inline]
    fn process(
        &mut self,
        packets: &mut Batch,
        notes: &Notes,
        selected: Positions,
        emit: &mut Emit<'_>,
        verdicts: &mut Verdicts<'_>,
    ) {
        // One loop for all: the compiler inlines the function into it.
        for position in selected {
            // Without stages nothing is noted.
            let note = if F::STAGES > 0 { notes[position] } else { 0 };
            self.handle(position, &mut packets[position], note, emit, verdicts);
        }
    }

    #[inline(always)]
    fn handle(
        &mut self,
        position: usize,
        packet: &mut Packet,
        note: u64,
        emit: &mut Emit<'_>,
        verdicts: &mut Verdicts<'_>,
    ) {
        // A context of no size is the same for all: no need to find it.
        let slot = match size_of::<F::Context>() {
            0 => 0,
            _ => self.slot(packet.metadata()),
        };
        let Some(context) = self.contexts.get_mut(slot) else { return };
        emit.at(position, note);
        match self.function.process(packet, context, emit) {
            Verdict::Forward => {}
            Verdict::Drop(reason) => verdicts.drop(position, self.kind, reason),
            Verdict::Keep => verdicts.keep(position, self.kind, emit),
        }
    }
}

#[inline(always)]
fn slot_of(scope: Scope, metadata: &PacketMetadata) -> u32 {
    match scope {
        Scope::User => metadata.user,
        Scope::Bearer => metadata.bearer,
        Scope::Group => metadata.group,
    }
}

/// What a function has noted of each packet.
type Notes = [u64; Batch::CAPACITY];
static NOTHING_NOTED: Notes = [0; Batch::CAPACITY];

/// The verdicts other than to forward.
struct Verdicts<'a> {
    dropped: &'a mut Positions,
    reasons: &'a mut [u8; Batch::CAPACITY],
    kept: &'a mut Positions,
}

impl Verdicts<'_> {
    #[cold]
    fn drop(&mut self, position: usize, kind: &Kind, reason: Reason) {
        self.dropped.insert(position);
        let number = |reason: Reason| kind.reasons().position(|one| *one == reason);
        let number = number(reason).or_else(|| number(UNDECLARED)).unwrap_or_default();
        self.reasons[position] = number as u8;
    }

    #[cold]
    fn keep(&mut self, position: usize, kind: &Kind, emit: &mut Emit<'_>) {
        match emit.keep() {
            true => self.kept.insert(position),
            false => self.drop(position, kind, KEEP_REFUSED),
        }
    }
}

/// In the place of a version: the octets behind are of a context without its settings.
const STATE: u16 = 0;

impl<F: UserPlaneFunction> Instance for Called<F> {
    fn kind(&self) -> &'static Kind {
        self.kind
    }

    fn scope(&self) -> Scope {
        self.scope
    }

    fn prefetch(&self, packets: &Batch, selected: Positions) {
        if F::HOT_CONTEXT == 0 || !self.is_large() {
            return;
        }
        let scope = self.scope;
        let slots = selected.map(|position| slot_of(scope, packets[position].metadata()));
        self.contexts.prefetch(slots, F::HOT_CONTEXT);
    }

    fn visit(&mut self, burst: &mut Burst, selected: Positions, outcome: &mut Outcome) {
        watchdog::enter(self.name);
        if F::PREFETCHES && self.is_large() {
            let run = AssertUnwindSafe(|| self.prefetch_records(&burst.packets, selected));
            // Only speed depends on it: what is left is not asked for.
            drop(catch_unwind(run));
        }
        let noted;
        let (notes, mut remaining) = if F::STAGES > 0 {
            let left;
            (noted, left) = self.look_ahead(&burst.packets, selected, outcome);
            (&noted, left)
        } else {
            (&NOTHING_NOTED, selected)
        };
        let Outcome { dropped, reasons, kept, emissions, refused, resets } = outcome;
        let mut emit = Emit::new(burst.now, &burst.pool, emissions);
        let mut verdicts = Verdicts { dropped, reasons, kept };
        loop {
            let packets = &mut burst.packets;
            let (emit, verdicts) = (&mut emit, &mut verdicts);
            // The function and its contexts are whole after a panic: the
            // context in hand is replaced below, and a function that breaks
            // itself only harms its own packets.
            let run = AssertUnwindSafe(|| self.process(packets, notes, remaining, emit, verdicts));
            if catch_unwind(run).is_ok() {
                break;
            }
            let position = emit.position();
            remaining = remaining.behind(position);
            verdicts.drop(position, self.kind, PANIC);
            let slot = self.slot(burst.packets[position].metadata());
            self.reset(slot, resets);
        }
        *refused += emit.refused();
        watchdog::leave();
    }

    fn timer(&mut self, slot: u32, now: u64, pool: &Pool, outcome: &mut Outcome) {
        let mut emit = Emit::new(now, pool, &mut outcome.emissions);
        let Some(context) = self.contexts.get_mut(slot) else { return };
        let run = || self.function.timer(context, &mut emit);
        let panicked = guarded(self.name, run).is_none();
        outcome.refused += emit.refused();
        if panicked {
            self.reset(slot, &mut outcome.resets);
        }
    }

    fn check(&self, settings: &Settings, count: u32) -> Result<(), ConfigError> {
        match settings.typed.downcast_ref::<F::Settings>() {
            Some(settings) => {
                let checked = guarded(self.name, || self.function.check(settings, count));
                checked.unwrap_or_else(|| Err(ConfigError::at("", PANICKED)))
            }
            None => Err(ConfigError::at("", format!("settings that are not for {}", F::NAME))),
        }
    }

    fn tell_time(&mut self, now: u64) {
        guarded(self.name, || self.function.tell_time(now));
    }

    fn retries_kept(&self) -> bool {
        F::RETRIES_KEPT
    }

    fn ask(&mut self, slot: u32, now: u64, question: &[u8], answer: &mut Vec<u8>) {
        if let Some(context) = self.contexts.get_mut(slot) {
            let before = answer.len();
            let run = || self.function.ask(context, now, question, answer);
            if guarded(self.name, run).is_none() {
                // Half an answer is none.
                answer.truncate(before);
                self.abandon(slot);
            }
        }
    }

    fn configure(&mut self, slot: u32, settings: &Settings, nth: u32) {
        if let Some(context) = self.contexts.get_mut(slot)
            && let Some(settings) = settings.typed.downcast_ref::<F::Settings>()
        {
            let run = || self.function.configure(context, settings, nth);
            if guarded(self.name, run).is_none() {
                self.abandon(slot);
            }
        }
    }

    fn tunnels(&self, settings: &Settings, nth: u32) -> TunnelEnds {
        let settings = settings.typed.downcast_ref::<F::Settings>();
        let tunnels = |settings| guarded(self.name, || self.function.tunnels(settings, nth));
        settings.and_then(tunnels).unwrap_or_default()
    }

    fn end_tunnels(
        &mut self,
        slot: u32,
        (settings, nth): (&Settings, u32),
        like: &[PacketMetadata; 2],
        pool: &Pool,
        outcome: &mut Outcome,
    ) {
        let Some(settings) = settings.typed.downcast_ref::<F::Settings>() else { return };
        let Some(context) = self.contexts.get_mut(slot) else { return };
        let mut emit = Emit::new(0, pool, &mut outcome.emissions);
        let run = || self.function.end_tunnels(context, settings, nth, like, &mut emit);
        let panicked = guarded(self.name, run).is_none();
        outcome.refused += emit.refused();
        if panicked {
            self.reset(slot, &mut outcome.resets);
        }
    }

    fn release(&mut self, slot: u32) {
        if let Some(context) = self.contexts.get_mut(slot) {
            let context = std::mem::take(context);
            // A context that cannot be given back is forgotten all the same.
            guarded(self.name, || self.function.release(context));
        }
    }

    fn export(&self, slot: u32, now: u64, out: &mut Vec<u8>) {
        self.export_as(F::CONTEXT_VERSION, slot, now, out);
    }

    fn export_as(&self, version: u16, slot: u32, now: u64, out: &mut Vec<u8>) {
        if let Some(context) = self.contexts.get(slot) {
            let before = out.len();
            out.extend_from_slice(&version.to_le_bytes());
            out.extend_from_slice(&now.to_le_bytes());
            let export = |out: &mut Vec<u8>| match version == F::CONTEXT_VERSION {
                true => self.function.export_at(context, now, out),
                false => self.function.export_as(version, context, out),
            };
            if guarded(self.name, || export(out)).is_none() {
                // Half a context is none.
                out.truncate(before);
            }
        }
    }

    fn export_state(&self, slot: u32, now: u64, out: &mut Vec<u8>) {
        let Some(context) = self.contexts.get(slot) else { return };
        let before = out.len();
        out.extend_from_slice(&STATE.to_le_bytes());
        out.extend_from_slice(&now.to_le_bytes());
        let written = guarded(self.name, || self.function.export_state(context, now, out));
        if written != Some(true) {
            out.truncate(before);
            self.export(slot, now, out);
        }
    }

    fn import(&mut self, slot: u32, now: u64, bytes: &[u8]) -> Result<(), ContextError> {
        let (version, bytes) = bytes.split_first_chunk().ok_or(ContextError::Damaged)?;
        let (then, bytes) = bytes.split_first_chunk().ok_or(ContextError::Damaged)?;
        if *version == STATE.to_le_bytes() {
            let context = self.contexts.get_mut(slot).ok_or(ContextError::Damaged)?;
            let then = u64::from_le_bytes(*then);
            let read = || {
                self.function.import_state(context, bytes)?;
                self.function.rebase(context, then, now);
                Ok(())
            };
            return guarded(self.name, read).unwrap_or(Err(ContextError::Panicked));
        }
        let read = || {
            let mut context = self.function.import(u16::from_le_bytes(*version), bytes)?;
            self.function.rebase(&mut context, u64::from_le_bytes(*then), now);
            Ok(context)
        };
        let context = guarded(self.name, read).unwrap_or(Err(ContextError::Panicked))?;
        let previous = match self.contexts.get_mut(slot) {
            Some(place) => std::mem::replace(place, context),
            None => context,
        };
        guarded(self.name, || self.function.release(previous));
        Ok(())
    }

    fn go_on(&mut self, now: u64) {
        let contexts = self.contexts.all_mut();
        // One that panics goes on as it was before.
        guarded(self.name, || self.function.go_on(contexts, now));
    }

    fn go_on_at(&mut self, slot: u32, now: u64) {
        if let Some(context) = self.contexts.get_mut(slot) {
            let context = std::slice::from_mut(context);
            guarded(self.name, || self.function.go_on(context, now));
        }
    }

    fn adopt(&mut self, previous: &mut dyn Instance) -> bool {
        let Some(previous) = previous.as_any().downcast_mut::<Self>() else { return false };
        if previous.scope != self.scope || previous.contexts.capacity() != self.contexts.capacity()
        {
            return false;
        }
        std::mem::swap(&mut self.contexts, &mut previous.contexts);
        // The contexts are taken over all the same.
        guarded(self.name, || self.function.adopt(&mut previous.function));
        true
    }

    fn show(&self, slot: u32) -> Vec<(&'static str, u64)> {
        let show = |context| guarded(self.name, || self.function.show(context));
        self.contexts.get(slot).and_then(show).unwrap_or_default()
    }

    fn lower(&self) -> Option<Program> {
        let lowering = self.lowering.as_ref()?;
        guarded(self.name, || (lowering.program)(&self.function)).flatten()
    }

    #[inline]
    fn contexts(&mut self) -> &mut [u8] {
        match &self.lowering {
            Some(lowering) => (lowering.bytes)(self.contexts.all_mut()),
            None => &mut [],
        }
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

impl<F: UserPlaneFunction> Called<F> {
    /// The function panicked over the packet at `position`.
    #[cold]
    fn panicked(&mut self, position: usize, packets: &Batch, outcome: &mut Outcome) {
        let Outcome { dropped, reasons, kept, resets, .. } = outcome;
        Verdicts { dropped, reasons, kept }.drop(position, self.kind, PANIC);
        self.reset(self.slot(packets[position].metadata()), resets);
    }

    /// Replaces a context that a panic may have left half changed.
    #[cold]
    fn reset(&mut self, slot: u32, resets: &mut ArrayVec<u32, { Batch::CAPACITY }>) {
        if self.abandon(slot) {
            // No more positions than this can panic in one burst.
            let _ = resets.try_push(slot);
        }
    }

    /// Leaves a fresh context at `slot`. The one until now is not given to `release`, which
    /// would have to trust it, but to `abandon`. False when the slot has none.
    #[cold]
    fn abandon(&mut self, slot: u32) -> bool {
        let Some(context) = self.contexts.get_mut(slot) else { return false };
        let context = std::mem::take(context);
        // What cannot be given back stays lost.
        drop(catch_unwind(AssertUnwindSafe(|| self.function.abandon(context))));
        true
    }
}

/// Runs code of a function under the watchdog's eye; none when it panicked.
fn guarded<R>(name: FunctionName, run: impl FnOnce() -> R) -> Option<R> {
    watchdog::enter(name);
    let result = catch_unwind(AssertUnwindSafe(run)).ok();
    watchdog::leave();
    result
}
