//! The screen. Nothing depends on colours: they only repeat what words say.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Clear, Paragraph, Row as TableRow, Table};

use super::figures::{Kind, Row};
use super::state::State;

/// From this width on tables stand beside each other.
const WIDE: u16 = 120;
/// From this height on all tables are shown.
const TALL: u16 = 24;

const HELP: &[&str] = &[
    "Tab, ←, →, 1 to 5   choose a table",
    "↑, ↓, PgUp, PgDn    scroll it",
    "s                   sort it by the next figure",
    "p or space          pause, or go on",
    "?                   these keys",
    "q, Esc, Ctrl-C      end",
    "",
    "Users are estimated from a sample of packets of the",
    "last 10 s; all else is counted.",
];

/// Draws all of it.
pub fn draw(frame: &mut Frame<'_>, state: &mut State) {
    let area = frame.area();
    let rows = [Constraint::Length(5), Constraint::Min(3), Constraint::Length(1)];
    let [head, body, foot] = Layout::vertical(rows).areas(area);
    draw_head(frame, head, state);
    match body.height >= TALL {
        true => draw_all(frame, body, state),
        false => draw_table(frame, body, state, state.kind),
    }
    draw_foot(frame, foot, state);
    if state.helps {
        draw_help(frame, area);
    }
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let figures = &state.figures;
    let strong = Style::default().add_modifier(Modifier::BOLD);
    let mut lines: Vec<Line<'_>> = match &state.gone {
        Some(reason) => vec![Line::from(vec![
            Span::styled(" GONE ", Style::default().add_modifier(Modifier::REVERSED)),
            Span::raw(format!(" {reason}; asked again every second. Last seen:")),
        ])],
        None => Vec::new(),
    };
    let mut node = figures.node.iter();
    lines.extend(node.next().map(|line| Line::styled(line.as_str(), strong)));
    lines.extend(node.map(|line| Line::raw(line.as_str())));
    lines.push(Line::raw(figures.stages.as_str()));
    lines.push(Line::raw(figures.model.as_str()));
    if figures.node.is_empty() && state.gone.is_none() {
        lines = vec![Line::raw("waiting for the node's first look …")];
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// All tables; the chosen one has the most room.
fn draw_all(frame: &mut Frame<'_>, area: Rect, state: &mut State) {
    let others: Vec<_> = Kind::ALL.into_iter().filter(|kind| *kind != state.kind).collect();
    let rows = [Constraint::Fill(2), Constraint::Fill(1), Constraint::Fill(1)];
    let [first, second, third] = Layout::vertical(rows).areas(area);
    let halves = [Constraint::Fill(1), Constraint::Fill(1)];
    draw_table(frame, first, state, state.kind);
    if area.width < WIDE {
        draw_table(frame, second, state, others[0]);
        draw_table(frame, third, state, others[1]);
        return;
    }
    for (row, kinds) in [second, third].into_iter().zip(others.chunks(2)) {
        let [left, right]: [Rect; 2] = Layout::horizontal(halves).areas(row);
        draw_table(frame, left, state, kinds[0]);
        draw_table(frame, right, state, kinds[1]);
    }
}

fn draw_table(frame: &mut Frame<'_>, area: Rect, state: &mut State, kind: Kind) {
    let rows = state.rows(kind);
    let is_chosen = kind == state.kind;
    let visible = usize::from(area.height.saturating_sub(3));
    let first = if is_chosen {
        state.scrolled = state.scrolled.min(rows.len().saturating_sub(visible));
        state.scrolled
    } else {
        0
    };
    let key = Kind::ALL.iter().position(|known| *known == kind).map_or(0, |at| at + 1);
    let range = match rows.len() > visible {
        true => format!(" {}–{} of {}", first + 1, rows.len().min(first + visible), rows.len()),
        false => String::new(),
    };
    let title = format!(" {key} {}{range} ", kind.title());
    let border = match is_chosen {
        true => Style::default().fg(Color::Cyan).add_modifier(Modifier::BOLD),
        false => Style::default().add_modifier(Modifier::DIM),
    };
    let block = Block::default().borders(Borders::TOP).border_style(border).title(title);
    if rows.is_empty() {
        let nothing = Paragraph::new(format!("no {}", kind.title())).block(block);
        return frame.render_widget(nothing, area);
    }
    let sorted = state.sorted_by(kind).map(|nth| kind.numbers_from() + nth);
    let heads: Vec<String> = kind
        .head()
        .iter()
        .enumerate()
        .map(|(at, head)| if sorted == Some(at) { format!("{head}▾") } else { (*head).to_owned() })
        .collect();
    let widths = widths(kind, &heads, &rows, area.width);
    let place = |at: usize, text: &str| {
        let width = usize::from(widths[at]);
        let text: String = text.chars().take(width).collect();
        Cell::from(match at >= kind.numbers_from() {
            true => format!("{text:>width$}"),
            false => text,
        })
    };
    let head = heads.iter().enumerate().map(|(at, head)| place(at, head));
    let head = TableRow::new(head).style(Style::default().add_modifier(Modifier::DIM));
    let body =
        rows.iter().skip(first).take(visible).map(|row| {
            TableRow::new(row.cells.iter().enumerate().map(|(at, cell)| place(at, cell)))
        });
    let constraints = widths.iter().map(|width| Constraint::Length(*width));
    let table = Table::new(body, constraints).header(head).column_spacing(2).block(block);
    frame.render_widget(table, area);
}

/// Columns as wide as what stands in them; words give way to numbers where there is no room.
fn widths(kind: Kind, heads: &[String], rows: &[Row], room: u16) -> Vec<u16> {
    let mut widths: Vec<u16> = heads
        .iter()
        .enumerate()
        .map(|(at, head)| {
            let cells = rows.iter().filter_map(|row| row.cells.get(at));
            let longest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
            longest.max(head.chars().count()) as u16
        })
        .collect();
    let gaps = 2 * (widths.len() as u16).saturating_sub(1);
    let words = kind.numbers_from().clamp(1, widths.len());
    while widths.iter().sum::<u16>() + gaps > room {
        let Some(longest) = widths[..words].iter_mut().max() else { break };
        if *longest <= 6 {
            break;
        }
        *longest -= 1;
    }
    widths
}

fn draw_foot(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let paused = if state.paused { "PAUSED  " } else { "" };
    let tables = Kind::ALL.iter().enumerate();
    let tables: Vec<_> = tables.map(|(at, kind)| format!("{} {}", at + 1, kind.title())).collect();
    let text = format!("{paused}{}  s sort  p pause  ? keys  q end", tables.join("  "));
    let style = Style::default().add_modifier(Modifier::REVERSED);
    frame.render_widget(Paragraph::new(text).style(style), area);
}

fn draw_help(frame: &mut Frame<'_>, area: Rect) {
    let width = 58.min(area.width);
    let height = (HELP.len() as u16 + 2).min(area.height);
    let (x, y) = ((area.width - width) / 2, (area.height - height) / 2);
    let place = Rect { x, y, width, height };
    let lines: Vec<_> = HELP.iter().map(|line| Line::raw(format!(" {line}"))).collect();
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" keys ")), place);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use weft_management_api::live::{Flows, Look, ModelView};
    use weft_node::show::{DropView, Snapshot};

    use super::*;
    use crate::commands::client::top::looks::Heard;

    fn screen(state: &mut State, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, state)).unwrap();
        terminal.backend().to_string()
    }

    fn state() -> State {
        let drop = |nth: u64| DropView {
            reason: format!("reason_{nth}"),
            meaning: "a meaning that is longer than a narrow terminal has room for".repeat(2),
            packets: nth,
            ..DropView::default()
        };
        let drops = (0..40).map(drop).collect();
        let snapshot = Snapshot { node: "edge".into(), drops, ..Snapshot::default() };
        let (flows, moves, events) = (Flows::default(), Vec::new(), Vec::new());
        let model = ModelView::default();
        let mut state = State::default();
        state.hear(Heard::Look(Box::new(Look { time: 0, snapshot, flows, moves, events, model })));
        state
    }

    #[test]
    fn a_terminal_of_any_size_is_drawn() {
        let mut state = state();
        for kind in Kind::ALL {
            state.kind = kind;
            for (width, height) in [(1, 1), (10, 5), (80, 24), (120, 40), (300, 100)] {
                screen(&mut state, width, height);
            }
        }
    }

    #[test]
    fn the_chosen_table_scrolls_and_stops_at_its_end() {
        let mut state = state();
        state.kind = Kind::Drops;
        assert!(screen(&mut state, 100, 24).contains("3 drops 1–15 of 40"));
        state.scrolled = 1000;
        let last = screen(&mut state, 100, 24);
        assert!(last.contains("26–40 of 40"), "{last}");
        state.hear(Heard::Gone("the node has stopped".into()));
        assert!(screen(&mut state, 100, 24).contains("GONE  the node has stopped"));
    }
}
