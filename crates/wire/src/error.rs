//! What can be wrong with a header.

/// A defect of a packet, or of the buffer that a header should go into.
///
/// The text is for an operator; [`Error::name`] is the same as a counter's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
pub enum Error {
    /// The bytes end before the header does.
    #[error("the packet ends inside a header")]
    Truncated,
    /// More VLAN tags than [`vlan::MAX_TAGS`](crate::vlan::MAX_TAGS).
    #[error("the frame has more VLAN tags than are read")]
    TooManyTags,
    /// ARP for other than IPv4 over Ethernet (RFC 826).
    #[error("ARP for other than IPv4 over Ethernet")]
    UnsupportedArp,
    /// The version is not that of the header looked for.
    #[error("the IP version is not the one that the packet was announced with")]
    BadVersion,
    /// IPv4 header length or TCP data offset below its minimum or beyond the bytes.
    #[error("the header length is below its minimum or beyond the packet")]
    BadHeaderLength,
    /// IPv4 total length below the header's or beyond the bytes.
    #[error("the IPv4 total length is below the header's or beyond the packet")]
    BadTotalLength,
    /// IPv6 payload length beyond the bytes.
    #[error("the IPv6 payload length is beyond the packet")]
    BadPayloadLength,
    /// IPv6 payload length 0 although the next header announces one.
    #[error("the IPv6 payload length is 0 although a header is announced")]
    MissingPayload,
    /// IPv6 payload length 0 with hop-by-hop options (RFC 2675).
    #[error("IPv6 jumbograms are not supported")]
    Jumbogram,
    /// More extension headers than [`ipv6::MAX_EXTENSION_HEADERS`](crate::ipv6::MAX_EXTENSION_HEADERS).
    #[error("the packet has more IPv6 extension headers than are read")]
    TooManyExtensionHeaders,
    /// An extension header that goes on beyond the packet (RFC 7112 for fragments).
    #[error("an IPv6 extension header goes on beyond the packet")]
    TruncatedExtensionHeader,
    /// An authentication header shorter than its fixed fields (RFC 4302 §2.2).
    #[error("an IPv6 extension header is shorter than its fixed fields")]
    BadExtensionHeaderLength,
    /// Hop-by-hop options elsewhere than first (RFC 8200 §4.1).
    #[error("IPv6 hop-by-hop options are not the first extension header")]
    MisplacedHopByHop,
    /// A second fragment header in one packet.
    #[error("the packet has two IPv6 fragment headers")]
    RepeatedFragmentHeader,
    /// UDP length below 8 or beyond the IP payload.
    #[error("the UDP length is below 8 or beyond the IP payload")]
    BadDatagramLength,
    /// An option of length 0, or one that goes on beyond its header.
    #[error("an option has length 0 or goes on beyond its header")]
    BadOption,
    /// A neighbour message about a multicast address (RFC 4861 §7.1).
    #[error("a neighbour message asks about a multicast address")]
    MulticastTarget,
    /// Not GTP version 1, or GTP' (TS 29.281 §5.1).
    #[error("the message is not of GTP version 1")]
    UnsupportedGtp,
    /// GTP-U length beyond the datagram, or below the optional fields.
    #[error("the GTP-U length is beyond the datagram or below its own fields")]
    BadGtpLength,
    /// A GTP-U extension header of length 0, or one that goes on beyond the
    /// message (TS 29.281 §5.2.1).
    #[error("a GTP-U extension header has length 0 or goes on beyond the message")]
    BadGtpExtension,
    /// More than [`gtpu::MAX_EXTENSION_HEADERS`](crate::gtpu::MAX_EXTENSION_HEADERS).
    #[error("the message has more GTP-U extension headers than are read")]
    TooManyGtpExtensions,
    /// Content of a GTP-U extension header that its type does not allow
    /// (TS 29.281 §5.2.2, TS 38.415 §5.5.2).
    #[error("a GTP-U extension header does not hold what its type says")]
    BadGtpExtensionContent,
    /// An information element that is unknown, cut off, or missing where it is
    /// mandatory (TS 29.281 §8).
    #[error("a GTP-U information element is unknown, cut off or missing")]
    BadInformationElement,
    /// A GTP-U message of another kind than the ones that are read.
    #[error("the GTP-U message is of no known type")]
    UnknownGtpMessage,
    /// NSH of another version or metadata type, or its length beyond the bytes
    /// or against its metadata type (RFC 8300 §2.2).
    #[error("the NSH version, length or metadata type is impossible")]
    BadNsh,
    /// An NSH context header that goes on beyond the NSH (RFC 8300 §2.5.1).
    #[error("an NSH context header goes on beyond the NSH")]
    BadContextHeader,
    /// VXLAN-GPE of another version.
    #[error("the VXLAN-GPE version is not 0")]
    UnsupportedVxlan,
    /// PPPoE that is not of the session stage, of another version, or longer
    /// than the frame (RFC 2516 §4).
    #[error("the frame is no PPPoE session frame, or its length is beyond the frame")]
    BadPppoe,
    /// A compressed header that is cut off or of no known form (RFC 2507 §6).
    #[error("the compressed header is cut off or of no known form")]
    BadCompressedHeader,
    /// The checksum does not fit the bytes.
    #[error("the checksum is wrong")]
    BadChecksum,
    /// A UDP checksum of 0 over IPv6 (RFC 8200 §8.1).
    #[error("UDP over IPv6 has no checksum")]
    ZeroChecksum,
    /// The buffer given to `emit` is shorter than `buffer_len`.
    #[error("the buffer is too short for the header")]
    BufferTooShort,
    /// The payload is longer than the header's length field can say.
    #[error("the payload is longer than the header can say")]
    PayloadTooLong,
}

