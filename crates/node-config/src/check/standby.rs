//! Another node that stands by.

use weft_mobility_protocol::NodeId;

use super::{handover, within};
use crate::blueprint::{SitePlan, StandbyPlan};
use crate::locate::Source;
use crate::mistake::Mistake;
use crate::yaml::NodeFile;

/// The plan of the node's part in a pair.
pub(super) fn plan(file: &NodeFile, source: &mut Source<'_>) -> Option<StandbyPlan> {
    let standby = file.standby.as_ref()?;
    within(source, "standby.node", standby.node.into(), 1, u32::MAX.into());
    within(source, "standby.buffer", standby.buffer.into(), 1, 4096);
    if file.state.is_none() {
        let mistake = source.wrong("standby", "there is nothing that the standby could have");
        mistake.hint("give `state`: the standby has the records that are kept there");
    }
    if file.handover.is_some() {
        let message = "a node that takes part in handovers has no standby";
        source.wrong("standby", message).hint("give either `handover` or `standby`");
    }
    let name = file.metadata.name.as_str();
    let tls = standby.tls.as_ref();
    let security = tls.map(|tls| handover::security("standby", (name, tls), source));
    if standby.tls.is_some() && standby.plaintext {
        source.wrong("standby.plaintext", "connections have `tls`, so none is in plain text");
    }
    Some(StandbyPlan {
        node: NodeId(standby.node),
        wait: standby.wait,
        buffer: (standby.buffer as usize) << 20,
        security,
        plaintext: standby.plaintext,
    })
}

/// The plan of the node's part in a site.
pub(super) fn site(file: &NodeFile, source: &mut Source<'_>) -> Option<SitePlan> {
    let site = file.site.as_ref()?;
    within(source, "site.node", site.node.into(), 1, u32::MAX.into());
    if file.handover.is_some() || file.standby.is_some() {
        let message = "a node with `handover` or `standby` is of a site already";
        source.wrong("site", message).hint("give one of them");
    }
    let (name, tls) = (file.metadata.name.as_str(), site.tls.as_ref());
    let security = tls.map(|tls| handover::security("site", (name, tls), source));
    if site.tls.is_some() && site.plaintext {
        source.wrong("site.plaintext", "connections have `tls`, so none is in plain text");
    }
    Some(SitePlan { node: NodeId(site.node), security, plaintext: site.plaintext })
}

/// What is probably not meant.
pub(super) fn warning(file: &NodeFile, source: &mut Source<'_>) -> Option<Mistake> {
    let message = "records, with the keys of users in them, travel unenciphered, and who knows \
                   the token speaks for any node";
    file.standby.as_ref().is_some_and(|standby| standby.plaintext).then(|| {
        source.wrong("standby.plaintext", message).hint("give `tls` instead");
        // It is none that keeps the node from starting.
        source.mistakes.pop()
    })?
}
