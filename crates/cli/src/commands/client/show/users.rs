//! Users, or one user with what its contexts hold.

use weft_management_api::client::Client;
use weft_node::show::{ContextView, UserView};

use super::{Form, print};
use crate::commands::client::ctl::escaped;
use crate::failure::Failure;
use crate::table::Table;

#[derive(clap::Args)]
pub struct Arguments {
    /// Name of the only user to show
    #[arg(value_name = "USER", conflicts_with_all = ["first", "count"])]
    name: Option<String>,
    /// Users to skip, in the order of the configuration
    #[arg(long, value_name = "N", default_value_t = 0)]
    first: usize,
    /// Users to show
    #[arg(long, value_name = "N", default_value_t = 100)]
    count: usize,
}

pub fn run(arguments: &Arguments, client: &Client, form: Form) -> Result<(), Failure> {
    if let Some(name) = &arguments.name {
        let user: UserView = client.get(&format!("/v1/users/{}", escaped(name)))?;
        return print(&user, form, one);
    }
    let (first, count) = (arguments.first, arguments.count);
    let users: Vec<UserView> = client.get(&format!("/v1/users?first={first}&count={count}"))?;
    print(&users, form, |users| many(users))
}

fn many(users: &[UserView]) -> String {
    let mut table = Table::new(&["user", "worker", "slot", "found by", "tags"], 5);
    for user in users {
        table.row([
            user.name.clone(),
            user.worker.to_string(),
            user.slot.to_string(),
            user.keys.join(", "),
            tags(user),
        ]);
    }
    if table.is_empty() { "no users\n".to_owned() } else { table.text() }
}

fn one(user: &UserView) -> String {
    let UserView { name, slot, worker, .. } = user;
    let mut text = format!("user {name}: worker {worker}, slot {slot}\n");
    text.push_str(&format!("found by  {}\n", user.keys.join(", ")));
    text.push_str(&format!("tags      {}\n", tags(user)));
    if !user.contexts.is_empty() {
        let mut table = Table::new(&["function", "value", "now"], 2);
        for ContextView { function, values } in &user.contexts {
            for (value, now) in values {
                table.row([function.clone(), value.clone(), now.to_string()]);
            }
        }
        text.push('\n');
        text.push_str(&table.text());
    }
    text
}

fn tags(user: &UserView) -> String {
    let tags = user.tags.iter().map(|(name, value)| format!("{name}={value}"));
    tags.collect::<Vec<_>>().join(" ")
}
