//! Tests that each store of records passes, and what can go wrong in etcd.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use etcd_client::AlarmOptions;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use weft_etcd::model::Model;
use weft_etcd::{
    Candidate, Carried, Election, Etcd, EtcdError, EtcdStore, Fence, Operation, Page, Range,
};
use weft_state::{Change, Kind, RecordStore, Records as _, StateError, Store};

use crate::site::{PREFIX, Site, open, owner};

const KINDS: [Kind; 2] = [Kind(1), Kind(300)];

/// A place where a store can be opened again and again.
trait Place {
    /// Opens it, after whatever had it has ended.
    fn open(&mut self) -> Box<dyn RecordStore>;
}

struct Folder(tempfile::TempDir);

impl Place for Folder {
    fn open(&mut self) -> Box<dyn RecordStore> {
        Box::new(Store::open(self.0.path(), &owner()).unwrap())
    }
}

struct InEtcd {
    site: Site,
    /// When the log is folded.
    limits: (usize, usize),
    leads: Option<weft_etcd::Leadership>,
}

impl Place for InEtcd {
    fn open(&mut self) -> Box<dyn RecordStore> {
        if let Some(leads) = self.leads.take() {
            leads.resign();
        }
        let leads = self.site.lead("a");
        self.leads = Some(leads.clone());
        Box::new(open(&leads).unwrap().with_limits(self.limits.0, self.limits.1))
    }
}

/// A transaction as it was asked for.
type Asked = (Vec<Fence>, Vec<Operation>);

/// The model of etcd, which answers at once, and the transactions that it was asked for.
#[derive(Clone, Default)]
struct Modelled(Arc<Mutex<Model>>, Arc<Mutex<Vec<Asked>>>);

impl Etcd for Modelled {
    fn prefix(&self) -> &str {
        PREFIX
    }

    fn transact(
        &self,
        fences: Vec<Fence>,
        operations: Vec<Operation>,
    ) -> Result<Carried, EtcdError> {
        self.1.lock().unwrap().push((fences.clone(), operations.clone()));
        self.0.lock().unwrap().transact(&fences, &operations)
    }

    fn range(&self, range: Range) -> Result<Page, EtcdError> {
        self.0.lock().unwrap().range(&range)
    }

    fn grant(&self, lasts: Duration) -> Result<(i64, Duration), EtcdError> {
        Ok((self.0.lock().unwrap().grant(lasts, Duration::ZERO)?, lasts))
    }

    fn renew(&self, lease: i64) -> Result<bool, EtcdError> {
        Ok(self.0.lock().unwrap().renew(lease, Duration::ZERO))
    }

    fn revoke(&self, lease: i64) {
        self.0.lock().unwrap().revoke(lease);
    }

    fn wait_for_change(&self, _: &str, _: u64, _: Duration) {}

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn sleep(&self, time: Duration) {
        thread::sleep(time);
    }

    fn begin(&self, _: Box<dyn FnOnce() + Send>) -> bool {
        true
    }
}

struct InModel {
    etcd: Modelled,
    limits: (usize, usize),
    leads: Option<weft_etcd::Leadership>,
}

impl Place for InModel {
    fn open(&mut self) -> Box<dyn RecordStore> {
        if let Some(leads) = self.leads.take() {
            leads.resign();
        }
        let candidate = Candidate { name: "a".to_owned(), address: String::new() };
        let etcd = Arc::new(self.etcd.clone());
        let election = Election::new(etcd, candidate, Duration::from_secs(3600));
        let leads = election.campaign(&AtomicBool::new(false), |_, _| {}).unwrap();
        self.leads = Some(leads.clone());
        // What a new leader needs is not history.
        let mut model = self.etcd.0.lock().unwrap();
        let revision = model.revision();
        model.compact(revision);
        drop(model);
        Box::new(open(&leads).unwrap().with_limits(self.limits.0, self.limits.1))
    }
}

/// Makes a place, if the machine has what it takes.
type MakePlace = Box<dyn FnOnce() -> Option<Box<dyn Place>>>;

