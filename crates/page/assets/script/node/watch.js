// Traces and captures of one user's packets, which need the token.

import { Refused, lines, stream } from "../api.js";
import { h, say } from "../dom.js";
import { askNow, token } from "../token.js";

/** The box of the picture that a place of a trace names. */
function boxOf(place) {
  const [, kind, name] = place.match(/^(received at|leaving at|to|from|dropped by) (.+)$/) ?? [];
  if (!kind) return null;
  if (kind === "received at") return { id: `in ${name}`, name };
  if (kind === "leaving at") return { id: `out ${name}`, name };
  return { id: `function ${name}`, name, dropped: kind === "dropped by" };
}

/** Steps by packet, with the boxes that they are drawn at: a function once. */
function packets(steps) {
  const known = new Map();
  for (const step of steps) known.set(step.packet, [...(known.get(step.packet) ?? []), step]);
  return [...known.values()].map((list) => {
    const boxes = [];
    for (const step of list) {
      const box = boxOf(step.place);
      if (box && boxes.at(-1)?.id !== box.id) boxes.push(box);
      else if (box?.dropped) boxes.at(-1).dropped = true;
    }
    return { list, steps: boxes };
  });
}

/** Buttons for a trace and a capture of the user of that name. */
export function watch(name, traced) {
  const count = h("input", { id: "watch-count", type: "number", min: 1, max: 100000, value: 5 });
  const said = h("p", { class: "note", role: "status" });
  const trace = h("button", { type: "button", onclick: () => run(traceIt) }, "Trace");
  const capture = h("button", { type: "button", onclick: () => run(captureIt) }, "Capture");
  const stop = h("button", { type: "button", class: "quiet", hidden: true, onclick: () => control?.abort() }, "Stop");
  let control = null;

  async function run(what) {
    if (!token()) {
      say(said, "This shows packets of the user, and needs the token.");
      askNow();
      return;
    }
    control = new AbortController();
    trace.disabled = capture.disabled = true;
    stop.hidden = false;
    try {
      await what({ user: name(), count: Number(count.value) || 1 }, control.signal);
    } catch (error) {
      say(said, error.message);
      if (error instanceof Refused && error.status === 401) askNow();
    } finally {
      trace.disabled = capture.disabled = false;
      stop.hidden = true;
    }
  }

  async function traceIt(question, signal) {
    const steps = [];
    let missed = 0;
    say(said, "waiting for packets …");
    const take = (line) => {
      if (line.end) missed = line.end.missed;
      if (!line.step) return;
      steps.push(line.step);
      say(said, `${steps.length} steps so far`);
    };
    await lines("/v1/trace", { ...question, bytes: 0 }, take, signal).catch((error) => {
      if (!signal.aborted) throw error;
    });
    say(said, steps.length > 0 ? "" : "No packet passed.");
    if (steps.length > 0) traced({ title: question.user, packets: packets(steps), missed });
  }

  async function captureIt(question, signal) {
    const pieces = [];
    let size = 0;
    say(said, "waiting for packets …");
    await stream("/v1/capture", question, (piece) => {
      pieces.push(piece);
      size += piece.length;
      say(said, `${size} bytes so far`);
    }, signal).catch((error) => {
      if (!signal.aborted) throw error;
    });
    const url = URL.createObjectURL(new Blob(pieces, { type: "application/octet-stream" }));
    const link = h("a", { href: url, download: `${question.user}.pcapng` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 60000);
    say(said, `${question.user}.pcapng: ${size} bytes`);
  }

  return h("div", { class: "watch" }, h("label", { for: "watch-count" }, "Packets"), count, trace, capture, stop, said);
}
