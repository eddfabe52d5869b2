//! What a trace or a capture asks for, in the numbers of the node.

use weft_dataplane::trace::{Point, Watch};
use weft_dpdk::Pool;
use weft_node::Agent;
use weft_rules::{Condition, Vocabulary};

use crate::api::Question;

/// Most bytes of a packet that are copied, and so many unless less are asked
/// for.
const BYTES: usize = Pool::JUMBO_BYTES;

/// Packets that one trace or capture may count: each has a place in memory.
const MOST: u64 = 1_000_000;

/// Functions that a message lists.
const LISTED: usize = 12;

/// Turns a question into what the node watches for.
///
/// # Errors
/// What is wrong with it, in one line.
pub(crate) fn watch(question: &Question, agent: &Agent) -> Result<Watch, String> {
    let vocabulary = agent.blueprint().rules.vocabulary();
    let user = question
        .user
        .as_deref()
        .map(|name| agent.user_slot(name).ok_or_else(|| agent.no_user(name)));
    let port = question.port.as_deref().map(|name| port(vocabulary, name));
    let condition = question.when.as_deref().map(|text| {
        Condition::parse(text, vocabulary).map_err(|mistakes| {
            let first = mistakes.first().map(|mistake| {
                let hint = mistake.hint.as_ref().map_or(String::new(), |hint| format!(" ({hint})"));
                format!("condition, column {}: {}{hint}", mistake.column, mistake.message)
            });
            first.unwrap_or_else(|| "the condition cannot be read".to_owned())
        })
    });
    match question.count {
        Some(0) => return Err("no packet is asked for".to_owned()),
        Some(count) if count > MOST => return Err(format!("{count} packets are more than {MOST}")),
        _ => {}
    }
    let point = question.at.as_deref().map(|text| point(vocabulary, text)).transpose()?;
    Ok(Watch {
        condition: condition.transpose()?,
        user: user.transpose()?,
        port: port.transpose()?,
        point,
        bytes: question.bytes.map_or(BYTES, |bytes| bytes.min(BYTES)),
        // Packets are chosen as they come in, and not all get to every place.
        packets: question.count.filter(|_| point.is_none()).unwrap_or(u64::MAX),
    })
}

/// `port NAME rx`, `port NAME tx`, `before FUNCTION` or `after FUNCTION`.
fn point(vocabulary: &Vocabulary, text: &str) -> Result<Point, String> {
    let function = |name: &str| {
        let known = vocabulary.function(name);
        known.map(|index| index.0).ok_or_else(|| no_function(vocabulary, name))
    };
    match text.split_whitespace().collect::<Vec<_>>().as_slice() {
        ["port", name, "rx"] => Ok(Point::Received(port(vocabulary, name)?)),
        ["port", name, "tx"] => Ok(Point::Leaving(port(vocabulary, name)?)),
        ["before", name] => Ok(Point::Before(function(name)?)),
        ["after", name] => Ok(Point::After(function(name)?)),
        _ => Err(format!(
            "`{text}` is no place; places are `port NAME rx`, `port NAME tx`, `before FUNCTION` \
             and `after FUNCTION`"
        )),
    }
}

/// That there is no function of that name, with the first of those that there are.
fn no_function(vocabulary: &Vocabulary, name: &str) -> String {
    let names: Vec<_> = vocabulary.functions().iter().map(|place| place.name.as_str()).collect();
    let (shown, rest) = names.split_at(names.len().min(LISTED));
    let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
    match shown {
        [] => format!("no function {name} (the node has none)"),
        _ => format!("no function {name} (functions are {}{more})", shown.join(", ")),
    }
}

fn port(vocabulary: &Vocabulary, name: &str) -> Result<u16, String> {
    let known = vocabulary.port(name);
    known
        .map(|index| index.0)
        .ok_or_else(|| format!("no port {name} (ports are {})", vocabulary.ports().join(", ")))
}
