//! What the screen shows, and what keys change of it.

use ratatui::crossterm::event::KeyCode;
use weft_management_api::live::Look;

use super::figures::{Figures, Kind, Row};
use super::looks::Heard;

/// Rows that PgUp and PgDn go.
const PAGE: usize = 10;

/// What the screen shows.
#[derive(Default)]
pub struct State {
    before: Option<Box<Look>>,
    /// What happens at the node.
    pub figures: Figures,
    /// Why the node does not answer.
    pub gone: Option<String>,
    /// The table that keys are for.
    pub kind: Kind,
    /// Which number the table is sorted by.
    sorted: [Option<usize>; 5],
    /// Rows above the screen.
    pub scrolled: usize,
    /// Looks are not shown.
    pub paused: bool,
    /// Keys are explained.
    pub helps: bool,
}

impl State {
    /// Takes in what is heard of the node.
    pub fn hear(&mut self, heard: Heard) {
        match heard {
            Heard::Gone(reason) => self.gone = Some(reason),
            Heard::Look(look) => {
                self.gone = None;
                if !self.paused {
                    self.figures = Figures::between(self.before.as_deref(), &look);
                }
                self.before = Some(look);
            }
        }
    }

    /// Which number a table is sorted by: drops by what happens now.
    pub fn sorted_by(&self, kind: Kind) -> Option<usize> {
        self.sorted[kind as usize].or((kind == Kind::Drops).then_some(0))
    }

    /// The rows of a table.
    pub fn rows(&self, kind: Kind) -> Vec<Row> {
        self.figures.rows(kind, self.sorted_by(kind))
    }

    /// A key was pressed; returns whether to go on.
    pub fn press(&mut self, key: KeyCode) -> bool {
        let at = self.kind as usize;
        match key {
            KeyCode::Char('q') => return false,
            KeyCode::Esc if self.helps => self.helps = false,
            KeyCode::Esc => return false,
            KeyCode::Char('?' | 'h') => self.helps = !self.helps,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('s') => {
                let numbers = self.kind.head().len() - self.kind.numbers_from();
                let next = self.sorted_by(self.kind).map_or(0, |nth| nth + 1);
                self.sorted[at] = (next < numbers).then_some(next);
            }
            KeyCode::Tab | KeyCode::Right => self.choose(at + 1),
            KeyCode::BackTab | KeyCode::Left => self.choose(at + Kind::ALL.len() - 1),
            KeyCode::Char(digit @ '1'..='5') => self.choose(digit as usize - '1' as usize),
            KeyCode::Down | KeyCode::Char('j') => self.scrolled += 1,
            KeyCode::Up | KeyCode::Char('k') => self.scrolled = self.scrolled.saturating_sub(1),
            KeyCode::PageDown => self.scrolled += PAGE,
            KeyCode::PageUp => self.scrolled = self.scrolled.saturating_sub(PAGE),
            KeyCode::Home => self.scrolled = 0,
            _ => {}
        }
        true
    }

    fn choose(&mut self, at: usize) {
        self.kind = Kind::ALL[at % Kind::ALL.len()];
        self.scrolled = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_choose_sort_scroll_and_end() {
        let mut state = State::default();
        assert!(state.press(KeyCode::Tab) && state.kind == Kind::Users);
        assert!(state.press(KeyCode::BackTab) && state.press(KeyCode::BackTab));
        assert_eq!(state.kind, Kind::Moves);
        assert!(state.press(KeyCode::Char('3')) && state.kind == Kind::Drops);
        assert_eq!(state.sorted_by(Kind::Drops), Some(0));
        assert!(state.press(KeyCode::Char('s')));
        assert_eq!(state.sorted_by(Kind::Drops), Some(1));
        assert!(state.press(KeyCode::PageDown) && state.press(KeyCode::Up));
        assert_eq!(state.scrolled, PAGE - 1);
        assert!(state.press(KeyCode::Char('?')) && state.helps && state.press(KeyCode::Esc));
        assert!(!state.helps && !state.press(KeyCode::Esc) && !state.press(KeyCode::Char('q')));
    }

    #[test]
    fn a_node_that_is_gone_is_said_until_it_is_back() {
        let mut state = State::default();
        state.hear(Heard::Gone("the node has stopped".into()));
        assert!(state.gone.is_some());
    }
}
