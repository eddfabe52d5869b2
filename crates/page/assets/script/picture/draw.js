// Draws the node: boxes for ports and functions, arrows for rules. The drawing is made once for
// a topology; each second only figures, widths and speeds change.

import { s, say } from "../dom.js";
import { cycles, rate } from "../format.js";
import { layout } from "./layout.js";

const MARGIN = 14;
/** Letters smaller than this part of their size are not read. */
const SMALLEST = 0.78;
/** Below this width of the page layers stand below each other. */
const NARROW = 620;

/** Pixels of an arrow: its area is as the packets that pass it, and the busiest has 11. */
const thickness = (packets, most) => (packets <= 0 ? 1.2 : 1.5 + 9.5 * Math.sqrt(packets / most));

const isNarrow = () => innerWidth < NARROW;

/** A picture in `element`; `chosen(box)` is called when a box is chosen. */
export function picture(element, chosen) {
  let topology = null;
  let drawn = null;
  let narrow = isNarrow();
  let steps = [];
  let current = null;

  addEventListener("resize", () => {
    if (narrow === isNarrow()) return;
    narrow = isNarrow();
    if (topology) make();
  });

  function boxOf(box) {
    const name = s("text", { class: "name", x: 12, y: 22 }, `${shortened(box.name, 19)} `);
    const what = s("text", { class: "what", x: 12, y: 39 });
    const figure = s("text", { class: "figure", x: 12, y: 56 });
    const right = s("text", { class: "figure right", x: box.width - 12, y: 56 });
    const drop = s("g", { class: "drop", transform: `translate(${box.width - 8},${box.height + 6})`, visibility: "hidden" });
    const lost = s("text", { x: -7, y: 4, "text-anchor": "end" });
    const badge = s("rect", { rx: 4, y: -9, height: 18 });
    drop.append(badge, lost);
    const group = s("g", {
      class: `box ${box.kind}`, tabindex: 0, role: "button", transform: `translate(${box.x},${box.y})`,
      onclick: () => chosen(box),
      onkeydown: (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        chosen(box);
      },
    }, s("rect", { class: "body", width: box.width, height: box.height, rx: box.kind === "function" ? 9 : 3 }), name, what, figure, right, drop);
    return { box, group, what, figure, right, drop, lost, badge, marks: [] };
  }

  function arrowOf(arrow) {
    const line = s("path", { class: "line", d: arrow.line });
    const flow = s("path", { class: "flow", d: arrow.line });
    const text = s("text", { class: "share", x: arrow.label.x, y: arrow.label.y + 4, "text-anchor": "middle" });
    const when = arrow.rule.when.length > 0 ? `when ${arrow.rule.when.join(" or ")}` : "all packets of some users";
    const group = s("g", { class: "arrow" }, s("title", {}, `${arrow.rule.from} to ${arrow.rule.to}: ${when}`), line, flow, text);
    return { arrow, group, line, flow, text };
  }

  function make() {
    const laid = layout(topology, narrow);
    const boxes = new Map(laid.boxes.map((box) => [box.id, boxOf(box)]));
    const arrows = new Map(laid.arrows.map((arrow) => [arrow.id, arrowOf(arrow)]));
    const head = s("marker", { id: "head", viewBox: "0 0 10 10", refX: 2, refY: 5, markerWidth: 14, markerHeight: 14, markerUnits: "userSpaceOnUse", orient: "auto" },
      s("path", { d: "M0,0 L10,5 L0,10 z" }));
    const view = [-MARGIN, -MARGIN, laid.width + 2 * MARGIN, laid.height + 2 * MARGIN];
    const drawing = s("svg", { viewBox: view.join(" "), role: "group", "aria-label": "Ports and functions; arrows are rules" },
      s("defs", {}, head), [...arrows.values()].map(({ group }) => group), [...boxes.values()].map(({ group }) => group));
    // As large as written; a little smaller where the page is narrower, and then it scrolls.
    drawing.style.width = `${view[2]}px`;
    drawing.style.minWidth = `${view[2] * (narrow ? 0.5 : SMALLEST)}px`;
    element.replaceChildren(drawing);
    drawn = { boxes, arrows };
    choose(current);
    show(steps);
  }

  function figures({ what, figure, right, drop, lost, badge, group }, words) {
    // The texts are the name of the button: blanks stand between them.
    say(what, `${shortened(words.what, 24)} `);
    say(figure, `${words.figure} `);
    say(right, `${words.right ?? ""} `);
    group.classList.toggle("off", Boolean(words.off));
    const dropped = words.dropped > 0;
    drop.setAttribute("visibility", dropped ? "visible" : "hidden");
    if (dropped) {
      say(lost, `▼ ${rate(words.dropped)}`);
      const width = lost.textContent.length * 6.6 + 14;
      badge.setAttribute("x", -width);
      badge.setAttribute("width", width);
    }
  }

  /** Shows the rates of a look. */
  function update(snapshot, now, flows) {
    if (!drawn) return;
    const ports = new Map(snapshot.ports.map((port) => [port.name, port]));
    const functions = new Map(snapshot.functions.map((one) => [one.name, one]));
    for (const entry of drawn.boxes.values()) {
      const { box } = entry;
      if (box.kind === "function") {
        const known = functions.get(box.name);
        const figure = now.functions.get(box.name);
        if (!known || !figure) continue;
        const away = known.process && !["running", "reachable"].includes(known.process.state);
        figures(entry, {
          what: `${known.kind} · ${known.composition}${away ? ` · ${known.process.state}` : ""}`, figure: rate(figure.rate),
          right: `${cycles(figure.cycles)} cycles`, dropped: figure.drops, off: away,
        });
      } else {
        const known = ports.get(box.name);
        const figure = now.ports.get(box.name);
        const receives = box.kind === "in";
        const link = known ? (known.up ? "" : " · link down") : "service path";
        figures(entry, {
          what: `${receives ? "receive" : "transmit"}${link}`,
          figure: figure ? rate(receives ? figure.rx : figure.tx) : "", dropped: receives ? figure?.missed : 0, off: known && !known.up,
        });
      }
    }
    const shares = new Map(flows.rules.map((flow) => [`${flow.from} ${flow.to}`, flow]));
    const most = Math.max(1, ...flows.rules.filter(({ to }) => to !== "drop").map((flow) => flow.rate));
    for (const { arrow, group, line, flow, text } of drawn.arrows.values()) {
      const packets = shares.get(arrow.id)?.rate ?? 0;
      const width = thickness(packets, most);
      line.style.strokeWidth = `${width}px`;
      flow.style.strokeWidth = `${Math.max(1, width * 0.4)}px`;
      flow.style.animationDuration = `${Math.max(0.35, 3 - Math.log10(1 + packets) * 0.42)}s`;
      group.classList.toggle("still", packets <= 0);
      say(text, packets > 0 ? rate(packets) : "");
    }
  }

  /** Marks the chosen box. */
  function choose(id) {
    current = id;
    for (const [key, { group }] of drawn?.boxes ?? []) group.setAttribute("aria-pressed", String(key === id));
  }

  /** Draws the steps of a packet: `{place, kind}`, in order. */
  function show(list) {
    steps = list;
    if (!drawn) return;
    const on = new Set();
    for (const entry of drawn.boxes.values()) {
      entry.marks.forEach((mark) => mark.remove());
      entry.marks = [];
      entry.group.classList.remove("stepped");
    }
    list.forEach((step, at) => {
      const entry = drawn.boxes.get(step.id);
      if (!entry) return;
      entry.group.classList.add("stepped");
      const mark = s("g", { class: `step ${step.dropped ? "ends" : ""}`, transform: `translate(${8 + entry.marks.length * 22},0)` },
        s("circle", { r: 10 }), s("text", { y: 4, "text-anchor": "middle" }, String(at + 1)));
      entry.marks.push(mark);
      entry.group.append(mark);
      const before = list[at - 1];
      if (before) on.add(`${before.name} ${step.name}`);
    });
    element.classList.toggle("tracing", list.length > 0);
    for (const [id, { group }] of drawn.arrows) group.classList.toggle("on", on.has(id));
  }

  return {
    /** Draws another topology, if it is another. */
    draw(next) {
      if (topology && JSON.stringify(topology) === JSON.stringify(next)) return;
      topology = next;
      make();
    },
    update, choose, show,
  };
}

const shortened = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
