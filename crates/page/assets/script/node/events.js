// What bearers and GTP-U peers tell, the newest first.

import { get } from "../api.js";
import { h, table } from "../dom.js";
import { duration } from "../format.js";

const MOST = 256;

const WORDS = {
  downlinkData: ({ bearer }) => ["downlink data", `a packet waits for the idle bearer ${bearer}`, "Page the user and activate the bearer, or its queue fills."],
  errorIndication: ({ bearer, user, teid, peer }) => ["error indication", `peer ${peer} does not know the tunnel 0x${teid.toString(16).padStart(8, "0")} of ${user ? `user ${user}` : `bearer ${bearer ?? "?"}`}`, "The peer has lost the tunnel: set the bearer up again."],
  portChanged: ({ port, state }) => [`port ${state}`, state === "gone" ? `the device of port ${port} is gone` : `the link of port ${port} is ${state}`, state === "up" ? "" : "Look at the cable, the interface or the device."],
  peerFailed: ({ local, peer }) => ["peer failed", `${peer} does not answer Echo Requests from ${local}`, "Look at the link and the peer; its tunnels carry nothing."],
  peerReturned: ({ local, peer }) => ["peer returned", `${peer} answers ${local} again`, ""],
};

export function events(element) {
  const list = table("Events", ["when", "event", "what", "what to do"]);
  element.append(h("div", { class: "panel" }, h("h2", {}, "Events of bearers, GTP-U peers and ports"), list.element));
  let known = [];
  let number = 0;
  const enter = (events) => {
    known = [...known, ...events.map((event) => ({ event, number: (number += 1) }))].slice(-MOST);
  };
  get("/v1/events").then(enter, () => {});
  return {
    update({ look, snapshot, view }) {
      enter(look.events);
      if (view !== "events") return;
      list.render([...known].reverse().map(({ event, number }) => {
        const [[kind, fields]] = Object.entries(event);
        const [name, what, advice] = WORDS[kind]?.(fields) ?? [kind, JSON.stringify(fields), ""];
        return { key: number, cells: [`${duration(Math.max(0, snapshot.uptime - fields.time))} ago`, name, what, advice] };
      }), "Nothing has happened since the node started, or since the page's server did.");
    },
  };
}
