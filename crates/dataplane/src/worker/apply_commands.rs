//! How a worker applies commands, between bursts and within a budget.

use std::sync::mpsc::Sender;

use weft_function::{ContextError, Direction, Scope};
use weft_wire::MacAddress;

use super::{BURST, BurstState, Worker};
use crate::buffering::limits::WAITING;
use crate::command::attachment::Attachment;
use crate::command::{Command, Configure, Replacement, Report, UserChange};
use crate::counters::DropReason;
use crate::forward::Function;
use crate::offload::Lifted;
use crate::trace::{Tap, Taps};
use crate::transmit::Departure;

/// Changes of users that are applied between two bursts. Each costs a few
/// cache misses, so this many delay a packet by some ten microseconds.
pub(crate) const CHANGES_AT_ONCE: usize = 64;

/// Commands that are applied between two bursts, if they are short: packets of the node's
/// own and neighbours. As many as a burst has packets, and as long.
const COMMANDS_AT_ONCE: usize = BURST;

impl Worker {
    /// Applies what the agent has sent, in order. Returns whether there was
    /// anything.
    #[inline]
    pub fn apply_commands(&mut self) -> bool {
        if self.state.changing.is_none() && self.commands.is_empty() {
            return false;
        }
        self.apply();
        true
    }

    #[cold]
    fn apply(&mut self) {
        let mut left = COMMANDS_AT_ONCE;
        while left > 0 && self.apply_next() {
            left -= 1;
        }
        self.departure.flush_all();
    }

