//! The store itself: opened, read, written.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use redb::backends::FileBackend;
use redb::{Builder, Database, ReadableDatabase, StorageBackend};

use crate::error::StateError;
use crate::feed::Feed;
use crate::record::{Change, Kind, OWN, full_key};
use crate::records::{EachRecord, RecordStore, Records};
use crate::snapshot::{Each, RECORDS, Snapshot};

/// How records are laid out in the file. It is raised when a program of before could not read
/// the file any more; kinds of records have versions of their own.
const FORMAT: u16 = 1;

/// The record that says whose store it is.
const IDENTITY: &[u8] = b"identity";

/// What a file of `redb` begins with.
const MAGIC: &[u8] = b"redb";

/// Pages that are kept in memory while records are written. Reading all of them needs none.
const CACHE: usize = 64 << 20;

/// What the owner of a store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A node.
    Node,
    /// A controller of handovers.
    Controller,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Role::Node => "node",
            Role::Controller => "controller",
        }
    }
}

/// Whose store it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// What it is.
    pub role: Role,
    /// Its name.
    pub name: String,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.as_str() {
            "" => write!(f, "a {}", self.role.name()),
            name => write!(f, "{} {name}", self.role.name()),
        }
    }
}

/// Records on disk.
pub struct Store {
    path: PathBuf,
    /// None after a write that failed: what is on disk is read again before the next.
    database: Option<Database>,
    /// Opens it again.
    open: Box<dyn Fn() -> Result<Database, StateError> + Send>,
    is_new: bool,
    /// What is written, for another machine.
    feed: Option<Feed>,
}

impl RecordStore for Store {
    fn write(&mut self, changes: &[Change]) -> Result<(), StateError> {
        Store::write(self, changes)
    }
}

impl Records for Store {
    fn each_of(&self, kind: Kind, each: &mut EachRecord<'_>) -> Result<(), StateError> {
        self.each(kind, each)
    }

    fn each_beginning(
        &self,
        kind: Kind,
        prefix: &[u8],
        each: &mut EachRecord<'_>,
    ) -> Result<(), StateError> {
        self.snapshot()?.each_beginning(kind, prefix, each)
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("path", &self.path).finish_non_exhaustive()
    }
}

/// The file of a store in `folder`.
fn file_in(folder: &Path) -> PathBuf {
    folder.join("state.redb")
}

/// Moves the store in `folder` out of the way, if there is one, so that a new one can begin.
/// Returns where it is now.
///
/// # Errors
/// [`StateError::Io`].
pub fn set_aside(folder: &Path) -> Result<Option<PathBuf>, StateError> {
    let path = file_in(folder);
    if !path.exists() {
        return Ok(None);
    }
    let names = (1..).map(|number| folder.join(format!("state.redb.before-{number}")));
    let mut free = names.filter(|path| !path.exists());
    let Some(aside) = free.next() else { return Ok(None) };
    let moved = fs::rename(&path, &aside).and_then(|()| File::open(folder)?.sync_all());
    moved.map_err(StateError::io(&path))?;
    Ok(Some(aside))
}

impl Store {
    /// Opens the store in `folder`; makes both if they are not there. All of it is checked:
    /// that takes about 0.3 s for a million bearers.
    ///
    /// # Errors
    /// [`StateError`]. The file is as it was, but for what a crash had left half written.
    pub fn open(folder: &Path, owner: &Owner) -> Result<Store, StateError> {
        let path = file_in(folder);
        fs::create_dir_all(folder).map_err(StateError::io(folder))?;
        let is_there = check_is_store(&path)?;
        if !is_there {
            make(folder, &path, owner)?;
        }
        let file = path.clone();
        let open = move || {
            let handle = OpenOptions::new().read(true).write(true).open(&file);
            let handle = handle.map_err(StateError::io(&file))?;
            contained(&file, || builder().create_with_backend(FileBackend::new(handle)?))
        };
        let mut store = Store::opened(path, Box::new(open), owner)?;
        store.is_new = !is_there;
        Ok(store)
    }

