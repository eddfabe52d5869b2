//! Which stations hand users to which others, so that none carries far more than another.
//!
//! A user who moves costs something, and loads go up and down by themselves. So loads are
//! smoothed, users move only where one station is the fullest for long, by more than the operator
//! tolerates, half of what would make two stations equal goes at a time, and nothing moves until that
//! is seen in the loads. If it did not help, or users would go back to where they came from, loads
//! go to and fro by themselves: from then on they are smoothed for twice as long.

use std::collections::BTreeMap;
use std::time::Duration;

/// How users are spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Time over which loads are smoothed.
    pub over: Duration,
    /// How much loads may differ, as a share of what a station can carry.
    pub tolerance: f64,
    /// Users that move at a time, at most.
    pub users: usize,
}

/// A station that can take users.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Station<K> {
    /// What it is known by.
    pub key: K,
    /// Users that it has.
    pub users: usize,
    /// What it carries, as a share of what it can.
    pub load: f64,
    /// What it can carry, beside others: positive.
    pub capacity: f64,
}

/// Users who go from one station to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shift<K> {
    /// Where they are.
    pub from: K,
    /// Where they go.
    pub to: K,
    /// How many.
    pub users: usize,
}

/// What part of the difference goes at a time, unless an operator asks for all of it.
const PART: f64 = 0.5;
/// For so many times the smoothing stations must differ, and nothing moves after a move: what goes to
/// and fro in less is seen to do so.
const SETTLE: u32 = 3;
/// Moves have helped if stations differ by less than this part of what they did.
const HELP: f64 = 0.9;
/// Moves that do not help are in vain after so many. Loads change meanwhile, too.
const TIMES: u32 = 4;
/// Users who go back within so many times the smoothing went in vain.
const REGRET: u32 = 60;
/// How often the time over which loads are smoothed doubles at most.
const DOUBLINGS: u32 = 6;

/// Levels stations: from the fullest that has users to the emptiest, again and again until they
/// differ by no more than `tolerance`, or so many users have gone. `part` of what would make two
/// of them equal goes at a time. Each of a station's users is taken to be an equal part of its
/// load. `stations` are afterwards as they should be then.
pub fn level<K: Copy + Ord>(
    stations: &mut [Station<K>],
    tolerance: f64,
    part: f64,
    most: usize,
) -> Vec<Shift<K>> {
    let mut shifts: BTreeMap<(K, K), usize> = BTreeMap::new();
    let mut left = most;
    for _ in 0..4 * stations.len() {
        let Some((from, to, users)) = next(stations, tolerance, part, left) else { break };
        let cost = stations[from].load / stations[from].users as f64;
        let there = cost * stations[from].capacity / stations[to].capacity;
        stations[from].users -= users;
        stations[from].load -= cost * users as f64;
        stations[to].users += users;
        stations[to].load += there * users as f64;
        *shifts.entry((stations[from].key, stations[to].key)).or_default() += users;
        left -= users;
    }
    shifts.into_iter().map(|((from, to), users)| Shift { from, to, users }).collect()
}

fn next<K>(
    stations: &[Station<K>],
    tolerance: f64,
    part: f64,
    most: usize,
) -> Option<(usize, usize, usize)> {
    let by_load = |a: &usize, b: &usize| stations[*a].load.total_cmp(&stations[*b].load);
    let from = (0..stations.len()).filter(|at| stations[*at].users > 0).max_by(by_load)?;
    let to = (0..stations.len()).min_by(by_load)?;
    let difference = stations[from].load - stations[to].load;
    if difference.is_nan() || difference <= tolerance {
        return None;
    }
    let cost = stations[from].load / stations[from].users as f64;
    let both = cost * (1.0 + stations[from].capacity / stations[to].capacity);
    // A float that is too large becomes the largest number.
    let users = ((difference * part / both) as usize).min(stations[from].users).min(most);
    (users > 0).then_some((from, to, users))
}

/// Decides when users move, and how many.
#[derive(Debug)]
pub struct Balance<K> {
    smoothed: BTreeMap<K, Smoothed>,
    /// Nothing moves before.
    rest: Duration,
    /// What stations differed by when users began to move, how often some have moved since then
    /// without that it became less, and when they did so last.
    effort: Option<(f64, u32, Duration)>,
    /// Users that have moved, and when.
    moved: BTreeMap<(K, K), Duration>,
    /// How often it was in vain, and when it was so last.
    vain: u32,
    last_vain: Duration,
    /// The fullest station and the emptiest, and since when these have differed too much.
    apart: Option<(K, K, Duration)>,
}

