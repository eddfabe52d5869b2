// What is beside the picture: a port or function that was chosen, or a packet that was traced.

import { Refused, get, part, post } from "../api.js";
import { chart } from "../chart.js";
import { h, say } from "../dom.js";
import { bits, cycles, duration, exact, rate } from "../format.js";
import { askNow, token } from "../token.js";
import { contexts } from "./contexts.js";

const LINES = {
  function: [
    { label: "packets", of: "packets", unit: "/s" },
    { label: "cycles", of: "cycles", unit: "", scale: "cycles" },
    { label: "dropped", of: "dropped", unit: "/s" },
  ],
  port: [
    { label: "received", of: "received", unit: "/s" },
    { label: "sent", of: "sent", unit: "/s" },
  ],
};

/** A configuration, as YAML would have it. */
function written(value, indent = "") {
  if (value === null || typeof value !== "object") return String(value);
  const entries = Object.entries(value);
  if (entries.length === 0) return Array.isArray(value) ? "[]" : "{}";
  return entries.map(([name, inner]) => {
    const flat = inner === null || typeof inner !== "object" || Object.keys(inner).length === 0;
    const text = written(inner, `${indent}  `);
    const head = Array.isArray(value) ? "-" : `${name}:`;
    return flat ? `${indent}${head} ${text}` : `${indent}${head}\n${text}`;
  }).join("\n");
}