    /// Opens a store that lies in `backend`: each call of it gives the same octets.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn open_in<B: StorageBackend>(
        backend: impl Fn() -> B + Send + 'static,
        owner: &Owner,
    ) -> Result<Store, StateError> {
        let path = PathBuf::from("(memory)");
        let file = path.clone();
        let open = move || {
            let backend = backend();
            contained(&file, || builder().create_with_backend(backend))
        };
        Store::opened(path, Box::new(open), owner)
    }

    fn opened(
        path: PathBuf,
        open: Box<dyn Fn() -> Result<Database, StateError> + Send>,
        owner: &Owner,
    ) -> Result<Store, StateError> {
        let database = open()?;
        let mut store = Store { path, database: Some(database), open, is_new: false, feed: None };
        store.check_owner(owner)?;
        Ok(store)
    }

    /// Says whose it is where it does not say so yet, and compares otherwise.
    fn check_owner(&mut self, owner: &Owner) -> Result<(), StateError> {
        let Some(known) = self.get(OWN, IDENTITY)? else {
            self.is_new = true;
            return self.write(&[identity(owner)]);
        };
        let text = known.get(1..).and_then(|octets| octets.split_first_chunk());
        let Some((format, text)) = text else {
            return Err(StateError::damaged(&self.path, "it does not say whose it is"));
        };
        let (path, format) = (self.path.clone(), u16::from_be_bytes(*format));
        if format > FORMAT {
            return Err(StateError::Newer { path, format, most: FORMAT });
        }
        let text = String::from_utf8_lossy(text);
        let (role, name) = text.split_once('\0').unwrap_or((&text, ""));
        if role != owner.role.name() || name != owner.name {
            let is = if name.is_empty() { format!("a {role}") } else { format!("{role} {name}") };
            return Err(StateError::Other { path, is, wanted: owner.to_string() });
        }
        Ok(())
    }

    /// Whether there was none before.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn get(&self, kind: Kind, key: &[u8]) -> Result<Option<Vec<u8>>, StateError> {
        let mut found = None;
        let full = full_key(kind, key);
        self.each_within(&full, &[&full[..], &[0]].concat(), &mut |_, value| {
            found = Some(value.to_vec());
            Ok(())
        })?;
        Ok(found)
    }

    /// Shows all records of a kind, by their keys: key, version and record. Ends with the first
    /// that `each` refuses, for a reason that says what is wrong with it.
    ///
    /// # Errors
    /// [`StateError::Damaged`] with that reason, or what else is wrong.
    pub fn each(
        &self,
        kind: Kind,
        mut each: impl FnMut(&[u8], u8, &[u8]) -> Result<(), String>,
    ) -> Result<(), StateError> {
        self.snapshot()?.each_of(kind, &mut each)
    }

    fn each_within(&self, first: &[u8], end: &[u8], each: &mut Each<'_>) -> Result<(), StateError> {
        self.snapshot()?.each_within(first, end, each)
    }

    /// What a [`Writer`](crate::Writer) writes here from now on goes into a feed as well.
    pub fn feed_into(&mut self, feed: Feed) {
        self.feed = Some(feed);
    }

    /// The feed that it goes into, if into one.
    pub fn feed(&self) -> Option<&Feed> {
        self.feed.as_ref()
    }

    /// The record under this key, behind its version.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn record(&self, kind: Kind, key: &[u8]) -> Result<Option<Vec<u8>>, StateError> {
        self.get(kind, key)
    }

    /// All records as they are now, to be read while others are written.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn snapshot(&self) -> Result<Snapshot, StateError> {
        let path = self.path.clone();
        let Some(database) = &self.database else {
            return Err(StateError::damaged(&path, "a write has failed"));
        };
        let reading =
            database.begin_read().map_err(|error| StateError::of_transaction(&path, error))?;
        Ok(Snapshot::new(path, reading))
    }

    /// Removes all records but the one that says whose they are.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn clear(&mut self) -> Result<(), StateError> {
        let identity = self.get(OWN, IDENTITY)?;
        let database = match self.database.take() {
            Some(database) => database,
            None => (self.open)()?,
        };
        let path = &self.path;
        let begun = database.begin_write();
        let mut writing = begun.map_err(|error| StateError::of_transaction(path, error))?;
        writing.set_two_phase_commit(true);
        let deleted = writing.delete_table(RECORDS);
        deleted.map_err(|error| StateError::of_table(path, error))?;
        if let Some(identity) = identity {
            let table = writing.open_table(RECORDS);
            let mut table = table.map_err(|error| StateError::of_table(path, error))?;
            let inserted = table.insert(&full_key(OWN, IDENTITY)[..], &identity[..]);
            inserted.map_err(|error| StateError::of_storage(path, error))?;
        }
        writing.commit().map_err(|error| StateError::of_commit(path, error))?;
        self.database = Some(database);
        Ok(())
    }

    /// Makes changes durable: all of them or, when it fails or the machine stops, none or all.
    /// Of several for one record the last one counts.
    ///
    /// # Errors
    /// What the system says. The store is read again before the next write, which may succeed.
    pub fn write(&mut self, changes: &[Change]) -> Result<(), StateError> {
        let database = match self.database.take() {
            Some(database) => database,
            None => (self.open)()?,
        };
        commit(&self.path, &database, changes)?;
        self.database = Some(database);
        Ok(())
    }
}

