//! Contexts in processes while no packet comes: who asks waits for the answers.

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

use weft_compose::SlotShift;
use weft_offload::process::{ContextsAnswer, InquiryKind, Question, Status, Supervisor};

use super::Functions;

/// Contexts of one question, and questions that are not answered.
const PIECE: usize = 512;
const PIECES: usize = 4;
/// How long a supervisor may take for an answer: it gives up its process before.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_micros(50);

/// A context, as its function exports it; none where nothing is known of it.
pub(crate) type Exported = Option<Vec<u8>>;

impl Functions {
    /// What the process of a function exports of the contexts at `slots`, in their order; and
    /// whether it was not there, and its last checkpoints had to do.
    ///
    /// # Errors
    /// When no answer comes.
    pub fn read_in_process(
        &self,
        function: &str,
        slots: &[u32],
        shift: SlotShift,
    ) -> Result<(Vec<Exported>, bool), String> {
        let (mut all, mut are_old) = (vec![None; slots.len()], false);
        let Some(supervisor) = self.supervisor(function) else { return Ok((all, false)) };
        ask(supervisor, InquiryKind::Export, &pieces(slots, shift), |at, answer| {
            if let ContextsAnswer::Exported { contexts, lost, .. } = answer {
                are_old |= lost;
                at.iter().zip(contexts).for_each(|(at, context)| all[*at] = context);
            }
            Ok(())
        })?;
        Ok((all, are_old))
    }

    /// Waits until the process of a function has taken the contexts at `slots` that were given
    /// before. One that another program starts (not `is_started` by the node) may not be there
    /// yet: it begins with them.
    ///
    /// # Errors
    /// Why it did not take one.
    pub fn wait_for_imports(
        &self,
        (function, is_started): (&str, bool),
        slots: &[u32],
        shift: SlotShift,
    ) -> Result<(), String> {
        let Some(supervisor) = self.supervisor(function) else { return Ok(()) };
        if !is_started && supervisor.view().status != Status::Running {
            return Ok(());
        }
        ask(supervisor, InquiryKind::Import, &pieces(slots, shift), |_, answer| match answer {
            ContextsAnswer::Imported { outcome, .. } => outcome,
            ContextsAnswer::Exported { .. } => Ok(()),
        })?;
        // It may have refused one before it was asked.
        supervisor.view().not_imported.map_or(Ok(()), Err)
    }
}

/// What one question is about: a worker, slots of its contexts, and their positions among all.
struct Piece {
    worker: u16,
    slots: Vec<u32>,
    at: Vec<usize>,
}

/// Slots by their workers, some in each piece.
fn pieces(slots: &[u32], shift: SlotShift) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    // Of each worker the piece that has room.
    let mut open: HashMap<u16, usize> = HashMap::new();
    for (at, slot) in slots.iter().enumerate() {
        let worker = shift.worker(*slot) as u16;
        let known = open.get(&worker).copied();
        let number = known.filter(|number| pieces[*number].slots.len() < PIECE);
        let number = number.unwrap_or_else(|| {
            pieces.push(Piece { worker, slots: Vec::new(), at: Vec::new() });
            open.insert(worker, pieces.len() - 1);
            pieces.len() - 1
        });
        pieces[number].slots.push(*slot);
        pieces[number].at.push(at);
    }
    pieces
}

/// Asks a process, and gives each answer to `take` with the positions that it is about.
///
/// # Errors
/// When no answer comes, or what `take` says.
fn ask(
    supervisor: &Supervisor,
    what: InquiryKind,
    pieces: &[Piece],
    mut take: impl FnMut(&[usize], ContextsAnswer) -> Result<(), String>,
) -> Result<(), String> {
    let (mut asked, mut answered) = (0, 0);
    let mut heard = Instant::now();
    while answered < pieces.len() {
        while asked < pieces.len() && asked - answered < PIECES {
            let Piece { worker, slots, .. } = &pieces[asked];
            let (ticket, slots) = (asked as u64, slots.clone());
            supervisor.ask(Question { ticket, worker: *worker, slots, what });
            asked += 1;
        }
        for answer in supervisor.answers() {
            let (ContextsAnswer::Exported { ticket, .. } | ContextsAnswer::Imported { ticket, .. }) =
                &answer;
            let Some(piece) = pieces.get(*ticket as usize) else { continue };
            (answered, heard) = (answered + 1, Instant::now());
            take(&piece.at, answer)?;
        }
        if heard.elapsed() > PATIENCE {
            return Err("its process does not answer".to_owned());
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_asked_for_by_their_workers_some_at_a_time() {
        let shift = SlotShift::for_workers(2);
        let slots: Vec<u32> = (0..2 * PIECE as u32 + 3).collect();
        let pieces = pieces(&slots, shift);
        let sizes: Vec<_> = pieces.iter().map(|piece| (piece.worker, piece.slots.len())).collect();
        assert_eq!(sizes, [(0, PIECE), (1, PIECE), (0, 2), (1, 1)]);
        for piece in &pieces {
            assert!(
                piece.slots.iter().all(|slot| shift.worker(*slot) == usize::from(piece.worker))
            );
            assert!(piece.at.iter().zip(&piece.slots).all(|(at, slot)| slots[*at] == *slot));
        }
    }
}