fn places(limits: (usize, usize)) -> Vec<MakePlace> {
    let folder = || Some(Box::new(Folder(tempfile::tempdir().unwrap())) as Box<dyn Place>);
    let etcd = move || {
        let site = Site::start(1, &[])?;
        Some(Box::new(InEtcd { site, limits, leads: None }) as Box<dyn Place>)
    };
    let model = move || {
        Some(Box::new(InModel { etcd: Modelled::default(), limits, leads: None }) as Box<dyn Place>)
    };
    vec![Box::new(folder), Box::new(model), Box::new(etcd)]
}

type Records = BTreeMap<(u16, Vec<u8>), (u8, Vec<u8>)>;

fn all(store: &dyn RecordStore) -> Records {
    let mut all = Records::new();
    for kind in KINDS {
        let mut last = None;
        let mut each = |key: &[u8], version: u8, record: &[u8]| {
            assert!(last.replace(key.to_vec()).is_none_or(|last| last[..] < *key), "in order");
            all.insert((kind.0, key.to_vec()), (version, record.to_vec()));
            Ok(())
        };
        store.each_of(kind, &mut each).unwrap();
    }
    all
}

/// A change as a test knows it.
type Told = (bool, u64, Option<(u8, Vec<u8>)>);

fn change((other, number, record): &Told) -> Change {
    let (kind, key) = (KINDS[usize::from(*other)], number.to_be_bytes());
    match record {
        Some((version, record)) => Change::put(kind, &key, *version, record),
        None => Change::remove(kind, &key),
    }
}

fn apply((other, number, record): &Told, records: &mut Records) {
    let key = (KINDS[usize::from(*other)].0, number.to_be_bytes().to_vec());
    match record {
        Some(record) => drop(records.insert(key, record.clone())),
        None => drop(records.remove(&key)),
    }
}

fn told() -> impl Strategy<Value = Told> {
    let number = prop_oneof![0..3000_u64, any::<u64>()];
    let record = proptest::option::weighted(
        0.8,
        (any::<u8>(), proptest::collection::vec(any::<u8>(), 0..60)),
    );
    (any::<bool>(), number, record)
}

/// What was written is there, in each store, for the one that opens it next.
fn keeps_what_was_written(place: &mut dyn Place) {
    let mut records = Records::new();
    let mut runner =
        TestRunner::new(Config { cases: 12, failure_persistence: None, ..Config::default() });
    let lives = proptest::collection::vec(proptest::collection::vec(told(), 1..50), 1..6);
    let (place, known) = (std::cell::RefCell::new(place), std::cell::RefCell::new(&mut records));
    let case = |writes: Vec<Vec<Told>>| {
        let mut known = known.borrow_mut();
        let mut store = place.borrow_mut().open();
        prop_assert_eq!(&all(store.as_ref()), &**known);
        for write in writes {
            store.write(&write.iter().map(change).collect::<Vec<_>>()).unwrap();
            write.iter().for_each(|told| apply(told, &mut known));
            prop_assert_eq!(&all(store.as_ref()), &**known);
        }
        Ok(())
    };
    runner.run(&lives, case).unwrap();
}

#[test]
fn stores_keep_what_was_written() {
    for place in places((2000, 5)) {
        if let Some(mut place) = place() {
            keeps_what_was_written(place.as_mut());
        }
    }
}

/// More than etcd takes in one request, and many groups.
#[test]
fn much_can_be_written_at_once() {
    for place in places((1 << 20, 100)) {
        let Some(mut place) = place() else { continue };
        let mut known = Records::new();
        let many: Vec<Told> =
            (0..60_000).map(|number| (number % 2 == 0, number, Some((1, vec![7; 40])))).collect();
        let mut store = place.open();
        store.write(&many.iter().map(change).collect::<Vec<_>>()).unwrap();
        many.iter().for_each(|told| apply(told, &mut known));
        assert_eq!(all(store.as_ref()), known);
        drop(store);
        assert_eq!(all(place.open().as_ref()), known);
    }
}

fn put(number: u64, record: &[u8]) -> Change {
    Change::put(KINDS[0], &number.to_be_bytes(), 1, record)
}

