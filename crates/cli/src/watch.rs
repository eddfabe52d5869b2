//! Which packets `weft trace` and `weft capture` are of.

use weft_management_api::api::Question;

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
}
