//! A worker's part when a function goes into its process or comes back: it lets the
//! packets wait, hands the instance over, and lets them go on in order.

use arrayvec::ArrayVec;
use weft_compose::Positions;
use weft_dpdk::Batch;

use crate::command::{Arrival, Report};
use crate::counters::DropReason;
use crate::offload::{CreditReservations, Lifted, Placeholder, Policy, RemoteQueue, ResumePoint};
use crate::worker::{BURST, BurstState, Worker};

/// Packets of a worker that wait for a function that moves, at most.
const WAITING: usize = 4096;

/// Of the node's buffers that many at most, one part in so many.
const SHARE: usize = 4;

/// Bursts that go on between two rounds of the ports, beside one for each of these.
const BURSTS: usize = 2;

impl Worker {
    /// Lets the packets of a function wait from now on.
    pub(crate) fn lift(&mut self, function: u16, remote_queue: u16) {
        let bound = (self.state.burst.pool.size() as usize / SHARE).clamp(BURST, WAITING);
        self.remote_queues.close(remote_queue, function, bound);
        self.remote_queues.lifted = Some(Lifted::Emptying { function, remote_queue });
        self.element.divert(function, remote_queue);
    }

    /// Goes on with a function that moves; whether there was anything to do.
    #[cold]
    pub(crate) fn drive_lifted(&mut self) -> bool {
        match self.remote_queues.lifted {
            Some(Lifted::Emptying { function, remote_queue }) => {
                self.hand_over(function, remote_queue)
            }
            Some(Lifted::Back { function, remote_queue }) => self.let_in(function, remote_queue),
            Some(Lifted::Gone { .. }) | None => false,
        }
    }

    /// Gives the agent the instance, once nothing is away at it.
    fn hand_over(&mut self, function: u16, remote_queue: u16) -> bool {
        if self.remote_queues.remote_queue(remote_queue).away() > 0 {
            return false;
        }
        let Some(at) = self.element.functions_mut().get_mut(usize::from(function)) else {
            return false;
        };
        let absent = Placeholder::absent(&*at.instance);
        let instance = std::mem::replace(&mut at.instance, Box::new(absent));
        self.remote_queues.lifted = Some(Lifted::Gone { function, remote_queue });
        self.answer_transfer(Report::Lifted(instance));
        true
    }

    /// The function is where it is to be, in its process or at hand.
    pub(crate) fn land(&mut self, arrival: Arrival) {
        let Arrival { function, remote_queue, at_hand } = arrival;
        if at_hand {
            // What waits goes on before what comes, a little at a time.
            self.element.divert(function, remote_queue);
            self.remote_queues.lifted = Some(Lifted::Back { function, remote_queue });
        } else {
            self.remote_queues.lifted = None;
            self.hear_news(usize::from(remote_queue));
            self.remote_queues.remote_queue(remote_queue).open();
        }
    }

    /// Lets some of the packets that wait visit the function.
    fn let_in(&mut self, function: u16, remote_queue: u16) -> bool {
        for _ in 0..BURSTS + self.inlets.len() {
            let mut places = ArrayVec::new();
            if !self.take_from_gate(remote_queue, &mut places) {
                break;
            }
            let BurstState { burst, classified, watch, taps, .. } = &mut self.state;
            burst.now = self.clock.now();
            classified.clear();
            watch.start();
            if let Some(taps) = taps {
                taps.begin();
                taps.admit(Positions::first(burst.packets.len()), burst);
            }
            self.visit(|element, burst, _, context| {
                element.enter(burst, function, &places, context);
            });
        }
        if !self.remote_queues.remote_queue(remote_queue).has_held() {
            self.remote_queues.remote_queue(remote_queue).open();
            self.remote_queues.rest(remote_queue);
            self.remote_queues.lifted = None;
            self.element.arrive(function);
        }
        true
    }

    /// Takes up to a burst of what waits in hand; whether there was anything.
    fn take_from_gate(
        &mut self,
        remote_queue: u16,
        places: &mut ArrayVec<ResumePoint, { Batch::CAPACITY }>,
    ) -> bool {
        let mut reservations = CreditReservations::default();
        while places.len() < BURST
            && let Some((packet, place, original)) =
                self.remote_queues.remote_queue(remote_queue).take_held()
        {
            let position = self.state.burst.packets.len();
            // The burst before has left.
            drop(self.state.burst.packets.push(packet));
            self.departure.originals.extend(original.map(|original| (position, original)));
            reservations.add(place);
            places.push(place);
        }
        self.remote_queues.release(&reservations);
        !places.is_empty()
    }

    /// A process has gone while packets waited for it to arrive: they are under its policy.
    #[cold]
    pub(crate) fn give_up_waiting(&mut self, remote_queue: usize) {
        let number = remote_queue as u16;
        let is_lost = |remote_queue: &RemoteQueue| {
            remote_queue.has_held()
                && !remote_queue.is_up()
                && !remote_queue.is_closed()
                && !matches!(remote_queue.policy(), Policy::Hold(_))
        };
        while is_lost(self.remote_queues.remote_queue(number)) {
            let mut places = ArrayVec::new();
            self.take_from_gate(number, &mut places);
            match self.remote_queues.remote_queue(number).policy() {
                Policy::Bypass => {
                    let function = self.remote_queues.function(remote_queue);
                    let behind: ArrayVec<_, { Batch::CAPACITY }> =
                        places.into_iter().map(|place| (function, place)).collect();
                    self.carry_back(&behind);
                }
                _ => {
                    self.counters.dropped(DropReason::FunctionDown, places.len());
                    self.state.burst.packets.clear();
                    self.departure.forget_originals();
                }
            }
        }
    }
}
