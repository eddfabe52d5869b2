// The page of a controller: nodes, their users, handovers.

import { Refused, change, get, part, post } from "./api.js";
import { by, h, say, table } from "./dom.js";
import { clock, counted, duration, exact, percent, rate } from "./format.js";
import { askAt, askNow, token } from "./token.js";

/** Milliseconds between two looks. */
const EVERY = 2000;
/** Events that are shown. */
const MOST = 100;
const PAGE = 50;

let last = Date.now();
let first = 0;
const events = [];

askAt(by("token"));

const totals = ["nodes", "users", "moving", "packets"].map((title) => {
  const value = h("dd", {}, "–");
  const small = h("dd", { class: "small" });
  by("totals").append(h("div", {}, h("dt", {}, title), value, small));
  return [value, small];
});
const nodes = table("Nodes", ["node", "state", "last heard", "address", "version", "users", "share", "moving", "packets", "of capacity", "drops", "busy", "work on it"], 5, true);
const orders = table("Handovers", ["order", "what", "state", "users", "moved", "aborted", "refused"], 3);
const told = table("Events", ["when", "event", "user", "node", "why"]);
const users = table("Users", ["user", "owner", "anchor", "state", "goes to"]);
const done = h("p", { class: "note", role: "status" });
by("nodes").append(nodes.element, done,
  h("p", { class: "note" }, "A node that is cordoned takes no further users. Drain cordons a node and hands its users to the stations that have the fewest. "
    + "A share is that of all users. Packets and drops are those of the last five seconds, as the node says itself; busy is the share of its busiest core that they take. "
    + "Where a node has not said what it can carry (--handover-capacity), there is no share of it."));

/** Cordons, uncordons or drains a node. */
async function keep(name, what) {
  if (!token()) {
    askNow();
    return;
  }
  const at = `/v1/nodes/${part(name)}`;
  try {
    if (what === "Drain") {
      const orders = await change("POST", `${at}/drain`);
      const moving = orders.reduce((sum, order) => sum + order.users, 0);
      const to = orders.map((order) => order.to).join(", ");
      say(done, `${name} takes no further users; ${moving > 0 ? `${counted(moving, "user")} of it ${moving === 1 ? "goes" : "go"} to ${to}` : "it has none to hand over"}.`);
    } else {
      await change(what === "Cordon" ? "PUT" : "DELETE", `${at}/cordon`);
      say(done, `${name} takes ${what === "Cordon" ? "no further users" : "users again"}.`);
    }
    await look();
  } catch (error) {
    say(done, `${name}: ${error.message}`);
    if (error instanceof Refused && error.status === 401) askNow();
  }
}

/** The buttons of each node, which stay the same while its row is there. */
const works = new Map();
function work({ name, cordoned }) {
  if (!works.has(name)) {
    const turn = h("button", { type: "button", class: "quiet", onclick: () => keep(name, turn.textContent) });
    const drain = h("button", { type: "button", class: "quiet", "aria-label": `Drain ${name}`, onclick: () => keep(name, "Drain") }, "Drain");
    works.set(name, { turn, all: h("span", { class: "works" }, turn, drain) });
  }
  const { turn, all } = works.get(name);
  const title = cordoned ? "Uncordon" : "Cordon";
  say(turn, title);
  turn.setAttribute("aria-label", `${title} ${name}`);
  return all;
}

/** Moves all users of a node to another, for work on it. */
const from = h("select", { id: "from" });
const to = h("select", { id: "to" });
const said = h("p", { class: "note", role: "status" });
async function drain(event) {
  event.preventDefault();
  if (!token()) {
    askNow();
    return;
  }
  try {
    const order = await post("/v1/handovers", { allFrom: from.value, to: to.value });
    say(said, `order ${order.id}: ${counted(order.users, "user")} from ${from.value} to ${to.value}`);
  } catch (error) {
    say(said, error.message);
    if (error instanceof Refused && error.status === 401) askNow();
  }
}
by("handovers").append(
  h("form", { class: "mover", onsubmit: drain }, h("label", { for: "from" }, "All users of"), from, h("label", { for: "to" }, "to"), to,
    h("button", { type: "submit" }, "Hand over"), said), orders.element);
by("events").append(told.element);

const owner = h("select", { id: "owner", onchange: () => page(0) });
const where = h("p", { class: "note", role: "status" });
const turn = (title, step) => h("button", { type: "button", class: "quiet", onclick: () => page(step()) }, title);
let shown = [];
const before = [];
const back = turn("Previous", () => before.pop() ?? 0);
const on = turn("Next", () => {
  before.push(first);
  return (shown.at(-1)?.user ?? -1) + 1;
});
const field = h("input", { id: "number", type: "number", min: 0, placeholder: "number" });
by("users").append(h("h2", {}, "Users"),
  h("form", { class: "watch", onsubmit: (event) => { event.preventDefault(); page(Number(field.value) || 0); } },
    h("label", { for: "owner" }, "Of"), owner, h("label", { for: "number" }, "from"), field, h("button", { type: "submit", class: "quiet" }, "Show")),
  where, users.element, h("div", { class: "buttons" }, back, on));