    /// Applies the next command, if it may be applied now. Returns whether another may follow
    /// before the next burst.
    fn apply_next(&mut self) -> bool {
        // What waits for a function goes on first.
        if matches!(self.remote_queues.lifted, Some(Lifted::Back { .. })) {
            return false;
        }
        // What has come in the meantime may be done with functions at hand only.
        if self.has_deployed() && self.needs_recall() {
            return false;
        }
        if self.state.changing.is_some() {
            self.change_some();
            return false;
        }
        let Ok(command) = self.commands.pop() else { return false };
        let is_short = command.passes();
        self.carry_out(command);
        is_short
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Replace(replacement) => self.replace(replacement),
            Command::Users(changes) => self.state.changing = Some((changes, 0)),
            Command::Configure(configure) => self.configure(configure),
            Command::Neighbour { port, address, mac } => {
                let now = self.clock.now();
                self.departure.resolve(port, address, mac.map(MacAddress), now);
            }
            Command::Detach { port, answer } => self.detach(port, &answer),
            Command::Attach(attachment) => self.attach(*attachment),
            Command::Transmit { port, frame } => self.departure.transmit(port, &frame),
            Command::Originate { port, packet } => self.departure.originate(port, &packet),
            Command::Answer(packet) => {
                self.counters.originated.add(1);
                match packet.duplicate(&self.departure.pool) {
                    Some(packet) => self.carry_to_user(packet, Direction::Downlink),
                    None => self.counters.dropped(DropReason::PoolExhausted, 1),
                }
            }
            Command::Order(order) => self.apply_order(order),
            Command::Drain(number) => self.drain(number),
            Command::Lift { function, remote_queue } => self.lift(function, remote_queue),
            Command::TakeOut(extract) => self.begin_take_out(extract),
            Command::TakeIn(intake) => self.take_in(intake),
            Command::ReadContexts { function, slots, answer } => {
                self.read_contexts(function, &slots, &answer);
            }
            Command::ShowContexts { function, slots, answer } => {
                self.show_contexts(function, &slots, &answer);
            }
            Command::WriteContexts { function, contexts, answer } => {
                self.write_contexts(function, contexts, &answer);
            }
            Command::Load(load) => self.load(load),
            Command::Redirect(step) => self.redirect(step),
            Command::Tap(number, tap) => self.tap(number, tap),
            Command::Untap(number) => self.untap(number),
            Command::Show { user, answer } => {
                let group = self.classifier.group_of(user);
                let slot = |scope| if scope == Scope::Group { group } else { user };
                let functions = self.element.plan().functions.iter();
                let shown = functions
                    .map(|one| {
                        let slot = slot(one.instance.scope());
                        (one.name.to_string(), one.instance.show(slot))
                    })
                    .filter(|(_, values)| !values.is_empty());
                // The caller may be gone.
                let _ = answer.send(shown.collect());
            }
        }
    }

    /// Applies the first configuration, before any packet comes.
    pub fn start_with(&mut self, replacement: Box<Replacement>, users: &mut [UserChange]) {
        self.replace(replacement);
        users.iter_mut().for_each(|change| self.change(change));
    }

    /// Applies changes of users, before any packet comes.
    pub fn begin_with(&mut self, users: &mut [UserChange]) {
        for some in users.chunks_mut(CHANGES_AT_ONCE) {
            // A million users would wait for memory a few million times.
            for change in &*some {
                if let UserChange::Key(key, _) = change {
                    self.classifier.prefetch(key);
                }
            }
            some.iter_mut().for_each(|change| self.change(change));
        }
    }

    /// Gives a function a context, before any packet comes.
    ///
    /// # Errors
    /// [`ContextError`], when the function does not take it.
    pub fn begin_with_context(
        &mut self,
        function: u16,
        slot: u32,
        octets: &[u8],
    ) -> Result<(), ContextError> {
        let now = self.clock.now();
        match self.element.functions_mut().get_mut(usize::from(function)) {
            Some(function) => function.instance.import(slot, now, octets),
            None => Ok(()),
        }
    }

    /// Gives a context its settings, before any packet comes.
    pub fn begin_with_settings(&mut self, configure: &Configure) {
        self.configure_one(configure);
    }

    /// The contexts that were given are those of a life that ended without being stopped.
    pub fn go_on(&mut self) {
        let now = self.clock.now();
        self.element.functions_mut().iter_mut().for_each(|one| one.instance.go_on(now));
    }

    /// Adds what a function exports of a context to `octets`, once no packet comes any more.
    pub fn end_with_context(&self, function: u16, slot: u32, octets: &mut Vec<u8>) {
        let now = self.clock.now();
        if let Some(function) = self.element.plan().functions.get(usize::from(function)) {
            function.instance.export(slot, now, octets);
        }
    }

    /// Works on a list of changes; gives it back when it is done.
    fn change_some(&mut self) {
        let Some((mut changes, mut next)) = self.state.changing.take() else { return };
        let end = changes.len().min(next + CHANGES_AT_ONCE);
        while next < end {
            self.change(&mut changes[next]);
            next += 1;
        }
        // The agent counts the lists that are done: one that finds no room among
        // the reports is reported again.
        let is_batch = matches!(changes.last(), Some(UserChange::Batch(_)));
        if is_batch && next == changes.len() {
            self.waker.wake();
        }
        self.state.changing = match next == changes.len() {
            true => match self.departure.report(Report::UsersDone(changes)) {
                Err(Report::UsersDone(changes)) => Some((changes, next)),
                _ => None,
            },
            false => Some((changes, next)),
        };
    }

    fn change(&mut self, change: &mut UserChange) {
        match change {
            UserChange::Key(key, slot) => self.classifier.insert(key, *slot),
            UserChange::Unkey(key) => self.classifier.remove(key),
            UserChange::Record(slot, record) => {
                self.classifier.set_record(*slot, *record);
                self.act(*slot, record.action);
            }
            UserChange::Gate(slot) => self.classifier.set_gated(*slot, true),
            UserChange::Select { user, selector, bearer } => {
                self.classifier.select(*user, selector, *bearer);
            }
            UserChange::Unselect { user, selector } => self.classifier.unselect(*user, selector),
            UserChange::Remove { user, contexts } => {
                self.classifier.remove_record(*user);
                for slot in contexts {
                    self.release_contexts(*slot, |_, scope| scope != Scope::Group);
                    self.forget_waiting(*slot);
                }
            }
            UserChange::RemoveGroup { slot } => {
                self.release_contexts(*slot, |_, scope| scope == Scope::Group);
            }
            UserChange::EndTunnels { user, next } => self.end_tunnels(*user, next),
            UserChange::Configure(configure) => {
                self.configure_one(configure);
                self.retry_kept(configure.function, configure.slot);
            }
            UserChange::Forget { function, slot } => {
                let lost = self.queues.forget(*function, *slot);
                self.counters.dropped(DropReason::BearerDrop, lost);
            }
            UserChange::Ask { function, slot, question, answer } => {
                let now = self.clock.now();
                if let Some(function) = self.element.functions_mut().get_mut(usize::from(*function))
                {
                    function.instance.ask(*slot, now, question, answer);
                }
            }
            UserChange::Batch(_) => {}
            UserChange::Reset { function, slot } => {
                let functions = self.element.functions_mut();
                if let Some(function) = functions.get_mut(usize::from(*function)) {
                    function.instance.release(*slot);
                }
            }
        }
    }

    /// Gives back the contexts at `slot` of functions of such a number and scope,
    /// and drops what is kept for them.
    pub(crate) fn release_contexts(&mut self, slot: u32, concerns: impl Fn(u16, Scope) -> bool) {
        for (number, function) in self.element.functions_mut().iter_mut().enumerate() {
            if concerns(number as u16, function.instance.scope()) {
                function.instance.release(slot);
                let lost = self.queues.forget(number as u16, slot);
                self.counters.dropped(DropReason::UserRemoved, lost);
            }
        }
    }

    fn configure(&mut self, configure: Configure) {
        self.configure_one(&configure);
        self.give_back(Report::Configured(configure));
    }

    pub(crate) fn configure_one(
        &mut self,
        Configure { function, slot, settings, nth }: &Configure,
    ) {
        let now = self.clock.now();
        if let Some(function) = self.element.functions_mut().get_mut(usize::from(*function)) {
            function.instance.tell_time(now);
            function.instance.configure(*slot, settings, *nth);
        }
    }

    /// Hands a function the packets again that it keeps for a context, if it wants that.
    fn retry_kept(&mut self, function: u16, slot: u32) {
        let at = self.element.plan().functions.get(usize::from(function));
        if !at.is_some_and(|at| at.instance.retries_kept()) {
            return;
        }
        // Those that it keeps again stand behind the others.
        let mut left = self.queues.length(function, slot);
        while left > 0 {
            let BurstState { burst, classified, .. } = &mut self.state;
            burst.now = self.clock.now();
            classified.clear();
            let packets = &mut burst.packets;
            while left > 0
                && packets.len() < BURST
                && let Some(packet) = self.queues.take(function, slot)
            {
                // There is room: the burst was empty.
                let _ = packets.push(packet);
                left -= 1;
            }
            if packets.is_empty() {
                return;
            }
            self.visit(|element, burst, _, context| element.visit_again(burst, function, context));
        }
    }

    /// Sends End Markers behind all packets that went before, the same way through
    /// the rules.
    #[cold]
    fn end_tunnels(&mut self, user: u32, next: &Configure) {
        let BurstState { burst, classified, .. } = &mut self.state;
        let like = self.classifier.metadata(user, next.slot);
        burst.now = self.clock.now();
        classified.clear();
        self.visit(|element, burst, _, context| {
            element.end_tunnels(burst, next, &like, context);
            context.counters.end_markers.add(burst.packets.len() as u64);
            element.resume(burst, next.function, context);
        });
    }

    fn replace(&mut self, mut new: Box<Replacement>) {
        self.remote_queues.stages.append(&mut new.stages);
        for (stage, map) in self.remote_queues.stages.iter_mut().zip(new.maps.drain(..)) {
            stage.set_map(map);
        }
        let number = |old: &Function| new.parts.iter().position(|part| part.follows(old));
        let numbers: Vec<_> = self.element.plan().functions.iter().map(number).collect();
        let lost = self.queues.renumber(|function| {
            if function == WAITING {
                return Some(WAITING);
            }
            numbers.get(usize::from(function)).copied().flatten().map(|number| number as u16)
        });
        self.counters.dropped(DropReason::UserRemoved, lost);
        new.plan = self.element.replace(new.plan, &mut new.parts);
        self.remote_queues
            .renumber(self.element.plan().functions.iter().map(|function| function.remote_queue));
        if let Some(arrival) = new.arrival {
            self.land(arrival);
        }
        (new.tags, new.profiles) = self
            .classifier
            .set_classes(std::mem::take(&mut new.tags), std::mem::take(&mut new.profiles));
        self.give_back(Report::Replaced(new));
    }

    fn tap(&mut self, number: u64, tap: Box<Tap>) {
        self.state.taps.get_or_insert_with(|| Box::new(Taps::default())).add(number, tap);
    }

    fn untap(&mut self, number: u64) {
        let Some(taps) = &mut self.state.taps else { return };
        let removed = taps.remove(number);
        if taps.is_empty() {
            self.state.taps = None;
        }
        if let Some(tap) = removed {
            self.give_back(Report::TapRemoved(tap));
        }
    }

    /// Gives the agent what is no longer used. The agent empties its ring many
    /// times faster than reports come; when it does not, it is freed here.
    fn give_back(&mut self, report: Report) {
        drop(self.departure.report(report));
    }

    /// Tells the agent what functions have to tell. What finds no room is told later.
    pub(crate) fn report_of_functions(&mut self) {
        let mut any = false;
        while let Some(((number, slot), code)) = self.queues.take_report() {
            let functions = &self.element.plan().functions;
            let Some(function) = functions.get(usize::from(number)) else { continue };
            let report = Report::OfFunction { function: function.name.clone(), slot, code };
            if self.departure.report(report).is_err() {
                self.queues.report_again((number, slot), code);
                break;
            }
            any = true;
        }
        if any {
            self.waker.wake();
        }
    }

    /// Asks for the settings of contexts that were reset. Questions that find no
    /// room are asked again.
    pub(crate) fn report_resets(&mut self) {
        while let Some((number, slot)) = self.queues.take_reset() {
            let functions = &self.element.plan().functions;
            let Some(function) = functions.get(usize::from(number)) else { continue };
            let report = Report::ContextReset { function: function.name.clone(), slot };
            if self.departure.report(report).is_err() {
                return self.queues.note_reset(number, slot);
            }
        }
    }
}

