// What a function keeps of the users with the most traffic.

import { get, part } from "../api.js";
import { h, table } from "../dom.js";
import { exact } from "../format.js";

/** Users that are shown, and looks between two questions: each user is a question to the node. */
const MOST = 5;
const EVERY = 5;

export function contexts(name) {
  const shown = table(`What ${name} keeps of users`, ["user", "its contexts"]);
  shown.element.classList.add("kept");
  const links = new Map();
  let looks = 0;
  let busy = false;

  function link(user) {
    if (!links.has(user)) links.set(user, h("a", { href: `#users/${part(user)}` }, user));
    return links.get(user);
  }

  /** Those with the most traffic in the sample, or the first ones where none has any. */
  async function users(look) {
    const busiest = [...look.flows.users].sort((one, other) => other.rate - one.rate).slice(0, MOST);
    if (busiest.length > 0) return busiest.map(({ user }) => user);
    return (await get(`/v1/users?count=${MOST}`)).map((user) => user.name);
  }

  async function ask(look) {
    busy = true;
    try {
      const names = await users(look);
      const known = await Promise.all(names.map((user) => get(`/v1/users/${part(user)}`).catch(() => null)));
      const rows = known.filter(Boolean).flatMap((user) => user.contexts.filter((one) => one.function === name).map(({ values }) => ({
        key: user.name,
        cells: [link(user.name), Object.entries(values).map(([value, now]) => `${value} ${exact(now)}`).join(", ")],
      })));
      shown.render(rows, "It keeps nothing of these users.");
    } catch (error) {
      shown.render([], error.message);
    } finally {
      busy = false;
    }
  }

  shown.render([], "…");
  return {
    element: shown.element,
    update({ look }) {
      if (!busy && looks++ % EVERY === 0) ask(look);
    },
  };
}
