//! The thread that asks and sends.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weft_function::{Events, FunctionEvent};
use weft_node::Handle;
use weft_node::usage::{Counted, Cursor};
use weft_node_config::{IpfixPlan, IpfixTransport};

use crate::message::{Message, Record, Template};
use crate::records::{self, TEMPLATES, Usage};
use crate::transport::Transport;

/// Pause between two looks at what functions tell.
const PAUSE: Duration = Duration::from_millis(50);
/// Users whose counters are read at once.
const PIECE: usize = 512;
/// How long the last look at the counters may take, as the node stops.
const LAST_LOOK: Duration = Duration::from_secs(2);
/// Number of this exporting process: a node has one.
const PROCESS: u32 = 1;

/// Tells a collector what a node counts, until it is dropped.
#[derive(Debug)]
pub struct Exporter {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// There is no thread for it.
#[derive(Debug, thiserror::Error)]
#[error("no thread for IPFIX: {0}")]
pub struct StartError(#[from] io::Error);

impl Exporter {
    /// Starts to tell what the plan wants told of the node called `node`. `events` is what
    /// its functions tell.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(
        plan: IpfixPlan,
        node: String,
        handle: Handle,
        events: Option<Events>,
    ) -> Result<Exporter, StartError> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut run = Run {
            transport: Transport::new(plan.collector, plan.transport),
            message: Message::new(plan.message_octets),
            sequence: 0,
            templates_at: None,
            unsent: 0,
            is_there: true,
            counted: HashMap::new(),
            pass: 0,
            since: now(),
            stop: stop.clone(),
            plan,
            node,
            handle,
            events,
        };
        let thread = thread::Builder::new().name("ipfix".into()).spawn(move || run.run())?;
        Ok(Exporter { stop, thread: Some(thread) })
    }

    /// Whether the thread has ended by itself.
    pub fn is_dead(&self) -> bool {
        self.thread.as_ref().is_some_and(JoinHandle::is_finished)
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Its panic was logged.
            let _ = thread.join();
        }
    }
}

/// What was last told of a user.
struct Told {
    /// Of the name of the user that had the slot.
    user: u64,
    packets: u64,
    octets: u64,
    /// The pass in which it was seen last.
    pass: u32,
}

struct Run {
    plan: IpfixPlan,
    node: String,
    handle: Handle,
    events: Option<Events>,
    transport: Transport,
    message: Message,
    /// Data records sent since the collector was reached.
    sequence: u32,
    /// When templates were sent last.
    templates_at: Option<Instant>,
    /// Data records that were not sent.
    unsent: u64,
    /// The collector took what it was sent last.
    is_there: bool,
    /// By counter and slot.
    counted: HashMap<(u32, u32), Told>,
    pass: u32,
    /// When the pass before began, in milliseconds since 1970.
    since: u64,
    stop: Arc<AtomicBool>,
}

impl Run {
    fn run(&mut self) {
        let mut next = Instant::now() + self.plan.interval;
        while !self.stop.load(Ordering::Relaxed) {
            self.tell_events();
            if Instant::now() >= next {
                next += self.plan.interval;
                self.tell_usage(None);
            }
            self.flush();
            thread::sleep(PAUSE);
        }
        self.tell_usage(Some(Instant::now() + LAST_LOOK));
        self.tell_events();
        self.flush();
    }

    /// Blocks that were given to users, or came back, since it was asked last.
    fn tell_events(&mut self) {
        let Some(events) = &self.events else { return };
        self.unsent += events.take_lost();
        let waiting: Vec<FunctionEvent> = events.waiting().collect();
        for event in waiting {
            let (template, record) = records::event(&event, now());
            self.add(template, &record);
        }
    }

