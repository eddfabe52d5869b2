// Makes and fills elements. Text is always set as text: nothing that a node says becomes HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** An HTML element: `h("p", {class: "note"}, "text", child)`. */
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same in SVG. */
export function s(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** The element with that id. */
export const by = (id) => document.getElementById(id);

/** Sets text only where it differs, so that selections and readers are left alone. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * A table whose cells are changed in place: `head` has titles, `render(rows)` takes
 * `{key, cells, onclick, label, figures}`. Numbers stand to the right from `numbersFrom` on. Rows that `stack` become cards on a phone.
 */
export function table(caption, head, numbersFrom = head.length, stack = head.length > 4) {
  const body = h("tbody");
  const empty = h("p", { class: "note", hidden: true });
  const number = (at) => (at >= numbersFrom ? "number" : null);
  const element = h(
    "div",
    { class: stack ? "scroll stack" : "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h("table", {}, h("caption", { class: "hidden" }, caption),
      h("thead", {}, h("tr", {}, head.map((title, at) => h("th", { scope: "col", class: number(at) }, title)))),
      body),
    empty,
  );
  const known = new Map();
  function row({ key, cells, onclick, figures, mark }) {
    let entry = known.get(key);
    if (!entry) {
      const made = cells.map((_, at) => h(at === 0 ? "th" : "td", { scope: at === 0 ? "row" : null, class: number(at), "data-title": head[at] }));
      entry = { made, row: h("tr", {}, made), button: null };
      if (onclick) {
        entry.button = h("button", { type: "button", class: "link", onclick });
        made[0].append(entry.button);
      }
      known.set(key, entry);
    }
    entry.row.classList.toggle("marked", Boolean(mark));
    cells.forEach((cell, at) => {
      const place = at === 0 && entry.button ? entry.button : entry.made[at];
      if (cell instanceof Node) {
        if (place.firstChild !== cell) place.replaceChildren(cell);
      } else say(place, String(cell));
      if (figures?.[at]) entry.made[at].dataset.figure = figures[at];
    });
    return entry.row;
  }
  function render(rows, nothing = "nothing") {
    const keys = new Set(rows.map(({ key }) => key));
    for (const key of known.keys()) if (!keys.has(key)) known.delete(key);
    const elements = rows.map(row);
    const same = elements.length === body.children.length && elements.every((one, at) => body.children[at] === one);
    if (!same) body.replaceChildren(...elements);
    empty.hidden = rows.length > 0;
    say(empty, nothing);
  }
  return { element, render };
}
