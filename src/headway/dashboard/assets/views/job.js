// One job, live: its head (state, trouble, progress, figures, buttons) and its parts, of which one is shown.

import { commandLine } from "../parts/command_lines.js";
import { el, setAttribute, setText, show } from "../parts/dom.js";
import { get, jobApi, jobPath } from "../parts/api.js";
import { asList, count, duration, known, localTime, money, plural, progressPercent, rate, wholeDuration } from "../parts/format.js";
import { LiveEvents, connection, stopTick, tick } from "../parts/live.js";
import { ProgressBar, ProgressLegend, endedUnits } from "../parts/progress.js";
import { budget, budgetLine, cancel, cancelLine, pause, pauseLine, resume, resumeLine, retryFailed, retryFailedLine } from "../parts/steering.js";
import { TroubleCards } from "../parts/trouble.js";
import { empty, mark, setMark, setTime, stateName, time } from "../parts/widgets.js";

// The parts of a job: [address, title, module, whether a job has it].
const TABS = [
  ["", "Lanes", () => import("./overview.js"), () => true],
  ["flow", "Flow", () => import("./flow.js"), (job) => job.parts?.flow],
  ["eval", "Matrix", () => import("./eval.js"), (job) => job.parts?.eval],
  ["review", "Findings", () => import("./review.js"), (job) => job.parts?.review],
  ["agents", "Agents", () => import("./agents.js"), (job) => job.parts?.agents],
  ["units", "Units", () => import("./units.js"), () => true],
  ["settings", "Settings", () => import("./settings.js"), () => true],
];

export function showJob([job, part, item], search, previous) {
  if (previous && previous.page.job === job) {
    previous.page.showPart(part || "", item, search);
    return previous;
  }
  if (previous) previous();
  const page = new JobPage(job);
  document.getElementById("main").replaceChildren(page.element);
  page.start(part || "", item, search);
  const leave = () => page.close();
  leave.keep = true;
  leave.page = page;
  return leave;
}

class JobPage {
  constructor(job) {
    this.job = job;
    this.row = { job, counts: {}, total: 0, lanes: [], trouble: [] };
    this.head = new JobHead(job, () => this.row);
    this.content = el("div", { class: "content" });
    this.tabs = el("nav", { class: "tabs", "aria-label": "Parts of the job" });
    this.said = el("p", { class: "visually-hidden", role: "status" });
    this.element = el("div", { class: "wrap job" }, this.head.element, this.tabs, this.content, this.said);
    this.tab = null;
    this.steered = () => this.readSoon(600);
    addEventListener("headway-steered", this.steered);
  }

  async start(part, item, search) {
    document.title = `${this.job} · Headway`;
    try {
      this.take(await get(jobApi(this.job)));
    } catch (error) {
      this.element.replaceChildren(empty(error.message, commandLine("jobs")));
      return;
    }
    if (this.closed) return;
    this.drawTabs();
    this.showPart(part, item, search);
    this.live = new LiveEvents(`/api/events?job=${encodeURIComponent(this.job)}`, {
      progress: (row) => this.take(row), ended: (row) => this.ended(row), sample: (sample) => this.tell("sample", sample), line: () => this.readSoon(2000),
    }, { every: ["sample", "line"], back: () => this.reload() });
  }

  // What a command or an event may have changed and progress does not say: the budget, the settings.
  readSoon(ms) {
    if (this.soon) return;
    this.soon = setTimeout(async () => {
      this.soon = 0;
      if (!this.closed) try { this.take(await get(jobApi(this.job))); } catch { /* The bar has the state of the connection. */ }
    }, ms);
  }

  // After a lost connection, and at the end: all that events do not say.
  async reload() {
    try { this.take(await get(jobApi(this.job))); } catch { return; }
    this.tell("reload");
  }

  ended(row) {
    this.take(row);
    this.reload();
  }

