//! Which keys this node has used before. An association that is set up anew with such a key
//! would begin its counters again: its peer would drop all packets as replayed, and what was
//! recorded of the peer would be taken once more.
//!
//! A file remembers a fingerprint of each key: HMAC-SHA-256 of key and function, under a key
//! of the file's own, cut to 16 octets. From it no key can be told. The file begins with
//! `weftkey1` and that key of 32 octets; fingerprints follow. A thread appends them and waits
//! for the disk, and an association carries no packet before that is done.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;
use std::{fmt, thread};

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use rustix::fs::{FlockOperation, flock};

use super::key::Key;

const MAGIC: &[u8; 8] = b"weftkey1";
const SECRET: usize = 32;
const HEAD: usize = MAGIC.len() + SECRET;
/// Keys that are remembered: 16 MiB. When there are more, no further key is taken.
const MOST: usize = 1 << 20;
/// How long after a failed write the next is tried.
const PAUSE: Duration = Duration::from_secs(1);

/// How often the lock of the file is tried, and how long after each time.
const TRIES: u32 = 50;
const BETWEEN: Duration = Duration::from_millis(10);

type Fingerprint = [u8; 16];

/// Where keys are remembered that `usedKeys` says nothing of.
static USUAL: OnceLock<PathBuf> = OnceLock::new();

/// Remembers the keys of all functions of this process in this file, unless their
/// configuration names another. The first call counts.
pub fn remember_keys_in(file: PathBuf) {
    let _ = USUAL.set(file);
}

/// The keys that a file remembers.
pub struct UsedKeys {
    secret: hmac::Key,
    state: Mutex<State>,
    /// How many claims are on the disk.
    written: Arc<AtomicU64>,
    writer: Sender<Fingerprint>,
}

#[derive(Debug, Default)]
struct State {
    known: HashSet<Fingerprint>,
    /// Of those, the keys of associations that have gone without carrying a packet.
    unused: HashSet<Fingerprint>,
    /// Keys of associations that are set up.
    held: HashMap<Fingerprint, Holders>,
    /// How many were claimed in this life.
    claimed: u64,
}

/// The associations that have a key: two, while one that comes with its counters replaces
/// another.
#[derive(Debug, Default)]
struct Holders {
    count: u32,
    /// Whether one that has gone had carried a packet.
    carried: bool,
}

/// What becomes of an association with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It is carried once this many claims are [written](UsedKeys::is_written).
    Fresh(u64),
    /// The key was used before.
    Used,
    /// As many keys are remembered as may be.
    Full,
}

impl State {
    fn hold(&mut self, fingerprint: Fingerprint) {
        self.held.entry(fingerprint).or_default().count += 1;
    }
}

impl fmt::Debug for UsedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UsedKeys(..)")
    }
}

impl UsedKeys {
    /// The keys of the file, or of that which [`remember_keys_in`] names; none where there is
    /// no file. Instances of one process share them.
    ///
    /// # Errors
    /// When the file cannot be read or written, is none of these, or another process has it.
    pub fn of(file: Option<&Path>) -> io::Result<Option<Arc<UsedKeys>>> {
        static OPEN: Mutex<Option<HashMap<PathBuf, Weak<UsedKeys>>>> = Mutex::new(None);
        let Some(path) = file.or(USUAL.get().map(PathBuf::as_path)) else { return Ok(None) };
        // The map is whole whatever panics.
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let open = open.get_or_insert_default();
        if let Some(keys) = open.get(path).and_then(Weak::upgrade) {
            return Ok(Some(keys));
        }
        let keys = Arc::new(UsedKeys::open(path)?);
        open.insert(path.to_owned(), Arc::downgrade(&keys));
        Ok(Some(keys))
    }

    fn open(path: &Path) -> io::Result<UsedKeys> {
        let mut options = OpenOptions::new();
        let mut file =
            options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        lock(&file)?;
        let mut octets = Vec::new();
        let most = (HEAD + MOST * size_of::<Fingerprint>()) as u64;
        (&mut file).take(most + 1).read_to_end(&mut octets)?;
        if octets.len() < HEAD {
            // A file that was made and never finished holds no key.
            let is_ours = MAGIC.starts_with(&octets[..octets.len().min(MAGIC.len())]);
            if !is_ours {
                return Err(io::Error::other("not a file of used keys"));
            }
            octets = fresh_head()?;
            file.set_len(0)?;
            file.write_all_at(&octets, 0)?;
            file.sync_all()?;
            sync_folder(path)?;
        }
        let (head, rest) = octets.split_at(HEAD);
        let secret = head.strip_prefix(MAGIC.as_slice());
        let secret = secret.ok_or_else(|| io::Error::other("not a file of used keys"))?;
        // The end may be of a write that was never finished, which no association waited out.
        let known: HashSet<_> = rest.as_chunks().0.iter().copied().collect();
        let end = (HEAD + rest.len() / size_of::<Fingerprint>() * size_of::<Fingerprint>()) as u64;
        let (writer, claims) = channel();
        let written = Arc::new(AtomicU64::new(0));
        let log = Log { file, end, path: path.to_owned(), written: written.clone() };
        thread::Builder::new().name("used-keys".to_owned()).spawn(move || log.write(&claims))?;
        Ok(UsedKeys {
            secret: hmac::Key::new(hmac::HMAC_SHA256, secret),
            state: Mutex::new(State { known, ..State::default() }),
            written,
            writer,
        })
    }

