// Where boxes and arrows stand: layers from the ports where packets come in over functions to
// the ports where they leave, as Sugiyama, Tagawa and Toda (1981) lay out graphs. A port is a
// box on each side. An arrow over several layers has a point in each.

const BOX = { width: 156, height: 66 };
const GAP = { layer: 84, box: 26 };
const THIN = 12;
const SWEEPS = 6;

/** The boxes of a topology: `in` and `out` for ports, and functions. */
function boxesOf({ ports, functions }) {
  const port = (side) => ports.map((one) => ({ id: `${side} ${one.name}`, kind: side, name: one.name, of: one }));
  const inner = functions.map((one) => ({ id: `function ${one.name}`, kind: "function", name: one.name, of: one }));
  return [...port("in"), ...inner, ...port("out")];
}

/** Arrows between boxes, those to `drop` left out: they are figures of their boxes. */
export function arrowsOf({ ports, functions, rules }) {
  const [isPort, isFunction] = [ports, functions].map((list) => new Set(list.map((one) => one.name)));
  return rules
    .filter(({ to }) => isPort.has(to) || isFunction.has(to))
    .map((rule) => ({
      id: `${rule.from} ${rule.to}`, rule,
      from: isPort.has(rule.from) ? `in ${rule.from}` : `function ${rule.from}`,
      to: isFunction.has(rule.to) ? `function ${rule.to}` : `out ${rule.to}`,
    }));
}

/** The layer of each box: the longest way to it. An arrow that closes a circle does not count. */
function layersOf(boxes, arrows) {
  const out = new Map(boxes.map(({ id }) => [id, []]));
  for (const arrow of arrows) out.get(arrow.from)?.push(arrow);
  const layer = new Map(boxes.map(({ id }) => [id, 0]));
  const state = new Map();
  const order = [];
  // Deep graphs do not fit the stack of calls.
  for (const { id: first } of boxes) {
    const stack = [[first, 0]];
    while (stack.length > 0) {
      const top = stack.at(-1);
      const [id, at] = top;
      if (at === 0 && state.has(id)) { stack.pop(); continue; }
      state.set(id, "open");
      const arrow = out.get(id)[at];
      if (!arrow) {
        state.set(id, "done");
        order.push(id);
        stack.pop();
        continue;
      }
      top[1] += 1;
      arrow.back = state.get(arrow.to) === "open";
      if (!state.has(arrow.to)) stack.push([arrow.to, 0]);
    }
  }
  for (const id of order.reverse()) {
    for (const arrow of out.get(id)) {
      if (!arrow.back) layer.set(arrow.to, Math.max(layer.get(arrow.to), layer.get(id) + 1));
    }
  }
  const last = Math.max(1, ...boxes.map(({ id, kind }) => layer.get(id) + (kind === "function" ? 1 : 0)));
  for (const { id, kind } of boxes) {
    if (kind === "out") layer.set(id, last);
    if (kind === "function") layer.set(id, Math.max(1, layer.get(id)));
  }
  return { layer, last };
}

/** Points of an arrow in the layers between its boxes. */
function withPoints(arrows, layer, layers) {
  for (const arrow of arrows) {
    const [from, to] = [layer.get(arrow.from), layer.get(arrow.to)];
    arrow.chain = [arrow.from];
    for (let at = from + 1; at < to; at += 1) {
      const point = { id: `${arrow.id} ${at}`, thin: true };
      layers[at].push(point);
      arrow.chain.push(point.id);
    }
    arrow.chain.push(arrow.to);
  }
}

/** Pairs of neighbours on arrows, as `[one, other]` of ids. */
const pairs = (arrows) => arrows.flatMap(({ chain }) => chain.slice(1).map((id, at) => [chain[at], id]));

/** Orders each layer by the middle of what its boxes are tied to in the layer before. */
function order(layers, arrows) {
  const ties = new Map();
  const tie = (one, other) => ties.set(one, [...(ties.get(one) ?? []), other]);
  for (const [one, other] of pairs(arrows)) {
    tie(one, other);
    tie(other, one);
  }
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const down = sweep % 2 === 0;
    const place = new Map();
    for (const list of layers) list.forEach((box, at) => place.set(box.id, { list, at: at - (list.length - 1) / 2 }));
    for (let step = 1; step < layers.length; step += 1) {
      const list = layers[down ? step : layers.length - 1 - step];
      const before = layers[down ? step - 1 : layers.length - step];
      const middle = (box) => {
        const near = (ties.get(box.id) ?? []).map((id) => place.get(id)).filter((one) => one?.list === before);
        return near.length > 0 ? near.reduce((sum, one) => sum + one.at, 0) / near.length : place.get(box.id).at;
      };
      const middles = new Map(list.map((box) => [box.id, middle(box)]));
      list.sort((one, other) => middles.get(one.id) - middles.get(other.id));
      list.forEach((box, at) => { place.get(box.id).at = at - (list.length - 1) / 2; });
    }
  }
}

/** A smooth line through points, along the layers. */
function curve(points, upright) {
  const [first, ...rest] = points;
  let [text, last] = [`M${first.x},${first.y}`, first];
  for (const point of rest) {
    const half = upright ? (point.y - last.y) / 2 : (point.x - last.x) / 2;
    const bend = upright ? [last.x, last.y + half, point.x, point.y - half] : [last.x + half, last.y, point.x - half, point.y];
    text += `C${bend[0]},${bend[1]} ${bend[2]},${bend[3]} ${point.x},${point.y}`;
    last = point;
  }
  return text;
}

