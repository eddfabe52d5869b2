//! What carries over from the papers is the shape of their figures: for each experiment what
//! the paper states, what was measured here, and whether the shape holds.

use crate::results::{Results, Series, Shape};

/// The statement of a paper, and how it is checked.
struct Statement {
    experiment: &'static str,
    paper: &'static str,
    check: fn(&Results) -> Option<(String, bool)>,
}

const STATEMENTS: &[Statement] = &[
    Statement {
        experiment: "sgw-loss",
        paper: "Through the kernel nothing is lost to 120 kpps; loss grows beyond. The rate \
                matters, the size of packets does not.",
        check: loss,
    },
    Statement {
        experiment: "sgw-delay-kernel",
        paper: "Times are highest at low rates (230 µs at 100 pps), least at 10 to 20 kpps.",
        check: delay_kernel,
    },
    Statement {
        experiment: "sgw-delay-poll",
        paper: "In poll mode 5 to 8 µs, far below the kernel's times, and longer for longer packets.",
        check: delay_poll,
    },
    Statement {
        experiment: "sgw-bearers",
        paper: "With a linear matcher the rate falls steadily with the number of bearers.",
        check: |results| {
            let one = results.series.iter().find(|one| one.name.starts_with("linear matcher"))?;
            let (first, last) = ends(one)?;
            Some((
                format!("at the most bearers {:.2} of the first rate", last / first),
                last < first,
            ))
        },
    },
    Statement {
        experiment: "sgw-bearers-delay",
        paper: "In poll mode below 20 µs to 100 bearers.",
        check: |results| {
            let poll = results.series.iter().filter(|one| one.name.contains("poll mode"));
            let poll = poll.filter(|one| one.unit == "µs" && !one.name.contains("p99"));
            let points = poll.flat_map(Series::counting);
            let within = points.filter(|point| point.position().is_some_and(|x| x <= 100.0));
            let most = within.map(|point| point.mean).reduce(f64::max)?;
            Some((format!("at most {most:.1} µs"), most < 20.0))
        },
    },
    Statement {
        experiment: "io-environments",
        paper: "Memory-mapped polling is many times as fast as the kernel's paths (10 Mpps at \
                64 B); a container costs little.",
        check: |results| {
            let (memory, kernel) =
                (number(results, "mpps_64_memory")?, number(results, "mpps_64_af_packet")?);
            let inside =
                number(results, "mpps_64_af_packet_container").map(|inside| inside / kernel);
            let said = inside
                .map_or(String::new(), |inside| format!("; {inside:.2} of it in a container"));
            let holds = memory > 3.0 * kernel && inside.is_none_or(|inside| inside > 0.8);
            Some((format!("memory {:.0} times AF_PACKET{said}", memory / kernel), holds))
        },
    },
    Statement {
        experiment: "function-overhead",
        paper: "Each component adds a cost that is alike, 70 to 110 ns.",
        check: |results| {
            let each = number(results, "cycles_per_component")?;
            Some((format!("{each:.0} cycles each"), each > 0.0))
        },
    },
    Statement {
        experiment: "users",
        paper: "The rate falls with the number of users as their contexts leave the caches.",
        check: |results| {
            let share = number(results, "rate_1m_over_1").or(number(results, "rate_10k_over_1"))?;
            Some((format!("with the most users {share:.2} of the rate with one"), share < 1.0))
        },
    },
    Statement {
        experiment: "chain-mix",
        paper: "The rate rises predictably as users leave the full chain.",
        check: |results| {
            let r2 = number(results, "time_per_packet_r2")?;
            Some((format!("time per packet is linear in the share, r² {r2:.3}"), r2 > 0.95))
        },
    },
    Statement {
        experiment: "handover",
        paper: "Arrivals stop for about 2 ms and are normal after 6 ms; nothing is lost or reordered.",
        check: |results| {
            let between =
                number(results, "back_to_normal_us").map(|one| (one, "between processes"));
            let within =
                || Some((number(results, "back_to_normal_us_in_process")?, "in one process"));
            let (normal, of) = between.or_else(within)?;
            let (lost, disorder) = (number(results, "lost")?, number(results, "reordered")?);
            let holds = normal <= 6000.0 && lost + disorder == 0.0;
            Some((
                format!(
                    "{of} normal after {normal:.0} µs, {lost:.0} lost, {disorder:.0} reordered"
                ),
                holds,
            ))
        },
    },
    Statement {
        experiment: "composition",
        paper: "Proposed, not measured: the more isolated the dearer, from copied code over calls \
                to containers.",
        check: |results| {
            let of = |way: &str| number(results, &format!("cycles_{way}"));
            let (fused, call, process) = (of("fused")?, of("call")?, of("process")?);
            let said =
                format!("fused {fused:.0}, called {call:.0}, in processes {process:.0} cycles");
            Some((said, fused < call && call < process))
        },
    },
    Statement {
        experiment: "chain-length",
        paper: "One more function costs the compound chain 35 cycles, the classical one thousands.",
        check: |results| {
            let (ours, classical) = (
                number(results, "cycles_per_function_call")?,
                number(results, "cycles_per_function_classical")?,
            );
            Some((format!("{ours:.1} and {classical:.0} cycles"), classical > 10.0 * ours))
        },
    },
    Statement {
        experiment: "chain-delay",
        paper: "The compound chain's delay hardly grows with its length (16.6 to 60.6 µs), the \
                classical one's twentyfold.",
        check: |results| {
            let called =
                results.series.iter().find(|one| one.name.contains("call") && one.unit == "µs")?;
            let (first, last) = ends(called)?;
            Some((format!("called {first:.1} to {last:.1} µs"), last < 4.0 * first.max(0.5)))
        },
    },
    Statement {
        experiment: "chain-throughput",
        paper: "Every chain carries less the longer it is.",
        check: |results| {
            let called = results.series.iter().find(|one| one.name.contains("call"))?;
            let (first, last) = ends(called)?;
            Some((format!("called {first:.2} to {last:.2} Mpps"), last < first))
        },
    },
    Statement {
        experiment: "overload",
        paper: "Past the limit chains over software links lose throughput; isolated ones stay flat.",
        check: |results| {
            let ours = number(results, "goodput_5x_call").or(number(results, "goodput_2x_call"))?;
            let links = number(results, "goodput_2x_software_links");
            let said = links.map_or(String::new(), |links| format!(", software links {links:.2}"));
            let holds = ours > 0.9 && links.is_none_or(|links| links < ours);
            Some((format!("of its peak a called chain keeps {ours:.2}{said}"), holds))
        },
    },
    Statement {
        experiment: "vf",
        paper: "A chain behind the NIC's switch does not notice an overloaded neighbour.",
        check: |results| {
            let share = number(results, "neighbour_goodput_at_5x")?;
            Some((format!("it keeps {share:.3} of its goodput"), share > 0.95))
        },
    },
    Statement {
        experiment: "size-sweep",
        paper: "The data rate rises with the size of packets and is steady for longer ones; on the \
                bus of a NIC whole cache lines make a sawtooth.",
        check: |results| {
            let rate = results.series.iter().find(|one| one.unit == "Gbit/s")?;
            let (first, last) = ends(rate)?;
            let said = format!(
                "{first:.1} Gbit/s of the shortest packets to {last:.1} of the longest; devices in \
                 memory have no bus, so the sawtooth is computed"
            );
            Some((said, last > first))
        },
    },
    Statement {
        experiment: "working-set",
        paper: "An access costs about twice as much at each level of the caches.",
        check: |results| {
            let levels = ["l1", "l2", "l3", "memory"];
            let costs = levels.map(|level| number(results, &format!("cycles_per_access_{level}")));
            let costs: Vec<f64> = costs.into_iter().flatten().collect();
            let said: Vec<String> = costs.iter().map(|cycles| format!("{cycles:.1}")).collect();
            let rises = costs.windows(2).all(|pair| pair[0] < pair[1]);
            (costs.len() > 1).then(|| (format!("{} cycles", said.join(", ")), rises))
        },
    },
    Statement {
        experiment: "model",
        paper: "A model of resource constraints predicts longer chains from short ones.",
        check: |results| {
            let error = number(results, "median_error_percent")?;
            Some((format!("median error {error:.1} %"), error < 10.0))
        },
    },
];

