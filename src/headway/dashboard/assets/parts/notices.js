// What the server answered to a command: in a corner, for some seconds, read aloud once.

import { el } from "./dom.js";
import { command } from "./widgets.js";

const SHOWN_MS = 9000;
const MOST = 4;

export function notice(text, { line = null, bad = false } = {}) {
  const place = document.getElementById("notices");
  const close = () => element.remove();
  const element = el("div", { class: "notice" + (bad ? " is-bad" : "") }, el("p", {}, bad ? el("span", { class: "s-fail mark", "aria-hidden": "true" }, "✗ ") : el("span", { class: "s-pass mark", "aria-hidden": "true" }, "✓ "), text),
    line ? el("p", { class: "soft small" }, "The same on a terminal: ", command(line)) : null,
    el("button", { type: "button", class: "quiet", "aria-label": "Close the notice", click: close }, "✕"));
  place.append(element);
  while (place.childElementCount > MOST) place.firstChild.remove();
  if (!bad) setTimeout(() => { if (!element.matches(":hover, :focus-within")) close(); }, SHOWN_MS);
}