#[derive(Clone, Copy, Debug)]
struct Smoothed {
    load: f64,
    since: Duration,
    at: Duration,
}

impl<K> Default for Balance<K> {
    fn default() -> Balance<K> {
        Balance {
            smoothed: BTreeMap::new(),
            rest: Duration::ZERO,
            effort: None,
            moved: BTreeMap::new(),
            vain: 0,
            last_vain: Duration::ZERO,
            apart: None,
        }
    }
}

impl<K: Copy + Ord> Balance<K> {
    /// Looks at all stations that can take users and whose loads are known. Returns the users
    /// who are to move now; there are none while others move (`are_moving`).
    pub fn look(
        &mut self,
        now: Duration,
        stations: &[Station<K>],
        settings: &Settings,
        are_moving: bool,
    ) -> Vec<Shift<K>> {
        if now.saturating_sub(self.last_vain) > self.over(settings) * REGRET {
            self.vain = self.vain.saturating_sub(1);
            self.last_vain = now;
        }
        let over = self.over(settings);
        self.smooth(now, stations, over);
        let is_known = |station: &&Station<K>| {
            now.saturating_sub(self.smoothed[&station.key].since) >= settings.over
        };
        let smooth =
            |station: &Station<K>| Station { load: self.smoothed[&station.key].load, ..*station };
        let mut known: Vec<_> = stations.iter().filter(is_known).map(smooth).collect();
        let apart = self.apart(now, &known, settings.tolerance);
        if are_moving || now < self.rest || apart < over * SETTLE {
            return Vec::new();
        }
        let before = difference(&known);
        let shifts = level(&mut known, settings.tolerance, PART, settings.users);
        if shifts.is_empty() {
            return shifts;
        }
        let is_recent = |at: Duration| now.saturating_sub(at) < over * REGRET;
        self.moved.retain(|_, at| is_recent(*at));
        let go_back = shifts.iter().any(|shift| self.moved.contains_key(&(shift.to, shift.from)));
        let effort = self.effort.filter(|(begun, _, at)| is_recent(*at) && before > HELP * begun);
        if go_back || effort.is_some_and(|(_, times, _)| times >= TIMES) {
            self.moved.clear();
            self.effort = None;
            self.vain = (self.vain + 1).min(DOUBLINGS);
            self.last_vain = now;
            self.rest = now + self.over(settings) * SETTLE;
            return Vec::new();
        }
        self.moved.extend(shifts.iter().map(|shift| ((shift.from, shift.to), now)));
        self.effort =
            Some(effort.map_or((before, 1, now), |(begun, times, _)| (begun, times + 1, now)));
        // Until then the smoothed loads are those of after the move.
        self.rest = now + over * SETTLE;
        shifts
    }

    /// The time over which loads are smoothed: the longer, the more often it was in vain.
    fn over(&self, settings: &Settings) -> Duration {
        settings.over * 2_u32.pow(self.vain)
    }

    /// For how long the fullest station and the emptiest have been these and too far apart.
    fn apart(&mut self, now: Duration, known: &[Station<K>], tolerance: f64) -> Duration {
        let by_load = |a: &&Station<K>, b: &&Station<K>| a.load.total_cmp(&b.load);
        let most = known.iter().max_by(by_load);
        let least = known.iter().min_by(by_load);
        let is_far =
            |(most, least): &(&Station<K>, &Station<K>)| most.load - least.load > tolerance;
        let keys = most.zip(least).filter(is_far).map(|(most, least)| (most.key, least.key));
        self.apart = keys.map(|(most, least)| match self.apart {
            Some((before_most, before_least, since))
                if (before_most, before_least) == (most, least) =>
            {
                (most, least, since)
            }
            _ => (most, least, now),
        });
        self.apart.map_or(Duration::ZERO, |(_, _, since)| now.saturating_sub(since))
    }

