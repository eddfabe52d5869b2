//! Pieces of a function's contexts: read from the agent and written to it, and their octets.
//!
//! ```text
//! of each context, in network byte order:
//!   octet  0   whose: 0 a user's, 1 a dedicated bearer's, 2 an added bearer's, 3 a group's
//!          1.. name, two names, number (8 octets), name; 4 octets of length before each name
//!          ..  the context, 4 octets of length before it
//! ```

use weft_mobility_protocol::Envelope;
use weft_mobility_protocol::function_move::{MAX_PIECE, Piece};
use weft_node::bearer::BearerId;
use weft_node::bearer::session::SessionId;
use weft_node::contexts::{Named, Whose};

use super::{Context, ask};

/// Contexts that are asked for at once.
const BATCH: usize = 256;

/// Octets after which a piece is full.
const FULL: usize = 1 << 20;

/// Reads a function's contexts, of those who have any as it begins.
pub(super) struct Reader {
    function: String,
    names: Vec<Whose>,
    at: usize,
}

impl Reader {
    pub async fn new(state: &Context, function: &str) -> Result<Reader, String> {
        let name = function.to_owned();
        let named = ask(state, move |agent| agent.contexts_named(&name)).await?;
        let (_, names) = named.map_err(|error| error.to_string())?;
        Ok(Reader { function: function.to_owned(), names, at: 0 })
    }

    /// The next piece, which has this number.
    pub async fn piece(&mut self, state: &Context, number: u32) -> Result<Piece, String> {
        let (mut octets, mut count) = (Vec::new(), 0);
        while octets.len() < FULL && self.at < self.names.len() {
            let to = self.names.len().min(self.at + BATCH);
            let (name, names) = (self.function.clone(), self.names[self.at..to].to_vec());
            let reading = ask(state, move |agent| agent.read_contexts(&name, &names)).await?;
            let reading = reading.map_err(|error| error.to_string())?;
            let read = tokio::task::spawn_blocking(move || reading.wait()).await;
            let contexts = read.map_err(|error| error.to_string())?;
            for context in contexts.map_err(|error| error.to_string())? {
                put(&mut octets, &context);
                count += 1;
            }
            self.at = to;
        }
        if octets.len() > MAX_PIECE {
            return Err(format!("`{}` has contexts that are too long to move", self.function));
        }
        Ok(Piece { number, is_last: self.at >= self.names.len(), count, octets })
    }
}

/// Gives a function the contexts of a piece; with `known_only` those of others are left out.
pub(super) async fn write(
    state: &Context,
    function: &str,
    kind: String,
    piece: Piece,
    known_only: bool,
) -> Result<(), String> {
    let read = tokio::task::spawn_blocking(move || parse(&piece.octets)).await;
    let contexts = read.map_err(|error| error.to_string())?;
    let contexts = contexts.ok_or("a piece of contexts is damaged")?;
    let name = function.to_owned();
    let writing =
        ask(state, move |agent| agent.write_contexts(&name, &kind, contexts, known_only)).await?;
    let writing = writing.map_err(|error| error.to_string())?;
    let written = tokio::task::spawn_blocking(move || writing.wait()).await;
    written.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
}

/// Whether the function is a `kind`, and its contexts are at hand.
pub(super) async fn check(state: &Context, function: &str, kind: String) -> Result<(), String> {
    let none = Piece { is_last: true, ..Piece::default() };
    write(state, function, kind, none, false).await
}

/// The messages that follow one another in `octets`.
pub(super) fn envelopes(mut octets: &[u8]) -> Result<Vec<Envelope>, String> {
    let mut all = Vec::new();
    while !octets.is_empty() {
        let (envelope, length) = Envelope::parse(octets).map_err(|error| error.to_string())?;
        all.push(envelope);
        octets = &octets[length..];
    }
    Ok(all)
}

fn put(out: &mut Vec<u8>, Named { whose, octets }: &Named) {
    match whose {
        Whose::User(name) => put_name(out, 0, name),
        Whose::Dedicated { user, bearer } => {
            put_name(out, 1, user);
            put_octets(out, bearer.as_bytes());
        }
        Whose::Added(id) => {
            out.push(2);
            out.extend(id.0.to_be_bytes());
        }
        Whose::Group(name) => put_name(out, 3, name),
        Whose::Session(id) => {
            out.push(4);
            out.extend(id.0.to_be_bytes());
        }
    }
    put_octets(out, octets);
}

fn put_name(out: &mut Vec<u8>, tag: u8, name: &str) {
    out.push(tag);
    put_octets(out, name.as_bytes());
}

fn put_octets(out: &mut Vec<u8>, octets: &[u8]) {
    // A piece has less.
    out.extend((octets.len() as u32).to_be_bytes());
    out.extend(octets);
}

fn parse(mut octets: &[u8]) -> Option<Vec<Named>> {
    let mut all = Vec::new();
    while let Some((tag, rest)) = octets.split_first() {
        octets = rest;
        let whose = match tag {
            0 => Whose::User(name(&mut octets)?),
            1 => Whose::Dedicated { user: name(&mut octets)?, bearer: name(&mut octets)? },
            2 => {
                let (id, rest) = octets.split_first_chunk()?;
                octets = rest;
                Whose::Added(BearerId(u64::from_be_bytes(*id)))
            }
            3 => Whose::Group(name(&mut octets)?),
            4 => {
                let (id, rest) = octets.split_first_chunk()?;
                octets = rest;
                Whose::Session(SessionId(u64::from_be_bytes(*id)))
            }
            _ => return None,
        };
        all.push(Named { whose, octets: counted(&mut octets)?.to_vec() });
    }
    Some(all)
}

fn name(octets: &mut &[u8]) -> Option<String> {
    String::from_utf8(counted(octets)?.to_vec()).ok()
}

fn counted<'a>(octets: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = octets.split_first_chunk()?;
    let (counted, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    *octets = rest;
    Some(counted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Named> {
        let user = "ue-1".to_owned();
        let whose = [
            Whose::User(user.clone()),
            Whose::Dedicated { user, bearer: "vidéo".to_owned() },
            Whose::Added(BearerId(u64::MAX - 1)),
            Whose::Group(String::new()),
            Whose::Session(SessionId(7)),
        ];
        let octets = [vec![0, 255, 7], vec![], vec![1; 300], vec![9], vec![3]];
        whose.into_iter().zip(octets).map(|(whose, octets)| Named { whose, octets }).collect()
    }

    #[test]
    fn contexts_are_read_as_they_were_written() {
        let mut octets = Vec::new();
        all().iter().for_each(|context| put(&mut octets, context));
        assert_eq!(parse(&octets), Some(all()));
        assert_eq!(parse(&[]), Some(Vec::new()));
    }

    #[test]
    fn what_is_cut_off_or_means_nothing_is_refused() {
        let mut octets = Vec::new();
        let mut ends = vec![0];
        for context in all() {
            put(&mut octets, &context);
            ends.push(octets.len());
        }
        for end in (0..octets.len()).filter(|end| !ends.contains(end)) {
            assert_eq!(parse(&octets[..end]), None, "{end}");
        }
        assert_eq!(parse(&[4, 0, 0, 0, 0]), None);
        assert_eq!(parse(&[0, 0, 0, 0, 1, 0xff, 0, 0, 0, 0]), None);
    }
}
