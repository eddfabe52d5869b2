//! What the demo checks: sums that must agree, whatever the machine is up to.

use serde::Serialize;

use super::run::{Account, Outcome};
use super::scene::{Allowance, IP_BYTES, Scene};
use crate::number::{count, counted, percent, plural, rate};

/// How far a user over its rate may be from it.
const TOLERANCE: f64 = 0.05;

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was checked.
    pub name: &'static str,
    /// Whether it holds.
    pub passed: bool,
    /// The numbers.
    pub numbers: String,
}

/// All checks.
pub fn checks(scene: &Scene, outcome: &Outcome) -> Vec<Check> {
    let sum = |field: fn(&weft_traffic::Stream) -> u64| -> u64 {
        outcome.streams.iter().map(|(_, stream)| field(stream)).sum()
    };
    let received = sum(|stream| stream.received);
    let books = Books {
        sent: outcome.streams.iter().map(|(tally, _)| tally.sent).sum(),
        delivered: received + outcome.damaged,
        dropped: outcome.node.drops.iter().map(|drop| drop.packets).sum::<u64>() + outcome.missed,
    };
    let bytes = IP_BYTES as u64;
    vec![
        books.check(),
        none(
            "no packet overtook another of its user",
            sum(|stream| stream.reordered),
            received,
            "were overtaken",
        ),
        none("no packet came twice", sum(|stream| stream.duplicated), received, "were copies"),
        none("every checksum is right", outcome.damaged, books.delivered, "were damaged"),
        none(
            "every address is the one it should be",
            sum(|stream| stream.misaddressed) + outcome.foreign,
            received + outcome.foreign,
            "had others",
        ),
        within_rate(&outcome.users, outcome.missed),
        over_rate(&Held {
            users: &outcome.users,
            allowance: scene.allowance,
            packet_bits: bytes as f64 * 8.0,
            sending: outcome.sending.as_secs_f64(),
            settled: outcome.settled.as_secs_f64(),
        }),
    ]
}

/// Packets in all.
struct Books {
    sent: u64,
    delivered: u64,
    dropped: u64,
}

impl Books {
    fn check(&self) -> Check {
        let Books { sent, delivered, dropped } = *self;
        let known = delivered + dropped;
        let rest = match known.cmp(&sent) {
            std::cmp::Ordering::Equal => String::new(),
            std::cmp::Ordering::Less => format!("; {} unaccounted for", count(sent - known)),
            std::cmp::Ordering::Greater => format!("; {} too many", count(known - sent)),
        };
        Check {
            name: "every packet is accounted for",
            passed: known == sent,
            numbers: format!(
                "{} sent = {} delivered + {} dropped{rest}",
                count(sent),
                count(delivered),
                count(dropped)
            ),
        }
    }
}

/// That none of `all` packets is one of `bad`. Without packets nothing is shown.
fn none(name: &'static str, bad: u64, all: u64, what: &str) -> Check {
    let numbers = format!("{} of {} {what}", count(bad), count(all));
    Check { name, passed: bad == 0 && all > 0, numbers }
}

/// That users within their rate lost nothing in the chain. Up to `missed`
/// packets may have been lost behind it.
fn within_rate(users: &[Account], missed: u64) -> Check {
    let within = users.iter().filter(|user| !user.over);
    let (mut number, mut entered, mut lost) = (0, 0, 0);
    for user in within {
        // Whose packets all arrived has lost none on the way.
        let came = user.entered.unwrap_or(user.sent);
        number += 1;
        entered += came;
        lost += came.saturating_sub(user.received);
    }
    Check {
        name: "users within their rate lost nothing to the marker",
        passed: number > 0 && lost <= missed,
        numbers: format!(
            "{} of {} {} of {} {}",
            count(lost.saturating_sub(missed)),
            count(entered),
            plural(entered, "packet"),
            count(number),
            plural(number, "user")
        ),
    }
}

/// What is needed to tell whether users were held to their rate.
struct Held<'a> {
    users: &'a [Account],
    allowance: Allowance,
    /// Bits of a packet, as the marker counts them.
    packet_bits: f64,
    /// Seconds in which packets were sent, and until the last had arrived.
    sending: f64,
    settled: f64,
}

impl Held<'_> {
    /// Bits that a user with this account should have got: at least, and most.
    fn bounds(&self, user: &Account) -> (f64, f64) {
        let rate = self.allowance.rate.0 as f64;
        let burst = self.allowance.burst.0 as f64 * 8.0;
        // What never came to the marker it could not let through.
        let entered = user.entered.unwrap_or(user.sent) as f64 * self.packet_bits;
        let least = (rate * self.sending).min(entered) * (1.0 - TOLERANCE);
        (least, rate * self.settled * (1.0 + TOLERANCE) + burst)
    }
}

