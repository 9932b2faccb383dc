// What is wrong and what to do: a card for each trouble, with the command and a button that sends it.

import { KeyedChildren, el, setClass, setText, show } from "./dom.js";
import { wholeDuration } from "./format.js";
import { stopTick, tick } from "./live.js";
import { approve, budget, changeLimits, send } from "./steering.js";
import { command } from "./widgets.js";

const SIGNS = { error: "✗", warning: "!", info: "i" };
const VERBS = { pause: "Pause", resume: "Resume", cancel: "Cancel", retry: "Retry", reopen: "Open the lane now", limits: "Change the limits", budget: "Change the budget", approve: "Answer" };

export class TroubleCards {
  constructor(jobOf) {
    this.element = el("div", { class: "troubles" });
    this.cards = new KeyedChildren(this.element, (trouble) => trouble.key, () => new TroubleCard(jobOf));
  }

  update(troubles) {
    const seen = new Map();
    const keyed = (troubles || []).map((trouble) => {
      const base = [trouble.level, trouble.lane, trouble.node, trouble.command].join(" ");
      seen.set(base, (seen.get(base) || 0) + 1);
      return { ...trouble, key: `${base} ${seen.get(base)}` };
    });
    this.cards.update(keyed);
    show(this.element, keyed.length > 0);
  }
}

class TroubleCard {
  constructor(jobOf) {
    this.jobOf = jobOf;
    this.sign = el("span", { class: "sign", "aria-hidden": "true" });
    this.what = el("p", { class: "what" });
    this.todo = el("p", { class: "soft" });
    this.until = el("span", { class: "until" });
    this.line = command("");
    this.act = el("button", { type: "button", class: "primary", click: () => this.send() });
    this.element = el("div", { class: "trouble" }, this.sign, el("div", { class: "text" }, this.what, this.todo, this.line), el("div", { class: "side" }, this.until, this.act));
  }

  update(trouble) {
    this.trouble = trouble;
    setClass(this.element, "trouble is-" + trouble.level);
    setText(this.sign, SIGNS[trouble.level] || "!");
    setText(this.what, trouble.what);
    setText(this.todo, trouble.do || "");
    show(this.todo, Boolean(trouble.do));
    setText(this.line.firstChild, trouble.command || "");
    show(this.line, Boolean(trouble.command));
    show(this.act, Boolean(trouble.action));
    if (trouble.action) setText(this.act, (VERBS[actionName(trouble.action.path)] || "Do it") + (trouble.action.asks?.length ? "…" : ""));
    this.countdown(trouble.until_utc);
  }

  countdown(until) {
    show(this.until, Boolean(until));
    if (this.counted === until) return;
    this.counted = until;
    if (until) tick(this.until, (now) => setText(this.until, until > now ? wholeDuration(until - now) : "any moment"));
    else stopTick(this.until);
  }

  // An action that asks for something opens its form.
  send() {
    const { path, body, asks } = this.trouble.action;
    const name = actionName(path);
    const job = this.jobOf();
    if (name === "approve") approve(job.job, body?.node || this.trouble.node);
    else if (name === "budget" && asks?.length) budget(job.job, job.budget_usd);
    else if (name === "limits" && asks?.length) changeLimits(job.lanes?.find(({ lane }) => lane === this.trouble.lane) || { lane: this.trouble.lane });
    else send(path, body || {}, this.trouble.command || null, this.act);
  }

  close() { stopTick(this.until); }
}

const actionName = (path) => path.split("/").pop();