  take(row) {
    const before = this.row.state;
    this.row = { ...this.row, ...row };
    this.head.update(this.row);
    this.drawTabs();
    if (before !== undefined && before !== this.row.state) setText(this.said, `The job is ${stateName(this.row.state)}.`);
    if (this.tab && this.tab.update) this.tab.update(this.row);
  }

  tell(what, value) {
    if (this.tab && this.tab[what]) this.tab[what](value);
  }

  drawTabs() {
    const present = TABS.filter(([, , , has]) => has(this.row));
    const names = present.map(([part]) => part).join();
    if (names !== this.drawn) {
      this.drawn = names;
      this.links = present.map(([part, title]) => el("a", { href: part ? jobPath(this.job, part) : jobPath(this.job), "data-tab": part || "lanes" }, title));
      this.tabs.replaceChildren(...this.links);
    }
    for (const link of this.links) setAttribute(link, "aria-current", link.dataset.tab === (this.part || "lanes") ? "page" : null);
  }

  async showPart(part, item, search) {
    const found = TABS.find(([name]) => name === part) || TABS[0];
    this.part = found[0];
    this.element.className = `wrap job shows-${this.part || "lanes"}${item === undefined ? "" : " is-inside"}`;
    this.drawTabs();
    if (this.tab && this.tab.accepts && this.tab.accepts(part, item, search)) return;
    const turn = (this.turn = (this.turn || 0) + 1);
    const module = await found[2]();
    if (turn !== this.turn || this.closed) return;
    if (this.tab && this.tab.close) this.tab.close();
    this.tab = module.open({ job: this.job, row: () => this.row, item, search });
    this.content.replaceChildren(this.tab.element);
    if (this.tab.start) this.tab.start();
    if (this.tab.update) this.tab.update(this.row);
  }

  close() {
    this.closed = true;
    clearTimeout(this.soon);
    removeEventListener("headway-steered", this.steered);
    if (this.live) this.live.close();
    if (this.tab && this.tab.close) this.tab.close();
    this.head.close();
    connection("still");
  }
}

class JobHead {
  constructor(job, rowOf) {
    Object.assign(this, { job, rowOf });
    this.state = mark("pending", "…");
    this.about = el("p", { class: "soft about foreign" });
    this.trouble = new TroubleCards(rowOf);
    this.bar = new ProgressBar();
    this.legend = new ProgressLegend(job);
    this.figures = new JobFigures();
    this.buttons = this.makeButtons();
    this.element = el("header", { class: "job-head" }, el("div", { class: "title" }, el("div", {}, el("h1", { tabindex: "-1" }, el("span", { class: "foreign" }, job), " ", this.state), this.about), el("div", { class: "tools", role: "group", "aria-label": "Steer the job" }, Object.values(this.buttons))),
      this.trouble.element, el("div", { class: "panel summary" }, this.figures.element, this.bar.element, this.legend.element));
  }

  makeButtons() {
    const { job } = this;
    const make = (text, act, attributes) => { const made = el("button", { type: "button", hidden: true, ...attributes, click: () => act(made) }, text); return made; };
    return {
      pause: make("Pause", (self) => pause(job, self), { title: pauseLine(job), "data-key": "p", "aria-keyshortcuts": "p" }),
      resume: make("Resume", (self) => resume(job, self), { title: resumeLine(job), "data-key": "p", "aria-keyshortcuts": "p" }),
      retry: make("Retry failed", (self) => retryFailed(job, self), { title: retryFailedLine(job) }),
      budget: make("Budget…", () => budget(job, this.rowOf().budget_usd), { title: budgetLine(job) }),
      cancel: make("Cancel…", () => cancel(job), { title: cancelLine(job) }),
    };
  }

