//! `weft top`: a running node in the terminal, once a second.

mod figures;
mod looks;
mod screen;
mod state;

use std::io::{self, IsTerminal};
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use weft_management_api::client::Client;
use weft_management_api::live::Look;

use self::figures::Figures;
use self::looks::{Heard, Looks};
use self::state::State;
use crate::commands::client::target::Target;
use crate::failure::Failure;
use crate::output;
use crate::signals::Termination;

#[derive(clap::Args)]
#[command(after_help = KEYS)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Print one look as text, and end: for scripts
    #[arg(long)]
    once: bool,
}

const KEYS: &str = "Keys: Tab or 1 to 5 chooses a table (functions, users, drops, ports, moves); \
up, down, PgUp, PgDn scroll it; s sorts it by the next figure; p pauses; ? explains; q ends.";

/// How long a key is waited for.
const PATIENCE: Duration = Duration::from_millis(100);

/// Shows the node until `q`, a signal, or the end of the terminal.
///
/// # Errors
/// When no node answers at the start, or the terminal does not.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let client = arguments.target.client()?;
    if arguments.once {
        return once(client);
    }
    if !io::stdout().is_terminal() {
        return Err(Failure::input("top needs a terminal; --once prints one look as text"));
    }
    let looks = Looks::of(client)?;
    let termination = Termination::catch()?;
    let mut terminal = ratatui::try_init().map_err(broken)?;
    let mut state = State::default();
    let ended = loop {
        if termination.wait_for(Duration::ZERO).is_some() {
            break Ok(());
        }
        for heard in looks.news() {
            state.hear(heard);
        }
        if let Err(error) = terminal.draw(|frame| screen::draw(frame, &mut state)) {
            break Err(broken(error));
        }
        match next_key() {
            Ok(Some(key)) if !state.press(key) => break Ok(()),
            Ok(_) => {}
            Err(error) => break Err(broken(error)),
        }
    };
    ratatui::restore();
    ended
}

/// A key that was pressed, if one was.
fn next_key() -> io::Result<Option<KeyCode>> {
    if !event::poll(PATIENCE)? {
        return Ok(None);
    }
    let Event::Key(key) = event::read()? else { return Ok(None) };
    let is_end = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    let code = if is_end { KeyCode::Char('q') } else { key.code };
    Ok((key.kind != KeyEventKind::Release).then_some(code))
}

fn broken(error: io::Error) -> Failure {
    Failure::broken(format!("terminal: {error}"))
}

/// Prints what has happened between two looks.
fn once(client: Client) -> Result<(), Failure> {
    let looks = Looks::of(client)?;
    // There is no sample before a client listens, and no rate without a look before.
    let mut before: Option<Box<Look>> = None;
    loop {
        let look = match looks.wait() {
            Heard::Look(look) => look,
            Heard::Gone(reason) => return Err(Failure::broken(reason)),
        };
        if before.is_some() {
            return output::print(&Figures::between(before.as_deref(), &look).text());
        }
        before = Some(look);
    }
}
