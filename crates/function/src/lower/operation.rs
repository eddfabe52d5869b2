//! The micro-operations.

use crate::tag::TagSlot;

/// A number of 64 bits, or the context at hand; defined once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(pub u32);

impl Value {
    /// The context at hand: defined from the first micro-operation on.
    pub const CONTEXT: Value = Value(0);
}

/// A point that jumps lead to; forward only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label(pub u32);

/// Where offsets into a packet count from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Base {
    /// The first byte of the frame.
    Frame,
    /// The IP header: [`PacketMetadata::network_offset`](crate::PacketMetadata).
    Network,
    /// The transport header: [`PacketMetadata::transport_offset`](crate::PacketMetadata).
    Transport,
    /// The IP header of the tunnel: [`PacketMetadata::outer_offset`](crate::PacketMetadata).
    Outer,
}

impl Base {
    /// All of them, in their order.
    pub const ALL: [Base; 4] = [Base::Frame, Base::Network, Base::Transport, Base::Outer];
}

/// Bytes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeaderField {
    /// What `offset` counts from.
    pub base: Base,
    /// Offset of the first byte.
    pub offset: u16,
    /// Bytes: 1, 2, 4 or 8.
    pub octets: u8,
}

/// Bytes of a context, a number in the byte order of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContextField {
    /// Name, as an operator reads it.
    pub name: &'static str,
    /// Offset of the first byte.
    pub offset: u16,
    /// Bytes: 1, 2, 4 or 8.
    pub octets: u8,
}

/// What the parser and the classifier have noted of a packet; see
/// [`PacketMetadata`](crate::PacketMetadata).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields of the metadata, by their names")]
pub enum Note {
    User,
    Bearer,
    Group,
    NetworkOffset,
    TransportOffset,
    EtherType,
    Protocol,
    Flags,
    NetworkLength,
    OuterOffset,
}

/// What is done with two numbers of 64 bits; overflow is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// Sum.
    Add,
    /// Difference.
    Subtract,
    /// Lower half of the product.
    Multiply,
    /// Upper half of the product.
    MultiplyHigh,
    /// Bits of both.
    And,
    /// Bits of either.
    Or,
    /// Bits that differ.
    ExclusiveOr,
    /// Shifted to the left; by 64 and more, 0.
    ShiftLeft,
    /// Shifted to the right; by 64 and more, 0.
    ShiftRight,
    /// 1 if equal, else 0.
    Equal,
    /// 1 if the left is less than the right, as numbers without sign, else 0.
    Less,
    /// What a checksum has to be told of a field of 16 bits that was the left
    /// and is the right: `~m + m'` of RFC 1624 §3. At most 2¹⁷.
    Difference16,
    /// The same for a field of 32 bits. At most 2³³.
    Difference32,
}

/// A checksum that can be repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Checksum {
    /// Of the IPv4 header (RFC 791 §3.1).
    Ipv4,
    /// Of UDP: 0 stays, and what comes out as 0 is sent as 0xffff (RFC 768).
    Udp,
    /// Of TCP (RFC 9293 §3.1).
    Tcp,
}

impl Checksum {
    /// Where it stands.
    pub const fn place(self) -> HeaderField {
        let (base, offset) = match self {
            Checksum::Ipv4 => (Base::Network, 10),
            Checksum::Udp => (Base::Transport, 6),
            Checksum::Tcp => (Base::Transport, 16),
        };
        HeaderField { base, offset, octets: 2 }
    }
}

