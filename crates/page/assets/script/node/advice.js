// What an operator does about a drop. Reasons and meanings are the node's own (docs/metrics.md);
// a test of the program checks that every reason has advice here.

const SENDER = "Look at the sender: such packets are wrong wherever they go. `weft capture --at` shows one.";
const RATE = "Protection against floods. If the senders are wanted, raise the rate in limits.local.";
const LIMIT = "Raise the limit in the configuration, or find out who fills it.";
const FUNCTION = "See where the function runs (Moves): its state and last failure.";
const MOVE = "Expected while users move. If it goes on, see the controller's events.";
const NSH = "See that both nodes of the service path have the same path number, index and version.";

const ADVICE = {
  segmented: "Lower the MTU of the link, or give larger buffers.",
  ethernet_malformed: SENDER, pppoe_malformed: SENDER, ipv4_malformed: SENDER, ipv4_checksum: SENDER, ipv6_malformed: SENDER,
  transport_malformed: SENDER, gtpu_malformed: SENDER,
  vlan_malformed: "See which VLAN tags the switch adds; two are read.",
  ethertype_unknown: "Usually harmless: another protocol on the link. Keep it off with a VLAN.",
  gtpu_payload_unknown: "The session is neither IPv4 nor IPv6: set it up as one of them.",
  gtpu_extension_unknown: "The peer needs an extension header that the node does not know; it was told.",
  outer_fragment: "Raise the MTU between the tunnel's ends: tunnel packets must not be fragmented.",
  tunnelled_to_us: "A user sends to an address of the node. Harmless, unless the address should be the user's.",
  not_for_us: "The switch floods. See that it has learned the node's MAC address.",
  martian: "A user or host has a wrong address. If many, look for spoofing.",
  unknown_user: "The user is not set up, or sends from another address. Search it under Users.",
  unknown_teid: "The peer uses a tunnel that is gone; it gets Error Indications. Set the bearer up again.",
  bearer_drop: "As commanded: the bearer's action is drop.",
  buffer_full: "Page faster, or raise the bearer's buffer.", buffers_exhausted: LIMIT,
  not_loaded: "The node has just started and still reads what it had kept. If many, raise limits.waitingInAll.",
  no_rule: "Add a rule for these packets, or one that drops them knowingly. `weft check` lists the ways.",
  rule: "As the rules say. The picture shows from where.",
  loop: "The rules send a packet in a circle: see `weft check`.",
  burst_full: "A function emits more than it may: lower its input, or its fan-out.",
  kept_full: LIMIT, user_removed: "Expected: the user was removed while packets waited.",
  ttl_exceeded: "Usually traceroute. If many, look for a routing loop.",
  packet_too_big: "The sender was told; see that ICMP gets through to it.",
  port_gone: "The device has disappeared: see `weft show ports` and the kernel's log.",
  port_full: "The link or the receiver behind it is slower than the traffic. Raise descriptors, or slow the traffic.",
  no_route: "Give the port a subnet or gateway that leads there.",
  neighbour_pending: "See Links: the next hop has not answered yet.",
  neighbour_unreachable: "The next hop does not answer ARP or ND: see Links, cable and VLAN.",
  worker_ring_full: "Users of another worker overload it: give the node more workers or spread queues.",
  pool_exhausted: "Raise memory.packets, or find what keeps packets: idle bearers, gates, functions elsewhere.",
  local_full: RATE, neighbour_full: RATE, neighbour_request_rate: RATE, neighbour_answer_rate: RATE, ping_rate: RATE,
  echo_request_rate: RATE, echo_response_rate: RATE, gtpu_message_rate: RATE, local_source_rate: RATE,
  overload: "More comes than the workers carry within limits.delay: give the node more workers, or look for a user who floods.",
  backpressure: "A function elsewhere is slower than the traffic: give it a core, or move it back (Moves).",
  function_down: FUNCTION, hold_full: FUNCTION, function_lost: FUNCTION, function_too_long: "Raise the size of the function's ring buffers.",
  function_full: FUNCTION, function_malformed: "The function's process returned what is no packet: see its log and its author.",
  no_owner: MOVE, stale_epoch: MOVE, gate_full: "Raise handover.gates, or move fewer users at once.",
  nsh_malformed: NSH, vxlan_malformed: NSH, nsh_path_unknown: NSH, nsh_ttl_exceeded: "The service path goes in a circle between nodes.", nsh_payload_unknown: NSH,
  nsh_wrong_peer: "Frames of a service path came from another port or sender: set `from` of the path, or look for forgers.",
  tunnel_wrong_peer: "A packet of a move came from no node of the site: name the node in handover.peers, or look for forgers.",
  stopped: "Expected: the node was stopped.",
  taken_over: "Expected: packets waited for idle bearers as another process or node took over.",
  rx_missed: "The worker was too slow or was kept from its core: see Headroom; give it a core of its own, or another worker.",
  rx_errors: "See the cable, the switch port and buffers: the device received what it could not give.",
};

