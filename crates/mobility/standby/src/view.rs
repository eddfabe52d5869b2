//! What is shown of a pair.

/// What a node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// No controller has said it yet.
    #[default]
    Unknown,
    /// It owns the users.
    Active,
    /// It stands by.
    Standby,
}

/// What a node is in its pair, and how far the standby is behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairView {
    /// What it is.
    pub role: Role,
    /// By which the users are owned.
    pub epoch: u64,
    /// The number of the other node; 0 while it is not known.
    pub peer: u32,
    /// The other node was heard within a lease.
    pub hears: bool,
    /// The standby has all records, and answers wait for it.
    pub whole: bool,
    /// Of a standby: its node is built, with all users.
    pub built: bool,
    /// The lease of the owner, in nanoseconds.
    pub lease: u64,
    /// For how long the standby has not had all that is durable here, in nanoseconds.
    pub lag: u64,
    /// Octets of changes that wait for the standby.
    pub waiting: u64,
    /// Answers that wait for it.
    pub answers: u64,
    /// Copies of all records that were begun.
    pub copies: u64,
    /// Changes that were sent, or taken, in pieces.
    pub pieces: u64,
    /// Messages that were not for this epoch, or of another node than the peer.
    pub refused: u64,
}