/// Says of results whether the shape of the paper's figure holds, where it states one.
pub fn tell(results: &mut Results) {
    let statement = STATEMENTS.iter().find(|one| one.experiment == results.experiment);
    results.shape = statement.map(|statement| {
        let checked = (statement.check)(results);
        let (ours, holds) = checked.map_or((None, None), |(ours, holds)| (Some(ours), Some(holds)));
        Shape { paper: statement.paper.to_owned(), ours, holds }
    });
}

/// The experiments whose figures have a shape that is told.
pub fn experiments() -> impl Iterator<Item = &'static str> {
    STATEMENTS.iter().map(|one| one.experiment)
}

fn number(results: &Results, name: &str) -> Option<f64> {
    results.derived.get(name).copied()
}

/// The first and the last point of a series that count.
fn ends(series: &Series) -> Option<(f64, f64)> {
    let mut points: Vec<_> =
        series.counting().filter_map(|point| Some((point.position()?, point.mean))).collect();
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    let ((_, first), (_, last)) = points.first().zip(points.last())?;
    (points.len() > 1).then_some((*first, *last))
}

fn loss(results: &Results) -> Option<(String, bool)> {
    let series: Vec<&Series> = results
        .series
        .iter()
        .filter(|one| one.unit == "%" && one.name.contains("AF_PACKET"))
        .collect();
    let all: Vec<(f64, f64)> = series.iter().filter_map(|series| ends(series)).collect();
    let (first, last) = all.iter().copied().reduce(|a, b| (a.0.max(b.0), a.1.max(b.1)))?;
    let sizes: Vec<f64> = ["lossless_pps_kernel_128", "lossless_pps_kernel_1400"]
        .iter()
        .filter_map(|name| number(results, name))
        .collect();
    let ratio = match sizes[..] {
        [small, large] => large / small,
        _ => 1.0,
    };
    let said = format!(
        "{first:.2} % lost at the least rate and {last:.1} % at the most; without loss long packets \
         reach {ratio:.2} times the rate of short ones"
    );
    Some((said, first < 0.1 && last > first && (0.5..=2.0).contains(&ratio)))
}

