//! What happens between two looks, in tables.

use std::time::Duration;

use weft_management_api::live::{Look, ModelView};
use weft_node::show::{DropView, FunctionView, Snapshot};

use crate::number::{count, counted, packet_rate, percent, rate};
use crate::table::Table;

/// One of the tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Functions and what they cost.
    #[default]
    Functions,
    /// Users with the most traffic.
    Users,
    /// Drops by reason.
    Drops,
    /// Ports.
    Ports,
    /// Functions and users that move.
    Moves,
}

impl Kind {
    /// All, in the order of their keys.
    pub const ALL: [Kind; 5] =
        [Kind::Functions, Kind::Users, Kind::Drops, Kind::Ports, Kind::Moves];

    /// Title.
    pub fn title(self) -> &'static str {
        match self {
            Kind::Functions => "functions",
            Kind::Users => "users",
            Kind::Drops => "drops",
            Kind::Ports => "ports",
            Kind::Moves => "moves",
        }
    }

    /// Titles of the columns.
    pub fn head(self) -> &'static [&'static str] {
        match self {
            Kind::Functions => &[
                "function",
                "kind",
                "runs as",
                "packets",
                "bits",
                "cycles",
                "dropped",
                "per burst",
            ],
            Kind::Users => &["user", "packets", "bits", "of sample"],
            Kind::Drops => &["reason", "where", "meaning", "now", "packets"],
            Kind::Ports => &["port", "link", "in", "in bits", "out", "out bits", "missed"],
            Kind::Moves => &["what", "state", "to", "step", "contexts", "waited"],
        }
    }

    /// The first column that holds numbers.
    pub fn numbers_from(self) -> usize {
        match self {
            Kind::Functions | Kind::Drops => 3,
            Kind::Users => 1,
            Kind::Ports => 2,
            Kind::Moves => 4,
        }
    }
}

/// A row: cells, and the numbers that it may be sorted by.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// The cells.
    pub cells: Vec<String>,
    /// Numbers of the columns that hold them, in order.
    pub numbers: Vec<f64>,
}

impl Row {
    fn new(words: &[&str], numbers: &[(f64, String)]) -> Row {
        let words = words.iter().map(|word| (*word).to_owned());
        Row {
            cells: words.chain(numbers.iter().map(|(_, text)| text.clone())).collect(),
            numbers: numbers.iter().map(|(number, _)| *number).collect(),
        }
    }
}

/// What happens at the node.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// The node, in a line or two.
    pub node: Vec<String>,
    /// Stages and cycles.
    pub stages: String,
    /// What the model says that the node could carry.
    pub model: String,
    /// Rows of each table, by [`Kind::ALL`].
    tables: [Vec<Row>; 5],
}

/// Counters that have grown over a time.
struct Between<'a> {
    before: &'a Snapshot,
    now: &'a Snapshot,
    seconds: f64,
}

impl Figures {
    /// What has happened between two looks; rates are 0 without the one before.
    pub fn between(before: Option<&Look>, look: &Look) -> Figures {
        let now = &look.snapshot;
        // A node that has started anew counts from 0.
        let before = before.map_or(now, |before| &before.snapshot);
        let before = if before.uptime > now.uptime { now } else { before };
        let seconds = (now.uptime - before.uptime) as f64 / 1e9;
        let between = Between { before, now, seconds };
        Figures {
            node: between.node(),
            stages: between.stages(),
            model: model(&look.model),
            tables: [
                now.functions.iter().map(|one| between.function(one)).collect(),
                users(look),
                now.drops.iter().map(|drop| between.drop(drop)).collect(),
                between.ports(),
                moves(look),
            ],
        }
    }

    /// The rows of a table, by one of its numbers if it is given: the largest first.
    pub fn rows(&self, kind: Kind, sorted_by: Option<usize>) -> Vec<Row> {
        let mut rows = self.tables[kind as usize].clone();
        if let Some(nth) = sorted_by {
            let number = |row: &Row| row.numbers.get(nth).copied().unwrap_or(0.0);
            rows.sort_by(|one, other| number(other).total_cmp(&number(one)));
        }
        rows
    }

