//! Whose turn it is.

/// Users in turn, those with a larger weight more often. One round holds as
/// many turns of a user as its weight says, evenly spread over the round.
#[derive(Debug)]
pub(crate) struct Order {
    round: Vec<u32>,
    next: usize,
}

impl Order {
    /// The order of users with these weights; a user with weight 0 has no turn.
    pub fn new(weights: &[u32]) -> Order {
        let turns = (0_u32..).zip(weights).flat_map(|(user, &weight)| {
            // The middles of `weight` equal parts of the round.
            let middle = move |turn| (f64::from(turn) + 0.5) / f64::from(weight);
            (0..weight).map(move |turn| (middle(turn), user))
        });
        let mut turns: Vec<(f64, u32)> = turns.collect();
        turns.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        Order { round: turns.into_iter().map(|(_, user)| user).collect(), next: 0 }
    }

    /// Whether nobody ever has a turn.
    pub fn is_empty(&self) -> bool {
        self.round.is_empty()
    }

    /// The user whose turn it is.
    ///
    /// # Panics
    /// When nobody ever has a turn.
    #[inline]
    pub fn turn(&mut self) -> u32 {
        let user = self.round[self.next];
        self.next = if self.next + 1 == self.round.len() { 0 } else { self.next + 1 };
        user
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(weights: &[u32], count: usize) -> Vec<u32> {
        let mut order = Order::new(weights);
        (0..count).map(|_| order.turn()).collect()
    }

    #[test]
    fn equal_users_take_turns() {
        assert_eq!(turns(&[1; 4], 9), [0, 1, 2, 3, 0, 1, 2, 3, 0]);
        assert_eq!(turns(&[2; 2], 5), [0, 1, 0, 1, 0]);
    }

    #[test]
    fn heavier_users_come_more_often_and_evenly() {
        assert_eq!(turns(&[1, 4, 1], 6), [1, 1, 0, 2, 1, 1]);
        let turns = turns(&[1, 5, 1, 0, 3], 100);
        let of = |user| turns.iter().filter(|turn| **turn == user).count();
        assert_eq!([of(0), of(1), of(2), of(3), of(4)], [10, 50, 10, 0, 30]);
    }

    #[test]
    fn without_weight_there_is_no_turn() {
        assert!(Order::new(&[]).is_empty() && Order::new(&[0, 0]).is_empty());
    }
}
