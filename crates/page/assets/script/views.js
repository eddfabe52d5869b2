// Views are chosen by the fragment of the address, so that they can be linked and gone back to.

const links = () => [...document.querySelectorAll("nav.tabs a")];

/** The name of the view, and what stands behind it in the fragment. */
export function place() {
  const [view, ...rest] = location.hash.slice(1).split("/");
  const known = links().some((link) => link.hash === `#${view}`);
  return [known ? view : links()[0].hash.slice(1), decodeURIComponent(rest.join("/"))];
}

/** Goes to a view. */
export const go = (view, rest = "") => {
  location.hash = rest ? `${view}/${encodeURIComponent(rest)}` : view;
};

/** Shows the view that the address names, now and whenever that changes. */
export function follow(shown) {
  const show = () => {
    const [view, rest] = place();
    for (const link of links()) {
      const here = link.hash === `#${view}`;
      if (here) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
      document.getElementById(`view-${link.hash.slice(1)}`).hidden = !here;
    }
    shown(view, rest);
  };
  addEventListener("hashchange", show);
  show();
}