export function detail(element, { topology, steps, changed }) {
  let box = null;
  let plot = null;
  let figures = [];
  let trace = null;
  let kept = null;

  function clear() {
    plot?.end();
    plot = kept = null;
    figures = [];
    box = trace = null;
    element.classList.remove("chosen");
    steps([]);
  }

  function hint() {
    element.replaceChildren(h("p", {}, "Choose a port or a function to see its configuration, counters and the last 15 minutes. Choose a user under ",
      h("a", { href: "#users" }, "Users"), " to trace its packets: their steps are drawn here."));
  }

  /** Titles and what `of(all)` says, each second. */
  function list(rows, more) {
    const cells = rows.map(([title, of]) => ({ title, of, value: h("dd", {}, "–") }));
    figures.push(...cells);
    return h("div", { class: "part" }, h("dl", { class: "figures" }, cells.map(({ title, value }) => h("div", {}, h("dt", {}, title), value))), more);
  }

  function past(name, kind) {
    const place = h("div", { class: "chart" });
    plot = chart(place, `The last 15 minutes of ${name}`, LINES[kind]);
    const mine = plot;
    get(`/v1/history?of=${part(name)}`).then((answer) => mine === plot && plot.fill(answer), () => {});
    return h("div", { class: "part" }, h("h3", {}, "Last 15 minutes"), place);
  }

  function close() {
    clear();
    hint();
  }

  const head = (kind, name) => h("div", { class: "head" },
    h("h2", {}, h("span", { class: "of" }, kind), " ", name),
    h("button", { type: "button", class: "quiet", onclick: close, "aria-label": "Close the detail" }, "×"));

  function showPort(name) {
    const known = topology()?.ports.find((port) => port.name === name);
    const port = ({ snapshot }) => snapshot.ports.find((one) => one.name === name);
    const now = ({ now }) => now.ports.get(name);
    const when = (of) => (all) => (port(all) ? of(all) : "–");
    element.replaceChildren(head("port", name),
      list([
        ["received now", when((all) => `${rate(now(all).rx)}, ${bits(now(all).rxBits)}`)],
        ["sent now", when((all) => `${rate(now(all).tx)}, ${bits(now(all).txBits)}`)],
        ["received", when((all) => exact(port(all).rx_packets))], ["sent", when((all) => exact(port(all).tx_packets))],
        ["missed", when((all) => exact(port(all).rx_missed))], ["errors", when((all) => exact(port(all).rx_errors))],
        ["link", when((all) => (port(all).up ? "up" : "down"))], ["MAC address", when((all) => port(all).mac)],
      ]),
      h("div", { class: "part" }, h("h3", {}, "Configuration"), h("dl", { class: "figures" },
        [["device", known?.device || "a service path"], ["direction", known?.direction], ["addresses", known?.addresses.join(", ") || "none"], ["MTU", known?.mtu]]
          .map(([title, value]) => h("div", {}, h("dt", {}, title), h("dd", {}, String(value ?? "–")))))),
      past(name, "port"));
  }

  /** Chooses how a function is run from now on. */
  function mover(name, known) {
    const choices = ["call", "fused", "thread", "process", "remote"].filter((one) => one !== "fused" || known?.fusible);
    const select = h("select", { id: "run-as" }, choices.map((one) => h("option", { value: one, selected: one === known?.composition }, one)));
    const peer = h("input", { id: "run-peer", placeholder: "/run/weft/edge-2.sock", autocomplete: "off" });
    const peerField = h("p", { hidden: true }, h("label", { for: "run-peer" }, "Socket of the other node"), peer);
    select.addEventListener("change", () => { peerField.hidden = select.value !== "remote" && known?.composition !== "remote"; });
    const said = h("p", { class: "note", role: "status" });
    const button = h("button", { type: "submit" }, "Run it so");
    async function move(event) {
      event.preventDefault();
      if (!token()) {
        say(said, "This needs the token.");
        askNow();
        return;
      }
      button.disabled = true;
      say(said, "moving …");
      const between = select.value === "remote" || known?.composition === "remote";
      const order = { composition: select.value, ...(between && peer.value ? { peer: peer.value } : {}) };
      try {
        const answer = await post(`/v1/functions/${part(name)}${between ? "/move" : ""}`, order);
        say(said, answer.state === "moving" ? `on its way: ${answer.step}` : `${name} runs as ${select.value}${answer.settled ? "" : "; not all workers have taken it over yet"}`);
        if (known) known.composition = select.value;
        changed();
      } catch (error) {
        say(said, `${error.message}`);
        if (error instanceof Refused && error.status === 401) askNow();
      } finally {
        button.disabled = false;
      }
    }
    return h("form", { class: "mover", onsubmit: move },
      h("h3", {}, "Where it runs"), h("label", { for: "run-as" }, "Run as"), select, button, peerField, said);
  }

  function showFunction(name) {
    const known = topology()?.functions.find((one) => one.name === name);
    const one = ({ snapshot }) => snapshot.functions.find((one) => one.name === name);
    const when = (of) => (all) => (one(all) ? of(all, all.now.functions.get(name)) : "gone");
    const reasons = h("ul", { class: "reasons" });
    figures.push({
      value: reasons,
      render: ({ snapshot }) => snapshot.drops.filter((drop) => drop.function === name).map((drop) => `${drop.reason}: ${exact(drop.packets)} (${drop.meaning})`),
    });
    kept = contexts(name);
    const config = known && Object.keys(known.config ?? {}).length > 0 ? written(known.config) : "nothing is configured";
    element.replaceChildren(head("function", name),
      list([
        ["packets now", when((_, now) => `${rate(now.rate)}, ${bits(now.bits)}`)],
        ["cycles per packet", when((_, now) => cycles(now.cycles))],
        ["packets", when((all) => exact(one(all).packets))], ["bytes", when((all) => exact(one(all).bytes))],
        ["dropped", when((all, now) => `${exact(one(all).drops)}, now ${rate(now.drops)}`)],
        ["function", when((all) => one(all).kind)],
        ["run as", when((all) => [one(all).composition, one(all).stage, one(all).process?.state].filter(Boolean).join(", "))],
      ], reasons),
      h("div", { class: "part" }, h("h3", {}, "Configuration"), h("pre", { tabindex: 0 }, config), mover(name, known)),
      h("div", { class: "part" }, h("h3", {}, "Contexts of the users with the most traffic"), kept.element),
      past(name, "function"));
  }

  // The node reads its clock once a burst: steps within one have the same time.
  function showStep(packet) {
    steps(packet.steps);
    const begin = packet.list[0].time;
    trace.list.replaceChildren(...packet.list.map((step) => h("li", { class: step.last && step.place.startsWith("dropped") ? "ends" : null },
      h("b", {}, step.place),
      h("span", { class: "note" }, ` ${step.time > begin ? `+ ${duration(step.time - begin)}, ` : ""}${step.length} bytes`),
      Object.keys(step.tags).length > 0 && h("span", { class: "tags" }, Object.entries(step.tags).map(([name, value]) => `${name}=${value}`).join(" ")))));
    for (const [button, known] of trace.buttons) button.setAttribute("aria-pressed", String(known === packet));
  }

  hint();
  return {
    /** Shows a box of the picture. */
    show(chosen) {
      clear();
      element.classList.add("chosen");
      box = chosen;
      if (chosen.kind === "function") showFunction(chosen.name);
      else showPort(chosen.name);
      if (matchMedia("(max-width: 900px)").matches) element.scrollIntoView({ block: "nearest" });
    },
    /** Shows packets that were traced: `{title, packets, missed}`. */
    trace({ title, packets, missed }) {
      clear();
      element.classList.add("chosen");
      const buttons = packets.map((packet, at) => [h("button", { type: "button", class: "quiet", onclick: () => showStep(packet) }, String(at + 1)), packet]);
      trace = { list: h("ol", { class: "steps" }), buttons };
      element.replaceChildren(head("trace of", title),
        h("div", { class: "buttons", role: "group", "aria-label": "Packets" }, "Packet ", buttons.map(([button]) => button)),
        trace.list, missed > 0 ? h("p", { class: "note" }, `${missed} steps came faster than they were read, and are missing.`) : "");
      if (packets.length > 0) showStep(packets[0]);
      element.focus({ preventScroll: true });
    },
    /** Shows the figures of a look. */
    update(all) {
      for (const figure of figures) {
        if (figure.render) {
          const lines = figure.render(all);
          if (figure.value.textContent !== lines.join("")) figure.value.replaceChildren(...lines.map((line) => h("li", {}, line)));
        } else say(figure.value, String(figure.of(all)));
      }
      kept?.update(all);
      if (!plot || !box) return;
      const { now, look } = all;
      const mine = box.kind === "function" ? now.functions.get(box.name) : now.ports.get(box.name);
      if (mine) plot.add(look.time, box.kind === "function" ? [mine.rate, mine.cycles, mine.drops] : [mine.rx, mine.tx]);
    },
    close,
  };
}
