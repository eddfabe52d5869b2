//! Which changes of state there are; all others are forbidden, and nothing that
//! comes at a machine makes it take one.

/// A change of state of one machine, for one user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Transition {
    /// Whose.
    pub role: Role,
    /// From which state; `Absent` is none.
    pub from: &'static str,
    /// What caused it: a step's name, or an event.
    pub event: &'static str,
    /// To which state.
    pub to: &'static str,
}

/// Whose states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// A [`Station`](crate::Station)'s.
    Station,
    /// An [`Anchor`](crate::Anchor)'s.
    Anchor,
    /// The [`Controller`](crate::Controller)'s.
    Controller,
    /// That of a [`Coordinator`](crate::function_move::Coordinator) of a function's move.
    Coordinator,
    /// That of a [`Participant`](crate::function_move::Participant) in one.
    Participant,
}

impl Transition {
    /// Whether there is such a change.
    pub fn is_allowed(&self) -> bool {
        let same = |row: &&Row| row.from == self.from && row.to == self.to;
        table(self.role).iter().filter(same).any(|row| row.events.contains(&self.event))
    }
}

/// Changes between two states, and what causes them.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// From which state.
    pub from: &'static str,
    /// To which state.
    pub to: &'static str,
    /// What causes it.
    pub events: &'static [&'static str],
}

const fn row(from: &'static str, to: &'static str, events: &'static [&'static str]) -> Row {
    Row { from, to, events }
}

/// All changes of a role's states.
pub fn table(role: Role) -> &'static [Row] {
    match role {
        Role::Station => STATION,
        Role::Anchor => ANCHOR,
        Role::Controller => CONTROLLER,
        Role::Coordinator => COORDINATOR,
        Role::Participant => PARTICIPANT,
    }
}

/// What ends the path of a source.
const FORWARDED: &[&str] = &["Release", "End Marker", "Radio left", "Release timeout", "Given up"];
/// What ends that of a target that has given a user back.
const RETURNED: &[&str] = &["End Marker (resumed)", "Radio left", "Release timeout", "Given up"];

const STATION: &[Row] = &[
    row("Absent", "Prepared", &["Prepare"]),
    row("Prepared", "Importing", &["Contexts", "Adopt"]),
    row("Prepared", "Returning", &["Abort"]),
    row("Prepared", "Absent", &["Abort", "Given up"]),
    row("Importing", "Settling", &["Import done"]),
    row("Importing", "Returning", &["Import failed"]),
    row("Importing", "Absent", &["Import failed", "Given up"]),
    row("Settling", "Owning", &["Import done", "End Marker", "Gate timeout"]),
    row("Settling", "Absent", &["Given up"]),
    row("Owning", "Exporting", &["Move"]),
    row("Owning", "Resuming", &["Resume"]),
    row("Owning", "Absent", &["Remove", "Given up"]),
    row("Exporting", "Exported", &["Export done"]),
    row("Exporting", "Resuming", &["Resume"]),
    row("Exporting", "Absent", &["Given up"]),
    row("Exported", "Forwarding", &["Taken", "Release"]),
    row("Exported", "Resuming", &["Resume"]),
    row("Exported", "Absent", &["Given up"]),
    row("Forwarding", "Resuming", &["Resume"]),
    row("Forwarding", "Absent", FORWARDED),
    row("Resuming", "Owning", &["Resume", "End Marker (resumed)", "Gate timeout"]),
    row("Resuming", "Absent", &["Given up"]),
    row("Returning", "Absent", RETURNED),
    row("Returning", "Prepared", &["Prepare"]),
];

const ANCHOR: &[Row] = &[
    row("Absent", "Prepared", &["Route(Prepare)"]),
    row("Absent", "Serving", &["Route(Complete)", "Route(Abort)"]),
    row("Absent", "Switched", &["Route(Switch)"]),
    row("Serving", "Prepared", &["Route(Prepare)"]),
    row("Serving", "Absent", &["Route(Remove)"]),
    row("Prepared", "Switched", &["Route(Switch)"]),
    row("Prepared", "Serving", &["Route(Abort)"]),
    row("Switched", "Closing", &["Route(Complete)"]),
    row("Switched", "Serving", &["Route(Complete)", "Route(Abort)"]),
    row("Switched", "Prepared", &["Route(Prepare)"]),
    row("Closing", "Serving", &["End Marker", "Gate timeout"]),
    row("Closing", "Prepared", &["Route(Prepare)"]),
];

