//! `weft model plan`: which node carries which users.

use std::path::PathBuf;

use weft_model::Model;
use weft_model::plan::{Block, Placed, Plan};
use weft_model::quantity::PacketRate;

use crate::failure::Failure;
use crate::number::counted;
use crate::output;
use crate::table::Table;

#[derive(clap::Args)]
pub struct Arguments {
    /// A model with a `plan`
    #[arg(value_name = "MODEL.yaml")]
    file: PathBuf,
    /// Print the plan as YAML: `workers` and `users` for the configuration of each node
    #[arg(long)]
    yaml: bool,
}

/// Prints the plan.
///
/// # Errors
/// The mistakes of the file, a model without a plan, and users that no node has room
/// for.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let model = Model::load(&arguments.file)?;
    let Some(request) = &model.plan else {
        let file = arguments.file.display();
        return Err(Failure::input(format!("{file} has no `plan` to split a demand by")));
    };
    let plan = request.plan(&model.scenario)?;
    match arguments.yaml {
        true => output::print(&plan.to_string())?,
        false => output::print(&text(&model, &plan))?,
    }
    left(&plan).map_or(Ok(()), |left| Err(Failure::broken(left)))
}

fn text(model: &Model, plan: &Plan) -> String {
    let head = ["node", "busiest", "users", "chain", "first", "count", "cores", "packets", "used"];
    let mut table = Table::new(&head, 5);
    for node in &plan.nodes {
        let Placed { name, workers, cores, blocks, rate, .. } = node;
        let (busiest, used) = node.busiest().unwrap_or(("-", 0.0));
        for (index, Block { name: users, users: count, first, chain }) in blocks.iter().enumerate()
        {
            let first = first.map_or("-".to_owned(), |first| first.to_string());
            let mut row = vec![String::new(), String::new(), users.clone(), chain.clone(), first];
            row.push(count.to_string());
            if index == 0 {
                row[0].clone_from(name);
                busiest.clone_into(&mut row[1]);
                row.push(format!("{workers} of {cores}"));
                row.push(format!("{:.3}", PacketRate(*rate)));
                row.push(format!("{:.1} %", used * 100.0));
            }
            table.row(row);
        }
        if blocks.is_empty() {
            table.row([name.as_str(), "-", "-", "-", "-", "0"].map(str::to_owned));
        }
    }
    let composition = model.scenario.composition.name();
    let (used, all) = (plan.used(), counted(plan.nodes.len() as u64, "node"));
    format!("{}: {used} of {all}, {composition}\n{}", model.name, table.text())
}

/// Who has no place, and what would help.
fn left(plan: &Plan) -> Option<String> {
    if plan.left.is_empty() {
        return None;
    }
    let who = plan.left.iter().map(|left| format!("{} of {}", left.users, left.name));
    let who = who.collect::<Vec<_>>().join(", ");
    let last = plan.nodes.last().map_or("", |node| node.name.as_str());
    Some(match plan.further {
        Some(further) => {
            let nodes = if further == 1 { "node" } else { "nodes" };
            format!("no room for {who}; {further} more {nodes} like {last} would carry them")
        }
        None => format!("no room for {who}, and no number of nodes like {last} would carry them"),
    })
}
