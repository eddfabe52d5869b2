//! What a standby passes on to its node: all records as they lie in its store, and then each
//! change of them. So the node can have the users before it owns them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;

use weft_state::{Change, Snapshot, StateError, Writer};

use crate::input::Input;
use crate::told::{Changes, Told};

enum Standing {
    /// The node has nothing.
    Nothing,
    /// All records are asked for; these changes come behind them.
    Asked(Vec<Changes>),
    /// The node has all records, or is about to.
    Level,
}

/// What the node has been given.
pub(crate) struct Follow {
    standing: Standing,
    /// Octets of changes that wait for the node, and how many may.
    untaken: Arc<AtomicUsize>,
    bound: usize,
    /// How often all records were asked for.
    asked: u64,
    told: Vec<Told>,
    /// The node is built with what it was given.
    is_built: bool,
}

impl Follow {
    /// A node that lets changes of `bound` octets wait has nothing yet.
    pub fn new(bound: usize) -> Follow {
        let (standing, untaken) = (Standing::Nothing, Arc::default());
        Follow { standing, untaken, bound, asked: 0, told: Vec::new(), is_built: false }
    }

    /// The store of `writer` has all records: asks for them, where the node has nothing and has
    /// worked off what it was given.
    pub fn begin(&mut self, writer: &Writer, inputs: &Sender<Input>) {
        let is_free = self.untaken.load(Ordering::Acquire) == 0;
        if !matches!(self.standing, Standing::Nothing) || !is_free {
            return;
        }
        // What the disk refuses is not in a copy.
        if writer.lag().failure.is_some() {
            return;
        }
        self.asked += 1;
        let (asked, inputs) = (self.asked, inputs.clone());
        let then = move |copy: Result<(Snapshot, u64), StateError>| {
            let copy = copy.map(|(snapshot, _)| snapshot);
            let _ = inputs.send(Input::All(asked, copy));
        };
        if writer.copy(Box::new(then)) {
            self.standing = Standing::Asked(Vec::new());
        }
    }

    /// All records are there, as they were when they were asked for.
    pub fn all(&mut self, asked: u64, copy: Result<Snapshot, StateError>) {
        if asked != self.asked {
            return;
        }
        let Standing::Asked(changes) = std::mem::replace(&mut self.standing, Standing::Nothing)
        else {
            return;
        };
        match copy {
            Ok(snapshot) => {
                self.told.push(Told::All(snapshot));
                self.told.extend(changes.into_iter().map(Told::Changed));
                self.standing = Standing::Level;
            }
            Err(error) => tracing::warn!("{error}: the node does not follow the other one yet"),
        }
    }

    /// These changes go to the store now.
    pub fn changed(&mut self, changes: &[Change]) {
        if matches!(self.standing, Standing::Nothing) {
            return;
        }
        let octets = changes.iter().map(Change::size).sum();
        if self.untaken.load(Ordering::Acquire) + octets > self.bound {
            return self.anew();
        }
        let changes = Changes::new(changes.to_vec(), octets, self.untaken.clone());
        match &mut self.standing {
            Standing::Asked(behind) => behind.push(changes),
            _ => self.told.push(Told::Changed(changes)),
        }
    }

    /// Nothing that the node was given holds any more.
    pub fn anew(&mut self) {
        if matches!(self.standing, Standing::Level) {
            self.told.push(Told::Anew);
        }
        self.standing = Standing::Nothing;
        self.is_built = false;
        // A copy that is on its way is too old.
        self.asked += 1;
    }

    /// The node is built with what it was given, or is not any more.
    pub fn built(&mut self, is_built: bool) {
        self.is_built = is_built && matches!(self.standing, Standing::Level);
    }

    /// Whether it is.
    pub fn is_built(&self) -> bool {
        self.is_built
    }

    /// What the node is to be told.
    pub fn take_told(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.told)
    }
}
