//! Sets of numbers as sorted, disjoint intervals.

/// An unsigned number that intervals can be made of.
pub(crate) trait Number: Copy + Ord + std::hash::Hash + std::fmt::Debug {
    const ZERO: Self;
    const MAXIMUM: Self;
    /// The next number, `None` behind the largest.
    fn after(self) -> Option<Self>;
    /// The number before, `None` before 0.
    fn before(self) -> Option<Self>;
    /// The length of the prefix that holds all from this number to `last`, if there is one.
    fn prefix_length(self, last: Self) -> Option<u32>;
}

macro_rules! number {
    ($($type:ty),*) => {$(
        impl Number for $type {
            const ZERO: Self = 0;
            const MAXIMUM: Self = <$type>::MAX;
            fn after(self) -> Option<Self> {
                self.checked_add(1)
            }
            fn before(self) -> Option<Self> {
                self.checked_sub(1)
            }
            fn prefix_length(self, last: Self) -> Option<u32> {
                let length = (self ^ last).leading_zeros();
                let host = <$type>::MAX.checked_shr(length).unwrap_or(0);
                (self & host == 0 && last & host == host).then_some(length)
            }
        }
    )*};
}
number!(u32, u128);

/// A set of numbers: intervals with both ends included, sorted, with gaps between them.
///
/// One interval is by far the most common set and is kept without a pointer.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Intervals<T> {
    One([(T, T); 1]),
    Many(Box<[(T, T)]>),
}

impl<T: Number> Intervals<T> {
    pub(crate) fn empty() -> Self {
        Self::Many(Box::default())
    }

    pub(crate) fn full() -> Self {
        Self::One([(T::ZERO, T::MAXIMUM)])
    }

    /// All numbers from `low` to `high`; none if `low` is above `high`.
    pub(crate) fn range(low: T, high: T) -> Self {
        if low <= high { Self::One([(low, high)]) } else { Self::empty() }
    }

    pub(crate) fn as_slice(&self) -> &[(T, T)] {
        match self {
            Self::One(interval) => interval,
            Self::Many(intervals) => intervals,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        *self == Self::full()
    }

    /// The only number of the set, if it has one.
    pub(crate) fn single(&self) -> Option<T> {
        match self.as_slice() {
            &[(low, high)] if low == high => Some(low),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn contains(&self, number: T) -> bool {
        match self {
            Self::One([(low, high)]) => *low <= number && number <= *high,
            Self::Many(intervals) => {
                let behind = intervals.partition_point(|&(low, _)| low <= number);
                behind > 0 && number <= intervals[behind - 1].1
            }
        }
    }

    pub(crate) fn complement(&self) -> Self {
        let mut gaps = Vec::new();
        let mut low = Some(T::ZERO);
        for &(from, to) in self.as_slice() {
            if let (Some(low), Some(high)) = (low, from.before())
                && low <= high
            {
                gaps.push((low, high));
            }
            low = to.after();
        }
        if let Some(low) = low {
            gaps.push((low, T::MAXIMUM));
        }
        Self::of(gaps)
    }

    pub(crate) fn union(&self, other: &Self) -> Self {
        let mut intervals = [self.as_slice(), other.as_slice()].concat();
        intervals.sort_unstable();
        let mut merged: Vec<(T, T)> = Vec::with_capacity(intervals.len());
        for (low, high) in intervals {
            match merged.last_mut() {
                // Intervals that touch become one, so that equal sets look equal.
                Some(last) if last.1.after().is_none_or(|next| low <= next) => {
                    last.1 = last.1.max(high);
                }
                _ => merged.push((low, high)),
            }
        }
        Self::of(merged)
    }

    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let (a, b) = (self.as_slice(), other.as_slice());
        let (mut i, mut j) = (0, 0);
        let mut common = Vec::new();
        while i < a.len() && j < b.len() {
            let (low, high) = (a[i].0.max(b[j].0), a[i].1.min(b[j].1));
            if low <= high {
                common.push((low, high));
            }
            if a[i].1 < b[j].1 { i += 1 } else { j += 1 }
        }
        Self::of(common)
    }

    /// `intervals` are sorted and disjoint and do not touch.
    fn of(intervals: Vec<(T, T)>) -> Self {
        match intervals.as_slice() {
            &[only] => Self::One([only]),
            _ => Self::Many(intervals.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Numbers that matter: some neighbours at either end.
    fn numbers() -> impl Iterator<Item = u32> + Clone {
        (0..12).chain(u32::MAX - 12..=u32::MAX)
    }

    fn intervals() -> impl Strategy<Value = Intervals<u32>> {
        let ends: Vec<u32> = numbers().collect();
        let end = prop::sample::select(ends);
        prop::collection::vec((end.clone(), end), 0..6).prop_map(|pairs| {
            pairs.into_iter().fold(Intervals::empty(), |set, (a, b)| {
                set.union(&Intervals::range(a.min(b), a.max(b)))
            })
        })
    }

    /// Sorted, and with a gap between each two.
    fn is_canonical(set: &Intervals<u32>) -> bool {
        let slice = set.as_slice();
        slice.iter().all(|(low, high)| low <= high)
            && slice.windows(2).all(|pair| pair[0].1.after().is_some_and(|next| next < pair[1].0))
            && (slice.len() == 1) == matches!(set, Intervals::One(_))
    }

    proptest! {
        #[test]
        fn sets_are_what_they_are_called(a in intervals(), b in intervals()) {
            let (union, common, rest) = (a.union(&b), a.intersection(&b), a.complement());
            for set in [&union, &common, &rest] {
                prop_assert!(is_canonical(set), "{set:?}");
            }
            for number in numbers() {
                let (in_a, in_b) = (a.contains(number), b.contains(number));
                prop_assert_eq!(union.contains(number), in_a || in_b);
                prop_assert_eq!(common.contains(number), in_a && in_b);
                prop_assert_eq!(rest.contains(number), !in_a);
            }
            prop_assert_eq!(rest.complement(), a);
        }
    }

    #[test]
    fn ends_of_the_numbers() {
        assert!(Intervals::<u32>::empty().complement().is_full());
        assert!(Intervals::<u128>::full().complement().is_empty());
        assert_eq!(Intervals::range(3u32, 2), Intervals::empty());
        assert_eq!(Intervals::range(7u32, 7).single(), Some(7));
        assert_eq!(Intervals::range(7u32, 8).single(), None);
    }

    #[test]
    fn prefixes_are_recognised() {
        assert_eq!(0x0a00_0000u32.prefix_length(0x0aff_ffff), Some(8));
        assert_eq!(0x0a00_0000u32.prefix_length(0x0aff_fffe), None);
        assert_eq!(0x0a00_0001u32.prefix_length(0x0a00_0001), Some(32));
        assert_eq!(0x0a00_0001u32.prefix_length(0x0a00_0002), None);
        assert_eq!(0u128.prefix_length(u128::MAX), Some(0));
    }
}
