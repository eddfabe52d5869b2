//! `weft trace`: the way of chosen packets through a running node, step by
//! step.

mod summary;

use std::collections::BTreeMap;

use weft_management_api::api::{End, Line, Step};

use crate::commands::client::target::Target;
use crate::commands::client::watch::{Choice, Waiting};
use crate::failure::Failure;
use crate::number::counted;
use crate::{log, output};

/// Ways that are kept until they come to their end; more of them, and the
/// oldest is printed as it is.
const KEPT: usize = 1024;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    choice: Choice,
    /// End after so many packets
    #[arg(long, value_name = "N", default_value_t = 10)]
    count: u64,
    /// Print JSON lines, for programs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// Prints the ways of packets until enough were seen.
///
/// # Errors
/// When no node answers.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let client = arguments.target.client()?;
    let question = arguments.choice.question(Some(arguments.count));
    let mut lines = Lines::default();
    let mut ways = Ways::default();
    let mut printed = Ok(());
    let answer = client.question("/v1/trace", &question)?;
    let waiting = Waiting::start(&arguments.choice);
    answer.pieces(|piece| {
        waiting.over();
        printed = match arguments.json {
            true => output::write(piece),
            false => lines.take(piece).try_for_each(|line| ways.line(&line)),
        };
        printed.is_ok()
    })?;
    printed
}

/// Puts lines together from pieces.
#[derive(Default)]
struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    /// The lines that are whole with this piece.
    fn take(&mut self, piece: &[u8]) -> impl Iterator<Item = Vec<u8>> + use<> {
        self.rest.extend_from_slice(piece);
        let end = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let whole: Vec<u8> = self.rest.drain(..end).collect();
        let lines: Vec<_> = whole.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        lines.into_iter().filter(|line| !line.is_empty())
    }
}

/// The ways of packets that have not come to their end. Packets of one burst
/// pass each place together; here they are told one by one.
#[derive(Default)]
struct Ways {
    ways: BTreeMap<u64, Vec<Step>>,
    /// Ways that were printed.
    printed: u64,
    /// Time of the first step of all.
    first: Option<u64>,
}

impl Ways {
    fn line(&mut self, line: &[u8]) -> Result<(), Failure> {
        match serde_json::from_slice(line).map_err(Failure::broken)? {
            Line::Step(step) => self.step(step),
            Line::End(end) => self.end(end),
        }
    }

    fn step(&mut self, step: Step) -> Result<(), Failure> {
        let (packet, last) = (step.packet, step.last);
        self.first.get_or_insert(step.time);
        self.ways.entry(packet).or_default().push(step);
        if last {
            return self.print(packet);
        }
        match self.ways.first_key_value() {
            Some((&oldest, _)) if self.ways.len() > KEPT => self.print(oldest),
            _ => Ok(()),
        }
    }

    fn end(&mut self, end: End) -> Result<(), Failure> {
        for packet in self.ways.keys().copied().collect::<Vec<_>>() {
            self.print(packet)?;
        }
        if end.missed > 0 {
            let (steps, are) =
                (counted(end.missed, "step"), if end.missed == 1 { "is" } else { "are" });
            log::say(&format!("weft: {steps} {are} missing: they came too fast"));
        }
        Ok(())
    }

    fn print(&mut self, packet: u64) -> Result<(), Failure> {
        let Some(steps) = self.ways.remove(&packet) else { return Ok(()) };
        self.printed += 1;
        let since = steps[0].time.saturating_sub(self.first.unwrap_or(0));
        output::print(&way(self.printed, since, &steps))
    }
}

/// A way as text: each step with what has changed since the one before.
fn way(number: u64, since: u64, steps: &[Step]) -> String {
    let user = steps.iter().find_map(|step| step.user.as_deref()).unwrap_or("no user");
    let seconds = since as f64 / 1e9;
    let mut text = format!("packet {number} of {user} at {seconds:.6} s\n");
    let width = steps.iter().map(|step| step.place.len()).max().unwrap_or(0);
    let mut before: Option<&Step> = None;
    for step in steps {
        let line = format!("  {:width$}  {}", step.place, changes(before, step).join(" "));
        text.push_str(line.trim_end());
        text.push('\n');
        before = Some(step);
    }
    text
}

/// What has changed with a step: the time, which is one for all steps of a
/// burst, tags, and the packet itself.
fn changes(before: Option<&Step>, step: &Step) -> Vec<String> {
    let mut changes = Vec::new();
    let passed = before.map_or(0, |before| step.time.saturating_sub(before.time));
    if passed > 0 {
        changes.push(format!("+{:.1} µs", passed as f64 / 1e3));
    }
    let tags = step
        .tags
        .iter()
        .filter(|(name, value)| before.is_none_or(|before| before.tags.get(*name) != Some(value)));
    changes.extend(tags.map(|(name, value)| format!("{name}={value}")));
    if before.is_none_or(|before| before.bytes != step.bytes) {
        let length = counted(step.length as u64, "byte");
        changes.push(format!("{length}: {}", summary::of_hex(&step.bytes)));
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(time: u64, place: &str, colour: &str, bytes: &str) -> Step {
        Step {
            packet: 1,
            time,
            place: place.to_owned(),
            last: false,
            user: Some("ue-1".to_owned()),
            tags: [("colour".to_owned(), colour.to_owned())].into(),
            length: bytes.len() / 2,
            bytes: bytes.to_owned(),
        }
    }

    #[test]
    fn lines_are_whole_however_they_come() {
        let text = b"one\ntwo\nthree\n";
        for size in 1..text.len() {
            let mut lines = Lines::default();
            let taken: Vec<_> = text.chunks(size).flat_map(|piece| lines.take(piece)).collect();
            assert_eq!(taken, [b"one".to_vec(), b"two".to_vec(), b"three".to_vec()]);
        }
    }

    #[test]
    fn a_step_tells_what_has_changed() {
        let frame = "0200000001010200000000010806";
        let steps = [
            step(0, "in", "green", frame),
            step(0, "to f", "green", frame),
            step(2_500, "from f", "red", frame),
        ];
        assert_eq!(
            way(4, 1_500_000, &steps),
            "packet 4 of ue-1 at 0.001500 s\n  \
               in      colour=green 14 bytes: ethernet 02:00:00:00:00:01 > 02:00:00:00:01:01 arp \
             | malformed: the packet ends inside a header\n  \
               to f\n  \
               from f  +2.5 µs colour=red\n"
        );
    }
}
