// Users: those with the most traffic, and all of them in pages, or those that are searched for.

import { get, part } from "../api.js";
import { h, say, table } from "../dom.js";
import { bits, exact, rate } from "../format.js";

const PAGE = 25;
/** Milliseconds without a key until it is searched. */
const REST = 250;
/** Users with the most traffic that are shown. */
const TOP = 10;

export function users(element, choose) {
  let first = 0;
  let all = 0;
  let asked = 0;
  let timer;
  let loaded = false;
  const field = h("input", { id: "search", type: "search", placeholder: "name, address, TEID or SPI", autocomplete: "off", spellcheck: "false" });
  const where = h("p", { class: "note", role: "status" });
  const turn = (title, by) => h("button", { type: "button", class: "quiet", onclick: () => load(Math.max(0, first + by * PAGE)) }, title);
  const [back, on] = [turn("Previous", -1), turn("Next", 1)];
  const list = table("Users", ["user", "found by", "tags", "worker"], 3, true);
  const top = table("Users with the most traffic", ["user", "packets", "bits", "of sample"], 1);
  const bearers = table("Bearers that commands have added", ["bearer", "found by", "action", "worker"], 3);
  const second = h("div", { hidden: true }, h("h3", {}, "Bearers that commands have added"), bearers.element);
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => load(0), REST);
  });
  element.append(
    h("h2", {}, "Users"),
    h("form", { role: "search", onsubmit: (event) => { event.preventDefault(); load(0); } }, h("label", { for: "search" }, "Search"), field),
    h("details", { open: true }, h("summary", {}, "Most traffic now"), top.element,
      h("p", { class: "note" }, "Estimated from a sample of packets of the last 10 s.")),
    h("h3", {}, "All users"), where, list.element, h("div", { class: "buttons" }, back, on), second);

  async function load(from) {
    const mine = (asked += 1);
    const text = field.value.trim();
    const search = text ? `&search=${part(text)}` : "";
    try {
      const [found, added] = await Promise.all([
        get(`/v1/users?first=${from}&count=${PAGE + 1}${search}`),
        text ? get(`/v1/bearer-search?text=${part(text)}`) : [],
      ]);
      if (mine !== asked) return;
      loaded = true;
      first = from;
      on.disabled = found.length <= PAGE;
      back.disabled = first === 0;
      const shown = found.slice(0, PAGE);
      list.render(shown.map((user) => ({
        key: user.name, onclick: () => choose(user.name),
        cells: [user.name, user.keys.join(", "), Object.entries(user.tags).map(([name, value]) => `${name}=${value}`).join(" "), user.worker],
      })), text ? "No user is found by that." : "The node has no users.");
      say(where, shown.length === 0 ? "" : `${exact(first + 1)} to ${exact(first + shown.length)}${text ? on.disabled ? ` of ${exact(first + shown.length)} found` : "" : ` of ${exact(all)}`}`);
      second.hidden = added.length === 0;
      bearers.render(added.map((one) => ({ key: one.id, cells: [one.id, one.foundBy.join(", "), one.action, one.worker] })));
    } catch (error) {
      if (mine === asked) say(where, error.message);
    }
  }

  return {
    update({ look, snapshot, view }) {
      const changed = snapshot.users !== all;
      all = snapshot.users;
      if (view !== "users") return;
      if (!loaded || (changed && !field.value)) load(first);
      top.render(look.flows.users.slice(0, TOP).map((user) => ({
        key: user.user, onclick: user.user.startsWith("#") ? null : () => choose(user.user),
        cells: [user.user, rate(user.rate), bits(user.bits), user.sample],
      })), "No packet of a user was seen.");
    },
  };
}