    /// All tables, as text.
    pub fn text(&self) -> String {
        let mut text = self.node.join("\n");
        text.push_str(&format!("\n{}\n{}\n", self.stages, self.model));
        for kind in Kind::ALL {
            let mut table = Table::new(kind.head(), kind.numbers_from());
            for row in self.rows(kind, (kind == Kind::Drops).then_some(0)) {
                table.row(row.cells);
            }
            text.push_str(&match table.is_empty() {
                true => format!("\nno {}\n", kind.title()),
                false => format!("\n{}", table.text()),
            });
        }
        text
    }
}

impl Between<'_> {
    /// Growth per second.
    fn per_second(&self, now: u64, before: u64) -> f64 {
        if self.seconds > 0.0 { now.saturating_sub(before) as f64 / self.seconds } else { 0.0 }
    }

    fn packets(&self, now: u64, before: u64) -> (f64, String) {
        let speed = self.per_second(now, before);
        (speed, packet_rate(speed.round() as u64))
    }

    fn bits(&self, now: u64, before: u64) -> (f64, String) {
        let speed = 8.0 * self.per_second(now, before);
        (speed, rate(speed.round() as u64))
    }

    fn node(&self) -> Vec<String> {
        let Between { now, before, .. } = self;
        let bytes = |snapshot: &Snapshot| -> (u64, u64) {
            let ports = snapshot.ports.iter();
            ports.fold((0, 0), |sum, port| (sum.0 + port.rx_bytes, sum.1 + port.tx_bytes))
        };
        let ((rx, tx), (rx_before, tx_before)) = (bytes(now), bytes(before));
        let dropped = self.per_second(now.dropped(), before.dropped());
        let received = self.per_second(now.received(), before.received());
        let share = if received > 0.0 { dropped / received } else { 0.0 };
        let uptime = Duration::from_nanos(now.uptime).as_secs();
        vec![
            format!(
                "node {}: up {} h {:02} min {:02} s, {}, {}, {} of {} buffers free",
                now.node,
                uptime / 3600,
                uptime / 60 % 60,
                uptime % 60,
                counted(now.users as u64, "user"),
                counted(now.workers.len() as u64, "worker"),
                count(now.buffers.available.into()),
                count(now.buffers.size.into()),
            ),
            format!(
                "in {} {}, out {} {}, dropped {} ({})",
                self.packets(now.received(), before.received()).1,
                self.bits(rx, rx_before).1,
                self.packets(now.sent(), before.sent()).1,
                self.bits(tx, tx_before).1,
                packet_rate(dropped.round() as u64),
                percent(share),
            ),
        ]
    }

    /// Cycles per packet of each stage, and of all together with the functions.
    fn stages(&self) -> String {
        let Some(first) = self.now.workers.first() else { return String::new() };
        let mut sum = 0.0;
        let mut texts = Vec::new();
        for (at, stage) in first.stages.iter().enumerate() {
            let all = |snapshot: &Snapshot| {
                let stages = snapshot.workers.iter().filter_map(|worker| worker.stages.get(at));
                stages.fold((0, 0), |sum, one| (sum.0 + one.cycles, sum.1 + one.packets))
            };
            let cycles = per(all(self.now), all(self.before));
            sum += cycles;
            texts.push(format!("{} {cycles:.0}", stage.name));
        }
        let received = self.per_second(self.now.received(), self.before.received());
        let functions = self.now.functions.iter().map(|function| {
            let speed = self.per_second(function.packets, self.function_before(function).packets);
            if received > 0.0 { self.cycles(function) * speed / received } else { 0.0 }
        });
        let functions: f64 = functions.sum();
        sum += functions;
        let texts = texts.join(", ");
        format!("cycles/packet: {texts}, functions {functions:.0} = {sum:.0}")
    }

    fn function_before(&self, function: &FunctionView) -> FunctionView {
        let known = self.before.functions.iter().find(|known| known.name == function.name);
        known.cloned().unwrap_or_default()
    }

    fn cycles(&self, function: &FunctionView) -> f64 {
        let before = self.function_before(function);
        per(
            (function.sampled_cycles, function.sampled_packets),
            (before.sampled_cycles, before.sampled_packets),
        )
    }

    fn function(&self, function: &FunctionView) -> Row {
        let before = self.function_before(function);
        let runs = match (&function.stage, &function.process) {
            (Some(stage), _) => format!("{} {stage}", composition(function)),
            (None, Some(process)) => format!("{} {}", composition(function), process.state),
            (None, None) => composition(function),
        };
        let (cycles, bursts) =
            (self.cycles(function), function.bursts.saturating_sub(before.bursts));
        let packets = function.packets.saturating_sub(before.packets);
        let per_burst = if bursts > 0 { packets as f64 / bursts as f64 } else { 0.0 };
        Row::new(
            &[&function.name, &function.kind, &runs],
            &[
                self.packets(function.packets, before.packets),
                self.bits(function.bytes, before.bytes),
                (cycles, format!("{cycles:.1}")),
                self.packets(function.drops, before.drops),
                (per_burst, format!("{per_burst:.1}")),
            ],
        )
    }

    fn drop(&self, drop: &DropView) -> Row {
        let is_same = |one: &&DropView| {
            (&one.reason, &one.function, &one.port) == (&drop.reason, &drop.function, &drop.port)
        };
        let before = self.before.drops.iter().find(is_same).map_or(0, |known| known.packets);
        let place = match (&drop.function, &drop.port) {
            (Some(function), _) => format!("function {function}"),
            (None, Some(port)) => format!("port {port}"),
            (None, None) => "node".to_owned(),
        };
        let all = (drop.packets as f64, count(drop.packets));
        let numbers = [self.packets(drop.packets, before), all];
        Row::new(&[&drop.reason, &place, &drop.meaning], &numbers)
    }

    fn ports(&self) -> Vec<Row> {
        let row = |port: &weft_node::show::PortView| {
            let known = self.before.ports.iter().find(|known| known.name == port.name);
            let before = known.cloned().unwrap_or_default();
            Row::new(
                &[&port.name, if port.up { "up" } else { "down" }],
                &[
                    self.packets(port.rx_packets, before.rx_packets),
                    self.bits(port.rx_bytes, before.rx_bytes),
                    self.packets(port.tx_packets, before.tx_packets),
                    self.bits(port.tx_bytes, before.tx_bytes),
                    self.packets(port.rx_missed, before.rx_missed),
                ],
            )
        };
        self.now.ports.iter().map(row).collect()
    }
}