/// One that no longer leads writes nothing, though it does not know that yet.
#[test]
fn a_deposed_leader_writes_nothing() {
    let Some(site) = Site::start(1, &[]) else { return };
    let old = site.lead("old");
    let mut olds = open(&old).unwrap();
    olds.write(&[put(1, b"before")]).unwrap();
    // As if its lease had ended while its machine stood still.
    site.meddle(async |mut client| {
        client.delete(format!("{PREFIX}leader"), None).await.unwrap();
    });
    let new = site.lead("new");
    assert!(new.term() > old.term());
    let mut news = open(&new).unwrap();
    news.write(&[put(2, b"by the new one")]).unwrap();
    assert!(!old.is_over());
    let error = olds.write(&[put(1, b"late"), put(3, b"late")]).unwrap_err();
    assert!(matches!(error, StateError::Deposed(_)), "{error}");
    assert!(old.is_over());
    let there = all(&news);
    assert_eq!(there.len(), 2);
    assert_eq!(there[&(1, 1_u64.to_be_bytes().to_vec())].1, b"before");
    news.write(&[put(4, b"and goes on")]).unwrap();
}

/// A leader has died between two parts of what it wrote at once: none of it is there.
#[test]
fn half_of_a_write_does_not_count() {
    let Some(site) = Site::start(1, &[]) else { return };
    let leads = site.lead("a");
    let mut store = open(&leads).unwrap();
    store.write(&[put(1, b"one")]).unwrap();
    let many: Vec<_> = (0..40_000).map(|number| put(number, &[9; 40])).collect();
    store.write(&many).unwrap();
    // Its last part.
    site.meddle(async |mut client| {
        let last = format!("{PREFIX}log/{:016x}", 4);
        assert_eq!(client.delete(last, None).await.unwrap().deleted(), 1);
    });
    leads.resign();
    let leads = site.lead("b");
    let mut store = open(&leads).unwrap();
    let known = Records::from([((1, 1_u64.to_be_bytes().to_vec()), (1, b"one".to_vec()))]);
    assert_eq!(all(&store), known);
    store.write(&[put(2, b"two")]).unwrap();
    leads.resign();
    assert_eq!(all(&open(&site.lead("c")).unwrap()).len(), 2);
}

#[test]
fn values_of_others_are_refused_in_one_line() {
    let Some(site) = Site::start(1, &[]) else { return };
    let leads = site.lead("a");
    let mut store = open(&leads).unwrap().with_limits(0, 0);
    store.write(&[put(1, b"one")]).unwrap();
    let group = format!("{PREFIX}group/0001/00000000000000");
    let written = std::sync::Mutex::new(Vec::new());
    site.meddle(async |mut client| {
        let mut answer = client.get(group.as_str(), None).await.unwrap();
        let value = answer.take_kvs().pop().expect("the group is there").into_key_value().1;
        *written.lock().unwrap() = value;
    });
    let whole = written.into_inner().unwrap();
    let mut bent = whole.clone();
    *bent.last_mut().unwrap() ^= 1;
    let mut newer = whole.clone();
    newer[5] = 2;
    let cases = [
        ("group/0001/00000000000000", b"hello".to_vec(), "this is not a value of Weft"),
        ("group/0001/00000000000000", bent, "its checksum is wrong"),
        (
            "group/0001/00000000000000",
            newer,
            "written in format 2, and this program reads format 1",
        ),
        ("log/0000000000000009", b"hello".to_vec(), "this is not a value of Weft"),
        ("log/what", whole.clone(), "its key is none"),
        ("identity", b"hello".to_vec(), "this is not a value of Weft"),
        ("identity", whole, "its checksum is wrong"),
    ];
    for (key, value, words) in cases {
        let key = format!("{PREFIX}{key}");
        let before = std::sync::Mutex::new(None);
        site.meddle(async |mut client| {
            let mut answer = client.get(key.as_str(), None).await.unwrap();
            *before.lock().unwrap() = answer.take_kvs().pop().map(|there| there.into_key_value().1);
            client.put(key.as_str(), value.clone(), None).await.unwrap();
        });
        let read = open(&leads).and_then(|store| {
            KINDS.iter().try_for_each(|kind| store.each_of(*kind, &mut |_, _, _| Ok(())))
        });
        let error = read.unwrap_err();
        assert!(matches!(error, StateError::Damaged { .. }), "{error}");
        let said = error.to_string();
        assert_eq!(said, format!("state etcd {key}: damaged: {words}"));
        let before = before.into_inner().unwrap();
        site.meddle(async |mut client| match before.clone() {
            Some(value) => drop(client.put(key.as_str(), value, None).await.unwrap()),
            None => drop(client.delete(key.as_str(), None).await.unwrap()),
        });
    }
    assert_eq!(all(&open(&leads).unwrap()).len(), 1);
    let other = weft_state::Owner { name: "other".to_owned(), ..owner() };
    let error = EtcdStore::open(leads, &other, Arc::default()).unwrap_err().to_string();
    assert!(error.ends_with("it is that of controller test, not of controller other"), "{error}");
}

