//! The TCP connections of a mapping, told apart by their far ends: what one of them does,
//! or what is forged for it, says nothing of the others.

use weft_wire::tcp::Flags;

/// Connections of one mapping that are followed; one with more of them is taken for open.
const FOLLOWED: usize = 4;

/// Address and port of the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Far {
    pub address: u32,
    pub port: u16,
}

/// How a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    None,
    /// The inside has sent, the far end has not answered.
    Opening,
    Established,
    /// A FIN of either end, or an RST of the inside.
    Closed,
    /// An RST that came in. The inside may know better, and goes on then (RFC 5961 §3).
    Reset,
}

#[derive(Clone, Copy, Debug)]
struct Connection {
    far: Far,
    stage: Stage,
}

const NO_CONNECTION: Connection =
    Connection { far: Far { address: 0, port: 0 }, stage: Stage::None };

/// The connections of one mapping.
#[derive(Clone, Copy, Debug)]
pub struct Connections {
    followed: [Connection; FOLLOWED],
    /// There are more than are followed.
    crowded: bool,
}

impl Connections {
    /// None yet.
    pub const NONE: Connections =
        Connections { followed: [NO_CONNECTION; FOLLOWED], crowded: false };

    /// The inside sends a segment to `far`.
    pub fn sent(&mut self, far: Far, flags: Flags) {
        let ends = flags.contains(Flags::FIN) || flags.contains(Flags::RST);
        let opens = flags.contains(Flags::SYN);
        let Some(place) = self.place(far).or_else(|| self.vacant()) else {
            self.crowded = true;
            return;
        };
        let connection = &mut self.followed[place];
        let is_new = connection.far != far || connection.stage == Stage::None;
        connection.stage = match connection.stage {
            _ if ends => Stage::Closed,
            _ if is_new || opens => Stage::Opening,
            Stage::Reset => Stage::Established,
            stage => stage,
        };
        connection.far = far;
    }

    /// A segment comes from `far`. False where the inside has sent nothing there: it says
    /// nothing then.
    pub fn received(&mut self, far: Far, flags: Flags) -> bool {
        let Some(place) = self.place(far) else { return false };
        let connection = &mut self.followed[place];
        let is_open = matches!(connection.stage, Stage::Opening | Stage::Established);
        connection.stage = match connection.stage {
            _ if is_open && flags.contains(Flags::RST) => Stage::Reset,
            _ if is_open && flags.contains(Flags::FIN) => Stage::Closed,
            Stage::Opening if flags.contains(Flags::ACK) => Stage::Established,
            stage => stage,
        };
        true
    }

    /// Whether some far end has answered and its connection is open.
    pub fn is_established(&self) -> bool {
        self.crowded || self.followed.iter().any(|one| one.stage == Stage::Established)
    }

    /// Whether all that were opened have ended.
    pub fn is_closing(&self) -> bool {
        let is_open = |one: &Connection| matches!(one.stage, Stage::Opening | Stage::Established);
        !self.crowded && !self.followed.iter().any(is_open)
    }

    /// Where the connection with `far` is followed.
    fn place(&self, far: Far) -> Option<usize> {
        self.followed.iter().position(|one| one.stage != Stage::None && one.far == far)
    }

    /// A place without a connection, or with one that has ended.
    fn vacant(&self) -> Option<usize> {
        let ended = |stage| matches!(stage, Stage::Closed | Stage::Reset);
        let places = &self.followed;
        let place = places.iter().position(|one| one.stage == Stage::None);
        place.or_else(|| places.iter().position(|one| ended(one.stage)))
    }
}