const CONTROLLER: &[Row] = &[
    row("Settled", "Storing", &["Add", "Move", "Remove", "Node gone"]),
    row("Settled", "PreparingTarget", &["Start"]),
    row("Settled", "Removing", &["Start"]),
    row("Storing", "PreparingTarget", &["Stored"]),
    row("Storing", "Removing", &["Stored"]),
    row("PreparingTarget", "PreparingAnchor", &["Prepared"]),
    row("PreparingTarget", "Switching", &["Imported"]),
    row("PreparingTarget", "AbortingTarget", &["Given up"]),
    row("PreparingTarget", "AbortingSource", &["Refused", "Node gone"]),
    row("PreparingTarget", "Storing", &["Refused", "Node gone"]),
    row("PreparingAnchor", "Moving", &["Routed"]),
    row("PreparingAnchor", "Switching", &["Imported"]),
    row("PreparingAnchor", "AbortingTarget", &["Given up"]),
    row("PreparingAnchor", "AbortingSource", &["Refused", "Node gone"]),
    row("PreparingAnchor", "Storing", &["Refused", "Node gone"]),
    row("Moving", "Switching", &["Imported"]),
    row("Moving", "AbortingTarget", &["Given up", "Refused", "Node gone"]),
    row("Moving", "AbortingSource", &["Refused", "Node gone"]),
    row("Moving", "Storing", &["Refused", "Node gone"]),
    row("Switching", "Releasing", &["Routed"]),
    row("Switching", "Completing", &["Routed"]),
    row("Switching", "AbortingSource", &["Node gone"]),
    row("Switching", "Storing", &["Node gone"]),
    row("Releasing", "Completing", &["Released", "Routed", "Node gone"]),
    row("Releasing", "AbortingSource", &["Node gone"]),
    row("Releasing", "Storing", &["Node gone"]),
    row("Completing", "Settled", &["Completed", "Routed"]),
    row("Completing", "Storing", &["Node gone"]),
    row("AbortingTarget", "AbortingSource", &["Aborted", "Refused", "Node gone"]),
    row("AbortingTarget", "Switching", &["Imported"]),
    row("AbortingTarget", "Storing", &["Node gone"]),
    row("AbortingSource", "AbortClosing", &["Resumed", "Routed"]),
    row("AbortingSource", "Storing", &["Released", "Node gone"]),
    row("AbortClosing", "Settled", &["Completed", "Routed", "Node gone"]),
    row("AbortClosing", "Storing", &["Node gone"]),
    row("Removing", "Absent", &["Removed", "Routed", "Node gone"]),
];

const GIVEN_UP: &[&str] = &["Refused", "Failed", "Given up"];

const COORDINATOR: &[Row] = &[
    row("Absent", "Preparing", &["Order"]),
    row("Absent", "Gating", &["Order"]),
    row("Preparing", "Gating", &["Prepared"]),
    row("Preparing", "Aborting", &["Given up"]),
    row("Preparing", "Failed", &["Refused", "Unreachable"]),
    row("Gating", "Reading", &["Gated"]),
    row("Gating", "Fetching", &["Gated"]),
    row("Gating", "Switching", &["Gated"]),
    row("Gating", "Restoring", &["Failed", "Given up"]),
    row("Reading", "Sending", &["Read"]),
    row("Reading", "Restoring", GIVEN_UP),
    row("Sending", "Reading", &["Taken"]),
    row("Sending", "Switching", &["Taken"]),
    row("Sending", "Restoring", GIVEN_UP),
    row("Fetching", "Writing", &["Contexts"]),
    row("Fetching", "Restoring", GIVEN_UP),
    row("Writing", "Fetching", &["Written"]),
    row("Writing", "Switching", &["Written"]),
    row("Writing", "Restoring", GIVEN_UP),
    row("Switching", "Releasing", &["Switched"]),
    row("Switching", "Moved", &["Switched"]),
    row("Switching", "Aborting", &["Failed"]),
    row("Switching", "Failed", &["Failed"]),
    row("Restoring", "Aborting", &["Restored"]),
    row("Restoring", "Failed", &["Restored"]),
    row("Releasing", "Moved", &["Released", "Refused", "Given up"]),
    row("Aborting", "Failed", &["Aborted", "Refused", "Given up"]),
];

const PARTICIPANT: &[Row] = &[
    row("Absent", "Checking", &["Prepare"]),
    row("Checking", "Ready", &["Checked"]),
    row("Ready", "Writing", &["Contexts"]),
    row("Writing", "Ready", &["Written"]),
    row("Writing", "Complete", &["Written"]),
    row("Ready", "Reading", &["Fetch"]),
    row("Reading", "Ready", &["Read"]),
    row("Reading", "Complete", &["Read"]),
    row("Checking", "Absent", &["Failed", "Prepare", "Release", "Abort", "Silence"]),
    row("Ready", "Absent", &["Prepare", "Release", "Abort", "Silence"]),
    row("Writing", "Absent", &["Failed"]),
    row("Reading", "Absent", &["Failed", "Prepare", "Release", "Abort", "Silence"]),
    row("Complete", "Absent", &["Prepare", "Release", "Abort", "Silence"]),
];

/// The tables as Markdown, as `docs/handover.md` has them.
pub fn markdown(role: Role) -> String {
    let mut text = "| from | to | by |\n|---|---|---|\n".to_owned();
    for row in table(role) {
        text.push_str(&format!("| {} | {} | {} |\n", row.from, row.to, row.events.join(", ")));
    }
    text
}
