//! The places that a server has for connections, and which connection gives its place up.
//!
//! A connection is *silent* until the head of its first request is complete (with TLS, the
//! handshake comes before that), *busy* while it is answered, *sending* until the client has
//! taken what was written, and *idle* between two requests. Where there is no place for a new connection, the oldest silent one is ended
//! for it, or else the oldest idle one: a client that says nothing costs the others
//! nothing. A busy or sending connection keeps its place.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// How many connections a server has places for.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// In all.
    pub all: usize,
    /// From one source: an IPv4 address, or an IPv6 network of 64 bits.
    pub of_source: usize,
}

/// The places of a server.
#[derive(Debug)]
pub struct ConnectionPermits {
    limits: Limits,
    table: Mutex<Table>,
    freed: Notify,
}

/// Connections by their numbers, so the oldest is the first.
#[derive(Debug, Default)]
struct Table {
    next: u64,
    held: BTreeMap<u64, Held>,
}

#[derive(Debug)]
struct Held {
    source: Option<IpAddr>,
    state: State,
    task: Option<AbortHandle>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Silent,
    Busy,
    Sending,
    Idle,
}

/// There are too many busy connections from one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TooMany;

/// A place, until it is dropped.
#[derive(Debug)]
pub struct ConnectionPermit {
    number: u64,
    places: Arc<ConnectionPermits>,
}

impl ConnectionPermits {
    /// As many as `limits` say.
    pub fn new(limits: Limits) -> Arc<ConnectionPermits> {
        let (table, freed) = (Mutex::default(), Notify::new());
        Arc::new(ConnectionPermits { limits, table, freed })
    }

