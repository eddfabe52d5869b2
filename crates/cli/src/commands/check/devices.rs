//! `weft check --devices`: queues, hashes and offloads that the devices of a node offer, and
//! those that the node will use.

use std::path::PathBuf;

use serde::Serialize;
use weft_dpdk::{Capabilities, Eal, EalOptions, Port, PortOptions, numa, pci_addresses};
use weft_node_config::{Blueprint, PortPlan};

use crate::failure::Failure;
use crate::table::Table;
use crate::{node_file, output};

/// Memory to ask devices with, in megabytes: none is started.
const MEGABYTES: u32 = 64;

/// What is printed with `--json`.
#[derive(Serialize)]
struct Report {
    ports: Vec<Asked>,
}

/// One port.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    port: String,
    device: String,
    /// What the device can do, if it can be opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    can: Option<Can>,
    /// Receive queues that will be polled.
    queues: u16,
    /// How packets will come to them.
    spread: String,
    /// What is wrong, or probably not meant.
    warnings: Vec<String>,
}

/// What a device can do, as its driver says.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Can {
    driver: String,
    /// Socket of the machine that it is at.
    #[serde(skip_serializing_if = "Option::is_none")]
    socket: Option<u32>,
    rx_queues: u16,
    tx_queues: u16,
    mtu: u16,
    /// Kinds of packets that it can hash.
    hashes: Vec<&'static str>,
    /// Entries of its redirection table.
    table: u16,
    rx_offloads: Vec<String>,
    tx_offloads: Vec<String>,
    /// Offloads that the node will use at this port.
    used: Vec<&'static str>,
    /// Fields of packets that its flow rules can compare.
    flow_rules: Vec<String>,
    /// What tells an idle worker of packets: `socket`, `driver` or `nothing`.
    wakes: &'static str,
}

/// Asks the devices of one node, none of which is started.
///
/// # Errors
/// Mistakes of the file, and when DPDK does not start. A device that cannot be opened is told
/// among the others, and makes the exit code 1.
pub(super) fn run(files: &[PathBuf], json: bool) -> Result<(), Failure> {
    let [file] = files else {
        return Err(Failure::input("--devices asks the devices of one node: name one file"));
    };
    let blueprint = node_file::load(file)?;
    let devices = blueprint.devices();
    let pci = devices.iter().flat_map(|port| pci_addresses(&port.device)).map(str::to_owned);
    let options = EalOptions { memory_megabytes: MEGABYTES, pci: pci.collect(), huge_pages: false };
    let eal = Eal::start(&options)?;
    let ports: Vec<_> = devices.iter().map(|port| ask(eal, &blueprint, port)).collect();
    let lacking = ports.iter().filter(|port| port.can.is_none()).count();
    match json {
        true => {
            let report = Report { ports };
            output::line(&serde_json::to_string_pretty(&report).map_err(Failure::broken)?)?;
        }
        false => output::print(&text(&ports))?,
    }
    match lacking {
        0 => Ok(()),
        _ => Err(Failure::broken(format!("{lacking} of the devices cannot be opened"))),
    }
}

fn ask(eal: &Eal, blueprint: &Blueprint, plan: &PortPlan) -> Asked {
    let options = PortOptions {
        rx_queues: plan.queues,
        tx_queues: blueprint.workers.count as u16,
        descriptors: plan.descriptors,
        flow_rules: plan.flow_rules
            && blueprint.workers.count > 1
            && usize::from(plan.queues) >= blueprint.workers.count,
        checksums: plan.checksums,
        interrupts: blueprint.workers.sleeps_until_woken(),
        sends_own_buffers: blueprint.sends_own_buffers(),
        mtu: plan.mtu,
        ..PortOptions::default()
    };
    let mut asked = Asked {
        port: plan.name.clone(),
        device: plan.device.clone(),
        can: None,
        queues: 0,
        spread: String::new(),
        warnings: Vec::new(),
    };
    match Port::capabilities(eal, &plan.device, &options) {
        Err(error) => asked.warnings.push(error.to_string()),
        Ok(can) => {
            asked.queues = plan.queues.clamp(1, can.rx_queues.max(1));
            asked.spread = can.spreading.to_string();
            asked.warnings = warnings(blueprint, plan, &can, numa::socket_of_core);
            asked.can = Some(Can::from(can));
        }
    }
    asked
}

impl From<Capabilities> for Can {
    fn from(can: Capabilities) -> Can {
        Can {
            driver: can.driver,
            socket: can.socket,
            rx_queues: can.rx_queues,
            tx_queues: can.tx_queues,
            mtu: can.mtu,
            hashes: can.hashes,
            table: can.table,
            rx_offloads: can.rx_offloads,
            tx_offloads: can.tx_offloads,
            used: can.used,
            flow_rules: can.flows,
            wakes: can.wakes.name(),
        }
    }
}