/// The quota of etcd is used up: a write waits until there is room again, or it is told to stop.
#[test]
fn a_full_etcd_is_waited_for() {
    let Some(site) = Site::start(1, &["--quota-backend-bytes", "2000000"]) else { return };
    let leads = site.lead("a");
    let stop = Arc::new(AtomicBool::new(false));
    let mut store = EtcdStore::open(leads.clone(), &owner(), stop.clone()).unwrap();
    store.write(&[put(1, b"one")]).unwrap();
    site.meddle(async |mut client| {
        let filled = async {
            // What is used is known when a batch of puts is committed, ten times a second.
            for _ in 0..200 {
                client.put("rubbish", vec![1; 900_000], None).await?;
            }
            Ok::<_, etcd_client::Error>(())
        };
        let error = filled.await.unwrap_err().to_string();
        assert!(error.contains("database space exceeded"), "{error}");
    });
    let writer = thread::spawn(move || {
        let written = store.write(&[put(2, b"two")]);
        (store, written)
    });
    thread::sleep(Duration::from_millis(2500));
    assert!(!writer.is_finished() && !leads.is_over(), "it leads on, and waits");
    site.meddle(async |mut client| {
        let revision = client.delete("rubbish", None).await.unwrap().header().unwrap().revision();
        client.compact(revision, None).await.unwrap();
        client.defragment().await.unwrap();
        let (action, alarm) =
            (etcd_client::AlarmAction::Deactivate, etcd_client::AlarmType::Nospace);
        let member = client.status().await.unwrap().header().unwrap().member_id();
        let mut of_member = AlarmOptions::new();
        of_member.with_member(member);
        client.alarm(action, alarm, Some(of_member)).await.unwrap();
    });
    let (store, written) = writer.join().unwrap();
    written.unwrap();
    assert_eq!(all(&store).len(), 2);
    stop.store(true, Ordering::Relaxed);
    let mut store = store;
    assert!(matches!(store.write(&[put(3, b"3")]), Err(StateError::Deposed(_))));
}

/// A member that was slow carries a transaction out once more, after later ones: it does no harm.
#[test]
fn a_transaction_that_comes_late_changes_nothing() {
    let etcd = Modelled::default();
    let candidate = Candidate { name: "a".to_owned(), address: String::new() };
    let election = Election::new(Arc::new(etcd.clone()), candidate, Duration::from_secs(3600));
    let leads = election.campaign(&AtomicBool::new(false), |_, _| {}).unwrap();
    let mut store = open(&leads).unwrap().with_limits(200, 5);
    for round in 0..40_u8 {
        let change = Change::put(KINDS[0], &u64::from(round % 7).to_be_bytes(), 1, &[round; 20]);
        store.write(&[change]).unwrap();
    }
    let before = all(&store);
    let late = etcd.1.lock().unwrap().clone();
    assert!(late.len() > 40, "the log was folded");
    for (fences, operations) in late.into_iter().filter(|(fences, _)| fences.len() > 1) {
        assert_eq!(etcd.transact(fences, operations), Ok(None));
    }
    leads.resign();
    let leads = election.campaign(&AtomicBool::new(false), |_, _| {}).unwrap();
    assert_eq!(all(&open(&leads).unwrap()), before);
}
