//! Rules and the other groups of session messages (§7.5.2 to §7.5.8).

mod enforce;
mod forward;
mod report;
mod usage;

mod detect;

pub use detect::{
    CreatePdr, CreateTrafficEndpoint, CreatedPdr, CreatedTrafficEndpoint, Pdi, RemovePdr,
    RemoveTrafficEndpoint, UpdatePdr, UpdateTrafficEndpoint,
};
pub use enforce::{
    CreateBar, CreateQer, RemoveBar, RemoveQer, UpdateBar, UpdateBarInReport, UpdateQer,
};
pub use forward::{
    CreateFar, DuplicatingParameters, ForwardingParameters, RemoveFar, UpdateDuplicatingParameters,
    UpdateFar, UpdateForwardingParameters,
};
pub use report::{
    ApplicationDetection, DownlinkDataReport, ErrorIndicationReport, LoadControl, OverloadControl,
    UsageReport,
};
pub use usage::{AdditionalMonitoringTime, CreateUrr, QueryUrr, RemoveUrr, UpdateUrr};
