// The token for requests that change something or show packets. It is kept for this tab alone.

import { h } from "./dom.js";

const KEY = "weft-token";
let button;

/** The token, if one was given. */
export const token = () => sessionStorage.getItem(KEY) ?? "";

function show() {
  button.textContent = token() ? "Token given" : "Read-only";
  button.title = token() ? "This tab may trace, capture and move. Click to change or forget the token."
    : "Click to give the token with which this tab may trace, capture and move.";
}

/** Makes `element` the place where the token is given. */
export function askAt(element) {
  button = element;
  const field = h("input", { id: "token-field", type: "password", autocomplete: "off", spellcheck: "false", required: true, minlength: 16 });
  const give = (event) => {
    event.preventDefault();
    sessionStorage.setItem(KEY, field.value.trim());
    done();
  };
  const forget = () => {
    sessionStorage.removeItem(KEY);
    done();
  };
  const done = () => {
    field.value = "";
    dialog.close();
    show();
  };
  const dialog = h("dialog", { "aria-labelledby": "token-title" },
    h("form", { onsubmit: give },
      h("h2", { id: "token-title" }, "Token"),
      h("p", {}, "Tracing, capturing and moving need the token that the program was given with ", h("code", {}, "--http-token-file"), ". It stays in this tab."),
      h("label", { for: "token-field" }, "Token"), field,
      h("div", { class: "buttons" },
        h("button", { type: "submit" }, "Use it"),
        h("button", { type: "button", class: "quiet", onclick: forget }, "Forget"),
        h("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, "Cancel"))));
  document.body.append(dialog);
  element.addEventListener("click", () => dialog.showModal());
  show();
}

/** Opens the dialog, for what was refused. */
export const askNow = () => button.click();