    /// Serves a connection from `source` (none for a local one) in a task of its own as soon
    /// as it has a place. A source that has too many gets none.
    pub async fn admit<F: Future<Output = ()> + Send + 'static>(
        self: &Arc<Self>,
        source: Option<IpAddr>,
        connection: impl FnOnce(Arc<ConnectionPermit>) -> F,
    ) {
        let Ok(place) = self.take(source).await else {
            tracing::debug!(?source, "too many connections from there");
            return;
        };
        let number = place.number();
        let task = tokio::spawn(connection(Arc::new(place)));
        self.served_by(number, task.abort_handle());
        // What the client has sent is read before the next connection may take the place.
        tokio::task::yield_now().await;
    }

    /// Takes a place for a connection from `source`; none for a local one. Waits while all
    /// places have busy connections.
    async fn take(self: &Arc<Self>, source: Option<IpAddr>) -> Result<ConnectionPermit, TooMany> {
        let source = source.map(network);
        loop {
            // Registered before the table is read: a place freed in between is not missed.
            let freed = self.freed.notified();
            if let Some(number) = self.table().enter(source, self.limits)? {
                return Ok(ConnectionPermit { number, places: self.clone() });
            }
            freed.await;
        }
    }

    /// Names the task that serves a connection, and that ends when it gives up its place.
    fn served_by(&self, number: u64, task: AbortHandle) {
        if let Some(held) = self.table().held.get_mut(&number) {
            held.task = Some(task);
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // No code panics while it has the lock.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Enters a connection; none if there is no place now.
    fn enter(&mut self, source: Option<IpAddr>, limits: Limits) -> Result<Option<u64>, TooMany> {
        let of_source = self.held.values().filter(|held| held.source == source).count();
        if source.is_some() && of_source >= limits.of_source {
            self.end_one(|held| held.source == source).ok_or(TooMany)?;
        } else if self.held.len() >= limits.all && self.end_one(|_| true).is_none() {
            return Ok(None);
        }
        let number = self.next;
        self.next += 1;
        self.held.insert(number, Held { source, state: State::Silent, task: None });
        Ok(Some(number))
    }

    /// Ends the oldest silent connection of those, or else the oldest idle one.
    fn end_one(&mut self, among: impl Fn(&Held) -> bool) -> Option<()> {
        let oldest = |state: State| {
            let mut held = self.held.iter();
            held.find(|(_, held)| held.state == state && among(held)).map(|(number, _)| *number)
        };
        let number = oldest(State::Silent).or_else(|| oldest(State::Idle))?;
        if let Some(task) = self.held.remove(&number).and_then(|held| held.task) {
            task.abort();
        }
        Some(())
    }
}

impl ConnectionPermit {
    /// The number of the connection.
    fn number(&self) -> u64 {
        self.number
    }

    /// A request is answered from now on.
    pub fn busy(&self) {
        self.become_(|_| State::Busy);
    }

    /// The answer is complete, but for what waits until the client takes it.
    pub fn answered(&self) {
        self.become_(|_| State::Sending);
    }

    /// What was written is sent: behind a complete answer another request may come.
    pub fn sent(&self) {
        self.become_(|state| if state == State::Sending { State::Idle } else { state });
    }

    fn become_(&self, change: impl FnOnce(State) -> State) {
        let mut table = self.places.table();
        let Some(held) = table.held.get_mut(&self.number) else { return };
        let before = held.state;
        held.state = change(before);
        if held.state == State::Idle && before != State::Idle {
            drop(table);
            self.places.freed.notify_one();
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.places.table().held.remove(&self.number);
        self.places.freed.notify_one();
    }
}

/// A host can have every address of its IPv6 network, so the network is the source.
fn network(source: IpAddr) -> IpAddr {
    match source.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { all: 4, of_source: 3 };

    fn from(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([192, 0, 2, last]))
    }

    fn entered(table: &mut Table, source: Option<IpAddr>) -> u64 {
        table.enter(source, LIMITS).unwrap().unwrap()
    }

    fn held(table: &Table) -> Vec<u64> {
        table.held.keys().copied().collect()
    }

    #[test]
    fn the_oldest_silent_connection_makes_room_then_the_oldest_idle_one() {
        let mut table = Table::default();
        for source in [1, 2, 3, 4] {
            entered(&mut table, from(source));
        }
        table.held.get_mut(&0).unwrap().state = State::Busy;
        table.held.get_mut(&1).unwrap().state = State::Idle;
        entered(&mut table, from(5));
        assert_eq!(held(&table), [0, 1, 3, 4]);
        entered(&mut table, from(6));
        assert_eq!(held(&table), [0, 1, 4, 5]);
        for number in [4, 5] {
            table.held.get_mut(&number).unwrap().state = State::Busy;
        }
        entered(&mut table, from(7));
        assert_eq!(held(&table), [0, 4, 5, 6]);
        table.held.get_mut(&6).unwrap().state = State::Busy;
        assert_eq!(table.enter(from(8), LIMITS), Ok(None));
    }

    #[test]
    fn a_source_has_its_share_and_ends_its_own_connections() {
        let mut table = Table::default();
        let other = entered(&mut table, from(9));
        for _ in 0..10 {
            entered(&mut table, from(1));
        }
        assert_eq!(held(&table), [other, 8, 9, 10]);
        for number in [8, 9, 10] {
            table.held.get_mut(&number).unwrap().state = State::Busy;
        }
        assert_eq!(table.enter(from(1), LIMITS), Err(TooMany));
        // Another source takes the place of the silent one, whose turn it is.
        entered(&mut table, from(2));
        assert_eq!(held(&table), [8, 9, 10, 11]);
    }

    #[test]
    fn local_connections_are_of_no_source() {
        let mut table = Table::default();
        for _ in 0..10 {
            entered(&mut table, None);
        }
        assert_eq!(held(&table), [6, 7, 8, 9]);
    }

    #[test]
    fn a_source_is_an_ipv4_address_or_an_ipv6_network() {
        let of = |text: &str| network(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2:3::4"), of("2001:db8:1:2::"));
        assert_ne!(of("2001:db8:1:2::"), of("2001:db8:1:3::"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.2"), of("192.0.2.1"));
    }
}
