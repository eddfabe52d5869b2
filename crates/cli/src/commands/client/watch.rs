//! Which packets `weft trace` and `weft capture` are of.

use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use weft_management_api::api::Question;

use crate::log;

/// How long no packet may pass before standard error says so.
const SILENCE: Duration = Duration::from_secs(2);

#[derive(clap::Args)]
pub struct Choice {
    /// Packets of this user only
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Packets that came in at this port only
    #[arg(long, value_name = "PORT")]
    port: Option<String>,
    /// Packets for which a condition holds only, as rules write it:
    /// 'source in 10.0.0.0/24 && protocol == udp'
    #[arg(long, value_name = "CONDITION")]
    when: Option<String>,
    /// Only where packets are at this place: port NAME rx, port NAME tx,
    /// before FUNCTION, after FUNCTION
    #[arg(long, value_name = "PLACE", num_args = 1..=3)]
    at: Option<Vec<String>>,
}

impl Choice {
    /// The choice as a question to a node, for `count` packets.
    pub fn question(&self, count: Option<u64>) -> Question {
        Question {
            user: self.user.clone(),
            port: self.port.clone(),
            when: self.when.clone(),
            at: self.at.as_ref().map(|words| words.join(" ")),
            count,
            bytes: None,
        }
    }
    /// What is asked for, in words: `packet of ue-0 that came in at access, after count`.
    fn text(&self) -> String {
        let part = |before: &str, word: &Option<String>| {
            word.as_ref().map_or_else(String::new, |word| format!("{before}{word}"))
        };
        let when = self.when.as_ref().map_or_else(String::new, |when| format!(" with `{when}`"));
        let at = self.at.as_ref().map_or_else(String::new, |words| match words.join(" ") {
            at if at.starts_with("port ") => format!(" at {at}"),
            at => format!(" {at}"),
        });
        format!("packet{}{}{when}{at}", part(" of ", &self.user), part(" from port ", &self.port))
    }
}

/// Says once on standard error that no packet has passed, after a while in
/// which none did.
pub struct Waiting {
    over: SyncSender<()>,
}

impl Waiting {
    /// Waits for the first packet of this `choice`.
    pub fn start(choice: &Choice) -> Waiting {
        let (over, passed) = sync_channel(1);
        let wanted = choice.text();
        thread::spawn(move || {
            if passed.recv_timeout(SILENCE) == Err(RecvTimeoutError::Timeout) {
                log::say(&format!(
                    "weft: no {wanted} has passed yet; waiting for one (Ctrl-C ends this)"
                ));
            }
        });
        Waiting { over }
    }

    /// A packet has passed.
    pub fn over(&self) {
        // After the first there is nothing left to say.
        let _ = self.over.try_send(());
    }
}

#[cfg(test)]
mod tests {
    use super::Choice;

    fn choice(user: Option<&str>, port: Option<&str>, when: Option<&str>, at: &[&str]) -> Choice {
        let [user, port, when] = [user, port, when].map(|text| text.map(str::to_owned));
        let at = at.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        Choice { user, port, when, at: (!at.is_empty()).then_some(at) }
    }

    #[test]
    fn what_was_asked_for_is_a_sentence() {
        assert_eq!(choice(None, None, None, &[]).text(), "packet");
        assert_eq!(choice(None, None, None, &["after count"]).text(), "packet after count");
        assert_eq!(
            choice(Some("ue-0"), Some("access"), Some("ttl > 3"), &["port", "core", "tx"]).text(),
            "packet of ue-0 from port access with `ttl > 3` at port core tx"
        );
    }
}
