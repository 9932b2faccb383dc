// What every page uses: elements, the data in the page, numbers for people, the theme, the list of keys.
// Text from outside reaches the page only through `visible` and text nodes: it is never parsed as markup.

const byId = (id) => document.getElementById(id);

// Characters that hide text or change its direction, and halves of surrogate pairs, as safe_text.py has them.
const UNSAFE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]|\p{Surrogate}/gu;

function visible(text) {
  return String(text).replace(UNSAFE, (one) => {
    const code = one.codePointAt(0);
    return code < 256 ? "\\x" + code.toString(16).padStart(2, "0") : "\\u" + code.toString(16).padStart(4, "0");
  });
}

// An element with attributes and children; a child that is no element becomes text.
function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : String(value));
  }
  add(made, children);
  return made;
}

function add(parent, children) {
  for (const child of children.flat(2)) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : visible(child));
  }
}

// The namespace is a name, and no address that is loaded: it is taken from the picture that the page has.
const SVG = byId("shapes").namespaceURI;

function svg(tag, attributes, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...children);
  return made;
}

// The data of the page: blocks of JSON, each parsed when it is needed.
function block(name) {
  return JSON.parse(byId("data-" + name).textContent);
}

// Rows in blocks of the same size. The blocks used last stay parsed.
class StoredRows {
  constructor(size, most) {
    this.size = size;
    this.most = most;
    this.blocks = new Map();
  }

  row(number) {
    const place = Math.floor(number / this.size);
    let rows = this.blocks.get(place);
    if (rows === undefined) {
      rows = block("rows-" + place);
      if (this.blocks.size >= this.most) this.blocks.delete(this.blocks.keys().next().value);
      this.blocks.set(place, rows);
    }
    return rows[number % this.size];
  }
}

const grouped = new Intl.NumberFormat("en");
const count = (n) => grouped.format(n);
const plural = (n, word) => `${count(n)} ${n === 1 ? word : word + "s"}`;

function money(usd) {
  if (usd === null || usd === undefined) return "–";
  if (usd === 0 || usd >= 1) return "$" + usd.toFixed(2).replace(/\B(?=(\d{3})+\.)/g, ",");
  return "$" + usd.toFixed(usd >= 0.001 ? 4 : 6);
}

function seconds(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return Math.round(ms) + " ms";
  return ms < 99500 ? (ms / 1000).toFixed(ms < 9950 ? 1 : 0) + " s" : Math.floor(ms / 60000) + "m " + Math.round((ms % 60000) / 1000) + "s";
}

const when = (utc) => (utc ? new Date(utc * 1000).toISOString().slice(0, 16).replace("T", " ") + " UTC" : "");

const STATUS = {
  p: { name: "pass", mark: "✓" },
  f: { name: "fail", mark: "✗" },
  e: { name: "error", mark: "!" },
  t: { name: "timeout", mark: "◷" },
  w: { name: "pending", mark: "…" },
};

function mark(letter, word) {
  const status = STATUS[letter];
  return el("span", { class: "mark s-" + status.name }, el("span", { "aria-hidden": "true" }, status.mark + " "), word || status.name);
}

// The theme: that of the system until the switch is used. A page in a file may have no storage.
function themeSwitch() {
  const root = document.documentElement;
  const stored = () => { try { return localStorage.getItem("headway-theme"); } catch { return null; } };
  const keep = (theme) => { try { localStorage.setItem("headway-theme", theme); } catch { /* It holds until the page is closed. */ } };
  const isDark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  if (stored() === "dark" || stored() === "light") root.dataset.theme = stored();
  const button = el("button", { type: "button", id: "theme" });
  const name = () => { button.textContent = isDark() ? "Light" : "Dark"; button.setAttribute("aria-label", `Use ${isDark() ? "light" : "dark"} colours`); };
  button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; keep(root.dataset.theme); name(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", name);
  name();
  return button;
}

// A dialog over the page. Escape and its button close it.
function dialog(id, title) {
  const heading = el("h2", { id: id + "-title" }, title);
  const close = el("button", { type: "button", "aria-label": "Close" }, "✕");
  const bar = el("div", { class: "bar" }, heading, close);
  const inside = el("div", { class: "inside" });
  const made = el("dialog", { id, "aria-labelledby": id + "-title" }, bar, inside);
  close.addEventListener("click", () => made.close());
  made.addEventListener("click", (event) => { if (event.target === made) made.close(); });
  document.body.append(made);
  return { element: made, heading, bar, close, inside };
}

// `?` and its button show the keys.
function helpButton(keys) {
  const help = dialog("help", "Keys");
  const list = el("dl", {});
  for (const [names, what] of keys) {
    list.append(el("dt", {}, names.map((name, n) => [n ? " " : "", el("kbd", {}, name)])), el("dd", {}, what));
  }
  help.inside.append(list);
  const button = el("button", { type: "button", "aria-label": "Keys", "aria-keyshortcuts": "?" }, "?");
  button.addEventListener("click", () => help.element.showModal());
  document.addEventListener("keydown", (event) => {
    if (isTyping(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "?" && !help.element.open) { help.element.showModal(); event.preventDefault(); }
    if (event.key === "/" && !document.querySelector("dialog[open]")) { byId("search").focus(); event.preventDefault(); }
  });
  return button;
}

const isTyping = (target) => target instanceof HTMLElement && target.matches("input, select, textarea");

function pageHeader(title, lines, keys) {
  const tools = el("div", { class: "tools" }, themeSwitch(), helpButton(keys));
  return el("header", { class: "top" }, el("div", { class: "line" }, el("div", {}, el("h1", {}, title), lines), tools));
}

function select(label, options) {
  const made = el("select", { "aria-label": label });
  for (const [value, text] of options) made.append(el("option", { value }, text));
  return made;
}

// A small table with its title. A head is [name, whether its cells are numbers].
function table(title, heads, rows) {
  if (rows.length === 0) return null;
  const head = el("tr", {}, heads.map(([name, right]) => el("th", { scope: "col", class: right ? "number" : null }, name)));
  const body = rows.map((cells) => el("tr", {}, cells.map((cell, n) => el(n ? "td" : "th", { scope: n ? null : "row", class: heads[n][1] ? "number" : "foreign" }, cell))));
  return el("section", {}, el("h2", {}, title), el("div", { class: "panel scroll", tabindex: "0", role: "group", "aria-label": title }, el("table", {}, el("caption", { class: "visually-hidden" }, title), el("thead", {}, head), el("tbody", {}, body))));
}