    /// What users have used since the pass before. It ends at `until`, finished or not.
    fn tell_usage(&mut self, until: Option<Instant>) {
        self.pass += 1;
        let begun = now();
        let is_over = |run: &Run| match until {
            Some(until) => Instant::now() >= until,
            None => run.stop.load(Ordering::Relaxed),
        };
        for (counter, name) in (1..).zip(self.plan.usage.clone()) {
            let mut cursor = Some(Cursor::default());
            while let Some(from) = cursor.take().filter(|_| !is_over(self)) {
                let function = name.clone();
                let asked = self.handle.ask(move |agent| agent.usage(&function, from, PIECE));
                let Ok(Ok((reading, next))) = asked else { break };
                let Ok(counted) = reading.wait() else { break };
                cursor = next;
                for one in &counted {
                    self.tell_user(counter, one);
                }
                self.tell_events();
            }
        }
        if !is_over(self) {
            let pass = self.pass;
            self.counted.retain(|_, told| told.pass == pass);
            self.since = begun;
            let (template, record) = records::unsent(PROCESS, self.unsent);
            self.add(template, &record);
        }
    }

    fn tell_user(&mut self, counter: u32, one: &Counted) {
        let Counted { slot, ref user, address, packets, octets } = *one;
        let mut hasher = DefaultHasher::new();
        user.hash(&mut hasher);
        let hash = hasher.finish();
        let told = Told { user: hash, packets, octets, pass: self.pass };
        let before = self.counted.insert((counter, slot), told);
        // Another user may have had the slot.
        let before = before.filter(|before| before.user == hash);
        let (packets, octets) = match before {
            // A context that was reset has begun anew.
            Some(before) if before.packets <= packets && before.octets <= octets => {
                (packets - before.packets, octets - before.octets)
            }
            Some(_) => (packets, octets),
            // A user that comes from another node brings what was counted there.
            None if self.plan.users_move => (0, 0),
            None => (packets, octets),
        };
        if packets > 0 {
            let time = (self.since, now());
            let (template, record) =
                Usage { user, address, counter, time, packets, octets }.record();
            self.add(template, &record);
        }
    }

    /// Adds a record to the message at hand; a full one is sent before.
    fn add(&mut self, template: &Template, record: &Record) {
        if self.message.data(template, record) {
            return;
        }
        self.flush();
        // A record that has no room in an empty message is not told.
        if !self.message.data(template, record) {
            self.unsent += 1;
        }
    }

    /// Sends the message at hand, and templates before it where they are due.
    fn flush(&mut self) {
        if self.message.is_empty() {
            return;
        }
        let message = std::mem::replace(&mut self.message, Message::new(self.plan.message_octets));
        let records = message.records();
        let sent = self.introduce().and_then(|()| self.send(message));
        if let Err(error) = &sent {
            self.unsent += u64::from(records);
            if self.is_there {
                tracing::warn!(collector = %self.plan.collector, "IPFIX: {error}");
            }
        } else if !self.is_there {
            tracing::info!(collector = %self.plan.collector, "IPFIX: the collector is there again");
        }
        self.is_there = sent.is_ok();
    }

    /// Sends templates, and who this is, to a collector that does not know them, or may have
    /// forgotten them (RFC 7011 section 8.4).
    fn introduce(&mut self) -> io::Result<()> {
        let is_new = self.transport.ready()?;
        if is_new {
            self.sequence = 0;
        }
        let udp = self.plan.transport == IpfixTransport::Udp;
        let is_due = |at: Instant| udp && at.elapsed() >= self.plan.templates;
        if !is_new && !self.templates_at.is_none_or(is_due) {
            return Ok(());
        }
        let mut message = Message::new(self.plan.message_octets);
        for template in TEMPLATES {
            if !message.template(template) {
                self.send(message)?;
                message = Message::new(self.plan.message_octets);
                message.template(template);
            }
        }
        self.send(message)?;
        let mut message = Message::new(self.plan.message_octets);
        let (template, record) = records::node(self.plan.domain, &self.node);
        message.data(template, &record);
        self.send(message)?;
        self.templates_at = Some(Instant::now());
        Ok(())
    }

    fn send(&mut self, message: Message) -> io::Result<()> {
        let records = message.records();
        let octets = message.finish((now() / 1000) as u32, self.sequence, self.plan.domain);
        self.transport.send(&octets)?;
        self.sequence = self.sequence.wrapping_add(records);
        Ok(())
    }
}

/// Milliseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as u64
}
