//! What the two functions support (§8.2.25, §8.2.58).

use crate::codec::flags::flags;

flags! {
    /// UP Function Features (§8.2.25), as far as they matter here.
    UpFeatures(u64) written 4 {
        /// Downlink data buffering in the control plane.
        BUCP = 0,
        /// Downlink Data Notification Delay.
        DDND = 1,
        /// DL Buffering Duration.
        DLBD = 2,
        /// Traffic steering by forwarding policies.
        TRST = 3,
        /// The user plane allocates F-TEIDs.
        FTUP = 4,
        /// PFD management.
        PFDM = 5,
        /// Header enrichment of uplink traffic.
        HEEU = 6,
        /// Traffic redirection enforcement.
        TREU = 7,
        /// End Markers are sent by the user plane.
        EMPU = 8,
        /// PDIs with traffic endpoints.
        PDIU = 9,
        /// Buffering controlled by BARs, in UDBC mode.
        UDBC = 10,
        /// Quota action.
        QUOAC = 11,
        /// Trace.
        TRACE = 12,
        /// Framed routing.
        FRRT = 13,
        /// PFD contents with several of a kind.
        PFDE = 14,
        /// Enhanced PFCP association release.
        EPFAR = 15,
        /// Deferred PDR activation or deactivation.
        DPDRA = 16,
        /// Activation and deactivation of predefined PDRs.
        ADPDP = 17,
        /// The user plane allocates addresses of users.
        UEIP = 18,
        /// Sessions of an SMF set.
        SSET = 19,
        /// Measurement of the number of packets.
        MNOP = 20,
        /// Multiple instances of traffic endpoint IDs in a PDI.
        MTE = 21,
        /// Bundled messages.
        BUNDL = 22,
        /// 5G VN group communication.
        GCOM = 23,
        /// Multiple associations of SMFs in a set.
        MPAS = 24,
        /// Redundant transmission at the transport layer.
        RTTL = 25,
        /// Quota Validity Time.
        VTIME = 26,
        /// Number of reports.
        NORP = 27,
        /// IPTV.
        IPTV = 28,
        /// IPv6 prefix length.
        IP6PL = 29,
        /// Time-sensitive communication.
        TSCU = 30,
        /// MPTCP proxy.
        MPTCP = 31,
        /// ATSSS-LL.
        ATSSS_LL = 32,
        /// Per QoS flow per UE QoS monitoring.
        QFQM = 33,
        /// Per GTP-U path QoS monitoring.
        GPQM = 34,
        /// MT-EDT.
        MT_EDT = 35,
        /// CIoT.
        CIOT = 36,
        /// Ethernet PDU session anchor relocation.
        ETHAR = 37,
        /// Reports on downlink data that is dropped or buffered.
        DDDS = 38,
        /// Reliable data service.
        RDS = 39,
    }

    /// CP Function Features (§8.2.58).
    CpFeatures(u32) written 1 {
        /// Load control.
        LOAD = 0,
        /// Overload control.
        OVRL = 1,
        /// Enhanced PFCP association release.
        EPFAR = 2,
        /// Sessions of an SMF set.
        SSET = 3,
        /// Bundled messages.
        BUNDL = 4,
        /// Multiple associations of SMFs in a set.
        MPAS = 5,
        /// Additional usage reports on deletion.
        ARDR = 6,
        /// Reports of user plane address usage.
        UIAUR = 7,
        /// Partial success of an establishment or modification.
        PSUCC = 8,
        /// Removal of predefined rules of a group.
        RPGUR = 9,
    }
}
