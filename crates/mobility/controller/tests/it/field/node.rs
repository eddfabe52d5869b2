//! A node without packets: the machine of a station or an anchor, on a real
//! transport. Contexts are a number that grows by one with every import.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weft_mobility_protocol::{
    Anchor, Contexts, EndMarker, Incarnation, NodeId, Output, Settings, Station, TimerKey, User,
};
use weft_mobility_transport::note::{Attempt, Note, Process, Upgrade, UpgradeMethod};
use weft_mobility_transport::{Event, Load, Options, Report, Transport};

use super::{Shared, in_the_end};

/// How often a node that registers says how it runs, at least.
const REPORTS: Duration = Duration::from_millis(100);

/// What a node is given.
pub enum Input {
    Arrived(Event),
    Marker(User, EndMarker),
    /// Its connections break; it makes new ones.
    Cut,
    Stop,
}

pub enum Machine {
    Station(Station),
    Anchor(Anchor),
}

pub struct Node {
    pub number: NodeId,
    inputs: Sender<Input>,
    thread: JoinHandle<()>,
}

impl Node {
    pub fn start(options: Options, anchor: bool, life: u32, shared: &Shared) -> Node {
        let (inputs, received) = mpsc::channel();
        let number = options.node;
        shared.inputs.lock().unwrap().insert(number, inputs.clone());
        let (own, shared) = (inputs.clone(), shared.clone());
        let thread = thread::spawn(move || {
            let mut out = Vec::new();
            let (incarnation, settings) = (Incarnation(life), Settings::default());
            let machine = match anchor {
                true => Machine::Anchor(Anchor::new(number, incarnation, settings, &mut out)),
                false => Machine::Station(Station::new(number, incarnation, settings, &mut out)),
            };
            let transport = connect(&options, &own);
            let mut work = Work {
                number,
                machine,
                transport,
                options,
                own,
                shared,
                timers: BTreeMap::new(),
                contexts: HashMap::new(),
                report: Report::default(),
                owned: HashSet::new(),
                load: Load::default(),
            };
            work.carry_out(out);
            work.run(&received);
        });
        Node { number, inputs, thread }
    }

    pub fn cut(&self) {
        self.inputs.send(Input::Cut).unwrap();
    }

    /// The node dies.
    pub fn stop(self) {
        self.inputs.send(Input::Stop).unwrap();
        self.thread.join().unwrap();
    }
}

fn connect(options: &Options, inputs: &Sender<Input>) -> Transport {
    in_the_end(|| {
        let inputs = inputs.clone();
        let deliver = move |event| inputs.send(Input::Arrived(event)).is_ok();
        Transport::start(options.clone(), deliver)
    })
}

struct Work {
    number: NodeId,
    machine: Machine,
    transport: Transport,
    options: Options,
    own: Sender<Input>,
    shared: Shared,
    timers: BTreeMap<TimerKey, Instant>,
    contexts: HashMap<User, u64>,
    owned: HashSet<User>,
    report: Report,
    load: Load,
}

/// Share of its core that a station with so many users says packets take, in 1/10,000.
pub fn busy(users: usize) -> u16 {
    1250 + 100 * users.min(80) as u16
}

impl Work {
    fn run(&mut self, inputs: &Receiver<Input>) {
        loop {
            let next = self.timers.iter().min_by_key(|(_, at)| **at).map(|(key, at)| (*key, *at));
            let timer = next.map(|(_, at)| at);
            let at = timer.into_iter().chain([Instant::now() + REPORTS]).min();
            let left = at.map_or(REPORTS, |at| at.saturating_duration_since(Instant::now()));
            let received = inputs.recv_timeout(left);
            self.tell();
            match received {
                Ok(Input::Stop) | Err(RecvTimeoutError::Disconnected) => return self.die(),
                Ok(Input::Arrived(Event::Message(envelope))) => {
                    self.drive(|machine, out| match machine {
                        Machine::Station(station) => station.message(envelope, out),
                        Machine::Anchor(anchor) => anchor.message(envelope, out),
                    });
                }
                Ok(Input::Arrived(Event::Settings(generation, text))) => {
                    self.settings(generation, text);
                }
                Ok(Input::Arrived(Event::Upgrade(upgrade))) => {
                    if self.goes(upgrade) {
                        self.cut();
                    }
                }
                Ok(Input::Arrived(_)) => {}
                Ok(Input::Marker(user, marker)) => self.drive(|machine, out| match machine {
                    Machine::Station(station) => station.end_marker(user, marker, out),
                    Machine::Anchor(anchor) => anchor.end_marker(user, marker, out),
                }),
                Ok(Input::Cut) => self.cut(),
                Err(RecvTimeoutError::Timeout) => {
                    let due = next.filter(|(_, at)| *at <= Instant::now());
                    let Some((key, _)) = due else { continue };
                    self.timers.remove(&key);
                    self.drive(|machine, out| match machine {
                        Machine::Station(station) => station.timer(key, out),
                        Machine::Anchor(anchor) => anchor.timer(key, out),
                    });
                }
            }
        }
    }

    fn cut(&mut self) {
        let port = SocketAddr::from(([127, 0, 0, 1], 0));
        let place = std::mem::replace(&mut self.options.listen, port);
        // The old one gives its port back first.
        self.transport = connect(&self.options, &self.own);
        self.options.listen = place;
        self.transport = connect(&self.options, &self.own);
    }

