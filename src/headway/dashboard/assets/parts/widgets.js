// Small parts that several views have: times, marks of a status, commands to copy, dialogs, tables.

import { add, el, setAttribute, setClass, setText, svg } from "./dom.js";
import { isoTime, localTime, utcTime } from "./format.js";

// A time in the local zone. Its title has it in UTC.
export function time(utc, withSeconds = true) {
  const element = el("time", {});
  setTime(element, utc, withSeconds);
  return element;
}

export function setTime(element, utc, withSeconds = true) {
  setText(element, localTime(utc, withSeconds));
  setAttribute(element, "title", utcTime(utc) || null);
  setAttribute(element, "datetime", isoTime(utc) || null);
}

// The words and the marks of states: a colour is never the only sign.
const MARKS = {
  succeeded: ["✓", "pass"], success: ["✓", "pass"], complete: ["✓", "pass"], finished: ["✓", "pass"], cached: ["✓", "pass"], pass: ["✓", "pass"], DONE: ["✓", "pass"], reviewed: ["✓", "pass"],
  failed: ["✗", "fail"], fail: ["✗", "fail"], FAILED: ["✗", "fail"], stopped: ["✗", "fail"],
  timed_out: ["◷", "timeout"], timeout: ["◷", "timeout"], deadline: ["◷", "timeout"],
  error: ["!", "error"], interrupted: ["!", "error"], cancelled: ["⊘", "error"], budget: ["!", "error"], parked: ["‖", "error"], paused: ["‖", "error"], waiting: ["?", "error"], held: ["‖", "error"],
  running: ["▸", "run"], ready: ["▸", "run"], assigned: ["▸", "run"], in_flight: ["▸", "run"],
};

const NAMES = { timed_out: "timed out", complete: "finished", deadline: "stopped by its deadline", budget: "stopped by its budget", success: "succeeded", ingesting: "reading the input" };

export const stateName = (state) => NAMES[state] || String(state).replaceAll("_", " ");

export function mark(state, word) {
  const sign = el("span", { "aria-hidden": "true" }), text = el("span", {});
  const element = el("span", { class: "mark" }, sign, text);
  setMark(element, state, word);
  return element;
}

export function setMark(element, state, word) {
  const [sign, name] = MARKS[state] || ["·", "pending"];
  setClass(element, "mark s-" + name);
  setText(element.firstChild, sign + " ");
  setText(element.lastChild, word || stateName(state));
}

// A command of the CLI with a button that copies it.
export function command(line) {
  const code = el("code", {}, line);
  const button = el("button", { type: "button", class: "copy quiet", "aria-label": "Copy the command", title: "Copy", click: () => copy(code.textContent, button) }, copySign());
  return el("span", { class: "command" }, code, button);
}

const copySign = () => svg("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, svg("rect", { x: 5.5, y: 5.5, width: 8, height: 8, rx: 1.5 }), svg("path", { d: "M10.5 3v-.5h-8v8h.5" }));

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "✓";
  } catch {
    const place = button.previousSibling;
    getSelection().selectAllChildren(place);
    button.textContent = "Ctrl-C";
  }
  setTimeout(() => button.replaceChildren(copySign()), 1500);
}

// A button, or a link that looks like one.
export function button(text, act, { kind = "", title = null, disabled = false } = {}) {
  return el("button", { type: "button", class: kind || null, title, disabled, click: act }, text);
}

// A dialog over the page. Escape, its button and a click beside it close it; the focus goes back by itself.
export function openDialog(title, ...children) {
  const heading = el("h2", { id: "dialog-title" }, title);
  const element = el("dialog", { "aria-labelledby": "dialog-title" }, el("div", { class: "dialog-bar" }, heading, el("button", { type: "button", class: "quiet", "aria-label": "Close", click: () => element.close() }, "✕")), el("div", { class: "inside" }, children));
  element.addEventListener("click", (event) => { if (event.target === element) element.close(); });
  element.addEventListener("close", () => element.remove());
  document.body.append(element);
  element.showModal();
  return element;
}

// A table. A head is [name, whether its cells are numbers].
export function table(label, heads, rows, kind = "") {
  const head = el("tr", {}, heads.map(([name, right]) => el("th", { scope: "col", class: right ? "number" : null }, name)));
  const body = rows.map((cells) => el("tr", {}, cells.map((cell, n) => el(n ? "td" : "th", { scope: n ? null : "row", class: heads[n][1] ? "number" : "foreign" }, cell))));
  return el("div", { class: `panel scroll ${kind}`, tabindex: "0", role: "group", "aria-label": label }, el("table", {}, el("thead", {}, head), el("tbody", {}, body)));
}

// Text of others: a model's answer, a prompt, an error.
export function foreign(text, kind = "") {
  return el("div", { class: `foreign ${kind}` }, text);
}

export function section(title, ...children) {
  return el("section", { "aria-label": title }, el("h2", {}, title), children);
}

// What a view shows where it has nothing: why, and the command that changes that.
export function empty(what, line = null, why = null) {
  return el("div", { class: "none" }, el("p", {}, what), why ? el("p", { class: "soft" }, why) : null, line ? command(line) : null);
}

export function pairs(list) {
  return add(el("dl", {}), list.filter(([, value]) => value !== null && value !== undefined && value !== "").map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", { class: "foreign" }, value))));
}