/// What is probably not meant of a port.
fn warnings(
    blueprint: &Blueprint,
    plan: &PortPlan,
    can: &Capabilities,
    socket_of: impl Fn(usize) -> Option<u32>,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let (queues, workers) = (plan.queues, blueprint.workers.count);
    if queues > can.rx_queues.max(1) {
        let has = can.rx_queues;
        warnings.push(format!("{queues} receive queues are asked for and the device has {has}"));
    }
    if usize::from(queues) < workers && can.rx_queues > queues {
        let most = workers.min(can.rx_queues.into());
        warnings.push(format!("{workers} workers share {queues} receive queue(s); queues: {most}"));
    }
    if plan.mtu > can.mtu && can.mtu > 0 {
        let (asked, most) = (plan.mtu, can.mtu);
        warnings.push(format!("an MTU of {asked} is asked for and the device has {most}"));
    }
    if let Some(command) = &can.channels {
        warnings.push(match can.changes_channels {
            true => format!("{command} (the node does that, and puts it back as it ends)"),
            false => format!("{command} lets as many cores of the kernel receive"),
        });
    }
    let pollers = (0..usize::from(queues)).map(|queue| (plan.worker + queue) % workers.max(1));
    let cores = blueprint.workers.cores.as_deref().unwrap_or_default();
    for worker in pollers.take(workers) {
        let Some(core) = cores.get(worker).copied() else { continue };
        if let (Some(at), Some(port)) = (socket_of(core), can.socket)
            && at != port
        {
            warnings.push(format!(
                "the device is at socket {port} and worker {worker} at socket {at}: move the \
                 worker to a core of socket {port} (workers.cores)"
            ));
        }
    }
    warnings
}

/// What an idle worker does at a port.
fn when_idle(wakes: &str) -> &'static str {
    match wakes {
        "socket" => "an idle worker sleeps until its socket has packets",
        "driver" => {
            "an idle worker sleeps until packets come, if the driver gives each queue an interrupt"
        }
        _ => "an idle worker looks for packets again and again",
    }
}

fn text(ports: &[Asked]) -> String {
    let head = ["port", "driver", "socket", "rx queues", "tx queues", "hashes", "table", "will be"];
    let mut table = Table::new(&head, usize::MAX);
    for port in ports {
        let Some(can) = &port.can else { continue };
        table.row([
            port.port.clone(),
            can.driver.clone(),
            can.socket.map_or("-".to_owned(), |socket| socket.to_string()),
            can.rx_queues.to_string(),
            can.tx_queues.to_string(),
            if can.hashes.is_empty() { "-".to_owned() } else { can.hashes.join(",") },
            can.table.to_string(),
            match port.queues {
                1 => port.spread.clone(),
                queues => format!("{queues} queues, {}", port.spread),
            },
        ]);
    }
    let mut text = table.text();
    for port in ports {
        for (way, offloads) in port
            .can
            .iter()
            .flat_map(|can| [("received", &can.rx_offloads), ("sent", &can.tx_offloads)])
        {
            if !offloads.is_empty() {
                let (name, offloads) = (&port.port, offloads.join(" "));
                text.push_str(&format!("{name}: can for {way} packets: {offloads}\n"));
            }
        }
        if let Some(can) = &port.can {
            let used = if can.used.is_empty() { "nothing".into() } else { can.used.join(", ") };
            text.push_str(&format!("{}: will be used: {used}\n", port.port));
            text.push_str(&format!("{}: {}\n", port.port, when_idle(can.wakes)));
            if !can.flow_rules.is_empty() {
                let fields = can.flow_rules.join(", ");
                let name = &port.port;
                text.push_str(&format!(
                    "{name}: its driver calls flow rules valid, by: {fields}\n"
                ));
            }
        }
        for warning in &port.warnings {
            text.push_str(&format!("{}: {warning}\n", port.port));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use weft_functions::KINDS;

    use super::*;

    fn node(port: &str, workers: &str) -> Blueprint {
        let text = format!(
            "apiVersion: weft/v1\nkind: Node\nmetadata: {{name: n}}\nworkers: {workers}\n\
             ports:\n  a: {{device: \"ring:a\", direction: uplink, {port}}}\n\
             rules: |\n  from a -> drop\n"
        );
        weft_node_config::read(&text, "n.yaml", KINDS).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn what_does_not_fit_a_device_is_named() {
        let can =
            Capabilities { socket: Some(1), rx_queues: 2, mtu: 1500, ..Capabilities::default() };
        let told = |port, workers| {
            let blueprint = node(port, workers);
            // Cores 0 and 1 are at socket 0, the others at socket 1.
            warnings(&blueprint, &blueprint.ports[0], &can, |core| Some(u32::from(core > 1)))
        };
        assert_eq!(told("queues: 2", "{count: 2, cores: [2, 3]}"), [""; 0]);
        let far = told("queues: 2", "{count: 2, cores: [2, 0]}");
        assert_eq!(far.len(), 1, "{far:?}");
        assert!(
            far[0].starts_with("the device is at socket 1 and worker 1 at socket 0"),
            "{far:?}"
        );
        let few = told("queues: 1", "{count: 2}");
        assert_eq!(few, ["2 workers share 1 receive queue(s); queues: 2"]);
        let many = told("queues: 4", "{count: 4}");
        assert_eq!(many, ["4 receive queues are asked for and the device has 2"]);
        assert_eq!(told("mtu: 1600, queues: 2", "{count: 2}").len(), 1);
        let can = Capabilities {
            channels: Some("eth0 receives by 1 queue: ethtool -L eth0 combined 2".to_owned()),
            changes_channels: true,
            ..can
        };
        let blueprint = node("queues: 2", "{count: 2}");
        let told = warnings(&blueprint, &blueprint.ports[0], &can, |_| None);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].ends_with("combined 2 (the node does that, and puts it back as it ends)"));
    }
}
