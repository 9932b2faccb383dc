// The list of jobs: those that run first, each with its progress and its trouble.

import { commandLine } from "../parts/command_lines.js";
import { KeyedChildren, el, setAttribute, setText, show } from "../parts/dom.js";
import { get, jobPath, query } from "../parts/api.js";
import { ago, asList, count, duration, money, progressPercent, rate, utcTime, wholeDuration } from "../parts/format.js";
import { LiveEvents, stopTick, tick } from "../parts/live.js";
import { ProgressBar, endedUnits } from "../parts/progress.js";
import { empty, mark, setMark } from "../parts/widgets.js";

const PAGE = 50;

export function showJobs() {
  const view = new JobsView();
  document.getElementById("main").replaceChildren(view.element);
  document.title = "Jobs · Headway";
  view.start();
  return () => view.close();
}

class JobsView {
  constructor() {
    this.rows = new Map();
    this.next = null;
    this.lists = [new JobList("Running", (row) => row.live), new JobList("Earlier", (row) => !row.live)];
    this.more = el("button", { type: "button", hidden: true, click: () => this.load() }, "Show more jobs");
    this.none = el("div", { hidden: true }, empty("No job has run yet.", commandLine("run", "questions.jsonl"), "A job that is started in any terminal appears here at once. Without a key: headway demo."));
    this.problem = el("p", { class: "s-fail", role: "alert" });
    this.element = el("div", { class: "wrap jobs" }, el("h1", { tabindex: "-1" }, "Jobs"), this.problem, el("div", { "data-list": true }, this.lists.map((list) => list.element)), this.none, this.more);
  }

  async start() {
    await this.load();
    if (this.closed) return;
    this.live = new LiveEvents("/api/events", { jobs: (changed) => this.take(asList(changed.jobs || changed)) }, { every: ["jobs"], back: () => this.reload() });
  }

  async load() {
    try {
      const answer = await get("/api/jobs" + query({ after: this.next, limit: PAGE }));
      this.next = answer.next;
      show(this.more, Boolean(answer.next));
      setText(this.problem, "");
      this.take(answer.jobs);
    } catch (error) {
      setText(this.problem, error.message);
    }
  }

  async reload() {
    this.next = null;
    await this.load();
  }

  take(rows) {
    for (const row of rows) this.rows.set(row.job, row);
    const all = [...this.rows.values()].sort((a, b) => (b.created_utc || 0) - (a.created_utc || 0));
    for (const list of this.lists) list.update(all);
    show(this.none, all.length === 0);
  }

  close() {
    this.closed = true;
    if (this.live) this.live.close();
    for (const list of this.lists) list.rows.close();
  }
}

// A line has room for so many troubles: that units failed must not hide that a lane is stuck.
const MOST_TROUBLES = 2;

class JobList {
  constructor(title, accepts) {
    this.accepts = accepts;
    this.number = el("span", { class: "soft" });
    this.list = el("ol", { class: "panel joblist" });
    this.rows = new KeyedChildren(this.list, (row) => row.job, (row) => new JobLine(row.job));
    this.element = el("section", { "aria-label": title, hidden: true }, el("h2", {}, title, " ", this.number), this.list);
  }

  update(all) {
    const rows = all.filter(this.accepts);
    this.rows.update(rows);
    setText(this.number, count(rows.length));
    show(this.element, rows.length > 0);
  }
}

class JobLine {
  constructor(job) {
    this.state = mark("pending");
    this.bar = new ProgressBar();
    this.kind = el("span", { class: "soft small" });
    [this.done, this.pace, this.cost] = [0, 0, 0].map(() => el("span", { class: "figure" }));
    this.age = el("time", { class: "figure soft" });
    this.trouble = el("span", { class: "first-trouble" });
    const name = el("span", { class: "name" }, el("b", { class: "foreign" }, job), this.kind);
    this.link = el("a", { href: jobPath(job), "data-item": true }, el("span", { class: "state" }, this.state), name, el("span", { class: "bar-cell" }, this.bar.element), this.done, this.pace, this.cost, this.age, this.trouble);
    this.bar.element.setAttribute("aria-hidden", "true");
    this.element = el("li", {}, this.link);
  }

  update(row) {
    setMark(this.state, row.state);
    setText(this.kind, [row.kind, row.input].filter(Boolean).join(" · "));
    this.bar.update(row);
    const ended = endedUnits(row.counts);
    setText(this.done, ended >= row.total ? count(row.total) + " units" : `${count(ended)} of ${count(row.total)} · ${progressPercent(ended, row.total)}`);
    setText(this.pace, row.live ? [rate(row.rate_per_s), row.eta_s === null || row.eta_s === undefined ? null : wholeDuration(row.eta_s) + " left"].filter(Boolean).join(" · ") : duration(row.finished_utc && row.started_utc ? row.finished_utc - row.started_utc : null));
    setText(this.cost, money(row.cost_usd));
    const troubles = asList(row.trouble).filter((one) => one.level !== "info"), more = troubles.length - MOST_TROUBLES;
    show(this.trouble, troubles.length > 0);
    setText(this.trouble, [...troubles.slice(0, MOST_TROUBLES).map((one) => one.what.replace(/\.$/, "")), more > 0 ? `${more} more` : null].filter(Boolean).join(" · "));
    setAttribute(this.trouble, "class", "first-trouble is-" + (troubles[0]?.level || "info"));
    if (this.created !== row.created_utc) {
      this.created = row.created_utc;
      setAttribute(this.age, "title", utcTime(row.created_utc));
      tick(this.age, (now) => setText(this.age, ago(row.created_utc, now)));
    }
  }

  close() { stopTick(this.age); }
}