/** By the beginning of a reason: those of functions. */
const FAMILIES = [
  ["no_session", "The control plane has not set up a session for this address or tunnel."],
  ["no_pdr", "No rule of the session fits: see `weft show sessions` and the control plane's PDRs."],
  ["no_far", "The rule that fits names no FAR: an error of the control plane."],
  ["no_destination", "The FAR has no forwarding parameters: an error of the control plane."],
  ["far_drop", "As the control plane commands."],
  ["gate_closed", "As the control plane commands: a QER closes the gate."],
  ["not_http", "As the control plane commands: only HTTP is led to another page, and this is something else."],
  ["redirected", "As the control plane commands: the user was led to another page by HTTP."],
  ["quota_used", "The control plane has to grant a new quota; see that reports reach it."],
  ["bit_rate", "The session sends above its rate (MBR). Raise the QER's rate or leave it."],
  ["packet_rate", "The session sends above its packet rate. Raise it in the QER or leave it."],
  ["session_buffer_full", "Page faster, or suggest more packets in the BAR."],
  ["not_removed", "The PDR takes another outer header off than the packet has."],
  ["marker_", "The user sends above its rate, as configured. Raise the rate or leave it."],
  ["filter_", "As the filter is configured."],
  ["nat_no_mapping", "No user inside has asked for it: usually scans from outside."],
  ["nat_", "See the pool and limits of nat: docs/functions/nat.md names each reason."],
  ["lwaftr_", "See the softwire of this address: docs/functions/lwaftr.md names each reason."],
  ["route_", "As the route table says: docs/functions/route.md."],
  ["iphc_", "The two ends of the compression disagree; a full header repairs it. If many, look for loss on the link."],
  ["esp_", "See that both ends have the same security association: SPI, keys, peer."],
  ["solicitation", "Answered here, as it should be."],
  ["link_scope", "Belongs to the user's link alone, as it should be."],
  ["not_ip", "The function takes IP only: lead other packets around it by a rule."],
  ["synthetic_", "As the synthetic function is configured."],
  ["gtpu_", "See the tunnel of the bearer: TEID, peer and QFI at both ends."],
  ["spoofed_address", "The user sends from an address that is not its own."],
  ["wrong_peer", "The packet is not from the tunnel's peer: look for a stale tunnel, or a forged packet."],
  ["wrong_qfi", "The QFI is not the bearer's: set the bearer up again, or correct its QFI."],
  ["no_tunnel", "The bearer has no tunnel in this direction: give it one (Bearers)."],
  ["no_headroom", "A function before has used the room for headers: shorten the chain."],
  ["not_tunnelled", "Packets come outside of a tunnel: lead them around the function by a rule."],
  ["tunnelled_already", "Two functions put packets into tunnels: lead them around one by a rule."],
  ["end_marker", "Ends here, as it should: the last packet of an old path."],
  ["unknown_extension", "The peer needs an extension header that the node does not know."],
  ["function_panic", "The function failed at this packet: see the log, and report it to its author."],
  ["keep_refused", "The function keeps more packets than a burst has room for: report it to its author."],
  ["reason_undeclared", "The function has a mistake: report it to its author."],
];

/** What to do about a drop. */
export function advice({ reason }) {
  return ADVICE[reason] ?? FAMILIES.find(([begin]) => reason.startsWith(begin))?.[1] ?? "See the page of the function in docs/functions.";
}
