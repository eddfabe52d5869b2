//! Keys that were used before.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tracing::Subscriber;
use tracing::span::{Attributes, Id, Record};

use super::*;

/// Counts errors that are logged.
#[derive(Clone, Default)]
struct Errors(Arc<AtomicU64>);

impl Subscriber for Errors {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::ERROR
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// How many errors are logged meanwhile.
fn lines_of(run: impl FnOnce()) -> u64 {
    let errors = Errors::default();
    tracing::subscriber::with_default(errors.clone(), run);
    errors.0.load(Ordering::Relaxed)
}

/// A file of this test alone, which goes with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let file = std::env::temp_dir().join(format!("weft-keys-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&file);
        Scratch(file)
    }

    /// A node's life ends: all that had the file have gone, and another may open it.
    fn settles(&self) {
        let until = Instant::now() + Duration::from_secs(20);
        while !is_free(&self.0) {
            assert!(Instant::now() < until, "the file is not given up");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn is_free(file: &Path) -> bool {
    let file = std::fs::File::open(file).expect("the file");
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_ok()
}

fn make(name: &str, scratch: &Scratch) -> Rig {
    let config = json!({ "usedKeys": scratch.0 });
    Rig::new(kind(name).expect("it is there"), config).expect("valid")
}

fn settings(name: &str, key: &str) -> Value {
    let ends = match name {
        "esp-encrypt" => json!({ "local": "192.0.2.1", "peer": "192.0.2.2" }),
        _ => json!({}),
    };
    with(json!({ "spi": 4096, "key": key }), &ends)
}

/// Sends until what is to be on the disk is there.
fn send(rig: &mut Rig, frame: Option<&[u8]>) -> Seen {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let seen = match frame {
            Some(frame) => rig.send_bytes(frame, metadata(frame)),
            None => rig.send(&Spec::udp(b"payload")),
        };
        if seen.dropped != Some("esp_key_not_written") {
            return seen;
        }
        assert!(Instant::now() < until, "nothing is written");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What was recorded before a restart is not taken again.
#[test]
fn a_key_that_was_used_before_a_restart_is_refused() {
    let scratch = Scratch::new("restart");
    let (mut encrypt, mut decrypt) = (make("esp-encrypt", &scratch), make("esp-decrypt", &scratch));
    for (name, rig) in [("esp-encrypt", &mut encrypt), ("esp-decrypt", &mut decrypt)] {
        rig.configure(0, settings(name, KEY), 0, 1).expect("valid");
    }
    let sent = send(&mut encrypt, None);
    assert_eq!(sent.dropped, None);
    assert_eq!(send(&mut decrypt, Some(&sent.bytes)).dropped, None);
    drop((encrypt, decrypt));
    scratch.settles();

    let (mut encrypt, mut decrypt) = (make("esp-encrypt", &scratch), make("esp-decrypt", &scratch));
    for (name, rig) in [("esp-encrypt", &mut encrypt), ("esp-decrypt", &mut decrypt)] {
        rig.configure(0, settings(name, KEY), 0, 1).expect("valid in itself");
    }
    assert_eq!(send(&mut decrypt, Some(&sent.bytes)).dropped, Some("esp_key_used"));
    assert_eq!(send(&mut encrypt, None).dropped, Some("esp_key_used"));
    // A fresh key sets both right.
    for (name, rig) in [("esp-encrypt", &mut encrypt), ("esp-decrypt", &mut decrypt)] {
        rig.configure(0, settings(name, LONG_KEY), 0, 1).expect("valid");
    }
    let fresh = send(&mut encrypt, None);
    assert_eq!((fresh.dropped, send(&mut decrypt, Some(&fresh.bytes)).dropped), (None, None));
    let dropped = send(&mut decrypt, Some(&sent.bytes)).dropped;
    assert!(matches!(dropped, Some("esp_bad_icv" | "esp_replayed")), "{dropped:?}");
}

#[test]
fn within_a_life_a_key_serves_one_association_that_carries() {
    let scratch = Scratch::new("life");
    let mut rig = make("esp-encrypt", &scratch);
    // What has carried nothing has used nothing.
    for _ in 0..3 {
        rig.configure(0, settings("esp-encrypt", KEY), 0, 1).expect("valid");
        rig.instance.release(0);
    }
    rig.configure(0, settings("esp-encrypt", KEY), 0, 1).expect("valid");
    assert_eq!(send(&mut rig, None).dropped, None);
    // Other settings of the same association.
    let more = with(settings("esp-encrypt", KEY), &json!({ "padTo": 200 }));
    rig.configure(0, more, 0, 1).expect("valid");
    assert_eq!(send(&mut rig, None).dropped, None);
    // It moves away and comes back with its counters.
    let moved = rig.export(0);
    rig.instance.release(0);
    rig.instance.import(0, rig.now, &moved).expect("whole");
    assert_eq!(send(&mut rig, None).dropped, None);
    assert_eq!(rig.shown(0, "sequence"), 3);
    // It goes for good, and its counters with it.
    rig.instance.release(0);
    rig.configure(0, settings("esp-encrypt", KEY), 0, 1).expect("valid in itself");
    assert_eq!(send(&mut rig, None).dropped, Some("esp_key_used"));
    // What is refused does not move as an association that has begun anew.
    let refused = rig.export(0);
    rig.instance.import(0, rig.now, &refused).expect("whole");
    assert_eq!(send(&mut rig, None).dropped, Some("esp_no_association"));
}

/// A user comes to a node whose configuration has its association already: what came with its
/// counters goes on, and the key is used though the association that it replaced never carried.
#[test]
fn a_key_that_has_come_from_elsewhere_is_not_given_back_by_what_it_replaces() {
    for name in ["esp-encrypt", "esp-decrypt"] {
        let (there, here) = (Scratch::new("there"), Scratch::new("here"));
        let mut other = make(name, &there);
        other.configure(0, settings(name, KEY), 0, 1).expect("valid");
        let mut sender = make("esp-encrypt", &there);
        if name == "esp-decrypt" {
            sender.configure(0, settings("esp-encrypt", KEY), 0, 1).expect("valid");
        }
        let sealed = match name {
            "esp-encrypt" => send(&mut other, None),
            _ => send(&mut sender, None),
        };
        if name == "esp-decrypt" {
            assert_eq!(send(&mut other, Some(&sealed.bytes)).dropped, None);
        }
        let moved = other.export(0);

        let mut rig = make(name, &here);
        rig.configure(0, settings(name, KEY), 0, 1).expect("valid");
        rig.instance.import(0, rig.now, &moved).expect("whole");
        // It goes on to a third node, and a fresh association is given the same key.
        rig.instance.release(0);
        rig.configure(0, settings(name, KEY), 0, 1).expect("valid in itself");
        let seen = send(&mut rig, (name == "esp-decrypt").then_some(&sealed.bytes[..]));
        assert_eq!(seen.dropped, Some("esp_key_used"), "{name}");
        drop((other, sender, rig));
        there.settles();
        here.settles();
    }
}

/// A node that starts again from its store sets associations up, and then gives them what they
/// had: none is refused in between, so the log must not say so.
#[test]
fn a_key_that_comes_with_its_counters_is_not_reported() {
    let scratch = Scratch::new("restored");
    for name in ["esp-encrypt", "esp-decrypt"] {
        let mut before = make(name, &scratch);
        before.configure(0, settings(name, KEY), 0, 1).expect("valid");
        let kept = before.export(0);
        drop(before);
        scratch.settles();

        let mut again = make(name, &scratch);
        let lines = lines_of(|| {
            again.configure(0, settings(name, KEY), 0, 1).expect("valid in itself");
            again.instance.import(0, again.now, &kept).expect("whole");
            again.instance.go_on(0);
            again.configure(0, settings(name, KEY), 0, 1).expect("valid");
            // Nothing that opens; but the key does not stand in the way.
            let seen = match name {
                "esp-encrypt" => send(&mut again, None),
                _ => send(&mut again, Some(&Tunnel::plain().sent())),
            };
            assert_ne!(seen.dropped, Some("esp_key_used"), "{name}");
        });
        assert_eq!(lines, 0, "{name}");
        drop(again);
        scratch.settles();

        // Without what it had: one line, once a packet asks.
        let mut bare = make(name, &scratch);
        bare.configure(0, settings(name, KEY), 0, 1).expect("valid in itself");
        let mut ask = || {
            let frame = Tunnel::plain().sent();
            let seen = send(&mut bare, (name == "esp-decrypt").then_some(&frame[..]));
            assert_eq!(seen.dropped, Some("esp_key_used"), "{name}");
        };
        assert_eq!(lines_of(|| (0..3).for_each(|_| ask())), 1, "{name}");
        drop(bare);
        scratch.settles();
    }
}

#[test]
fn the_file_tells_no_key_and_survives_a_write_that_was_cut_off() {
    let scratch = Scratch::new("file");
    let mut rig = make("esp-decrypt", &scratch);
    rig.configure(0, settings("esp-decrypt", KEY), 0, 1).expect("valid");
    drop(rig);
    scratch.settles();
    let octets = std::fs::read(&scratch.0).expect("the file");
    assert_eq!((octets.len(), &octets[..8]), (40 + 16, b"weftkey1".as_slice()));
    assert!(
        !octets.windows(4).any(|part| part == [0, 1, 2, 3] || part == [0xf0, 0xf1, 0xf2, 0xf3])
    );
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(&scratch.0).expect("the file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for length in 40..octets.len() {
        std::fs::write(&scratch.0, &octets[..length]).expect("written");
        let mut rig = make("esp-decrypt", &scratch);
        rig.configure(0, settings("esp-decrypt", LONG_KEY), 0, 1).expect("valid");
        drop(rig);
        scratch.settles();
        let whole = std::fs::read(&scratch.0).expect("the file");
        assert_eq!(whole.len(), 56, "cut off at {length}");
    }
    // What is no such file is left alone.
    std::fs::write(&scratch.0, "a diary").expect("written");
    let config = json!({ "usedKeys": scratch.0 });
    let error = Rig::new(kind("esp-decrypt").expect("it is there"), config).err().expect("refused");
    assert_eq!(error.path, "usedKeys");
    assert!(error.message.ends_with("not a file of used keys"), "{}", error.message);
    assert_eq!(std::fs::read(&scratch.0).expect("the file"), b"a diary");
}
