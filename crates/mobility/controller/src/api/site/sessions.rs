//! `/v1/sessions`: PFCP sessions of the site, which nodes are asked for as a request comes.

use std::net::IpAddr;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use weft_http::extract::{Json, Query};
use weft_http::problem::Failure;
use weft_mobility_transport::note::{SessionsNote, SessionsQuestion};

use super::super::state::{AT_ONCE, Shared};

/// Questions of one request.
const QUESTIONS: usize = 16;
/// How long a node may take to answer.
const PATIENCE: Duration = Duration::from_millis(1500);
/// Sessions that one answer holds.
const MOST: u16 = 1000;
/// Characters of a text that a node says.
const TEXT: usize = 128;

/// Which sessions are asked for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Page {
    /// Only sessions at the node of this name.
    node: Option<String>,
    /// Only those of the control plane at this address.
    #[param(value_type = Option<String>)]
    control_plane: Option<IpAddr>,
    /// Only those of this user's address.
    #[param(value_type = Option<String>)]
    ue: Option<IpAddr>,
    /// Where the page begins: `next` of the page before.
    from: Option<String>,
    /// Sessions that the page holds; at most 1,000 are given.
    #[param(default = 100, maximum = 1000)]
    count: u16,
}

impl Default for Page {
    fn default() -> Page {
        Page { node: None, control_plane: None, ue: None, from: None, count: 100 }
    }
}

/// A PFCP session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// The node that has it.
    #[serde(default)]
    pub node: String,
    /// The user plane's SEID, in hexadecimal digits.
    pub seid: String,
    /// The control plane's SEID, in hexadecimal digits.
    pub cp_seid: String,
    /// The control plane's address.
    pub cp_address: String,
    /// The user's addresses.
    pub ue_addresses: Vec<String>,
    /// Tunnels of the node.
    pub teids: Vec<u32>,
    /// Numbers of PDRs, FARs, QERs and URRs.
    pub rules: [usize; 4],
}

/// A node that has not said which sessions it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Unanswered {
    /// Its name.
    pub node: String,
    /// Why.
    pub reason: String,
}

/// Sessions of the site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Sessions {
    /// The sessions by nodes, in no order at each.
    pub sessions: Vec<Session>,
    /// Nodes that have not answered.
    pub unanswered: Vec<Unanswered>,
    /// Where the next page begins; none if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A page of the PFCP sessions behind N4. Nodes are asked as the request comes: 16 times at most,
/// 20 times a second for all requests together, and for four requests at a time. Sessions that come
/// or go between pages may be missed, or come twice.
#[utoipa::path(
    get,
    path = "/v1/sessions",
    params(Page),
    responses(
        (status = 200, description = "A page of sessions", body = Sessions),
        (status = 400, description = "The query cannot be read"),
        (status = 404, description = "No node of that name is behind N4"),
        (status = 429, description = "Four requests ask nodes already"),
    ),
)]
pub async fn list(
    State(shared): State<Shared>,
    Query(page): Query<Page>,
) -> Result<Json<Sessions>, Failure> {
    let begin = page.from.as_deref().map(place).transpose()?.unwrap_or_default();
    let mut holders = shared.handle.ask(|engine| engine.session_holders()).await?;
    if let Some(name) = &page.node {
        holders.retain(|(_, holder)| holder == name);
        if holders.is_empty() {
            return Err(Failure::unknown(format!("no node `{name}` is behind N4")));
        }
    }
    let Ok(_one) = shared.pace.at_once.clone().try_acquire_owned() else {
        let detail = format!("{AT_ONCE} requests ask nodes for sessions already; try again");
        return Err(Failure::new(StatusCode::TOO_MANY_REQUESTS, detail));
    };
    let mut found = Sessions::default();
    let (most, mut questions) = (page.count.clamp(1, MOST), 0);
    for (number, holder) in holders.into_iter().filter(|(number, _)| *number >= begin.0) {
        let mut first = if number == begin.0 { begin.1 } else { 0 };
        loop {
            let count = most.saturating_sub(found.sessions.len() as u16);
            if count == 0 || questions == QUESTIONS {
                found.next = Some(format!("{number}.{first}"));
                return Ok(Json(found));
            }
            questions += 1;
            let Page { control_plane, ue, .. } = page;
            let asked = SessionsQuestion { id: 0, first, count, control_plane, ue };
            match ask(&shared, &holder, asked).await? {
                Ok((sessions, next)) => {
                    found.sessions.extend(sessions);
                    // Who goes back would be asked for ever.
                    let Some(next) = next.filter(|next| *next > first) else { break };
                    first = next;
                }
                Err(reason) => {
                    found.unanswered.push(Unanswered { node: holder.clone(), reason });
                    break;
                }
            }
        }
    }
    Ok(Json(found))
}