/// Two phases: the first makes what is new durable, the second says that it holds. So what was
/// answered for is never taken for a write that was torn.
fn commit(path: &Path, database: &Database, changes: &[Change]) -> Result<(), StateError> {
    let storage = |error| StateError::of_storage(path, error);
    let begun = database.begin_write();
    let mut writing = begun.map_err(|error| StateError::of_transaction(path, error))?;
    writing.set_two_phase_commit(true);
    {
        let table = writing.open_table(RECORDS);
        let mut table = table.map_err(|error| StateError::of_table(path, error))?;
        for Change { key, value } in changes {
            match value {
                Some(value) => drop(table.insert(&key[..], &value[..]).map_err(storage)?),
                None => drop(table.remove(&key[..]).map_err(storage)?),
            }
        }
    }
    writing.commit().map_err(|error| StateError::of_commit(path, error))
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE).set_check_integrity_on_open(true);
    builder
}

/// A file that is damaged may be anything: whatever comes of reading it is an error.
fn contained(
    path: &Path,
    open: impl FnOnce() -> Result<Database, redb::DatabaseError>,
) -> Result<Database, StateError> {
    match catch_unwind(AssertUnwindSafe(open)) {
        Ok(opened) => opened.map_err(|error| StateError::of_database(path, error)),
        Err(_) => Err(StateError::damaged(path, "it cannot be read")),
    }
}

/// Makes a store that is there whole or not at all: under another name first.
fn make(folder: &Path, path: &Path, owner: &Owner) -> Result<(), StateError> {
    let new = folder.join("state.redb.new");
    // Settings may hold keys.
    let _ = fs::remove_file(&new);
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).mode(0o600).open(&new);
    let file = file.map_err(StateError::io(&new))?;
    let opened = builder().create_with_backend(
        FileBackend::new(file).map_err(|error| StateError::of_database(&new, error))?,
    );
    let database = opened.map_err(|error| StateError::of_database(&new, error))?;
    commit(&new, &database, &[identity(owner)])?;
    database.close().map_err(|error| StateError::of_database(&new, error))?;
    let renamed = fs::rename(&new, path).and_then(|()| File::open(folder)?.sync_all());
    renamed.map_err(StateError::io(path))
}

/// The record that says whose it is.
fn identity(owner: &Owner) -> Change {
    let mut identity = FORMAT.to_be_bytes().to_vec();
    identity.extend(owner.role.name().as_bytes());
    identity.push(0);
    identity.extend(owner.name.as_bytes());
    Change::put(OWN, IDENTITY, 1, &identity)
}

/// Whether a store is there.
fn check_is_store(path: &Path) -> Result<bool, StateError> {
    let mut start = Vec::new();
    match File::open(path) {
        Ok(file) => {
            let read = file.take(MAGIC.len() as u64).read_to_end(&mut start);
            read.map_err(StateError::io(path))?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(StateError::io(path)(error)),
    }
    match start == MAGIC {
        true => Ok(true),
        false => Err(StateError::Foreign(path.to_owned())),
    }
}
