//! Every target over its corpus, and over inputs that are made of it at random.
//!
//! `FUZZ_INPUTS` says how many inputs are made, `FUZZ_SEED` which: the same without it.

use std::fs;
use std::path::{Path, PathBuf};

use weft_fuzz::{Mutator, TARGETS};

/// Inputs beyond the corpus.
const INPUTS: u64 = 1500;

fn number(variable: &str, otherwise: u64) -> u64 {
    let wrong = || panic!("{variable} is a number");
    std::env::var(variable).map_or(otherwise, |text| text.parse().unwrap_or_else(|_| wrong()))
}

/// Keeps the input that is being run, and says where it is if the target panics.
struct Kept<'t> {
    target: &'t str,
    input: Vec<u8>,
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let file =
                Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("crash-{}", self.target));
            match fs::write(&file, &self.input) {
                Ok(()) => eprintln!("the input is in {}", file.display()),
                Err(_) => eprintln!("the input is {:02x?}", self.input),
            }
        }
    }
}

fn corpus_of(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let files =
        fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|file| (file.clone(), fs::read(file).unwrap())).collect()
}

fn run(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let mut kept = Kept { target: name, input: Vec::new() };
    let (files, corpus): (Vec<_>, Vec<_>) = corpus_of(name).into_iter().unzip();
    assert!(!corpus.is_empty(), "a target begins with something that it reads");
    for (file, input) in files.iter().zip(&corpus) {
        kept.input.clone_from(input);
        let shown = std::panic::catch_unwind(|| (target.run)(input));
        assert!(shown.is_ok(), "{}", file.display());
    }
    let seed = number("FUZZ_SEED", 1);
    let mut mutator = Mutator::new(&corpus, seed);
    for _ in 0..number("FUZZ_INPUTS", INPUTS) {
        kept.input = mutator.next_input();
        (target.run)(&kept.input);
    }
}

macro_rules! test {
    ($name:ident) => {
        #[test]
        fn $name() {
            run(stringify!($name));
        }
    };
}

weft_fuzz::for_each_target!(test);

/// No corpus is left over of a target that is gone.
#[test]
fn every_corpus_has_a_target() {
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(TARGETS.iter().any(|target| target.name == name), "{name}");
    }
}
