//! How workers are dealt out to fewer threads, by what they have carried.

/// The threads of `loads.len()` workers if so many of them run: the first ones keep their own
/// workers, and others go to the thread with the least to do, those with most to do first.
pub(crate) fn share(loads: &[u64], threads: usize) -> Vec<usize> {
    let mut assigned: Vec<_> = (0..loads.len()).collect();
    let mut sums = loads[..threads].to_vec();
    let mut parked: Vec<_> = (threads..loads.len()).collect();
    parked.sort_by_key(|worker| std::cmp::Reverse(loads[*worker]));
    // Without loads each thread gets as many.
    let mut counts = vec![1_usize; threads];
    for worker in parked {
        let least = (0..threads).min_by_key(|thread| (sums[*thread], counts[*thread]));
        let thread = least.unwrap_or_default();
        assigned[worker] = thread;
        sums[thread] += loads[worker];
        counts[thread] += 1;
    }
    assigned
}

/// Of the load of the busiest thread, one part in so many must be won by a move.
const WORTH: u64 = 8;

/// A parked worker that had better run at another thread, and that thread: only where the
/// busiest thread then has clearly less to do, and no thread more than that one had. `may_move`
/// says which workers may.
pub(crate) fn improve(
    loads: &[u64],
    assigned: &[usize],
    threads: usize,
    may_move: impl Fn(usize) -> bool,
) -> Option<(usize, usize)> {
    let mut sums = vec![0_u64; threads];
    for (load, thread) in loads.iter().zip(assigned) {
        sums[*thread] += load;
    }
    let busiest = (0..threads).max_by_key(|thread| sums[*thread])?;
    let least = (0..threads).min_by_key(|thread| sums[*thread])?;
    let after = |worker: usize| {
        (sums[busiest] - loads[worker]).max(sums[least].saturating_add(loads[worker]))
    };
    let parked = (threads..loads.len()).filter(|worker| assigned[*worker] == busiest);
    let best = parked.filter(|worker| may_move(*worker)).min_by_key(|worker| after(*worker))?;
    (after(best) < sums[busiest] - sums[busiest] / WORTH).then_some((best, least))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn busiest(loads: &[u64], assigned: &[usize], threads: usize) -> u64 {
        let sum = |thread| {
            let own = loads.iter().zip(assigned).filter(|(_, one)| **one == thread);
            own.map(|(load, _)| load).sum::<u64>()
        };
        (0..threads).map(sum).max().unwrap()
    }

    #[test]
    fn without_traffic_each_thread_has_as_many_workers() {
        assert_eq!(share(&[0; 8], 3), [0, 1, 2, 0, 1, 2, 0, 1]);
        assert_eq!(share(&[0; 4], 4), [0, 1, 2, 3]);
        assert_eq!(share(&[7, 7, 7], 1), [0, 0, 0]);
    }

    proptest! {
        #[test]
        fn threads_keep_their_workers_and_none_is_idle_beside_a_busy_one(
            loads in prop::collection::vec(0_u64..1000, 1..32),
            threads in 1_usize..32,
        ) {
            let threads = threads.min(loads.len());
            let assigned = share(&loads, threads);
            for (worker, thread) in assigned.iter().enumerate() {
                prop_assert!(*thread < threads);
                prop_assert!(worker >= threads || *thread == worker);
            }
            // No better than that is possible by one worker that goes to the least busy thread.
            let own = loads[..threads].iter().max().unwrap();
            let fair = loads.iter().sum::<u64>().div_ceil(threads as u64);
            let largest = loads[threads..].iter().max().copied().unwrap_or(0);
            prop_assert!(busiest(&loads, &assigned, threads) <= (*own).max(fair + largest));
        }

        #[test]
        fn moves_come_to_an_end_and_each_makes_the_busiest_thread_less_busy(
            loads in prop::collection::vec(0_u64..1000, 1..32),
            places in prop::collection::vec(0_usize..32, 32),
            threads in 1_usize..32,
        ) {
            let threads = threads.min(loads.len());
            let place = |worker: usize| if worker < threads { worker } else { places[worker] % threads };
            let mut assigned: Vec<_> = (0..loads.len()).map(place).collect();
            let mut moves = 0;
            while let Some((worker, thread)) = improve(&loads, &assigned, threads, |_| true) {
                let before = busiest(&loads, &assigned, threads);
                prop_assert!(assigned[worker] != thread);
                assigned[worker] = thread;
                prop_assert!(busiest(&loads, &assigned, threads) <= before);
                moves += 1;
                prop_assert!(moves <= loads.len() * loads.len());
            }
            prop_assert_eq!(improve(&loads, &assigned, threads, |_| false), None);
        }
    }
}