    /// Its process is to go, or is asked which one it is; whether its connections break.
    fn goes(&mut self, upgrade: Upgrade) -> bool {
        let mut programs = self.shared.programs.lock().unwrap();
        let program = programs.entry(self.number).or_default();
        if program.is_old {
            return true;
        }
        let process = program.before + 1;
        let is_meant = upgrade.request > 0 && upgrade.process == process;
        let refuses = program.refuses.clone().filter(|_| is_meant);
        let attempt = match (is_meant, &refuses) {
            (false, _) => Attempt::On,
            (true, None) => Attempt::Begun,
            (true, Some(_)) => Attempt::Refused,
        };
        let (request, version) = (upgrade.request, format!("0.1.{process}"));
        let reason = refuses.unwrap_or_default();
        let note = Note::Process(Process { request, process, attempt, version, reason });
        self.transport.sender().note(NodeId::CONTROLLER, &note);
        if attempt != Attempt::Begun {
            return false;
        }
        match upgrade.method {
            UpgradeMethod::TakeOver => program.before += 1,
            UpgradeMethod::End => {
                assert!(self.owned.is_empty(), "a node ends that has users");
                program.has_ended = true;
            }
        }
        upgrade.method == UpgradeMethod::TakeOver
    }

    /// Takes settings, but for those that say `refuse`; by those that say `harm` it drops.
    fn settings(&mut self, generation: u64, text: String) {
        if text.contains("refuse") {
            (self.report.refused, self.report.reason) = (generation, "it says refuse".to_owned());
            return;
        }
        self.report.generation = generation;
        self.shared.settings.lock().unwrap().insert(self.number, text);
    }

    /// Says what it carries, 1,000 packets a second on its own clock, and how it runs where it
    /// has registered.
    fn tell(&mut self) {
        self.load.busy = Some(busy(self.owned.len()));
        self.load.uptime += 1_000_000_000;
        self.load.received += 1000;
        self.load.dropped += 10;
        self.transport.sender().note(NodeId::CONTROLLER, &Note::Load(self.load));
        if self.options.registration.is_none() {
            return;
        }
        self.report.received += 1000;
        let settings = self.shared.settings.lock().unwrap();
        if settings.get(&self.number).is_some_and(|text| text.contains("harm")) {
            self.report.dropped += 100;
        }
        let note = Note::Report(self.report.clone());
        self.transport.sender().note(NodeId::CONTROLLER, &note);
    }

    fn die(&mut self) {
        let mut owners = self.shared.owners.lock().unwrap();
        owners.values_mut().for_each(|nodes| nodes.retain(|node| *node != self.number));
    }

    fn drive(&mut self, input: impl FnOnce(&mut Machine, &mut Vec<Output>)) {
        let mut out = Vec::new();
        input(&mut self.machine, &mut out);
        self.carry_out(out);
    }

    /// Notes whom this node owns, before any other node hears of it.
    fn note_owner(&mut self, user: User) {
        let Machine::Station(station) = &self.machine else { return };
        let mut owners = self.shared.owners.lock().unwrap();
        let nodes = owners.entry(user).or_default();
        nodes.retain(|node| *node != self.number);
        self.owned.remove(&user);
        if station.owns(user) {
            self.owned.insert(user);
            nodes.push(self.number);
            assert!(nodes.len() == 1, "{user} is owned by {nodes:?}");
        }
    }

    fn carry_out(&mut self, out: Vec<Output>) {
        for output in &out {
            if let Output::Changed(user, change) = output {
                assert!(change.is_allowed(), "{change:?}");
                self.note_owner(*user);
            }
        }
        for output in out {
            match output {
                Output::Send(envelope) => self.transport.sender().send(envelope),
                Output::SetTimer(key, after) => {
                    self.timers.insert(key, Instant::now() + after);
                }
                Output::CancelTimer(key) => _ = self.timers.remove(&key),
                Output::Export { user, epoch } => {
                    let bytes = self.contexts[&user].to_be_bytes().to_vec();
                    self.drive(|machine, out| {
                        if let Machine::Station(station) = machine {
                            station.exported(user, epoch, bytes, out);
                        }
                    });
                }
                Output::Import { user, epoch, contexts } => {
                    let moves = match contexts {
                        Contexts::Exported(bytes) => {
                            1 + u64::from_be_bytes(bytes.try_into().expect("a number"))
                        }
                        Contexts::Kept | Contexts::New => 0,
                    };
                    self.contexts.insert(user, moves);
                    self.shared.moves.lock().unwrap().insert(user, moves);
                    self.drive(|machine, out| {
                        if let Machine::Station(station) = machine {
                            station.imported(user, epoch, true, out);
                            station.radio_arrived(user, out);
                        }
                    });
                }
                // Nothing is in the air.
                Output::Drain { user, epoch } => self.drive(|machine, out| {
                    if let Machine::Station(station) = machine {
                        station.drained(user, epoch, out);
                    }
                }),
                Output::Discard(user) => _ = self.contexts.remove(&user),
                Output::SendEndMarker { user, to, marker } => {
                    if let Some(to) = self.shared.inputs.lock().unwrap().get(&to) {
                        let _ = to.send(Input::Marker(user, marker));
                    }
                }
                // The radio goes as soon as the target has the user.
                Output::Changed(user, change) if change.to == "Forwarding" => {
                    self.drive(|machine, out| {
                        if let Machine::Station(station) = machine {
                            station.radio_left(user, out);
                        }
                    });
                }
                _ => {}
            }
        }
    }
}
