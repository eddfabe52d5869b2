// The figures beside the name of the node.

import { h, say } from "../dom.js";
import { bits, counted, percent, rate } from "../format.js";

export function summary(element) {
  const figure = (title) => {
    const value = h("dd", {}, "–");
    const small = h("dd", { class: "small" });
    element.append(h("div", {}, h("dt", {}, title), value, small));
    return { value, small };
  };
  const [received, sent, dropped, users] = ["received", "sent", "dropped", "users"].map(figure);
  return {
    update({ snapshot, now }) {
      say(received.value, rate(now.rx));
      say(received.small, bits(now.rxBits));
      say(sent.value, rate(now.tx));
      say(sent.small, bits(now.txBits));
      say(dropped.value, rate(now.dropped));
      say(dropped.small, now.rx > 0 ? `${percent(now.dropped / now.rx)} of received` : "nothing received");
      dropped.value.classList.toggle("bad", now.dropped > 0);
      say(users.value, counted(snapshot.users, "user").split(" ")[0]);
      say(users.small, `${counted(snapshot.workers.length, "worker")}, ${percent(snapshot.buffers.available / Math.max(1, snapshot.buffers.size))} of buffers free`);
    },
  };
}
