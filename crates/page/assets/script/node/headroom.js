// What the workers could carry at the cycles that a packet takes now, beside what they carry.

import { h, say } from "../dom.js";
import { cycles, percent, rate } from "../format.js";

/** Cycles per received packet of each stage and function. */
function parts(snapshot, now) {
  const received = now.rx;
  const stages = now.stages.map(({ name, cycles }) => ({ name, kind: "stage", cycles }));
  const functions = snapshot.functions
    .filter((one) => ["call", "fused"].includes(one.composition))
    .map((one) => {
      const figure = now.functions.get(one.name);
      return { name: one.name, kind: "function", of: one, cycles: received > 0 ? (figure.cycles * figure.rate) / received : 0 };
    });
  // Functions are visited between forward and transmit.
  const at = stages.findIndex(({ name }) => name === "transmit");
  return at < 0 ? [...stages, ...functions] : [...stages.slice(0, at), ...functions, ...stages.slice(at)];
}

/** What helps most, as far as the figures say. */
function first(list, snapshot, topology) {
  const [most] = [...list].sort((one, other) => other.cycles - one.cycles);
  if (!most || most.cycles === 0) return "";
  const fusible = topology?.functions.some((one) => one.name === most.name && one.fusible);
  if (most.kind === "function" && fusible && most.of.composition === "call") return `${most.name} takes most: fuse it with its neighbours.`;
  if (most.kind === "function") return `${most.name} takes most: a thread beside the worker or another worker takes it off this core.`;
  const bursts = snapshot.workers.reduce((sum, worker) => sum + worker.bursts, 0);
  const packets = snapshot.workers.reduce((sum, worker) => sum + worker.packets, 0);
  if (bursts > 0 && packets / bursts < 4) return `${most.name} takes most, in bursts of ${(packets / bursts).toFixed(1)} packets: under more load bursts grow and cycles fall.`;
  return `${most.name} takes most: another worker shares it.`;
}

export function headroom(element) {
  const sentence = h("p", { class: "large" });
  const advice = h("p", {});
  const bar = h("div", { class: "bar", role: "img" });
  const list = h("ol", { class: "legend" });
  const entries = new Map();
  element.append(h("h2", {}, "Headroom"), sentence, bar, list, advice,
    h("p", { class: "note" }, "Measured cycles of a packet in the workers' threads, and what as many cycles a second would carry. It is no promise: ",
      h("code", {}, "weft model"), " predicts other loads and machines."));
  return {
    update({ snapshot, now, topology }) {
      const all = parts(snapshot, now);
      const sum = all.reduce((total, part) => total + part.cycles, 0);
      if (sum === 0 || now.rx === 0) {
        say(sentence, "No packets come in just now.");
        bar.hidden = list.hidden = true;
        say(advice, "");
        return;
      }
      bar.hidden = list.hidden = false;
      const could = (snapshot.tsc_hz * snapshot.workers.length) / sum;
      say(sentence, `A packet takes ${cycles(sum)} cycles. The node carries ${rate(now.rx)} and could carry about ${rate(could)}: ${percent(now.rx / could)} of that.`);
      say(advice, first(all, snapshot, topology));
      for (const key of entries.keys()) if (!all.some(({ kind, name }) => `${kind} ${name}` === key)) entries.delete(key);
      const shown = all.map((part, at) => {
        const key = `${part.kind} ${part.name}`;
        if (!entries.has(key)) entries.set(key, { piece: h("span", {}), row: h("li", {}, h("span", { class: "swatch" }), h("span", {}), h("span", { class: "number" })) });
        const { piece, row } = entries.get(key);
        piece.className = row.className = `tone-${at % 8}${part.kind === "function" ? " function" : ""}`;
        piece.style.flexGrow = String(part.cycles);
        say(row.children[1], part.name);
        say(row.children[2], `${cycles(part.cycles)}`);
        return { piece, row };
      });
      if (bar.children.length !== shown.length || shown.some(({ piece }, at) => bar.children[at] !== piece)) {
        bar.replaceChildren(...shown.map(({ piece }) => piece));
        list.replaceChildren(...shown.map(({ row }) => row));
      }
      bar.setAttribute("aria-label", `Cycles per packet: ${all.map((part) => `${part.name} ${cycles(part.cycles)}`).join(", ")}`);
    },
  };
}
