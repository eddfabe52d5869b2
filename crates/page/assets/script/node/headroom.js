// What the model says the node could carry beside what it carries, and what to change first.

import { h, say, table } from "../dom.js";
import { cycles, percent, rate } from "../format.js";

/** Packets of a burst from which on more of them would change little. */
const FULL = 24;

/** Where the costs are from, and how to get better ones. */
function origin(model) {
  const { calibration, burst } = model;
  if (!calibration) {
    const small = burst < FULL ? ` Bursts have ${burst.toFixed(1)} packets now; full ones of 32 cost less for each, so the node carries at least this.` : "";
    return [`There is no calibration of this machine: these are the cycles that the node counted in the last ${Math.round(model.seconds)} s.${small} To get one, run `,
      h("code", {}, "weft bench calibrate"), " on a quiet machine and start the node with ", h("code", {}, "--calibration FILE"), "."];
  }
  const counted = model.steps.some((step) => !step.calibrated) ? " Steps that it does not have are as counted." : "";
  const of = `${calibration.machine || "a machine without a name"}${calibration.measured ? `, ${calibration.measured}` : ""}`;
  return calibration.otherMachine
    ? [`The calibration (${of}) is of another machine: its clock differs from this one's, so this is a guess.${counted}`]
    : [`Cycles are those of full bursts, from the calibration of ${of}.${counted}`];
}

export function headroom(element) {
  const sentence = h("p", { class: "large" });
  const first = h("p", {});
  const bar = h("div", { class: "bar", role: "img" });
  const list = h("ol", { class: "legend" });
  const entries = new Map();
  const changes = table("What to change first", ["change alone", "could carry", "then limited by"], 1, false);
  const rest = h("details", {}, h("summary", {}, "What each change would bring"), changes.element);
  const from = h("p", { class: "note" });
  const out = h("p", { class: "note" });
  element.append(h("h2", {}, "What the model says"), sentence, first, bar, list, rest, from, out);
  let said = "";

  function draw(steps, functions) {
    const shown = steps.map((step, at) => {
      const key = `${step.core} ${step.what}`;
      if (!entries.has(key)) entries.set(key, { piece: h("span", {}), row: h("li", {}, h("span", { class: "swatch" }), h("span", {}), h("span", { class: "number" })) });
      const { piece, row } = entries.get(key);
      piece.className = row.className = `tone-${at % 8}${functions.has(step.what) ? " function" : ""}`;
      piece.style.flexGrow = String(step.cycles);
      say(row.children[1], step.what);
      say(row.children[2], step.calibrated && step.counted !== null ? `${cycles(step.cycles)} (now ${cycles(step.counted)})` : cycles(step.cycles));
      return { piece, row };
    });
    const keys = new Set(steps.map((step) => `${step.core} ${step.what}`));
    for (const key of entries.keys()) if (!keys.has(key)) entries.delete(key);
    if (bar.children.length !== shown.length || shown.some(({ piece }, at) => bar.children[at] !== piece)) {
      bar.replaceChildren(...shown.map(({ piece }) => piece));
      list.replaceChildren(...shown.map(({ row }) => row));
    }
    bar.setAttribute("aria-label", `Cycles per packet: ${steps.map((step) => `${step.what} ${cycles(step.cycles)}`).join(", ")}`);
  }

  return {
    update({ look: { model, snapshot } }) {
      const known = typeof model?.couldCarry === "number";
      bar.hidden = list.hidden = rest.hidden = from.hidden = !known;
      if (!known) {
        say(sentence, "No packets came in the last seconds: there is nothing to predict from.");
        say(first, "");
        say(out, "");
        return;
      }
      say(sentence, `The node carries ${rate(model.carries)} and could carry ${rate(model.couldCarry)}: ${percent(model.carries / model.couldCarry)} of that, limited by ${model.limit}.`);
      const [best] = model.changes;
      say(first, best ? `Change first: ${best.what}. Then it could carry ${rate(best.couldCarry)}.` : "No single change brings more.");
      draw(model.steps, new Set(snapshot.functions.map((one) => one.name)));
      changes.render(model.changes.map((one) => ({ key: one.what, cells: [one.what, rate(one.couldCarry), one.limit] })), "No single change brings more.");
      const origins = origin(model);
      const text = origins.map((one) => one.textContent ?? one).join("");
      if (text !== said) from.replaceChildren(...origins);
      said = text;
      say(out, model.leftOut.length > 0 ? `Not in it: ${model.leftOut.join(", ")}, whose cores the node does not see.` : "");
    },
  };
}
