//! `weft vf`: the virtual functions of a node's NICs.

mod devices;
mod switch;

use std::path::{Path, PathBuf};

use clap::Subcommand;
pub use devices::resolve;
pub use switch::start as start_switches;
use weft_node_config::Blueprint;
use weft_vf::{Error, Kernel, Nic, Plan, Row, SOFTWARE, Switch, Sysfs};

use crate::failure::Failure;
use crate::table::Table;
use crate::{node_file, output};

#[derive(clap::Args)]
#[command(after_help = "docs/virtual-functions.md tells how a node says which it needs.")]
pub struct Arguments {
    #[command(subcommand)]
    what: VfCommand,
}

#[derive(Subcommand)]
enum VfCommand {
    /// Print what `create` would do, and do nothing
    Plan(File),
    /// Make the virtual functions of a node's configuration: all of them or none
    Create(File),
    /// Take all virtual functions away from the NICs of a node's configuration
    Remove(File),
    /// Be the switch of a NIC that is none: software VF, until a signal comes
    Switch(switch::Arguments),
    /// Show virtual functions, and what they have carried
    Show {
        /// Configuration of the node; without it, those of all NICs are shown
        #[arg(value_name = "NODE.yaml")]
        file: Option<PathBuf>,
    },
}

#[derive(clap::Args)]
struct File {
    /// Configuration of the node
    #[arg(value_name = "NODE.yaml")]
    file: PathBuf,
}

impl Arguments {
    /// Whether this process goes with the one that started it.
    pub fn ends_with_parent(&self) -> bool {
        matches!(&self.what, VfCommand::Switch(arguments) if arguments.once)
    }
}

/// Plans, makes, removes or shows virtual functions.
///
/// # Errors
/// What is in the way.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let sysfs = Sysfs::default();
    match arguments.what {
        VfCommand::Plan(File { file }) => {
            let (nics, switches) = nics(&file)?;
            print(&plans(&sysfs, &nics, weft_vf::create)?)?;
            say(&file, &switches)
        }
        VfCommand::Create(File { file }) => {
            let (nics, switches) = nics(&file)?;
            carry_out(&sysfs, &plans(&sysfs, &nics, weft_vf::create)?)?;
            say(&file, &switches)?;
            match nics.is_empty() {
                true => Ok(()),
                false => show(&sysfs, &nics),
            }
        }
        VfCommand::Remove(File { file }) => {
            let (nics, switches) = nics(&file)?;
            carry_out(&sysfs, &plans(&sysfs, &nics, weft_vf::remove)?)?;
            switches.iter().try_for_each(|switch| {
                let name = &switch.name;
                output::line(&format!("# {name}: {SOFTWARE}, which ends with its process"))
            })
        }
        VfCommand::Switch(arguments) => switch::run(&arguments),
        VfCommand::Show { file: None } => show(&sysfs, &[]),
        VfCommand::Show { file: Some(file) } => {
            let (nics, switches) = nics(&file)?;
            if !nics.is_empty() {
                show(&sysfs, &nics)?;
            }
            match switches.is_empty() {
                true => Ok(()),
                false => output::print(&switch::tables(&switches)),
            }
        }
    }
}

/// The NICs of a configuration, and what stands in for some; there is at least one.
fn nics(file: &Path) -> Result<(Vec<Nic>, Vec<Switch>), Failure> {
    let Blueprint { nics, switches, .. } = node_file::load(file)?;
    match nics.is_empty() && switches.is_empty() {
        true => Err(Failure::input(format!("{}: there are no `nics` in it", file.display()))),
        false => Ok((nics, switches)),
    }
}

/// Says who makes the virtual functions that no NIC has.
fn say(file: &Path, switches: &[Switch]) -> Result<(), Failure> {
    switches.iter().try_for_each(|switch| {
        let name = &switch.name;
        let who = match switch.started {
            true => "which the node starts".to_owned(),
            false => format!("to be started by: weft vf switch {} {name}", file.display()),
        };
        output::line(&format!("# {name}: {SOFTWARE}, {who}"))
    })
}

