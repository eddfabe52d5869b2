// GTP-U peers and neighbours.

import { get } from "../api.js";
import { h, table } from "../dom.js";
import { duration, exact } from "../format.js";

/** Looks between two questions. */
const EVERY = 2;

export function links(element) {
  const peers = table("GTP-U peers", ["peer", "node's address", "state", "tunnels", "asked", "answered", "failures"], 3);
  const messages = table("GTP-U messages", ["message", "packets"], 1);
  const neighbours = table("Neighbours", ["address", "port", "MAC address", "state", "last sign of life"], 4);
  element.append(
    h("div", { class: "split even" },
      h("div", { class: "panel" }, h("h2", {}, "GTP-U peers"), peers.element),
      h("div", { class: "panel" }, h("h2", {}, "Messages with peers"), messages.element)),
    h("div", { class: "panel" }, h("h2", {}, "Neighbours"), neighbours.element));
  let looks = 0;
  return {
    async update({ snapshot, view }) {
      if (view !== "links") {
        looks = 0;
        return;
      }
      const { signals } = snapshot;
      messages.render([
        ["Echo Requests sent", signals.echo_requests], ["Echo Responses to them", signals.echo_responses],
        ["Echo Requests answered", signals.echo_requests_answered], ["Error Indications", signals.error_indications],
        ["Error Indications not acted on", signals.error_indications_ignored], ["End Markers sent", signals.end_markers],
      ].map(([what, count]) => ({ key: what, cells: [what, exact(count ?? 0)] })));
      looks += 1;
      if (looks % EVERY !== 1) return;
      const [ofPeers, ofNeighbours] = await Promise.all([get("/v1/peers"), get("/v1/neighbours")].map((asked) => asked.catch(() => null)));
      if (ofPeers) {
        peers.render(ofPeers.map((one) => ({
          key: `${one.local} ${one.peer}`,
          cells: [one.peer, one.local, one.state, ...[one.tunnels, one.requests, one.responses, one.failures].map((count) => exact(count ?? 0))],
        })), "The node has no tunnels to peers.");
      }
      if (ofNeighbours) {
        neighbours.render(ofNeighbours.map((one) => ({
          key: `${one.port} ${one.address}`,
          cells: [one.address, one.port, one.mac ?? "–", one.state, one.state === "permanent" ? "configured" : `${duration(one.quiet)} ago`],
        })), "No port has asked for a neighbour.");
      }
    },
  };
}