/// One step of a function's way with a packet.
///
/// `function` is 0 in the program of one function. In that of several it is
/// the number of the function on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "operands are what their types say")]
pub enum Operation {
    /// A number.
    Constant { to: Value, number: u64 },
    /// Bytes of the frame.
    Length { to: Value },
    /// The time of the burst, in nanoseconds since the node started.
    Now { to: Value },
    /// What was noted of the packet.
    Note { to: Value, note: Note },
    /// The value of a tag.
    Tag { to: Value, slot: TagSlot },
    /// Two numbers make one.
    Arithmetic { to: Value, operator: Operator, left: Value, right: Value },
    /// `then` if `when` is not 0, else `otherwise`.
    Select { to: Value, when: Value, then: Value, otherwise: Value },
    /// Jumps unless the packet has this many bytes from `base` on. Behind it
    /// they may be touched.
    Require { base: Base, octets: u16, otherwise: Label },
    /// Bytes of the packet as a number in network order.
    LoadPacket { to: Value, place: HeaderField },
    /// The low bytes of a number into the packet, in network order.
    StorePacket { place: HeaderField, value: Value },
    /// A field of the context.
    LoadContext { to: Value, context: Value, field: ContextField },
    /// The low bytes of a number into a field of the context.
    StoreContext { context: Value, field: ContextField, value: Value },
    /// Adds to a field of the context.
    AddContext { context: Value, field: ContextField, value: Value },
    /// The low 32 bits of a number become the value of a tag.
    SetTag { slot: TagSlot, value: Value },
    /// Repairs a checksum (RFC 1624 §3): `change` is a sum of
    /// [differences](Operator::Difference16), of which 40 bits count; 0 leaves it
    /// as it is.
    Repair { checksum: Checksum, change: Value },
    /// Makes the frame begin so many `octets` before what is at `offset` in it, and
    /// moves the notes of where headers begin along (a 0, for none, stays); a tunnel
    /// is noted to begin at `outer`, 0 for none. Jumps where there is no such place
    /// in the frame, or no room before it. Behind it these `octets` may be touched
    /// and no others; what is new among them is undefined.
    Front { offset: Value, octets: u16, outer: u16, otherwise: Label },
    /// Cuts off what is behind so many octets of the frame. Behind it no byte is
    /// known to be there.
    Truncate { octets: Value },
    /// Jumps if `when` is not 0.
    Branch { when: Value, to: Label },
    /// Jumps.
    Jump { to: Label },
    /// Where jumps lead to.
    Label { label: Label },
    /// Finds the context of a function by its index, and jumps where there is no
    /// such context. Without `otherwise` the index was found to be good before.
    Locate { to: Value, function: u8, index: Value, otherwise: Option<Label> },
    /// The packet goes on.
    Forward,
    /// It is dropped for the reason of that number in
    /// [`DROPS`](crate::UserPlaneFunction::DROPS).
    Drop { function: u8, reason: u8 },
    /// [`process`](crate::UserPlaneFunction::process) handles it. Nothing may
    /// have been changed before.
    Punt { function: u8 },
}

impl Operation {
    /// The value it defines.
    pub fn defines(&self) -> Option<Value> {
        use Operation::*;
        match *self {
            Constant { to, .. }
            | Length { to }
            | Now { to }
            | Note { to, .. }
            | Tag { to, .. }
            | Arithmetic { to, .. }
            | Select { to, .. }
            | LoadPacket { to, .. }
            | LoadContext { to, .. }
            | Locate { to, .. } => Some(to),
            _ => None,
        }
    }

    /// Where it may jump to.
    pub fn jumps_to(&self) -> Option<Label> {
        use Operation::*;
        match *self {
            Require { otherwise, .. } | Front { otherwise, .. } => Some(otherwise),
            Locate { otherwise, .. } => otherwise,
            Branch { to, .. } | Jump { to } => Some(to),
            _ => None,
        }
    }

    /// Whether nothing follows it on its way.
    pub fn ends(&self) -> bool {
        use Operation::*;
        matches!(self, Jump { .. } | Forward | Drop { .. } | Punt { .. })
    }

    /// The same with every value it uses or defines, and every label, replaced.
    #[must_use]
    pub fn renamed(
        mut self,
        mut value: impl FnMut(Value) -> Value,
        mut label: impl FnMut(Label) -> Label,
    ) -> Operation {
        use Operation::*;
        match &mut self {
            Constant { to, .. } | Length { to } | Now { to } | Note { to, .. } | Tag { to, .. } => {
                *to = value(*to);
            }
            Arithmetic { to, left, right, .. } => {
                (*to, *left, *right) = (value(*to), value(*left), value(*right));
            }
            Select { to, when, then, otherwise } => {
                (*to, *when) = (value(*to), value(*when));
                (*then, *otherwise) = (value(*then), value(*otherwise));
            }
            LoadPacket { to, .. } => *to = value(*to),
            LoadContext { to, context, .. } => (*to, *context) = (value(*to), value(*context)),
            StorePacket { value: stored, .. } | SetTag { value: stored, .. } => {
                *stored = value(*stored);
            }
            StoreContext { context, value: stored, .. }
            | AddContext { context, value: stored, .. } => {
                (*context, *stored) = (value(*context), value(*stored));
            }
            Repair { change, .. } => *change = value(*change),
            Front { offset, otherwise, .. } => {
                (*offset, *otherwise) = (value(*offset), label(*otherwise));
            }
            Truncate { octets } => *octets = value(*octets),
            Branch { when, to } => (*when, *to) = (value(*when), label(*to)),
            Locate { to, index, otherwise, .. } => {
                (*to, *index) = (value(*to), value(*index));
                *otherwise = otherwise.map(label);
            }
            Require { otherwise: to, .. } | Jump { to } | Label { label: to } => *to = label(*to),
            Forward | Drop { .. } | Punt { .. } => {}
        }
        self
    }
}

/// What one function does with a packet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Program {
    /// Its steps.
    pub operations: Vec<Operation>,
    /// Bytes of the context; 0 for none.
    pub context_octets: usize,
    /// Fields of the context that may be named.
    pub fields: &'static [ContextField],
    /// How many drop reasons the function has.
    pub drops: usize,
}