/// Cycles per packet that were added.
fn per((cycles, packets): (u64, u64), (cycles_before, packets_before): (u64, u64)) -> f64 {
    match packets.saturating_sub(packets_before) {
        0 if packets > 0 => cycles as f64 / packets as f64,
        0 => 0.0,
        more => cycles.saturating_sub(cycles_before) as f64 / more as f64,
    }
}

/// What the node could carry, by what, and what to change first.
fn model(model: &ModelView) -> String {
    let Some(could) = model.could_carry else { return "model: no packets to predict from".into() };
    let rate = |rate: f64| packet_rate(rate.round() as u64);
    let by = match &model.calibration {
        None => "counted cycles",
        Some(known) if known.other_machine => "a calibration of another machine",
        Some(_) => "the calibration",
    };
    let used = percent(model.carries / could);
    let mut text = format!("model, by {by}: {} of {} ({used})", rate(model.carries), rate(could));
    text.push_str(&format!(", limit {}", model.limit));
    if let Some(first) = model.changes.first() {
        text.push_str(&format!("; first {}: {}", first.what, rate(first.could_carry)));
    }
    text
}

fn composition(function: &FunctionView) -> String {
    format!("{:?}", function.composition).to_lowercase()
}

fn users(look: &Look) -> Vec<Row> {
    let row = |user: &weft_management_api::live::UserRate| {
        let numbers = [
            (user.rate, packet_rate(user.rate.round() as u64)),
            (user.bits, rate(user.bits.round() as u64)),
            (user.sample as f64, user.sample.to_string()),
        ];
        Row::new(&[&user.user], &numbers)
    };
    look.flows.users.iter().map(row).collect()
}

