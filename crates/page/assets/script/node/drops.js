// What was dropped, by reason, and what an operator does about it.

import { h, table } from "../dom.js";
import { exact, rate } from "../format.js";
import { dropKey } from "../rates.js";
import { advice } from "./advice.js";

export function drops(element) {
  const list = table("Drops by reason", ["reason", "where", "what it means", "what to do", "packets", "now"], 4);
  const withheld = table("Answers that the node did not give", ["answer", "what it means", "packets"], 2);
  const second = h("div", { class: "panel", hidden: true }, h("h2", {}, "Answers not given"),
    h("p", { class: "note" }, "These are no packets: what they would have answered is counted above."), withheld.element);
  element.append(h("div", { class: "panel" }, h("h2", {}, "Dropped packets"), list.element), second);
  return {
    update({ snapshot, now, view }) {
      if (view !== "drops") return;
      const speed = (drop) => now.drops.get(dropKey(drop)) ?? 0;
      const where = (drop) => (drop.function ? `function ${drop.function}` : drop.port ? `port ${drop.port}` : "node");
      const sorted = [...snapshot.drops].sort((one, other) => speed(other) - speed(one) || other.packets - one.packets || dropKey(one).localeCompare(dropKey(other)));
      list.render(sorted.map((drop) => ({
        key: dropKey(drop),
        cells: [drop.reason, where(drop), drop.meaning, advice(drop), exact(drop.packets), rate(speed(drop))],
        figures: [, , , , `drop.${dropKey(drop).trim().replaceAll(" ", ".")}`],
        mark: speed(drop) > 0,
      })), "Nothing was dropped.");
      second.hidden = snapshot.withheld.length === 0;
      withheld.render(snapshot.withheld.map((one) => ({ key: one.cause, cells: [one.cause, one.meaning, exact(one.packets)] })));
    },
  };
}
