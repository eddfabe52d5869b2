//! Looks at the node as they come, from a thread that comes again when the node was gone.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use weft_management_api::client::{Client, ClientError};
use weft_management_api::live::Look;

use crate::failure::Failure;

/// Pause before the node is asked again.
const PAUSE: Duration = Duration::from_secs(1);

/// What is heard of the node.
pub enum Heard {
    /// How it is.
    Look(Box<Look>),
    /// It does not answer, and why.
    Gone(String),
}

/// All that is heard.
pub struct Looks(Receiver<Heard>);

impl Looks {
    /// Listens to the node of `client`.
    ///
    /// # Errors
    /// When it does not answer now.
    pub fn of(client: Client) -> Result<Looks, Failure> {
        let _: serde_json::Value = client.get("/v1/function-moves")?;
        let (tell, heard) = channel();
        thread::Builder::new()
            .name("looks".to_owned())
            .spawn(move || {
                while tell.send(Heard::Gone(listen(&client, &tell))).is_ok() {
                    thread::sleep(PAUSE);
                }
            })
            .map_err(|error| Failure::broken(format!("no thread to listen in: {error}")))?;
        Ok(Looks(heard))
    }

    /// What was heard since it was asked last.
    pub fn news(&self) -> impl Iterator<Item = Heard> {
        self.0.try_iter()
    }

    /// The next that is heard.
    pub fn wait(&self) -> Heard {
        self.0.recv().unwrap_or_else(|error| Heard::Gone(error.to_string()))
    }
}

/// Tells looks until there are no more; why.
fn listen(client: &Client, tell: &Sender<Heard>) -> String {
    let mut reader = Reader::default();
    let listened = client.listen("/v1/live", |piece| {
        reader.take(piece).into_iter().all(|look| tell.send(Heard::Look(Box::new(look))).is_ok())
    });
    match listened {
        Err(ClientError::Refused(problem)) => problem.detail,
        Err(error) => error.to_string(),
        Ok(()) => "the node has stopped".to_owned(),
    }
}

/// Reads events of a stream (the HTML standard, section 9.2) as far as the node writes them:
/// one line of data each.
#[derive(Default)]
struct Reader {
    left: Vec<u8>,
}

impl Reader {
    fn take(&mut self, piece: &[u8]) -> Vec<Look> {
        self.left.extend_from_slice(piece);
        let Some(end) = self.left.iter().rposition(|octet| *octet == b'\n') else {
            return Vec::new();
        };
        let rest = self.left.split_off(end + 1);
        let whole = std::mem::replace(&mut self.left, rest);
        let lines = whole.split(|octet| *octet == b'\n');
        let data = lines.filter_map(|line| line.strip_prefix(b"data: "));
        data.filter_map(|data| serde_json::from_slice(data).ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use weft_management_api::live::{Flows, Look, ModelView};
    use weft_node::show::Snapshot;

    use super::Reader;

    #[test]
    fn looks_are_read_however_they_are_cut() {
        let look = |time| Look {
            time,
            snapshot: Snapshot::default(),
            flows: Flows::default(),
            moves: Vec::new(),
            events: Vec::new(),
            model: ModelView::default(),
        };
        let mut stream = b"retry: 1000\n\n".to_vec();
        for time in 1..4 {
            let data = serde_json::to_string(&look(time)).unwrap();
            stream.extend(format!("event: look\ndata: {data}\n\n").bytes());
        }
        for size in [1, 7, 100, stream.len()] {
            let mut reader = Reader::default();
            let looks: Vec<_> = stream.chunks(size).flat_map(|piece| reader.take(piece)).collect();
            assert_eq!(looks, [look(1), look(2), look(3)], "{size}");
        }
    }
}
