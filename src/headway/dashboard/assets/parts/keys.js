// Keys of the page: a view says where its list and its search are by `data-` attributes, so that one listener is enough.
// [data-list] contains the items, which are focusable [data-item]; [data-search] is the search; [data-up] leads to the view above.

import { el, isTyping } from "./dom.js";
import { navigate } from "./router.js";
import { openDialog } from "./widgets.js";

const KEYS = [
  [["j", "↓"], "The next row, lane or node"], [["k", "↑"], "The one before"], [["Enter"], "Open it"], [["Esc"], "Close, or go up"], [["/"], "Search"],
  [["1", "…", "9"], "The parts of a job"], [["p"], "Pause or resume the job"], [["t"], "Light or dark"], [["?"], "These keys"],
];

export function startKeys(actions) {
  document.getElementById("keys").addEventListener("click", help);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || document.querySelector("dialog[open]")) return;
    if (isTyping(event.target)) {
      if (event.key === "Escape") { event.target.blur(); event.preventDefault(); }
      return;
    }
    if (act(event.key, actions)) event.preventDefault();
  });
}

function act(key, actions) {
  if (key === "?") return help(), true;
  if (key === "/") return focus("[data-search]");
  if (key === "j" || key === "ArrowDown") return step(1, key);
  if (key === "k" || key === "ArrowUp") return step(-1, key);
  if (key === "Escape") return up();
  if (key >= "1" && key <= "9") return click(`[data-tab]:nth-of-type(${key})`);
  if (key === "p") return click("[data-key='p']");
  if (key === "t") return actions.theme(), true;
  return false;
}

// Arrow keys scroll the page until an item has the focus.
function step(by, key) {
  const items = [...document.querySelectorAll("[data-item]")].filter((item) => item.checkVisibility());
  if (items.length === 0) return false;
  const place = items.indexOf(document.activeElement);
  if (place < 0 && key.startsWith("Arrow")) return false;
  const next = place < 0 ? items[0] : items[place + by];
  if (next === undefined) return true;
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
  return true;
}

function focus(selector) {
  const found = document.querySelector(selector);
  if (found === null) return false;
  found.focus();
  if (found.select) found.select();
  return true;
}

function click(selector) {
  const found = [...document.querySelectorAll(selector)].find((one) => one.checkVisibility() && !one.disabled);
  if (found === undefined) return false;
  found.click();
  return true;
}

function up() {
  const link = document.querySelector("[data-up]");
  if (link === null) return false;
  navigate(link.getAttribute("href"));
  return true;
}

function help() {
  openDialog("Keys", el("dl", { class: "keys" }, KEYS.map(([names, what]) => [el("dt", {}, names.map((name, n) => [n ? " " : "", el("kbd", {}, name)])), el("dd", {}, what)])),
    el("p", { class: "soft small" }, "Every button is a command of the command line as well: headway --help lists them."));
}