/** Boxes and arrows with their places. `upright` lays layers below each other, for phones. */
export function layout(topology, upright) {
  const boxes = boxesOf(topology);
  const arrows = arrowsOf(topology);
  const { layer, last } = layersOf(boxes, arrows);
  const layers = Array.from({ length: last + 1 }, () => []);
  for (const box of boxes) layers[layer.get(box.id)].push(box);
  withPoints(arrows, layer, layers);
  order(layers, arrows);

  const [along, across] = upright ? [BOX.height, BOX.width] : [BOX.width, BOX.height];
  const room = (box) => (box.thin ? THIN : across);
  const gap = upright ? 16 : GAP.box;
  const places = new Map();
  const near = middles(layers, arrows, room, gap);
  const least = Math.min(...layers.flat().map((box) => near.get(box.id) - room(box) / 2));
  const most = Math.max(...layers.flat().map((box) => near.get(box.id) + room(box) / 2));
  layers.forEach((list, at) => {
    for (const box of list) {
      const far = at * (along + (upright ? 52 : GAP.layer));
      const first = near.get(box.id) - room(box) / 2 - least;
      const [x, y] = upright ? [first, far] : [far, first];
      const size = upright ? { width: room(box), height: along } : { width: along, height: room(box) };
      places.set(box.id, Object.assign(box, { x, y, ...size }));
    }
  });
  spread(arrows, places, upright);
  const size = [layers.length * along + (layers.length - 1) * (upright ? 52 : GAP.layer), most - least];
  const [width, height] = upright ? [size[1], size[0]] : size;
  return { boxes, arrows, width, height };
}

/** Where the middle of each box stands across the layers: near what it is tied to, so that
    arrows are straight where they can be. */
function middles(layers, arrows, room, gap) {
  const near = new Map();
  for (const list of layers) {
    let next = -list.reduce((sum, box) => sum + room(box) + gap, -gap) / 2;
    for (const box of list) {
      near.set(box.id, next + room(box) / 2);
      next += room(box) + gap;
    }
  }
  const ties = new Map(layers.flat().map(({ id }) => [id, []]));
  for (const [one, other] of pairs(arrows)) {
    ties.get(one).push(other);
    ties.get(other).push(one);
  }
  for (let sweep = 0; sweep < 4 * SWEEPS; sweep += 1) {
    for (const list of sweep % 2 === 0 ? layers : [...layers].reverse()) {
      const wanted = list.map(({ id }) => {
        const others = ties.get(id);
        return others.length > 0 ? others.reduce((sum, other) => sum + near.get(other), 0) / others.length : near.get(id);
      });
      // Forward each keeps off the one before, backward off the one behind; the mean of both is fair.
      const apart = (at) => (room(list[at]) + room(list[at - 1])) / 2 + gap;
      const low = [...wanted];
      for (let at = 1; at < list.length; at += 1) low[at] = Math.max(low[at], low[at - 1] + apart(at));
      const high = [...wanted];
      for (let at = list.length - 1; at > 0; at -= 1) high[at - 1] = Math.min(high[at - 1], high[at] - apart(at));
      list.forEach(({ id }, at) => near.set(id, (low[at] + high[at]) / 2));
    }
  }
  return near;
}

/** Arrows of one box leave and arrive side by side. */
function spread(arrows, places, upright) {
  const middle = (id) => {
    const box = places.get(id);
    return upright ? box.x + box.width / 2 : box.y + box.height / 2;
  };
  const ends = new Map();
  for (const arrow of arrows) {
    const side = (key, toward) => ends.set(key, [...(ends.get(key) ?? []), { arrow, toward }]);
    side(`from ${arrow.from}`, middle(arrow.chain[1]));
    side(`to ${arrow.to}`, middle(arrow.chain.at(-2)));
  }
  const offset = (key, arrow, room) => {
    const list = ends.get(key).sort((one, other) => one.toward - other.toward);
    const step = Math.min(22, room / (list.length + 1));
    return (list.findIndex((one) => one.arrow === arrow) - (list.length - 1) / 2) * step;
  };
  for (const arrow of arrows) {
    const [from, to] = [places.get(arrow.from), places.get(arrow.to)];
    const room = upright ? from.width : from.height;
    const [begin, end] = [offset(`from ${arrow.from}`, arrow, room), offset(`to ${arrow.to}`, arrow, room)];
    const points = [
      upright ? { x: from.x + from.width / 2 + begin, y: from.y + from.height } : { x: from.x + from.width, y: from.y + from.height / 2 + begin },
      ...arrow.chain.slice(1, -1).flatMap((id) => {
        const { x, y, width, height } = places.get(id);
        return upright ? [{ x: x + width / 2, y }, { x: x + width / 2, y: y + height }] : [{ x, y: y + height / 2 }, { x: x + width, y: y + height / 2 }];
      }),
      upright ? { x: to.x + to.width / 2 + end, y: to.y - 12 } : { x: to.x - 12, y: to.y + to.height / 2 + end },
    ];
    arrow.line = curve(points, upright);
    const at = Math.floor((points.length - 1) / 2);
    arrow.label = { x: (points[at].x + points[at + 1].x) / 2, y: (points[at].y + points[at + 1].y) / 2 };
  }
}
