// The rules of the picture as rows, for those who read them.

import { table } from "../dom.js";
import { rate } from "../format.js";

export function pictureTable(element) {
  const rules = table("Rules and the packets on them", ["from", "to", "when", "packets", "of sample"], 3);
  element.append(rules.element);
  return {
    update({ look, topology }) {
      if (!element.open || !topology) return;
      const shares = new Map(look.flows.rules.map((flow) => [`${flow.from} ${flow.to}`, flow]));
      const known = topology.rules.map(({ from, to, when }) => ({ from, to, when: when.join(" or ") || "always" }));
      const others = look.flows.rules
        .filter((flow) => !topology.rules.some((rule) => rule.from === flow.from && rule.to === flow.to))
        .map(({ from, to }) => ({ from, to, when: to === "drop" ? "by the node or the function" : "" }));
      rules.render([...known, ...others].map(({ from, to, when }) => {
        const flow = shares.get(`${from} ${to}`);
        return { key: `${from} ${to}`, cells: [from, to, when, rate(flow?.rate ?? 0), flow?.sample ?? 0] };
      }), topology.refused ?? "There are no rules.");
    },
  };
}
