//! Values of information elements that are no groups (§8.2).

mod address;
mod basic;
mod features;
mod filter;
mod forward;
mod identity;
mod node;
mod qos;
mod text;
mod usage;

pub use address::{FTeid, GivenFTeid, RemoteGtpuPeer, UeIpAddress};
pub use basic::{
    BarId, Bits, FarId, Octets, PdrId, QerId, RuleId, Seconds, Time, TrafficEndpointId, UrrId,
};
pub use features::{CpFeatures, UpFeatures};
pub use filter::{PfdContents, SdfFilter};
pub use forward::{
    ApplyAction, DownlinkDataServiceInformation, ForwardingPolicy, Interface, OuterHeader,
    OuterHeaderCreation, OuterHeaderRemoval, RedirectInformation, TransportLevelMarking,
};
pub use identity::{FSeid, FqCsid, NodeAddress, NodeId};
pub use node::{
    AssociationRelease, AssociationRequestFlags, AssociationResponseFlags, AssociationUpdateFlags,
    EstablishmentFlags, GracePeriod, ModificationFlags, NodeReportType, PdnType,
    ReportRequestFlags, ReportResponseFlags, ReportType,
};
pub use qos::{
    DlFlowLevelMarking, GateStatus, PacketCount, PacketRate, QerControl, Rate, RateLimit,
};
pub use text::{Change, Text};
pub use usage::{
    AdditionalReports, DroppedDownlink, MeasurementInformation, MeasurementMethod,
    ReportingTriggers, UsageInformation, UsageTrigger, Volume, VolumeMeasurement,
};