fn delay_kernel(results: &Results) -> Option<(String, bool)> {
    let series = results.series.iter().find(|one| one.unit == "µs" && !one.name.contains("p99"))?;
    let points: Vec<_> =
        series.counting().filter_map(|point| Some((point.position()?, point.mean))).collect();
    let least = points.iter().min_by(|one, other| one.1.total_cmp(&other.1))?;
    let (first, _) = ends(series)?;
    let said = format!(
        "least at {:.0} kpps ({:.0} µs), {first:.0} µs at the lowest rate",
        least.0 / 1e3,
        least.1
    );
    Some((said, (5e3..=4e4).contains(&least.0) && first > least.1))
}

fn delay_poll(results: &Results) -> Option<(String, bool)> {
    let series = results.series.iter().filter(|one| one.unit == "µs" && !one.name.contains("p99"));
    let means: Vec<f64> = series
        .filter_map(|one| {
            let all: Vec<f64> = one.counting().map(|point| point.mean).collect();
            weft_rig::statistics::mean(&all)
        })
        .collect();
    let (short, long) = means.first().copied().zip(means.last().copied())?;
    let said = format!("{short:.1} µs for the shortest packets, {long:.1} µs for the longest");
    Some((said, short.max(long) < 8.0 && short < long))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    #[test]
    fn without_measurements_nothing_is_told() {
        for statement in STATEMENTS {
            let mut results = Results::new(statement.experiment, Machine::default());
            tell(&mut results);
            let shape = results.shape.unwrap();
            assert_eq!((shape.holds, shape.ours), (None, None), "{}", statement.experiment);
        }
    }

    #[test]
    fn a_shape_that_does_not_hold_is_told() {
        let mut results = Results::new("vf", Machine::default());
        results.derive("neighbour_goodput_at_5x", 0.4);
        tell(&mut results);
        assert_eq!(results.shape.unwrap().holds, Some(false));
    }
}