/// That users over their rate were held to it: they got all of it, and no more
/// than it and one burst.
fn over_rate(held: &Held) -> Check {
    let over: Vec<&Account> = held.users.iter().filter(|user| user.over).collect();
    let got = |user: &Account| user.received as f64 * held.packet_bits;
    let held_to = |user: &&&Account| {
        let (least, most) = held.bounds(user);
        (least..=most).contains(&got(user))
    };
    let right = over.iter().filter(held_to).count();
    let burst = held.allowance.burst.0 as f64 * 8.0;
    let allowed = held.allowance.rate.0 as f64 * held.sending + burst;
    let shares = || over.iter().map(|user| got(user) / allowed);
    let (low, high) = (shares().fold(f64::INFINITY, f64::min), shares().fold(0.0, f64::max));
    let sent: f64 = over.iter().map(|user| user.sent as f64).sum();
    let offered = sent * held.packet_bits / (held.sending * over.len().max(1) as f64);
    Check {
        name: "users over their rate were held to it",
        passed: !over.is_empty() && right == over.len(),
        numbers: format!(
            "{right} of {}, who sent {} and got {} to {} of {} and one burst",
            counted(over.len() as u64, "user"),
            rate(offered as u64),
            percent(low),
            percent(high),
            rate(held.allowance.rate.0)
        ),
    }
}

#[cfg(test)]
mod tests {
    use weft_function::{ByteSize, Rate};

    use super::*;

    #[test]
    fn the_books_balance_to_the_packet() {
        let books = |sent, delivered, dropped| Books { sent, delivered, dropped }.check();
        let right = books(1000, 900, 100);
        assert!(right.passed);
        assert_eq!(right.numbers, "1,000 sent = 900 delivered + 100 dropped");
        let less = books(1000, 900, 99);
        assert!(!less.passed && less.numbers.ends_with("; 1 unaccounted for"), "{less:?}");
        let more = books(1000, 900, 101);
        assert!(!more.passed && more.numbers.ends_with("; 1 too many"), "{more:?}");
    }

    #[test]
    fn one_bad_packet_is_enough_and_none_at_all_is_not() {
        assert!(none("", 0, 10, "").passed);
        assert!(!none("", 1, 10, "").passed);
        assert!(!none("", 0, 0, "").passed);
    }

    fn user(over: bool, sent: u64, entered: Option<u64>, received: u64) -> Account {
        Account { over, sent, received, entered }
    }

    #[test]
    fn a_loss_before_the_chain_is_not_the_markers() {
        let untouched = user(false, 100, None, 100);
        let missed_at_entry = user(false, 100, Some(90), 90);
        let marked = user(false, 100, Some(100), 99);
        assert!(within_rate(&[untouched, missed_at_entry], 0).passed);
        assert!(!within_rate(&[untouched, marked], 0).passed);
        assert!(within_rate(&[untouched, marked], 1).passed, "lost behind the node");
        assert!(within_rate(&[untouched, user(true, 100, Some(100), 50)], 0).passed);
        assert!(!within_rate(&[user(true, 1, None, 1)], 0).passed, "no user within its rate");
        assert!(!within_rate(&[user(false, 100, None, 99)], 0).passed, "lost at an unknown place");
    }

    /// Packets of 1,000 bits at 100 kbit/s for 10 s: 1,000 packets, and 8 at once.
    fn held(users: &[Account]) -> Check {
        over_rate(&Held {
            users,
            allowance: Allowance { rate: Rate(100_000), burst: ByteSize(1000) },
            packet_bits: 1000.0,
            sending: 10.0,
            settled: 10.0,
        })
    }

    #[test]
    fn users_over_their_rate_get_it_within_five_per_cent() {
        for (received, passed) in [(949, false), (950, true), (1058, true), (1059, false)] {
            let check = held(&[user(true, 2000, Some(2000), received)]);
            assert_eq!(check.passed, passed, "{check:?}");
        }
        let check = held(&[user(true, 2000, Some(2000), 1008), user(true, 2000, Some(2000), 990)]);
        assert_eq!(
            check.numbers,
            "2 of 2 users, who sent 200 kbit/s and got 98.2 % to 100.0 % of 100 kbit/s and one burst"
        );
        assert!(!held(&[user(false, 2000, None, 2000)]).passed, "no user over its rate");
    }

    #[test]
    fn a_user_gets_at_most_what_came_in() {
        assert!(held(&[user(true, 2000, Some(600), 600)]).passed);
        assert!(!held(&[user(true, 2000, Some(600), 569)]).passed);
        assert!(held(&[user(true, 600, None, 600)]).passed);
    }
}