  update(row) {
    setMark(this.state, row.state || "pending");
    setText(this.about, [row.kind, row.input, asList(row.models).join(", ")].filter(Boolean).join(" · "));
    this.trouble.update(row.trouble);
    this.bar.update(row);
    this.legend.update(row);
    this.figures.update(row);
    const { pause, resume, retry, budget: cap, cancel: stop } = this.buttons;
    const failed = (row.counts?.failed || 0) + (row.counts?.timed_out || 0);
    const done = row.state === "complete";
    show(pause, row.live && row.state !== "paused");
    const rest = endedUnits(row.counts) < (row.total || 0) || ["parked", "stopped", "budget", "deadline", "interrupted", "cancelled"].includes(row.state);
    show(resume, row.state === "paused" || (!row.live && !done && rest && row.state !== undefined && row.state !== "ingesting"));
    show(retry, failed > 0);
    setText(retry, `Retry ${count(failed)} failed`);
    show(cap, !done);
    show(stop, row.live);
  }

  close() {
    this.trouble.cards.close();
    this.figures.close();
  }
}

class JobFigures {
  constructor() {
    this.parts = {};
    this.element = el("dl", { class: "figures" });
    for (const [name, title] of [["done", "Done"], ["left", "Time left"], ["pace", "Throughput"], ["cost", "Cost"], ["refused", "429s"], ["elapsed", "Time"]]) {
      const big = el("b", {}), small = el("span", { class: "soft small" });
      this.parts[name] = [big, small];
      this.element.append(el("div", { class: "figure-" + name }, el("dt", {}, title), el("dd", {}, big, small)));
    }
    this.started = time(null);
    this.parts.elapsed[1].append("since ", this.started);
  }

  set(name, big, small) {
    setText(this.parts[name][0], big);
    if (small !== undefined) setText(this.parts[name][1], small);
  }

  update(row) {
    const ended = endedUnits(row.counts);
    this.set("done", progressPercent(ended, row.total), `${count(ended)} of ${plural(row.total || 0, "unit")}${row.kind === "flow" && !["complete", "failed"].includes(row.state) ? " so far" : ""}`);
    this.left(row, ended);
    const average = row.elapsed_s > 0 ? ended / row.elapsed_s : null;
    this.set("pace", row.live ? rate(row.rate_per_s) : rate(average), row.live ? "units, now" : "units, on average");
    this.cost(row, ended);
    this.set("refused", count(row.refused || 0), `of ${plural(row.attempts || 0, "attempt")}`);
    setTime(this.started, row.started_utc);
    this.row = row;
    if (row.live && !this.ticks) { this.ticks = true; tick(this.parts.elapsed[0], (now) => setText(this.parts.elapsed[0], this.row.live ? wholeDuration(now - this.row.started_utc) : duration(this.row.elapsed_s))); }
    if (!row.live) setText(this.parts.elapsed[0], duration(row.elapsed_s ?? (row.finished_utc && row.started_utc ? row.finished_utc - row.started_utc : null)));
  }

  left(row, ended) {
    if (!row.live) this.set("left", row.finished_utc ? "ended" : "–", row.finished_utc ? `at ${localTime(row.finished_utc)}` : "not running");
    else if (known(row.eta_s)) this.set("left", wholeDuration(row.eta_s), `until about ${localTime(Date.now() / 1000 + row.eta_s, row.eta_s < 3600)}`);
    else this.set("left", "–", row.lanes?.some((lane) => lane.held) ? "a lane is held" : row.kind === "flow" ? "more nodes are to come" : ended ? "not known yet" : "known after the first answers");
  }

  cost(row, ended) {
    const expected = row.predicted?.cost_usd ?? (ended >= 20 && known(row.cost_usd) ? (row.cost_usd * row.total) / ended : null);
    const cap = known(row.budget_usd) && row.budget_usd > 0 ? `budget ${money(row.budget_usd)}` : "";
    const end = row.live && known(expected) ? `about ${money(expected)} at the end` : "";
    this.set("cost", money(row.cost_usd), [end, cap].filter(Boolean).join(" · ") || (known(row.cost_usd) ? (row.live ? "so far" : "in all") : "no price is known"));
  }

  close() { stopTick(this.parts.elapsed[0]); }
}