    fn smooth(&mut self, now: Duration, stations: &[Station<K>], over: Duration) {
        self.smoothed.retain(|key, _| stations.iter().any(|station| station.key == *key));
        for Station { key, load, .. } in stations {
            let load = if load.is_finite() { load.clamp(0.0, 1e6) } else { 0.0 };
            let begin = Smoothed { load, since: now, at: now };
            let known = self.smoothed.entry(*key).or_insert(begin);
            let passed = now.saturating_sub(known.at).as_secs_f64();
            let part = 1.0 - (-passed / over.as_secs_f64().max(1e-9)).exp();
            known.load += (load - known.load) * part;
            known.at = now;
        }
    }
}

fn difference<K>(stations: &[Station<K>]) -> f64 {
    let loads = || stations.iter().map(|station| station.load);
    loads().fold(0.0, f64::max) - loads().fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use std::f64::consts::TAU;

    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const OVER: Duration = Duration::from_secs(60);
    const DAY: u64 = 24 * 3600;
    const SETTINGS: Settings = Settings { over: OVER, tolerance: 0.1, users: 100 };

    fn station(key: u32, users: usize, load: f64) -> Station<u32> {
        Station { key, users, load, capacity: 1.0 }
    }

    #[test]
    fn stations_are_levelled_by_what_they_can_carry() {
        let mut stations = [station(1, 100, 0.8), station(2, 0, 0.0)];
        let shifts = level(&mut stations, 0.0, 1.0, 1000);
        assert_eq!(shifts, [Shift { from: 1, to: 2, users: 50 }]);
        // One of three times the size takes three quarters.
        let mut stations = [station(1, 100, 0.8), Station { capacity: 3.0, ..station(2, 0, 0.0) }];
        assert_eq!(level(&mut stations, 0.01, 1.0, 1000)[0].users, 75);
        assert!((stations[0].load - 0.2).abs() < 1e-9 && (stations[1].load - 0.2).abs() < 1e-9);
        // What is tolerated stays, and the bound is kept.
        assert_eq!(level(&mut [station(1, 9, 0.5), station(2, 9, 0.4)], 0.1, 1.0, 9), []);
        let bounded = level(&mut [station(1, 100, 0.8), station(2, 0, 0.0)], 0.1, 1.0, 7);
        assert_eq!(bounded[0].users, 7);
        // One that is full of something else has no users to give.
        let mut stations = [station(1, 0, 0.9), station(2, 10, 0.5), station(3, 0, 0.0)];
        assert_eq!(level(&mut stations, 0.1, 1.0, 9), [Shift { from: 2, to: 3, users: 5 }]);
    }

    fn any_station() -> impl Strategy<Value = (usize, f64, f64)> {
        let loads = [0.0, -0.0, 1e-300, 0.5, 1.0, 1e300, f64::INFINITY, f64::NAN, -1.0];
        (0..4_usize, proptest::sample::select(loads.to_vec()), -9..12_i32)
            .prop_map(|(users, load, ten)| (users * 100, load, 10_f64.powi(ten)))
    }

    proptest! {
        /// Whatever stations say, users are neither made nor lost, and none go in a circle.
        #[test]
        fn strange_loads_do_no_harm(
            looks in proptest::collection::vec(proptest::collection::vec(any_station(), 0..5), 1..20),
        ) {
            let mut balance = Balance::default();
            for (round, look) in looks.into_iter().enumerate() {
                let one = |(key, (users, load, capacity))| Station { key, users, load, capacity };
                let mut stations: Vec<_> = (0_u32..).zip(look).map(one).collect();
                let sum = |stations: &[Station<u32>]| -> usize {
                    stations.iter().map(|one| one.users).sum()
                };
                let before = sum(&stations);
                balance.look(60 * u32::try_from(round).unwrap() * SECOND, &stations, &SETTINGS, false);
                let shifts = level(&mut stations, 0.1, 1.0, 1000);
                prop_assert_eq!(sum(&stations), before);
                prop_assert!(shifts.iter().all(|shift| shift.from != shift.to));
                prop_assert!(shifts.iter().map(|shift| shift.users).sum::<usize>() <= 1000);
            }
        }
    }

    /// A site whose users cost what `cost` says of a station and a second.
    struct Site {
        users: Vec<usize>,
        balance: Balance<u32>,
        moved: usize,
        looks: usize,
        /// Sum over time of the fullest station's load.
        fullest: f64,
    }

    impl Site {
        fn new(users: &[usize]) -> Site {
            let (users, balance) = (users.to_vec(), Balance::default());
            Site { users, balance, moved: 0, looks: 0, fullest: 0.0 }
        }

        fn run(&mut self, seconds: u64, cost: impl Fn(usize, f64) -> f64) {
            for second in (0..seconds).step_by(6) {
                let load = |at: usize, users: usize| users as f64 * cost(at, second as f64);
                let stations = self.users.iter().enumerate();
                let stations: Vec<_> = stations
                    .map(|(at, users)| station(at as u32, *users, load(at, *users)))
                    .collect();
                self.fullest += stations.iter().map(|one| one.load).fold(0.0, f64::max);
                self.looks += 1;
                let now = Duration::from_secs(second);
                for Shift { from, to, users } in self.balance.look(now, &stations, &SETTINGS, false)
                {
                    self.users[from as usize] -= users;
                    self.users[to as usize] += users;
                    self.moved += users;
                }
            }
        }
    }

    #[test]
    fn a_station_that_joins_gets_users_and_then_nothing_moves() {
        let mut site = Site::new(&[900, 900, 0]);
        site.run(3600, |_, _| 0.001);
        let (most, least) = (site.users.iter().max().unwrap(), site.users.iter().min().unwrap());
        assert!(most - least <= 110, "{:?}", site.users);
        let moved = site.moved;
        assert!(moved <= 600, "{moved} users moved where 600 were enough");
        site.run(36_000, |_, _| 0.001);
        assert_eq!(site.moved, moved);
    }

    /// Load that goes to and fro between stations, in any time: the fullest station is not
    /// fuller than it is when nothing moves, and few users move.
    #[test]
    fn load_that_oscillates_is_not_made_worse() {
        for period in
            [12.0, 60.0, 240.0, 600.0, 1200.0, 3600.0, 7200.0, 20_000.0, 40_000.0, 86_400.0]
        {
            let cost = |at: usize, second: f64| {
                let turn = if at == 0 { 1.0 } else { -1.0 };
                0.0005 * (1.0 + 0.8 * turn * (TAU * second / period).sin())
            };
            let still = |second: u64| {
                let load = |at: usize| 1000.0 * cost(at, second as f64);
                load(0).max(load(1))
            };
            let without = (0..DAY).step_by(6).map(still).sum::<f64>();
            let mut site = Site::new(&[1000, 1000]);
            site.run(DAY, cost);
            let (with, without) = (site.fullest / site.looks as f64, without / site.looks as f64);
            assert!(with <= without + 0.01, "period {period}: {with:.3}, still {without:.3}");
            // Each of the users once in a day at most.
            assert!(site.moved < 2000, "period {period}: {} moved", site.moved);
        }
    }

    /// One user is the whole load: it makes no difference where others are, and that is found.
    #[test]
    fn moves_that_do_not_help_become_rare() {
        let mut balance = Balance::default();
        let mut moves = 0;
        for second in (0..DAY).step_by(6) {
            let stations = [station(1, 1000, 0.9), station(2, 1000, 0.1)];
            let now = Duration::from_secs(second);
            moves += usize::from(!balance.look(now, &stations, &SETTINGS, false).is_empty());
        }
        assert!((1..=30).contains(&moves), "{moves} times in a day");
    }

    #[test]
    fn nothing_moves_before_loads_are_known_nor_while_users_move() {
        let stations = [station(1, 1000, 0.9), station(2, 0, 0.0)];
        let mut balance = Balance::default();
        for second in 0..60 {
            let now = Duration::from_secs(second);
            assert_eq!(balance.look(now, &stations, &SETTINGS, false), []);
        }
        let minute = Duration::from_secs(60);
        for since in 0..180 {
            let now = minute + since * SECOND;
            assert_eq!(balance.look(now, &stations, &SETTINGS, false), []);
        }
        assert_eq!(balance.look(4 * minute, &stations, &SETTINGS, true), []);
        let shifts = balance.look(4 * minute, &stations, &SETTINGS, false);
        assert_eq!(shifts, [Shift { from: 1, to: 2, users: 100 }]);
        assert_eq!(balance.look(4 * minute, &stations, &SETTINGS, false), []);
    }
}
