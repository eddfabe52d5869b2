//! Who leads, whatever dies.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use weft_etcd::{Cluster, Options};
use weft_state::{Change, Kind, RecordStore, Records as _};

use crate::site::{Site, open};

/// Nothing takes so long, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn one_leads_and_others_know_it() {
    let Some(site) = Site::start(1, &[]) else { return };
    let first = site.lead("first");
    let election = site.election("second");
    let stop = Arc::new(AtomicBool::new(false));
    let (told, tells) = channel();
    let seen = Arc::new(Mutex::new(None));
    let second = {
        let (stop, seen) = (stop.clone(), seen.clone());
        thread::spawn(move || {
            election.campaign(&stop, |leader, _| {
                *seen.lock().unwrap() = leader;
                let _ = told.send(());
            })
        })
    };
    tells.recv_timeout(PATIENCE).unwrap();
    let leader = seen.lock().unwrap().clone().unwrap();
    assert_eq!((&leader.name[..], &leader.address[..]), ("first", "http://first"));
    assert_eq!(leader.term, first.term());
    // A lease is renewed for as long as its leader lives.
    thread::sleep(Duration::from_secs(3));
    assert!(!first.is_over() && !second.is_finished());
    let resigned = Instant::now();
    first.resign();
    let second = second.join().unwrap().unwrap();
    assert!(first.is_over() && second.term() > first.term());
    println!("after a resignation another leads in {:?}", resigned.elapsed());
    stop.store(true, Ordering::Relaxed);
    assert!(site.election("third").campaign(&stop, |_, _| {}).is_none());
}

/// Members of etcd die in turn, the one that leads them among them: what was answered is there,
/// and the site has a leader again.
#[test]
fn members_may_die_one_at_a_time() {
    let Some(mut site) = Site::start(3, &[]) else { return };
    let mut leads = site.lead("a");
    let mut store = open(&leads).unwrap();
    let mut written = 0_u64;
    let mut write = |store: &mut weft_etcd::EtcdStore| {
        let change = Change::put(Kind(1), &written.to_be_bytes(), 1, b"there");
        let done = store.write(&[change]).is_ok();
        written += u64::from(done);
        done
    };
    let mut longest = Duration::ZERO;
    for nth in [0, 1, 2, 0] {
        for _ in 0..20 {
            assert!(write(&mut store));
        }
        site.members.kill(nth).unwrap();
        let killed = Instant::now();
        for _ in 0..20 {
            while !write(&mut store) {
                assert!(killed.elapsed() < PATIENCE);
                leads = site.lead("a");
                store = open(&leads).unwrap();
            }
        }
        longest = longest.max(killed.elapsed());
        site.members.begin(nth).unwrap();
        // It catches up before the next one dies.
        thread::sleep(Duration::from_secs(3));
    }
    println!("20 writes after the death of a member take {longest:?} at most");
    let mut count = 0;
    let mut each = |_: &[u8], _: u8, _: &[u8]| {
        count += 1;
        Ok(())
    };
    store.each_of(Kind(1), &mut each).unwrap();
    assert_eq!(count, written);
}

#[test]
fn an_etcd_that_is_not_there_is_named() {
    let options = Options {
        endpoints: vec!["http://127.0.0.1:9".to_owned()],
        tls: None,
        prefix: "/weft/test/".to_owned(),
    };
    let cluster = Cluster::new(options).unwrap();
    let candidate = weft_etcd::Candidate { name: "a".to_owned(), address: String::new() };
    let election = weft_etcd::Election::new(Arc::new(cluster), candidate, Duration::from_secs(2));
    let stop = AtomicBool::new(false);
    let mut said = String::new();
    let led = election.campaign(&stop, |leader, error| {
        assert!(leader.is_none());
        said = error.map(ToString::to_string).unwrap_or_default();
        stop.store(true, Ordering::Relaxed);
    });
    assert!(led.is_none());
    assert!(said.starts_with("no member of etcd answers: http://127.0.0.1:9: "), "{said}");
    assert_eq!(said.lines().count(), 1);
}
