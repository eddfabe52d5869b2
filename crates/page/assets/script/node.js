// The page of a node.

import { get } from "./api.js";
import { by, say } from "./dom.js";
import { clock, duration } from "./format.js";
import { listen } from "./live.js";
import { counters } from "./node/counters.js";
import { detail } from "./node/detail.js";
import { drops } from "./node/drops.js";
import { events } from "./node/events.js";
import { headroom } from "./node/headroom.js";
import { links } from "./node/links.js";
import { moves } from "./node/moves.js";
import { pictureTable } from "./node/picture_table.js";
import { summary } from "./node/summary.js";
import { user } from "./node/user.js";
import { users } from "./node/users.js";
import { chart } from "./chart.js";
import { picture } from "./picture/draw.js";
import { rates } from "./rates.js";
import { askAt } from "./token.js";
import { follow, go, place } from "./views.js";

/** Looks between two questions for the topology when nothing seems to have changed. */
const ANEW = 30;

let topology = null;
let shape = "";
let looks = 0;
let before = null;
let lost = false;

askAt(by("token"));

const drawing = picture(by("drawing"), (box) => {
  drawing.choose(box.id);
  details.show(box);
});
const parts = {
  summary: summary(by("totals")),
  table: pictureTable(by("drawing-table")),
  headroom: headroom(by("headroom")),
  counters: counters(by("view-counters")),
  drops: drops(by("view-drops")),
  links: links(by("view-links")),
  moves: moves(by("view-moves"), (name) => {
    go("picture");
    drawing.choose(`function ${name}`);
    details.show({ kind: "function", name });
  }),
  events: events(by("view-events")),
  users: users(by("user-list"), (name) => go("users", name)),
};
const details = detail(by("detail"), {
  topology: () => topology,
  steps: (steps) => drawing.show(steps),
  changed: () => { shape = ""; },
});
const subscriber = user(by("user"), (trace) => {
  go("picture");
  drawing.choose(null);
  details.trace(trace);
});
const past = chart(by("history"), "Packets per second of the node in the last 15 minutes", [
  { label: "received", of: "received", unit: "/s" },
  { label: "sent", of: "sent", unit: "/s" },
  { label: "dropped", of: "dropped", unit: "/s" },
]);

const fillPast = () => get("/v1/history").then(past.fill, () => {});

async function draw(snapshot) {
  const now = JSON.stringify([snapshot.ports.map((port) => port.name), snapshot.functions.map((one) => [one.name, one.composition])]);
  if (now === shape && looks % ANEW !== 0) return;
  const next = await get("/v1/topology").catch(() => null);
  if (!next) return;
  shape = now;
  topology = next;
  drawing.draw(next);
}

async function seen(look) {
  const { snapshot } = look;
  const now = rates(snapshot, before);
  if (lost || now.restarted) fillPast();
  lost = false;
  by("gone").hidden = true;
  document.body.classList.remove("lost");
  document.title = `${snapshot.node} · Weft node`;
  say(by("name"), snapshot.node);
  say(by("state"), `live, up ${duration(snapshot.uptime)}`);
  await draw(snapshot);
  looks += 1;
  const all = { look, snapshot, now, topology, view: place()[0] };
  drawing.update(snapshot, now, look.flows);
  say(by("drawing-note"), look.flows.sample > 0
    ? `Boxes show exact counters. Arrows are shares of a sample of ${look.flows.sample} packets of the last 10 s, times those counters.`
    : "Boxes show exact counters. No packet was seen in the last 10 s.");
  for (const part of Object.values(parts)) part.update(all);
  details.update(all);
  subscriber.update(all);
  if (before) past.add(look.time, [now.rx, now.tx, now.dropped]);
  before = snapshot;
}

function gone(since) {
  lost = true;
  by("gone").hidden = false;
  document.body.classList.add("lost");
  say(by("state"), "gone");
  say(by("gone"), `The node has not answered since ${clock(since)}. What is shown is what was seen last; the page asks again every second.`);
}

follow((view, rest) => {
  if (view === "users") subscriber.show(rest);
});
fillPast();
listen(seen, gone);