fn moves(look: &Look) -> Vec<Row> {
    let functions = look.moves.iter().map(|one| {
        let composition = format!("{:?}", one.composition).to_lowercase();
        let to =
            one.peer.as_ref().map_or(composition.clone(), |peer| format!("{composition} {peer}"));
        let step = one.step.as_ref().or(one.reason.as_ref()).cloned().unwrap_or_default();
        let numbers = [
            (one.contexts as f64, count(one.contexts)),
            (one.waited as f64, format!("{:.1} ms", one.waited as f64 / 1e6)),
        ];
        Row::new(&[&format!("function {}", one.function), &one.state, &to, &step], &numbers)
    });
    let handover = look.snapshot.handover.iter().flat_map(|handover| {
        handover.users.iter().map(|(state, users)| {
            let what = counted(*users, "user");
            let none = (0.0, String::new());
            Row::new(&[&what, state, "", ""], &[none.clone(), none])
        })
    });
    functions.chain(handover).collect()
}

#[cfg(test)]
mod tests {
    use weft_management_api::live::{CalibrationView, Flows, ModelChange, UserRate};
    use weft_node::show::PortView;

    use super::*;

    fn look(uptime: u64, packets: u64) -> Look {
        let drop = |reason: &str, packets| DropView {
            reason: reason.into(),
            packets,
            ..DropView::default()
        };
        let snapshot = Snapshot {
            node: "edge".into(),
            uptime,
            tsc_hz: 1_000_000_000,
            ports: vec![PortView {
                name: "access".into(),
                rx_packets: packets,
                ..PortView::default()
            }],
            functions: vec![FunctionView {
                name: "count".into(),
                packets,
                sampled_packets: packets,
                sampled_cycles: packets * 20,
                ..FunctionView::default()
            }],
            drops: vec![drop("rule", 7), drop("no_rule", packets / 10)],
            ..Snapshot::default()
        };
        let user = UserRate { user: "ue-1".into(), sample: 9, rate: 500.0, bits: 4e6 };
        let flows = Flows { sample: 9, rules: Vec::new(), users: vec![user] };
        Look {
            time: 0,
            snapshot,
            flows,
            moves: Vec::new(),
            events: Vec::new(),
            model: ModelView::default(),
        }
    }

    #[test]
    fn rates_are_what_was_added_in_a_second() {
        let (before, now) = (look(1_000_000_000, 1000), look(3_000_000_000, 5000));
        let figures = Figures::between(Some(&before), &now);
        assert_eq!(
            figures.node[1],
            "in 2 kpps 0 bit/s, out 0 pps 0 bit/s, dropped 200 pps (10.0 %)"
        );
        let function = &figures.rows(Kind::Functions, None)[0];
        assert_eq!(function.cells[3..6], ["2 kpps", "0 bit/s", "20.0"]);
        assert_eq!(figures.rows(Kind::Users, None)[0].cells, ["ue-1", "500 pps", "4 Mbit/s", "9"]);
        let reasons = |by| -> Vec<String> {
            figures.rows(Kind::Drops, by).into_iter().map(|row| row.cells[0].clone()).collect()
        };
        assert_eq!(reasons(None), ["rule", "no_rule"]);
        assert_eq!(reasons(Some(0)), ["no_rule", "rule"]);
        assert!(figures.text().contains("\nno moves\n"));
    }

    #[test]
    fn the_model_is_told_with_where_its_costs_are_from() {
        assert_eq!(model(&ModelView::default()), "model: no packets to predict from");
        let change = ModelChange {
            what: "fusing a, b".into(),
            could_carry: 8e6,
            limit: "the worker's core".into(),
        };
        let mut view = ModelView {
            carries: 1e6,
            could_carry: Some(4e6),
            limit: "the worker's core".into(),
            changes: vec![change],
            ..ModelView::default()
        };
        let said = "model, by counted cycles: 1 Mpps of 4 Mpps (25.0 %), limit the worker's core; \
                    first fusing a, b: 8 Mpps";
        assert_eq!(model(&view), said);
        view.calibration =
            Some(CalibrationView { other_machine: true, ..CalibrationView::default() });
        assert!(model(&view).starts_with("model, by a calibration of another machine: "));
    }

    #[test]
    fn a_node_that_started_anew_has_no_rates_yet() {
        let figures = Figures::between(Some(&look(9_000_000_000, 1000)), &look(1_000_000_000, 5));
        assert!(figures.node[1].starts_with("in 0 pps"), "{}", figures.node[1]);
        let figures = Figures::between(None, &look(1_000_000_000, 5));
        assert!(figures.node[1].starts_with("in 0 pps"), "{}", figures.node[1]);
    }
}