/// Where a page begins: the number of a share, and sessions of it that are skipped.
fn place(text: &str) -> Result<(u16, u32), Failure> {
    let parts = text
        .split_once('.')
        .and_then(|(number, first)| Some((number.parse().ok()?, first.parse().ok()?)));
    parts.ok_or_else(|| Failure::bad(format!("`{text}` is not `next` of a page")))
}

/// Asks a node: its sessions, and where the next ones begin.
async fn ask(
    shared: &Shared,
    holder: &str,
    question: SessionsQuestion,
) -> Result<Result<(Vec<Session>, Option<u32>), String>, Failure> {
    shared.pace.turn().await;
    let name = holder.to_owned();
    let asked = shared.handle.ask(move |engine| engine.ask_for_sessions(&name, question)).await?;
    let answer = match asked {
        Ok(answer) => answer,
        Err(why) => return Ok(Err(why.to_string())),
    };
    let count = usize::from(question.count);
    Ok(match tokio::time::timeout(PATIENCE, answer).await {
        Ok(Ok(note)) => {
            read(holder, &note, count).ok_or_else(|| "its answer means nothing".to_owned())
        }
        Ok(Err(_)) => Err("its connection has ended".to_owned()),
        Err(_) => Err(format!("it has not answered in {} s", PATIENCE.as_secs_f32())),
    })
}

/// What a node says, unless that is more than was asked for.
fn read(holder: &str, note: &SessionsNote, count: usize) -> Option<(Vec<Session>, Option<u32>)> {
    let mut sessions: Vec<Session> = serde_json::from_str(&note.sessions).ok()?;
    let is_short = |text: &String| text.len() <= TEXT && !text.contains(char::is_control);
    let is_whole = |one: &Session| {
        let texts = [&one.seid, &one.cp_seid, &one.cp_address];
        texts.into_iter().chain(&one.ue_addresses).all(is_short)
    };
    if sessions.len() > count || !sessions.iter().all(is_whole) {
        return None;
    }
    sessions.iter_mut().for_each(|one| holder.clone_into(&mut one.node));
    Some((sessions, Some(note.next).filter(|next| *next > 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(sessions: &str, next: u32) -> Option<(Vec<Session>, Option<u32>)> {
        read("x", &SessionsNote { id: 1, next, sessions: sessions.to_owned() }, 2)
    }

    #[test]
    fn what_a_node_says_is_read_or_means_nothing() {
        let one = r#"{"name":"session-1","seid":"0001","cpSeid":"1","cpAddress":"192.0.2.1",
            "ueAddresses":["10.45.0.1"],"teids":[7],"rules":[2,2,0,1],"node":"another"}"#;
        let (sessions, next) = said(&format!("[{one},{one}]"), 5).unwrap();
        assert_eq!((sessions.len(), next, &*sessions[0].node), (2, Some(5), "x"));
        assert_eq!(said("[]", 0), Some((Vec::new(), None)));
        for wrong in [
            format!("[{one},{one},{one}]"),
            one.to_owned(),
            String::new(),
            format!("[{}]", one.replace("192.0.2.1", &"x".repeat(200))),
            format!("[{}]", one.replace("10.45.0.1", "\\u001b[31m")),
            format!("[{}]", one.replace("[7]", "[-7]")),
        ] {
            assert_eq!(said(&wrong, 0), None, "{wrong}");
        }
    }

    #[test]
    fn a_page_begins_where_the_one_before_has_ended() {
        assert_eq!(place("7.65536").unwrap(), (7, 65_536));
        for wrong in ["", "7", "7.", ".7", "x.7", "7.-1", "65536.0", "7.7.7"] {
            assert!(place(wrong).is_err(), "{wrong}");
        }
    }
}
