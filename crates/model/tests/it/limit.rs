//! What holds of every limit.

use proptest::prelude::*;
use weft_model::System;
use weft_model::graph::{Charge, Class, Kind, Part};

const COMPONENTS: usize = 4;

prop_compose! {
    fn class()(
        share in 0.01..10.0_f64,
        costs in prop::collection::vec(prop_oneof![Just(0.0), 0.1..1e4_f64], COMPONENTS),
    ) -> Class {
        let charge = |(component, cost)| Charge { component, what: format!("step {component}"), cost };
        Class { name: String::new(), share, charges: costs.into_iter().enumerate().map(charge).collect() }
    }
}

prop_compose! {
    fn system(most: usize)(
        capacities in prop::collection::vec(1.0..1e11_f64, COMPONENTS),
        classes in prop::collection::vec(class(), 1..=most),
    ) -> System {
        let mut system = System::default();
        let parts = [Part::NicLine, Part::Bus, Part::WorkerCores, Part::Memory];
        for (part, capacity) in parts.into_iter().zip(capacities) {
            system.component(format!("{part:?}"), part, Kind::Bits, capacity);
        }
        system.classes = classes;
        // Something costs something.
        system.classes[0].charges[0].cost += 1.0;
        system
    }
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn it_is_feasible_and_nothing_more_is(system in system(4)) {
        let limit = system.limit();
        prop_assert!(limit.rate.is_finite() && !limit.bottleneck.is_empty());
        for (index, component) in system.components.iter().enumerate() {
            let asked = limit.rate * system.cost(index);
            prop_assert!(asked <= component.capacity * (1.0 + 1e-9));
            if limit.bottleneck.contains(&index) {
                prop_assert!(close(asked, component.capacity));
                prop_assert!(close(limit.loads[index].utilisation, 1.0));
            }
        }
    }

    #[test]
    fn it_grows_with_capacity(system in system(4), part in 0..COMPONENTS, factor in 1.0..10.0_f64) {
        let more = system.with_capacity(system.components[part].part, factor);
        prop_assert!(more.limit().rate >= system.limit().rate * (1.0 - 1e-12));
    }

    #[test]
    fn it_scales(system in system(4), factor in 0.01..100.0_f64) {
        let mut scaled = system.clone();
        scaled.components.iter_mut().for_each(|component| component.capacity *= factor);
        prop_assert!(close(scaled.limit().rate, system.limit().rate * factor));
        prop_assert_eq!(scaled.limit().bottleneck, system.limit().bottleneck);
    }

    #[test]
    fn only_the_proportion_of_shares_counts(system in system(4), factor in 0.01..100.0_f64) {
        let mut scaled = system.clone();
        scaled.classes.iter_mut().for_each(|class| class.share *= factor);
        prop_assert!(close(scaled.limit().rate, system.limit().rate));
    }

    #[test]
    fn a_class_in_two_halves_is_the_same(system in system(3), part in 0.01..0.99_f64) {
        let mut halves = system.clone();
        let mut other = halves.classes[0].clone();
        other.share *= part;
        halves.classes[0].share *= 1.0 - part;
        halves.classes.push(other);
        prop_assert!(close(halves.limit().rate, system.limit().rate));
    }

    #[test]
    fn a_mix_lies_between_its_classes(system in system(4)) {
        let alone = system.classes.iter().map(|class| {
            let mut alone = system.clone();
            alone.classes = vec![class.clone()];
            alone.limit().rate
        });
        let (least, most) = alone.fold((f64::INFINITY, 0.0_f64), |(least, most), rate| {
            (least.min(rate), most.max(rate))
        });
        let rate = system.limit().rate;
        prop_assert!(rate >= least * (1.0 - 1e-9));
        // Where all classes have one bottleneck, no mix is better than the best.
        let bottlenecks = system.classes.iter().map(|class| {
            let mut alone = system.clone();
            alone.classes = vec![class.clone()];
            alone.limit().bottleneck
        });
        let bottlenecks: Vec<_> = bottlenecks.collect();
        if bottlenecks.windows(2).all(|pair| pair[0] == pair[1]) {
            prop_assert!(rate <= most * (1.0 + 1e-9));
        }
    }

    #[test]
    fn one_class_has_it_as_its_maximum_flow(system in system(1)) {
        prop_assert!(close(system.maximum_flow(), system.limit().rate));
    }

    #[test]
    fn no_mix_has_more_than_its_maximum_flow(system in system(4)) {
        prop_assert!(system.limit().rate <= system.maximum_flow() * (1.0 + 1e-9));
    }
}

#[test]
fn classes_with_different_costs_need_more_than_a_maximum_flow() {
    let mut system = System::default();
    system.component("core", Part::WorkerCores, Kind::Cycles, 1000.0);
    let class = |share, cost| Class {
        name: String::new(),
        share,
        charges: vec![Charge { component: 0, what: "work".to_owned(), cost }],
    };
    system.classes = vec![class(1.0, 10.0), class(1.0, 30.0)];
    // Packets of both in turn take 20 cycles each; the flow counts the cheap ones.
    assert_eq!(system.limit().rate, 50.0);
    assert_eq!(system.maximum_flow(), 100.0);
}
