//! Plans: no user is lost, nothing is asked for more than it has, and no node more is
//! used than needed.

use std::path::Path;

use proptest::prelude::*;
use weft_model::Model;
use weft_model::plan::{Placement, Plan, Request};

fn model(headroom: f64, nodes: u32, cores: u32, users: [u32; 2]) -> Model {
    let [phones, homes] = users;
    let text = format!(
        "\
apiVersion: weft/v1
kind: Model
metadata: {{name: city}}
hardware: {{cpu: {{frequency: 2 GHz, cores: {cores}}}, nic: {{lineRate: 10 Gbit/s}}}}
costs: {{cpu: {{receive: 50, transmit: 50}}, functions: {{count: 100, police: 300}}}}
size: 500
chains:
  - {{name: full, functions: [count, police]}}
  - {{name: plain, functions: [count]}}
plan:
  headroom: {headroom}
  nodes: [{{name: edge, count: {nodes}}}]
  demand:
    - {{name: phones, users: {phones}, first: 10.0.0.0, rate: 400 kbit/s, chain: full}}
    - {{name: homes, users: {homes}, rate: 4 Mbit/s, chain: plain}}
"
    );
    Model::read(&text, "city.yaml", Path::new(".")).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

fn request(model: &Model) -> Request {
    model.plan.clone().expect("the model has a plan")
}

fn placed(plan: &Plan, name: &str) -> u32 {
    let blocks = plan.nodes.iter().flat_map(|node| &node.blocks);
    blocks.filter(|block| block.name == name).map(|block| block.users).sum()
}

fn left(plan: &Plan, name: &str) -> u32 {
    plan.left.iter().filter(|left| left.name == name).map(|left| left.users).sum()
}

#[test]
fn nodes_are_filled_one_after_the_other() {
    // 100 packets per second and user of 500 cycles: 40,000 users fill a core, so
    // 160,000 fill four; the line carries 24,000 Mbit/s, so no users.
    let model = model(0.0, 3, 4, [20_000, 1]);
    let plan = request(&model).plan(&model.scenario).unwrap();
    assert_eq!(plan.used(), 1);
    assert_eq!((plan.nodes[0].workers, plan.nodes[0].cores), (1, 4));
    let first = plan.nodes[0].blocks[0].first.unwrap();
    assert_eq!(first.to_string(), "10.0.0.0");
}

#[test]
fn what_has_no_room_is_told_with_the_nodes_it_would_take() {
    // 10 Gbit/s of line, 500 + 20 bytes a frame: 24,038 users of 416 kbit/s.
    let model = model(0.0, 1, 4, [60_000, 1]);
    let plan = request(&model).plan(&model.scenario).unwrap();
    assert_eq!(placed(&plan, "phones"), 24_038);
    assert_eq!(left(&plan, "phones"), 60_000 - 24_038);
    assert_eq!(plan.further, Some(2));
    assert_eq!(plan.nodes[0].busiest().unwrap().0, "NIC line rate");
}

#[test]
fn a_user_that_no_node_can_carry_is_told() {
    let mut model = model(0.5, 1, 1, [1, 1]);
    let mut request = request(&model);
    request.demand[0].rate = 1e12;
    model.plan = None;
    let plan = request.plan(&model.scenario).unwrap();
    assert_eq!((left(&plan, "phones"), plan.further), (1, None));
}

#[test]
fn the_yaml_has_blocks_whose_addresses_follow_each_other() {
    let model = model(0.2, 4, 4, [50_000, 100]);
    let plan = request(&model).plan(&model.scenario).unwrap();
    let value: serde_json::Value = serde_yaml_ng::from_str(&plan.to_string()).unwrap();
    assert_eq!(value["kind"], "Plan");
    let mut next = 10 << 24;
    for node in value["nodes"].as_array().unwrap() {
        assert!(node["workers"]["count"].as_u64().unwrap() >= 1);
        for block in node["users"].as_array().unwrap() {
            if block["name"] == "phones" {
                let first: std::net::Ipv4Addr =
                    block["match"]["ipv4"].as_str().unwrap().parse().unwrap();
                assert_eq!(u64::from(first.to_bits()), next);
                next += block["count"].as_u64().unwrap();
            }
        }
    }
    assert_eq!(next, (10 << 24) + 50_000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn everybody_is_placed_once_or_left_and_nothing_is_overdrawn(
        headroom in 0.0..0.6_f64,
        nodes in 1..6_u32,
        cores in 1..8_u32,
        phones in 1..200_000_u32,
        homes in 1..20_000_u32,
        spread: bool,
    ) {
        let model = model(headroom, nodes, cores, [phones, homes]);
        let placement = if spread { Placement::Spread } else { Placement::Pack };
        let plan = Request { placement, ..request(&model) }.plan(&model.scenario).unwrap();
        for (name, users) in [("phones", phones), ("homes", homes)] {
            prop_assert_eq!(placed(&plan, name) + left(&plan, name), users);
        }
        for node in &plan.nodes {
            prop_assert!(node.workers <= node.cores);
            for (component, share) in &node.utilisation {
                prop_assert!(*share <= 1.0 - headroom + 1e-6, "{component}: {share}");
            }
            // A core less would be asked for more than it has.
            if node.workers > 1 {
                let (_, cpu) = node.utilisation.iter().find(|(name, _)| name == "worker cores").unwrap();
                let less = cpu * node.workers as f64 / (node.workers - 1) as f64;
                prop_assert!(less > 1.0 - headroom - 1e-6, "{less}");
            }
        }
        if !plan.left.is_empty() {
            // No node has room for one more of those that are left.
            prop_assert!(plan.nodes.iter().all(|node| node.busiest().is_some()));
            prop_assert!(plan.further.is_none_or(|further| further > 0));
        } else {
            prop_assert_eq!(plan.further, Some(0));
        }
    }

    #[test]
    fn spread_nodes_are_loaded_alike(phones in 1_000..60_000_u32, homes in 100..2_000_u32) {
        let model = model(0.1, 4, 8, [phones, homes]);
        let request = Request { placement: Placement::Spread, ..request(&model) };
        let plan = request.plan(&model.scenario).unwrap();
        if plan.left.is_empty() {
            let rates: Vec<f64> = plan.nodes.iter().map(|node| node.rate).collect();
            let (least, most) = rates.iter().fold((f64::MAX, 0.0_f64), |(least, most), &rate| {
                (least.min(rate), most.max(rate))
            });
            // But for a user of each kind.
            prop_assert!(most - least <= 2.0 * (100.0 + 1000.0) + 1e-6, "{rates:?}");
        }
    }
}
