// What the node has counted since its start: every digit, as `weft show ports` and
// `weft show runtime` print it.

import { h, table } from "../dom.js";
import { cycles, exact, rate } from "../format.js";

const ratio = (sum, count) => (count > 0 ? sum / count : 0);

export function counters(element) {
  const ports = table("Ports", ["port", "link", "device", "received", "bytes", "missed", "errors", "sent", "bytes", "in now", "out now"], 3);
  const functions = table("Functions", ["function", "kind", "run as", "packets", "bytes", "per burst", "cycles", "dropped", "now"], 3);
  const stages = table("Stages", ["stage", "cycles per packet, now", "cycles per packet, since the start"], 1);
  const others = table("Others", ["what", "packets"], 1);
  const panel = (title, part) => h("div", { class: "panel" }, h("h2", {}, title), part.element);
  element.append(panel("Ports", ports), panel("Functions", functions),
    h("div", { class: "split even" }, panel("Stages of a worker", stages), panel("The node itself", others)));
  return {
    update({ snapshot, now, view }) {
      if (view !== "counters") return;
      ports.render(snapshot.ports.map((port) => {
        const name = (what) => `port.${port.name}.${what}`;
        const { rx, tx } = now.ports.get(port.name);
        return {
          key: port.name,
          cells: [port.name, port.up ? "up" : "down", port.device, ...[port.rx_packets, port.rx_bytes, port.rx_missed, port.rx_errors, port.tx_packets, port.tx_bytes].map(exact), rate(rx), rate(tx)],
          figures: [, , , name("rx_packets"), name("rx_bytes"), name("rx_missed"), name("rx_errors"), name("tx_packets"), name("tx_bytes")],
        };
      }), "The node has no ports.");
      functions.render(snapshot.functions.map((one) => {
        const name = (what) => `function.${one.name}.${what}`;
        const figure = now.functions.get(one.name);
        return {
          key: one.name,
          cells: [one.name, one.kind, one.stage ? `${one.composition} ${one.stage}` : one.composition, exact(one.packets), exact(one.bytes), ratio(one.packets, one.bursts).toFixed(1), cycles(figure.cycles), exact(one.drops), rate(figure.rate)],
          figures: [, , , name("packets"), name("bytes"), , , name("drops")],
        };
      }), "The node has no functions.");
      stages.render(now.stages.map((stage, at) => {
        const all = snapshot.workers.reduce(([spent, packets], worker) => [spent + worker.stages[at].cycles, packets + worker.stages[at].packets], [0, 0]);
        return { key: stage.name, cells: [stage.name, cycles(stage.cycles), cycles(ratio(...all))] };
      }));
      others.render([
        ["to the node itself", snapshot.local], ["sent by the node itself", snapshot.originated], ["emitted by functions", snapshot.emitted],
        ["fragments made", snapshot.fragments], ["panics caught in functions", snapshot.panics],
        ["handed to another worker", snapshot.workers.reduce((sum, worker) => sum + worker.handed_over, 0)],
      ].map(([what, count]) => ({ key: what, cells: [what, exact(count)], figures: [, `node.${what}`] })));
    },
  };
}