impl Error {
    /// The defect as a counter's name: lower case, words joined by `_`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Truncated => "truncated",
            Self::TooManyTags => "too_many_tags",
            Self::UnsupportedArp => "unsupported_arp",
            Self::BadVersion => "bad_version",
            Self::BadHeaderLength => "bad_header_length",
            Self::BadTotalLength => "bad_total_length",
            Self::BadPayloadLength => "bad_payload_length",
            Self::MissingPayload => "missing_payload",
            Self::Jumbogram => "jumbogram",
            Self::TooManyExtensionHeaders => "too_many_extension_headers",
            Self::TruncatedExtensionHeader => "truncated_extension_header",
            Self::BadExtensionHeaderLength => "bad_extension_header_length",
            Self::MisplacedHopByHop => "misplaced_hop_by_hop",
            Self::RepeatedFragmentHeader => "repeated_fragment_header",
            Self::BadDatagramLength => "bad_datagram_length",
            Self::BadOption => "bad_option",
            Self::MulticastTarget => "multicast_target",
            Self::UnsupportedGtp => "unsupported_gtp",
            Self::BadGtpLength => "bad_gtp_length",
            Self::BadGtpExtension => "bad_gtp_extension",
            Self::TooManyGtpExtensions => "too_many_gtp_extensions",
            Self::BadGtpExtensionContent => "bad_gtp_extension_content",
            Self::BadInformationElement => "bad_information_element",
            Self::UnknownGtpMessage => "unknown_gtp_message",
            Self::BadNsh => "bad_nsh",
            Self::BadContextHeader => "bad_context_header",
            Self::UnsupportedVxlan => "unsupported_vxlan",
            Self::BadPppoe => "bad_pppoe",
            Self::BadCompressedHeader => "bad_compressed_header",
            Self::BadChecksum => "bad_checksum",
            Self::ZeroChecksum => "zero_checksum",
            Self::BufferTooShort => "buffer_too_short",
            Self::PayloadTooLong => "payload_too_long",
        }
    }
}

/// Text that does not name what it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// Not a MAC address.
    #[error("not a MAC address: write six pairs of hexadecimal digits, as in 02:00:00:00:00:01")]
    MacAddress,
    /// Not a DSCP.
    #[error("not a DSCP: write a name such as ef, af41 or cs0, or a number from 0 to 63")]
    Dscp,
    /// Not an IP protocol.
    #[error("not an IP protocol: write a name such as tcp or udp, or a number from 0 to 255")]
    Protocol,
}