/// Ports whose devices go and come back.
impl Worker {
    /// Gives up what it has of a device: the agent closes it, which takes time. What is sent
    /// there from now on is dropped as `port_gone`.
    #[cold]
    fn detach(&mut self, port: u16, answer: &Sender<Attachment>) {
        // Without an agent there is none to give it to.
        let _ = answer.send(self.give_port(port));
    }

    /// The same, to who closes the device.
    pub fn give_port(&mut self, port: u16) -> Attachment {
        self.carry_all_waiting();
        let mut all = std::mem::take(&mut self.inlets);
        all.append(&mut self.state.held);
        let (inlets, rest) = all.into_iter().partition(|inlet| inlet.port == port);
        self.inlets = rest;
        let outlet = self.departure.outlets.get_mut(usize::from(port));
        let queue = outlet.and_then(|outlet| outlet.detach(&self.counters));
        Attachment { port, inlets, queue }
    }

    /// Takes the queues of a device that is back.
    #[cold]
    pub fn attach(&mut self, attachment: Attachment) {
        let Attachment { port, inlets, queue } = attachment;
        self.inlets.extend(inlets);
        if let Some((outlet, queue)) = self.departure.outlets.get_mut(usize::from(port)).zip(queue)
        {
            outlet.attach(queue);
        }
    }
}

/// Gives taps that want no more packets back to the agent: a burst costs more with a tap.
#[cold]
pub(super) fn retire(taps: &mut Option<Box<Taps>>, departure: &mut Departure) {
    for tap in taps.take().iter_mut().flat_map(|taps| taps.drain()) {
        // What finds no room is freed here.
        drop(departure.report(Report::TapRemoved(tap)));
    }
}
