//! The first words of a function process, and what it is told then.

use super::Watch;
use super::session::Stage;
use crate::process::protocol::{Message, VERSION};
use crate::process::supervisor::plan::Status;

/// Letters that are repeated of what a function says.
const LONGEST_NAME: usize = 64;

impl Watch {
    /// A process says what it is.
    pub(super) fn greet(
        &mut self,
        version: u16,
        process: u32,
        function: &str,
    ) -> Result<(), String> {
        let Some(session) = &mut self.session else { return Ok(()) };
        let reason = if version != VERSION {
            format!("version {version} of the protocol; the node speaks {VERSION}")
        } else if function != self.kind.name {
            let said: String = function.escape_debug().take(LONGEST_NAME).collect();
            format!("{said} is not the function of this place: that is {}", self.kind.name)
        } else {
            session.process = process;
            session.stage = Stage::Attaching;
            self.set_status(Status::Starting);
            return self.brief();
        };
        // It will see the reason; there is nothing to wait for.
        let _ = session.connection.send(&Message::Refuse(reason.clone()));
        Err(reason)
    }

    /// Tells a new process all that it must know.
    fn brief(&mut self) -> Result<(), String> {
        let now = (self.now)();
        let Some(session) = &mut self.session else { return Ok(()) };
        let mut messages = vec![Message::Welcome(Box::new(self.welcome.clone()))];
        messages.extend(self.records.messages(now));
        messages.push(Message::Start(self.records.numbers().to_vec()));
        let imports = messages.iter().filter(|one| matches!(one, Message::Import { .. })).count();
        session.asked.imports += imports as u64;
        let sent = session.connection.send_all(messages);
        sent.map_err(|_| "it closed its socket".to_owned())?;
        self.records.given();
        Ok(())
    }
}