async function page(from) {
  first = from;
  const of = owner.value ? `&owner=${part(owner.value)}` : "";
  try {
    const found = await get(`/v1/users?first=${from}&count=${PAGE + 1}${of}`);
    shown = found.slice(0, PAGE);
    on.disabled = found.length <= PAGE;
    back.disabled = before.length === 0;
    say(where, "");
    users.render(shown.map((user) => ({
      key: user.user, cells: [user.user, user.owner ?? "none", user.anchor, user.state, user.target ?? ""], mark: user.state !== "Settled",
    })), "There is no such user, or its nodes have not connected yet.");
  } catch (error) {
    say(where, error.message);
  }
}

/** Sets the choices of a list and keeps what is chosen. */
function offer(select, names, any) {
  const values = any ? ["", ...names] : names;
  if (select.options.length === values.length && values.every((value, at) => select.options[at].value === value)) return;
  const chosen = select.value;
  select.replaceChildren(...values.map((value) => h("option", { value }, value || any)));
  if (values.includes(chosen)) select.value = chosen;
}

async function look() {
  try {
    const [of, list, handovers] = await Promise.all([get("/v1/controller"), get("/v1/nodes"), get("/v1/handovers")]);
    last = Date.now();
    by("gone").hidden = true;
    document.body.classList.remove("lost");
    document.title = `${of.name} · Weft site`;
    say(by("name"), of.name);
    say(by("state"), `live, version ${of.version}`);
    show(list, handovers);
  } catch (error) {
    if (Date.now() - last < 2 * EVERY) return;
    document.body.classList.add("lost");
    by("gone").hidden = false;
    say(by("state"), "gone");
    say(by("gone"), `The controller has not answered since ${clock(last)} (${error.message}). Nodes carry packets without it; the page asks again.`);
  }
}

function show(list, handovers) {
  const all = list.reduce((sum, node) => sum + node.users, 0);
  const moving = list.reduce((sum, node) => sum + node.moving, 0);
  const lost = list.filter((node) => !node.connected).length;
  const open = handovers.filter((order) => !order.finished);
  const heard = list.filter((node) => Number.isFinite(node.load?.receivedPerSecond));
  const sum = (what) => heard.reduce((all, node) => all + node.load[what], 0);
  const carried = heard.length > 0 ? `${rate(sum("droppedPerSecond"))} dropped, of ${counted(heard.length, "node")}` : "no node has said";
  const figures = [
    [exact(list.length), lost > 0 ? `${lost} not connected` : "all connected"], [exact(all), "that stay where they are"],
    [exact(moving), `${counted(open.length, "open order")}`], [heard.length > 0 ? rate(sum("receivedPerSecond")) : "–", carried],
  ];
  figures.forEach(([value, small], at) => {
    say(totals[at][0], value);
    say(totals[at][1], small);
  });
  const share = (part) => (Number.isFinite(part) ? percent(part) : "–");
  const perSecond = (number) => (Number.isFinite(number) ? rate(number) : "–");
  const state = (node) => (node.successor ? `gone: ${node.successor} takes its users` : `${node.connected ? "connected" : "not connected"}${node.expired ? ", its lease has ended" : ""}${node.cordoned ? ", cordoned" : ""}`);
  nodes.render(list.map((node) => ({
    key: node.name, mark: !node.connected || node.cordoned,
    cells: [node.name, state(node), node.lastHeard ? `${duration(Math.max(0, Date.now() - node.lastHeard) * 1e6)} ago` : "never", node.address,
      node.version ?? "not said", exact(node.users), all > 0 ? percent(node.users / all) : "–", exact(node.moving),
      perSecond(node.load?.receivedPerSecond), share(node.load?.receivedPerSecond / node.capacity), perSecond(node.load?.droppedPerSecond),
      share(node.load?.busy ?? NaN), work(node)],
  })), "The controller knows no nodes.");
  orders.render([...handovers].reverse().slice(0, PAGE).map((order) => ({
    key: order.id, mark: !order.finished,
    cells: [order.id, `${order.allFrom ? `all of ${order.allFrom}` : "one user"} to ${order.to}`, order.finished ? "finished" : `${order.underWay} under way`,
      exact(order.users), exact(order.moved), exact(order.aborted), exact(order.refused)],
  })), "No user was handed over since the controller started.");
  const names = list.map((node) => node.name);
  offer(from, names);
  const fresh = to.options.length === 0;
  offer(to, names);
  if (fresh && names.length > 1) to.selectedIndex = 1;
  offer(owner, names, "all nodes");
}

function listen() {
  const source = new EventSource("/v1/events");
  const enter = (event) => {
    events.push(JSON.parse(event.data));
    if (events.length > MOST) events.shift();
    told.render([...events].reverse().map((one) => ({
      key: one.number, cells: [clock(one.time), one.event, one.user ?? "", one.node ?? "", one.reason ?? ""],
    })), "");
  };
  for (const kind of ["ready", "moved", "aborting", "aborted", "no-owner", "owned", "removed", "refused", "connected", "lost",
    "registered", "expired", "takes-over", "rollout-failed", "rollout-complete",
    "spread", "upgraded", "upgrade-complete", "upgrade-failed", "upgrade-cancelled"]) {
    source.addEventListener(kind, enter);
  }
  told.render([], "Nothing has happened since this page was opened.");
  return source;
}

let source = listen();
setInterval(() => {
  if (source.readyState === EventSource.CLOSED) source = listen();
  look();
}, EVERY);
look().then(() => page(0));
