// One user: what it is found by, its ways, bearers and contexts.

import { get, part, text } from "../api.js";
import { h, say, table } from "../dom.js";
import { exact, rate } from "../format.js";
import { watch } from "./watch.js";

export function user(element, traced) {
  let name = "";
  let before = null;
  let busy = false;
  const said = h("p", { class: "note", role: "status" });
  const facts = h("dl", { class: "figures" });
  const traffic = h("p", {});
  const contexts = table("Contexts of the user", ["function", "value", "now", "per second"], 2);
  const bearers = table("Bearers of the user", ["bearer", "packets that it carries"]);
  const ways = h("pre", { tabindex: 0 });
  const title = h("h2", {});
  const watching = watch(() => name, traced);
  const whole = [title, said, facts, traffic, watching, h("h3", {}, "Contexts"), contexts.element,
    h("h3", {}, "Bearers"), bearers.element, h("h3", {}, "Ways through the rules"), ways];

  function hint() {
    element.replaceChildren(h("h2", {}, "User"), h("p", {}, "Choose a user to see its ways, bearers and counters, and to trace or capture its packets."));
  }

  async function load() {
    const mine = name;
    const [way, of] = await Promise.all([
      text(`/v1/users/${part(name)}/ways`).catch((error) => error.message),
      get(`/v1/users/${part(name)}/bearers`).catch(() => []),
    ]);
    if (mine !== name) return;
    say(ways, way.trimEnd());
    bearers.render(of.map((bearer) => ({ key: bearer.name, cells: [bearer.name, bearer.when] })), "The default bearer alone.");
  }

  function fact(title, value) {
    return h("div", {}, h("dt", {}, title), h("dd", {}, value));
  }

  async function look({ look, snapshot }) {
    if (busy) return;
    busy = true;
    const mine = name;
    try {
      const known = await get(`/v1/users/${part(name)}`);
      if (mine !== name) return;
      say(said, "");
      facts.replaceChildren(fact("found by", known.keys.join(", ")),
        fact("tags", Object.entries(known.tags).map(([name, value]) => `${name}=${value}`).join(" ") || "none"),
        fact("worker", `${known.worker}, slot ${known.slot}`));
      const seen = look.flows.users.find((one) => one.user === name);
      say(traffic, seen ? `About ${rate(seen.rate)} now, both ways.` : "Too few of its packets are in the sample to tell its rate.");
      const time = snapshot.uptime;
      const old = before?.name === name ? before : null;
      const seconds = old ? (time - old.time) / 1e9 : 0;
      contexts.render(known.contexts.flatMap(({ function: of, values }) => Object.entries(values).map(([value, now]) => {
        const key = `${of} ${value}`;
        const last = old?.values.get(key);
        const speed = last !== undefined && seconds > 0 && now >= last ? rate((now - last) / seconds) : "";
        return { key, cells: [of, value, exact(now), speed], figures: [, , `user.${name}.${of}.${value}`] };
      })), "No function keeps anything of this user.");
      const values = new Map(known.contexts.flatMap(({ function: of, values }) => Object.entries(values).map(([value, now]) => [`${of} ${value}`, now])));
      if (!old || seconds > 0) before = { name, time, values };
    } catch (error) {
      if (mine === name) say(said, error.message);
    } finally {
      busy = false;
    }
  }

  hint();
  return {
    /** Shows the user of that name; a hint without one. */
    show(next) {
      if (next === name) return;
      name = next;
      element.classList.toggle("chosen", Boolean(name));
      if (!name) {
        hint();
        return;
      }
      title.replaceChildren(h("span", { class: "of" }, "user"), " ", name);
      facts.replaceChildren();
      say(traffic, "");
      say(ways, "");
      contexts.render([], "…");
      bearers.render([], "…");
      element.replaceChildren(...whole);
      load();
      if (matchMedia("(max-width: 900px)").matches) element.scrollIntoView();
    },
    update(all) {
      if (all.view === "users" && name) look(all);
    },
  };
}
