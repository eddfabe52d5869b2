//! The limit as a maximum flow, as Bauer et al., §V compute it.

use petgraph::algo::dinics;
use petgraph::graph::{DiGraph, NodeIndex};

use crate::graph::System;

impl System {
    /// The maximum flow from the start to the end of the graph, in packets per
    /// second. A component becomes two vertices and an edge between them that
    /// carries its capacity divided by what a packet costs there.
    ///
    /// It equals the rate of [`System::limit`] where there is one class of traffic.
    /// Where classes with different costs share a component, no single number of
    /// packets per second says what it carries: here the cheapest class counts, and
    /// a flow is free to leave dear ways alone, so the flow is an upper bound.
    /// Infinite where a way has no cost at all.
    pub fn maximum_flow(&self) -> f64 {
        let mut graph = DiGraph::<(), f64>::new();
        let (start, end) = (graph.add_node(()), graph.add_node(()));
        let vertices = self.vertices(&mut graph);
        // More than can ever flow, and still a number to reckon with.
        let plenty: f64 = 1.0 + graph.edge_weights().sum::<f64>();
        for class in self.classes.iter().filter(|class| class.share > 0.0) {
            let mut from = start;
            for (entry, exit) in class.way().into_iter().filter_map(|index| vertices[index]) {
                graph.update_edge(from, entry, plenty);
                from = exit;
            }
            if from == start {
                return f64::INFINITY;
            }
            graph.update_edge(from, end, plenty);
        }
        dinics(&graph, start, end).0
    }

    /// Two vertices for each component that costs anything.
    fn vertices(&self, graph: &mut DiGraph<(), f64>) -> Vec<Option<(NodeIndex, NodeIndex)>> {
        let vertices = self.components.iter().enumerate().map(|(index, component)| {
            let classes = self.classes.iter().filter(|class| class.share > 0.0);
            let costs = classes.map(|class| class.cost(index)).filter(|cost| *cost > 0.0);
            let cheapest = costs.reduce(f64::min)?;
            let (entry, exit) = (graph.add_node(()), graph.add_node(()));
            graph.add_edge(entry, exit, component.capacity / cheapest);
            Some((entry, exit))
        });
        vertices.collect()
    }
}
