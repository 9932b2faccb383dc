// All lanes that were ever used: their limits and where these come from, their window, holds and cost. They outlive jobs.

import { commandLine } from "../parts/command_lines.js";
import { KeyedChildren, el, setText, show } from "../parts/dom.js";
import { get, jobPath } from "../parts/api.js";
import { ago, asList, compact, count, known, money, wholeDuration } from "../parts/format.js";
import { connection, stopTick, tick } from "../parts/live.js";
import { LimitList } from "../lanes/lane_strip.js";
import { changeLimits, limitsLine, reopen, reopenLine } from "../parts/steering.js";
import { empty, mark, setMark } from "../parts/widgets.js";

const REFRESH_MS = 2000;

export function showLanes() {
  const view = new LanesView();
  document.getElementById("main").replaceChildren(view.element);
  document.title = "Lanes · Headway";
  view.load();
  return () => view.close();
}

class LanesView {
  constructor() {
    this.list = el("div", { class: "lane-cards", "data-list": true });
    this.cards = new KeyedChildren(this.list, (lane) => lane.key || lane.lane, (lane) => new LaneCard(lane));
    this.none = el("div", { hidden: true }, empty("No lane was used yet.", commandLine("run", "questions.jsonl"), "A lane is one account and model: what a provider limits. It appears with its first request, and what it learns is kept for later runs."));
    this.problem = el("p", { class: "s-fail", role: "alert" });
    this.element = el("div", { class: "wrap" }, el("h1", { tabindex: "-1" }, "Lanes"), el("p", { class: "soft" }, "Each lane is one real limit: an account and a model. What it learned is kept and used by the next run."), this.problem, this.list, this.none);
    this.timer = setInterval(() => { if (!document.hidden) this.load(); }, REFRESH_MS);
  }

  async load() {
    try {
      const { lanes } = await get("/api/lanes");
      if (this.closed) return;
      connection("live");
      setText(this.problem, "");
      this.cards.update(asList(lanes));
      show(this.none, asList(lanes).length === 0);
    } catch (error) {
      if (this.closed) return;
      connection("disconnected");
      setText(this.problem, error.message);
    }
  }

  close() {
    this.closed = true;
    clearInterval(this.timer);
    this.cards.close();
    connection("still");
  }
}

class LaneCard {
  constructor(lane) {
    this.name = lane.lane;
    this.state = mark("pending");
    this.until = el("span", { class: "until" });
    this.job = el("a", { class: "small" });
    this.limits = new LimitList();
    this.window = el("p", { class: "soft small" });
    this.spent = el("p", { class: "soft small" });
    this.text = el("pre", { class: "foreign" });
    this.used = el("time", { class: "soft small" });
    this.reopen = el("button", { type: "button", title: reopenLine(lane.lane), click: () => reopen(this.name, this.reopen) }, "Open now");
    const change = el("button", { type: "button", title: limitsLine(lane.lane), click: () => changeLimits(this.lane) }, "Limits…");
    this.element = el("article", { class: "panel lane-card", tabindex: "-1", "data-item": true, "aria-label": `Lane ${lane.lane}` }, el("div", { class: "lane-head" }, el("h2", { class: "foreign" }, lane.lane), el("p", {}, this.state, " ", this.until, " ", this.job), el("div", { class: "tools" }, this.reopen, change)), this.limits.element, el("div", { class: "lane-card-foot" }, this.window, this.spent, this.used), el("details", {}, el("summary", {}, "All that is known, as headway lanes prints it"), this.text));
  }

  update(lane) {
    const running = asList(lane.jobs)[0];
    const view = running || lane.seen || {};
    this.lane = { ...view, lane: lane.lane };
    const wait = view.wait, recorded = !running && wait && wait.until > Date.now() / 1000 ? { reason: wait.reason, until_utc: wait.until } : null;
    const held = view.held || recorded, stopped = view.stopped || null;
    setMark(this.state, stopped ? "stopped" : held ? "held" : running ? "running" : "pending", stopped ? `stopped: ${stopped}` : held ? `held: ${held.reason}` : running ? "in use by" : "not in use");
    this.count(held?.until_utc);
    show(this.job, Boolean(running));
    if (running) { setText(this.job, running.job); this.job.setAttribute("href", jobPath(running.job)); }
    show(this.reopen, Boolean(held || stopped));
    this.limits.update({ limits: asList(view.limits), binding: view.binding || "" });
    setText(this.window, [known(view.window) ? `window ${count(view.window)}` : null, running ? `${count(view.in_flight)} in flight` : null, view.held_back ? view.held_back : null].filter(Boolean).join(" · "));
    setText(this.text, asList(lane.text).join("\n"));
    const spent = lane.spent || {};
    setText(this.spent, [spent.attempts ? `${compact(spent.attempts)} attempts` : null, spent.input_tokens || spent.output_tokens ? `${compact(spent.input_tokens)} / ${compact(spent.output_tokens)} tokens` : null, known(spent.cost_usd) ? money(spent.cost_usd) : null].filter(Boolean).join(" · "));
    if (this.at !== lane.updated_utc) { this.at = lane.updated_utc; tick(this.used, (now) => setText(this.used, lane.updated_utc ? "seen " + ago(lane.updated_utc, now) : "")); }
  }

  count(until) {
    show(this.until, Boolean(until));
    if (this.counted === until) return;
    this.counted = until;
    if (until) tick(this.until, (now) => setText(this.until, until > now ? `opens in ${wholeDuration(until - now)}` : "opens now"));
    else stopTick(this.until);
  }

  close() { stopTick(this.until); stopTick(this.used); }
}