fn plans(
    sysfs: &Sysfs,
    nics: &[Nic],
    plan: fn(&Sysfs, &Nic) -> Result<Plan, Error>,
) -> Result<Vec<Plan>, Failure> {
    let plans = nics.iter().map(|nic| plan(sysfs, nic));
    plans.collect::<Result<_, _>>().map_err(Failure::input)
}

/// Says what will be done.
fn print(plans: &[Plan]) -> Result<(), Failure> {
    for plan in plans {
        output::line(&format!("# {}: {}", plan.nic.name, plan.nic.device))?;
        match plan.steps.is_empty() {
            true => output::line("# nothing is to be done")?,
            false => plan.steps.iter().try_for_each(|step| output::line(&step.to_string()))?,
        }
    }
    Ok(())
}

/// Says what will be done, and does it.
fn carry_out(sysfs: &Sysfs, plans: &[Plan]) -> Result<(), Failure> {
    print(plans)?;
    weft_vf::carry_out(sysfs, plans, &mut Kernel::default()).map_err(Failure::broken)
}

fn show(sysfs: &Sysfs, nics: &[Nic]) -> Result<(), Failure> {
    let rows = weft_vf::show(sysfs, nics, &mut Kernel::default()).map_err(Failure::input)?;
    output::print(&table(&rows))
}

fn table(rows: &[Row]) -> String {
    let head = ["nic", "vf", "name", "address", "driver", "group", "mac", "trust", "spoof check"];
    let head = [&head[..], &["rx packets", "rx bytes", "tx packets", "tx bytes"]].concat();
    let mut table = Table::new(&head, 9);
    for row in rows {
        let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let switch = |on: Option<bool>| on.map_or("-", |on| if on { "on" } else { "off" });
        let traffic = row.traffic;
        let counts = traffic.map(|of| [of.rx_packets, of.rx_bytes, of.tx_packets, of.tx_bytes]);
        let counts = counts
            .map_or(["-"; 4].map(str::to_owned), |counts| counts.map(|count| count.to_string()));
        let cells = [
            row.nic.clone(),
            row.number.to_string(),
            text(&row.name),
            row.address.clone().unwrap_or_else(|| "not there".to_owned()),
            text(&row.driver),
            text(&row.group.map(|group| group.to_string())),
            text(&row.mac),
            switch(row.trust).to_owned(),
            switch(row.spoof_check).to_owned(),
        ];
        table.row(cells.into_iter().chain(counts));
    }
    match table.is_empty() {
        true => "no NIC here has virtual functions\n".to_owned(),
        false => table.text(),
    }
}

#[cfg(test)]
mod tests {
    use weft_vf::Traffic;

    use super::*;

    #[test]
    fn what_is_there_and_what_is_not() {
        let traffic = Traffic { rx_packets: 5, rx_bytes: 320, tx_packets: 4, tx_bytes: 256 };
        let there = Row {
            nic: "eth0".to_owned(),
            name: Some("fabric".to_owned()),
            address: Some("0000:02:10.0".to_owned()),
            driver: Some("vfio-pci".to_owned()),
            group: Some(12),
            mac: Some("02:00:00:00:01:00".to_owned()),
            trust: Some(false),
            spoof_check: Some(true),
            traffic: Some(traffic),
            ..Row::default()
        };
        let absent = Row { nic: "eth0".to_owned(), number: 1, ..Row::default() };
        let text = table(&[there, absent]);
        let rows: Vec<Vec<&str>> =
            text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            rows[0].join(" "),
            "eth0 0 fabric 0000:02:10.0 vfio-pci 12 02:00:00:00:01:00 off on 5 320 4 256"
        );
        assert_eq!(rows[1].join(" "), "eth0 1 - not there - - - - - - - - -");
        assert_eq!(table(&[]), "no NIC here has virtual functions\n");
    }
}
