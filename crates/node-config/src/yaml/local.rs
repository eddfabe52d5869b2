//! What the node itself takes and answers.

use schemars::JsonSchema;
use serde::Deserialize;

/// What is answered, by default.
const ANSWERS: RateFile = RateFile { rate: 1000, burst: 200 };
/// What senders are told of their mistakes, by default.
const ERRORS: RateFile = RateFile { rate: 100, burst: 50 };

/// How much of what is for the node itself it takes and answers. Rates hold for each port
/// and worker; what is beyond them is dropped.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "LocalLimits")]
pub struct LocalFile {
    /// Packets of the node's own that may wait to be sent.
    #[schemars(range(min = 64, max = 65_536))]
    pub answers: u32,
    /// Token buckets for senders, at each worker: a sender has the one that a hash of its
    /// address says.
    #[schemars(range(min = 1, max = 1_048_576))]
    pub sources: u32,
    /// What one sender may cause of all that follows, neighbour messages apart.
    pub per_source: RateFile,
    /// ARP requests and neighbour solicitations that are answered.
    pub neighbour_requests: RateFile,
    /// ARP replies and neighbour advertisements that are read.
    pub neighbour_answers: RateFile,
    /// Echo requests of ICMP and ICMPv6 that are answered.
    pub pings: RateFile,
    /// GTP-U Echo Requests that are answered.
    pub echo_requests: RateFile,
    /// GTP-U Echo Responses that are read.
    pub echo_responses: RateFile,
    /// Other GTP-U messages that are read, such as Error Indications.
    pub gtpu_messages: RateFile,
    /// ICMP errors about a TTL or hop limit that is used up.
    pub time_exceeded: RateFile,
    /// ICMP errors about packets that are too long.
    pub packet_too_big: RateFile,
    /// ICMP errors about next hops that do not answer.
    pub host_unreachable: RateFile,
    /// ICMP errors about packets that no route leads on.
    pub no_route: RateFile,
    /// GTP-U Error Indications that are sent.
    pub error_indications: RateFile,
    /// GTP-U Supported Extension Headers Notifications that are sent.
    pub supported_extensions: RateFile,
}

/// How many a second, and how many at once.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Rate")]
pub struct RateFile {
    /// So many a second; 0 for none.
    #[schemars(range(max = 1_000_000))]
    pub rate: u32,
    /// So many at once.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub burst: u32,
}

impl Default for LocalFile {
    fn default() -> Self {
        LocalFile {
            answers: 511,
            sources: 1024,
            per_source: RateFile { rate: 100, burst: 100 },
            neighbour_requests: ANSWERS,
            neighbour_answers: ANSWERS,
            pings: ANSWERS,
            echo_requests: ANSWERS,
            echo_responses: ANSWERS,
            gtpu_messages: ANSWERS,
            time_exceeded: ERRORS,
            packet_too_big: ERRORS,
            host_unreachable: ERRORS,
            no_route: ERRORS,
            error_indications: ERRORS,
            supported_extensions: ERRORS,
        }
    }
}

impl LocalFile {
    /// The rates with their keys, in the order of `weft_dataplane::command::Punt`.
    pub fn rates(&self) -> [(&'static str, RateFile); 12] {
        [
            ("neighbourRequests", self.neighbour_requests),
            ("neighbourAnswers", self.neighbour_answers),
            ("pings", self.pings),
            ("echoRequests", self.echo_requests),
            ("echoResponses", self.echo_responses),
            ("gtpuMessages", self.gtpu_messages),
            ("timeExceeded", self.time_exceeded),
            ("packetTooBig", self.packet_too_big),
            ("hostUnreachable", self.host_unreachable),
            ("noRoute", self.no_route),
            ("errorIndications", self.error_indications),
            ("supportedExtensions", self.supported_extensions),
        ]
    }
}
