// Where functions run, and what moves: functions between this node and others, and users.

import { h, table } from "../dom.js";
import { duration, exact } from "../format.js";

export function moves(element, choose) {
  const places = table("Where functions run", ["function", "kind", "run as", "state", "why there", "away now", "lost", "failures"], 5);
  const functions = table("Moves of functions", ["function", "to", "state", "step", "contexts", "packets waited"], 4);
  const users = table("Users that take part in handovers", ["state or event", "count"], 1);
  const role = h("p", { class: "note" });
  element.append(
    h("div", { class: "panel" }, h("h2", {}, "Where functions run"),
      h("p", { class: "note" }, "Choose a function to run it otherwise: with the token it moves while traffic runs."), places.element),
    h("div", { class: "split even" },
      h("div", { class: "panel" }, h("h2", {}, "Functions between nodes"), functions.element),
      h("div", { class: "panel" }, h("h2", {}, "Users between nodes"), role, users.element)));
  return {
    update({ look, snapshot, view }) {
      if (view !== "moves") return;
      places.render(snapshot.functions.map((one) => {
        const process = one.process;
        const why = one.chosen ?? process?.lastFailure ?? "";
        return {
          key: one.name, onclick: () => choose(one.name),
          cells: [one.name, one.kind, one.stage ? `${one.composition} (${one.stage})` : one.composition, process?.state ?? "in the node", why,
            ...[process?.away, process?.lost, process?.failures].map((count) => (process ? exact(count ?? 0) : "–"))],
        };
      }), "The node has no functions.");
      functions.render(look.moves.map((move) => ({
        key: move.function,
        cells: [move.function, move.peer ? `${move.composition}, ${move.peer}` : move.composition, move.state, move.step ?? move.reason ?? "",
          exact(move.contexts), duration(move.waited)],
        mark: move.state === "moving",
      })), "No function has moved between this node and another.");
      const { handover } = snapshot;
      role.textContent = handover ? `The node is ${handover.role} ${handover.node}; ${exact(handover.gated)} users at gates, ${exact(handover.waited)} packets have waited there.`
        : "The node takes no part in handovers (no `handover` in its configuration).";
      users.element.hidden = !handover;
      const rows = handover ? [...Object.entries(handover.users).map(([state, count]) => [`users ${state}`, count]), ...Object.entries(handover.counts)] : [];
      users.render(rows.map(([what, count]) => ({ key: what, cells: [what, exact(count)] })), handover ? "No user has moved." : "");
    },
  };
}
