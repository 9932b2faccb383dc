// What the server answered to a command: in a corner, for some seconds, read aloud once. The next answer takes the place of the one before;
// what went wrong stays until it is closed, or until there is more of it than fits.

import { el } from "./dom.js";
import { command } from "./widgets.js";

const SHOWN_MS = 9000;
const MOST_BAD = 3;

export function notice(text, { line = null, bad = false } = {}) {
  const place = document.getElementById("notices");
  const close = () => element.remove();
  const element = el("div", { class: "notice" + (bad ? " is-bad" : "") }, el("p", {}, bad ? el("span", { class: "s-fail mark", "aria-hidden": "true" }, "✗ ") : el("span", { class: "s-pass mark", "aria-hidden": "true" }, "✓ "), text),
    line ? el("p", { class: "soft small" }, "The same on a terminal: ", command(line)) : null,
    el("button", { type: "button", class: "quiet", "aria-label": "Close the notice", click: close }, "✕"));
  for (const other of place.querySelectorAll(".notice:not(.is-bad)")) other.remove();
  place.append(element);
  while (place.childElementCount > MOST_BAD) place.firstChild.remove();
  if (!bad) setTimeout(() => { if (!element.matches(":hover, :focus-within")) close(); }, SHOWN_MS);
}
