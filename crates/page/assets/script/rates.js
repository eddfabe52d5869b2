// What was counted between two looks, per second.

const more = (now, before) => Math.max(0, now - (before ?? 0));

/** Drops are counted by reason, function and port. */
export const dropKey = (drop) => `${drop.reason} ${drop.function ?? ""} ${drop.port ?? ""}`;

const named = (list) => new Map(list.map((one) => [one.name, one]));
const sum = (list, of) => list.reduce((all, one) => all + of(one), 0);

/** Cycles per packet of each stage, over all workers. */
export function stages(now, before) {
  const names = now.workers[0]?.stages.map((stage) => stage.name) ?? [];
  return names.map((name, at) => {
    const all = (snapshot, of) => sum(snapshot?.workers ?? [], (worker) => worker.stages[at]?.[of] ?? 0);
    const packets = more(all(now, "packets"), all(before, "packets"));
    const spent = more(all(now, "cycles"), all(before, "cycles"));
    const total = all(now, "packets");
    return { name, cycles: packets > 0 ? spent / packets : total > 0 ? all(now, "cycles") / total : 0 };
  });
}

/** Rates of ports, functions, drops and the node; zeros without a look before. */
export function rates(now, before) {
  // A node that has started anew counts from 0.
  const known = before && before.uptime < now.uptime ? before : null;
  const seconds = known ? (now.uptime - known.uptime) / 1e9 : Infinity;
  const per = (now, before) => (known ? more(now, before) / seconds : 0);
  const [ports, functions] = [named(known?.ports ?? []), named(known?.functions ?? [])];
  const drops = new Map((known?.drops ?? []).map((drop) => [dropKey(drop), drop.packets]));
  const result = {
    ports: new Map(now.ports.map((port) => {
      const old = ports.get(port.name) ?? port;
      return [port.name, {
        rx: per(port.rx_packets, old.rx_packets), tx: per(port.tx_packets, old.tx_packets),
        rxBits: per(port.rx_bytes, old.rx_bytes) * 8, txBits: per(port.tx_bytes, old.tx_bytes) * 8,
        missed: per(port.rx_missed, old.rx_missed),
      }];
    })),
    functions: new Map(now.functions.map((one) => {
      const old = functions.get(one.name);
      const packets = more(one.sampled_packets, old?.sampled_packets);
      const cycles = more(one.sampled_cycles, old?.sampled_cycles);
      const all = one.sampled_packets > 0 ? one.sampled_cycles / one.sampled_packets : 0;
      return [one.name, {
        rate: old ? per(one.packets, old.packets) : 0, bits: old ? per(one.bytes, old.bytes) * 8 : 0,
        drops: old ? per(one.drops, old.drops) : 0, cycles: packets > 0 ? cycles / packets : all,
      }];
    })),
    drops: new Map(now.drops.map((drop) => [dropKey(drop), known ? per(drop.packets, drops.get(dropKey(drop)) ?? 0) : 0])),
    stages: stages(now, known),
  };
  const ofPorts = [...result.ports.values()];
  result.rx = sum(ofPorts, (port) => port.rx);
  result.tx = sum(ofPorts, (port) => port.tx);
  result.rxBits = sum(ofPorts, (port) => port.rxBits);
  result.txBits = sum(ofPorts, (port) => port.txBits);
  result.dropped = sum(now.drops.filter((drop) => !drop.port), (drop) => result.drops.get(dropKey(drop)));
  result.restarted = Boolean(before) && !known;
  return result;
}
