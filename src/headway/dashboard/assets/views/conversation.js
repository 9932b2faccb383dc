// A conversation with its tool calls, and long texts. All of it is text of others: it is never markup.

import { el } from "../parts/dom.js";
import { count, pretty } from "../parts/format.js";
import { section, time } from "../parts/widgets.js";

const MOST_SHOWN = 12000;
const ROLES = { user: "User", assistant: "Model", system: "System", developer: "System", tool: "Tool result", model: "Model" };

// Messages that are there stay as they are while others follow, so that one can read what an agent says.
export class Conversation {
  constructor() {
    this.texts = [];
    this.list = el("ol", { class: "conversation" });
    this.element = section("Conversation", this.list);
    this.element.hidden = true;
  }

  update(messages) {
    this.element.hidden = messages.length === 0;
    messages.forEach((one, n) => {
      const text = JSON.stringify(one);
      if (this.texts[n] === text) return;
      this.texts[n] = text;
      if (n < this.list.childElementCount) this.list.children[n].replaceWith(message(one));
      else this.list.append(message(one));
    });
    this.texts.length = messages.length;
    while (this.list.childElementCount > messages.length) this.list.lastChild.remove();
  }
}

function message({ role, text, tool_calls: calls, tool_result: result, at_utc: at }) {
  const kind = role === "assistant" || role === "model" ? "is-model" : role === "tool" || (result && !text) ? "is-tool" : role === "user" ? "is-user" : "is-system";
  return el("li", { class: "message " + kind }, el("p", { class: "role" }, ROLES[role] || role, at ? el("span", { class: "soft small" }, " ", time(at)) : null),
    text ? longText(pretty(text)) : null, (calls || []).map(toolCall), result !== null && result !== undefined && result !== "" ? longText(pretty(result), "code") : null);
}

function toolCall({ name, arguments: given }) {
  return el("div", { class: "tool-call" }, el("p", {}, el("span", { class: "soft" }, "calls "), el("code", { class: "foreign" }, name)), given === null || given === undefined || given === "" ? null : longText(pretty(given), "code"));
}

// A text that may be long: its beginning, and the rest when it is wanted.
export function longText(text, kind = "") {
  const body = el("div", { class: `text-block foreign ${kind}`, tabindex: text.length > 1500 ? "0" : null, role: text.length > 1500 ? "group" : null, "aria-label": text.length > 1500 ? "Text" : null }, text.slice(0, MOST_SHOWN));
  if (text.length <= MOST_SHOWN) return body;
  const more = el("button", { type: "button", click: () => { body.textContent = ""; body.append(text); more.remove(); } }, `Show all ${count(text.length)} characters`);
  return el("div", {}, body, more);
}