    fn fingerprint(&self, function: &str, key: &Key) -> Fingerprint {
        let mut context = hmac::Context::with_key(&self.secret);
        context.update(function.as_bytes());
        context.update(&[0]);
        context.update(key.secret());
        context.update(&key.salt());
        context.sign().as_ref().first_chunk().copied().unwrap_or_default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // It is whole whatever panics.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A fresh association of a function wants this key.
    pub fn claim(&self, function: &str, key: &Key) -> Claim {
        let fingerprint = self.fingerprint(function, key);
        let mut state = self.state();
        if state.known.contains(&fingerprint) {
            if !state.unused.remove(&fingerprint) {
                return Claim::Used;
            }
            state.hold(fingerprint);
            return Claim::Fresh(state.claimed);
        }
        if state.known.len() >= MOST {
            return Claim::Full;
        }
        state.hold(fingerprint);
        Claim::Fresh(self.add(&mut state, fingerprint))
    }

    /// An association has come with its counters from elsewhere; how many claims have to be
    /// written before it is carried.
    pub fn note(&self, function: &str, key: &Key) -> u64 {
        let fingerprint = self.fingerprint(function, key);
        let mut state = self.state();
        state.unused.remove(&fingerprint);
        state.hold(fingerprint);
        match state.known.contains(&fingerprint) || state.known.len() >= MOST {
            true => state.claimed,
            false => self.add(&mut state, fingerprint),
        }
    }

    /// An association has gone that was claimed or noted. Its key may be used once more if no
    /// other one has it, and none has carried a packet.
    pub fn leave(&self, function: &str, key: &Key, carried: bool) {
        let fingerprint = self.fingerprint(function, key);
        let mut state = self.state();
        let Some(holders) = state.held.get_mut(&fingerprint) else { return };
        holders.carried |= carried;
        holders.count -= 1;
        if holders.count > 0 {
            return;
        }
        let carried = holders.carried;
        state.held.remove(&fingerprint);
        if !carried && state.known.contains(&fingerprint) {
            state.unused.insert(fingerprint);
        }
    }

    fn add(&self, state: &mut State, fingerprint: Fingerprint) -> u64 {
        state.known.insert(fingerprint);
        state.claimed += 1;
        // The thread lives as long as this.
        let _ = self.writer.send(fingerprint);
        state.claimed
    }

    /// Whether so many claims are on the disk.
    #[inline]
    pub fn is_written(&self, claims: u64) -> bool {
        self.written.load(Ordering::Acquire) >= claims
    }
}

/// Has the file alone. A thread of this process may still have to give it up.
fn lock(file: &File) -> io::Result<()> {
    for _ in 0..TRIES {
        if flock(file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return Ok(());
        }
        thread::sleep(BETWEEN);
    }
    Err(io::Error::other("another node has it"))
}

fn fresh_head() -> io::Result<Vec<u8>> {
    let mut octets = [MAGIC.as_slice(), &[0; SECRET]].concat();
    let drawn = SystemRandom::new().fill(&mut octets[MAGIC.len()..]);
    drawn.map_err(|_| io::Error::other("the system has no random numbers"))?;
    Ok(octets)
}

/// A file that was made is in its folder after the machine has failed.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// What appends to the file.
struct Log {
    file: File,
    end: u64,
    path: PathBuf,
    written: Arc<AtomicU64>,
}

impl Log {
    fn write(mut self, claims: &Receiver<Fingerprint>) {
        let mut pending = Vec::new();
        while let Ok(first) = claims.recv() {
            pending.push(first);
            pending.extend(claims.try_iter());
            let mut is_told = false;
            while let Err(error) = self.append(&pending) {
                if !is_told {
                    let file = self.path.display();
                    tracing::error!("{file}: {error}; new security associations wait for it");
                }
                is_told = true;
                thread::sleep(PAUSE);
            }
            self.written.fetch_add(pending.len() as u64, Ordering::Release);
            pending.clear();
        }
    }

    fn append(&mut self, fingerprints: &[Fingerprint]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(self.end))?;
        self.file.write_all(fingerprints.as_flattened())?;
        self.file.sync_data()?;
        self.end += size_of_val(fingerprints) as u64;
        Ok(())
    }
}
