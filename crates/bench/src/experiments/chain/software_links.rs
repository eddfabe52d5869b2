//! Rows of hops over software links, as the paper's chains over veth: the kernel's
//! routers and Open vSwitch's bridges.

use crate::run::{Interrupted, Run};
use weft_rig::baseline::line::Line;
use weft_rig::baseline::{kernel, open_vswitch};

/// What the hops are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hop {
    /// A router of the Linux kernel.
    Router,
    /// A bridge of Open vSwitch's userspace datapath.
    Bridge,
}

/// A row of hops.
pub struct Row {
    /// What they are.
    pub hop: Hop,
    /// How many.
    pub length: usize,
    /// The way through them.
    pub line: Line,
}

impl Hop {
    /// Both.
    pub const ALL: [Hop; 2] = [Hop::Router, Hop::Bridge];

    /// What it is a part of.
    pub fn name(self) -> &'static str {
        match self {
            Hop::Router => "Linux kernel",
            Hop::Bridge => "Open vSwitch",
        }
    }
}

/// Lays rows of these lengths of each hop that there is. What cannot be laid is noted.
///
/// # Errors
/// [`Interrupted`].
pub fn lay(
    run: &mut Run<'_>,
    lengths: &[usize],
    descriptors: u16,
) -> Result<Vec<Row>, Interrupted> {
    if let Some(lacking) = kernel::lacking() {
        run.note(lacking);
        return Ok(Vec::new());
    }
    let has_bridges = open_vswitch::is_installed();
    if !has_bridges {
        run.note(open_vswitch::MISSING);
    }
    let mut rows = Vec::new();
    for hop in Hop::ALL.into_iter().filter(|hop| *hop == Hop::Router || has_bridges) {
        for &length in lengths {
            run.go_on()?;
            let line = match hop {
                Hop::Router => Line::of_routers(run.rig, length, descriptors),
                Hop::Bridge => Line::of_bridges(run.rig, length, descriptors),
            };
            match line {
                Ok(line) => rows.push(Row { hop, length, line }),
                Err(error) => {
                    run.note(format!("{}, chain of {length}: not measured: {error}", hop.name()));
                }
            }
        }
    }
    Ok(rows)
}
