// Figures over time, drawn by uPlot (vendor/uPlot-LICENSE).

import { h } from "./dom.js";
import { short } from "./format.js";

/** Seconds that a chart shows. */
const SECONDS = 900;
const HEIGHT = 190;

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const DASHES = [[], [7, 4], [2, 3], [10, 3, 2, 3]];
const COLOURS = ["--series-1", "--series-2", "--series-3", "--series-4"];

/** From 0 to a little above the highest value. */
const fromZero = (_, low, high) => [0, Math.max(high ?? 0, 1) * 1.08];

/**
 * A chart in `element`. `lines` has `{label, of, unit, scale}`: `of` is the name of a series
 * of `/v1/history`. One of another `scale` has an axis of its own, on the right.
 */
export function chart(element, label, lines) {
  let data = [[], ...lines.map(() => [])];
  let plot = null;
  const figure = h("div", { role: "img", "aria-label": label });
  element.replaceChildren(figure);

  const second = lines.find((line) => line.scale)?.scale;

  function make() {
    plot?.destroy();
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    plot = new uPlot({
      width: Math.max(240, element.clientWidth), height: HEIGHT,
      cursor: { y: false, drag: { x: false, y: false } },
      legend: { live: true },
      scales: { y: { range: fromZero }, ...(second ? { [second]: { range: fromZero } } : {}) },
      axes: [
        { ...axis, space: 76, values: (_, ticks) => ticks.map((tick) => new Date(tick * 1000).toLocaleTimeString("en-GB").slice(0, ticks.at(-1) - ticks[0] < 240 ? 8 : 5)) },
        { ...axis, size: 56, values: (_, ticks) => ticks.map(short) },
        ...(second ? [{ ...axis, scale: second, side: 1, size: 44, grid: { show: false }, values: (_, ticks) => ticks.map(short) }] : []),
      ],
      series: [
        { label: "time", value: (_, time) => (time ? new Date(time * 1000).toLocaleTimeString("en-GB") : "–") },
        ...lines.map((line, at) => ({
          label: line.label, stroke: colour(COLOURS[at]), width: 1.8, dash: DASHES[at], points: { show: false }, scale: line.scale ?? "y",
          value: (_, value) => (value === null || value === undefined ? "–" : `${short(value)}${line.unit}`),
        })),
      ],
    }, data, figure);
    if (data[0].length > 0) plot.setLegend({ idx: data[0].length - 1 });
  }

  /** Draws what there is, unless it is hidden. The legend has the last values, or those under the pointer. */
  function redraw() {
    if (!plot || !element.offsetParent || document.hidden) return;
    plot.setData(data);
    if (plot.cursor.left < 0 && data[0].length > 0) plot.setLegend({ idx: data[0].length - 1 });
  }

  const again = () => plot && make();
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", again);
  const resized = new ResizeObserver(() => {
    if (plot && element.clientWidth > 0 && Math.abs(element.clientWidth - plot.width) > 4) {
      plot.setSize({ width: Math.max(240, element.clientWidth), height: HEIGHT });
    } else if (!plot && element.clientWidth > 0) make();
  });
  resized.observe(element);

  return {
    /** Shows what `/v1/history` has answered. */
    fill(past) {
      const values = new Map(past.series.map((series) => [series.name, series.values]));
      data = [past.times.map((time) => time / 1000), ...lines.map((line) => values.get(line.of) ?? past.times.map(() => null))];
      redraw();
    },
    /** Adds the values of one second. */
    add(time, values) {
      data[0].push(time / 1000);
      values.forEach((value, at) => data[at + 1].push(value));
      if (data[0].length > SECONDS) data.forEach((column) => column.shift());
      redraw();
    },
    end() {
      dark.removeEventListener("change", again);
      resized.disconnect();
      plot?.destroy();
      plot = null;
    },
  };
}
