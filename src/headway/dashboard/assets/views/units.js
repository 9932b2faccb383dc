// The units of a job: filters, search, and a list that stays quick over a million rows.

import { el, setAttribute, setText, show } from "../parts/dom.js";
import { get, jobApi, jobPath, query } from "../parts/api.js";
import { count, duration, money, plural } from "../parts/format.js";
import { endedUnits } from "../parts/progress.js";
import { setQuery } from "../parts/router.js";
import { VirtualList } from "../parts/virtual_list.js";
import { mark, setMark, stateName } from "../parts/widgets.js";
import { openUnit } from "./unit.js";

const PAGE = 100;
const TYPING_MS = 180;
const REFRESH_MS = 2000;
const STATUSES = ["pending", "running", "succeeded", "cached", "failed", "timed_out", "skipped", "cancelled"];

export const open = (page) => (page.item === undefined ? new UnitsView(page) : openUnit(page));

class UnitsView {
  constructor({ job, row, search }) {
    Object.assign(this, { job, rowOf: row });
    this.pages = [];
    this.next = null;
    this.turn = 0;
    this.text = el("input", { type: "search", "data-search": true, value: search.get("q") || "", placeholder: "Search ids, errors, prompts and answers", "aria-label": "Search units", "aria-keyshortcuts": "/", autocomplete: "off", spellcheck: "false" });
    this.status = el("select", { "aria-label": "Status" }, el("option", { value: "" }, "Any status"), STATUSES.map((status) => el("option", { value: status, selected: status === search.get("status") }, stateName(status))));
    this.lane = el("select", { "aria-label": "Lane" }, el("option", { value: "" }, "All lanes"));
    this.wantedLane = search.get("lane") || "";
    this.code = search.get("code") || "";
    this.chip = el("button", { type: "button", hidden: !this.code, title: "Show units with any error", click: () => { this.code = ""; show(this.chip, false); this.filter(); } }, `error: ${this.code} ✕`);
    this.matches = el("span", { class: "count", role: "status" });
    this.indexing = el("p", { class: "soft small", hidden: true });
    this.problem = el("p", { class: "s-fail", role: "alert" });
    this.none = el("div", { class: "none", hidden: true });
    this.list = new VirtualList({ label: "Units", make: () => new UnitLine(job), needMore: () => this.more() });
    this.element = el("section", { class: "units", "aria-label": "Units" }, el("div", { class: "filters", role: "search" }, this.text, this.status, this.lane, this.chip, this.matches), this.indexing, this.problem, el("div", { class: "panel" }, this.list.element), this.none);
    this.text.addEventListener("input", () => { clearTimeout(this.typing); this.typing = setTimeout(() => this.filter(), TYPING_MS); });
    for (const one of [this.status, this.lane]) one.addEventListener("change", () => this.filter());
  }

  accepts(part, item, search) {
    if (part !== "units" || item !== undefined) return false;
    if ((search.get("q") || "") !== this.text.value || (search.get("status") || "") !== this.status.value || (search.get("code") || "") !== this.code) {
      this.code = search.get("code") || "";
      show(this.chip, this.code !== "");
      setText(this.chip, `error: ${this.code} ✕`);
      this.text.value = search.get("q") || "";
      this.status.value = search.get("status") || "";
      this.load();
    }
    return true;
  }

  start() { this.load(); }

  filters() {
    return { status: this.status.value, q: this.text.value.trim(), lane: this.lane.value || this.wantedLane, code: this.code };
  }

  filter() {
    this.wantedLane = this.lane.value;
    setQuery(query(this.filters()));
    this.load();
  }

  // From the first page. An answer that comes after a newer question is left out.
  async load() {
    const turn = ++this.turn;
    this.busy = true;
    let answer;
    try {
      answer = await this.fetch(null);
    } catch (error) {
      if (turn === this.turn) { setText(this.problem, error.message); this.busy = false; }
      return;
    }
    if (turn !== this.turn || this.closed) return;
    this.pages = [{ after: null, ...answer }];
    this.busy = false;
    this.draw();
  }

  async more() {
    const last = this.pages[this.pages.length - 1];
    if (this.busy || !last || !last.next) return;
    const turn = this.turn;
    this.busy = true;
    try {
      const answer = await this.fetch(last.next);
      if (turn === this.turn) this.pages.push({ after: last.next, ...answer, matches: last.matches ?? answer.matches });
    } catch (error) {
      if (turn === this.turn) setText(this.problem, error.message);
    } finally {
      if (turn === this.turn) this.busy = false;
    }
    if (turn === this.turn && !this.closed) this.draw();
  }

  fetch(after) { return get(jobApi(this.job, "units") + query({ ...this.filters(), after, limit: PAGE })); }

  draw() {
    setText(this.problem, "");
    const rows = this.pages.flatMap((page) => page.units);
    this.list.show(rows);
    const { matches, indexing, next } = this.pages[this.pages.length - 1];
    const filtered = Object.values(this.filters()).some(Boolean);
    const number = matches ?? (next ? null : rows.length);
    setText(this.matches, number === null ? `${count(rows.length)} shown, more below` : filtered ? `${plural(number, "unit")} of ${count(this.rowOf().total)}` : plural(this.rowOf().total || number, "unit"));
    show(this.indexing, Boolean(indexing && indexing.done < indexing.total && this.text.value));
    if (indexing) setText(this.indexing, `The search index has ${count(indexing.done)} of ${plural(indexing.total, "unit")} so far.`);
    show(this.none, rows.length === 0);
    if (rows.length === 0) setText(this.none, next ? "Searching…" : filtered ? "No unit matches. Esc leaves the search; an empty search shows all units." : "The job has no units yet.");
    if (indexing && indexing.done < indexing.total && this.text.value) this.again();
  }

  // While the index grows, and while the job runs, the pages in view are read again.
  again() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.refresh(), REFRESH_MS);
  }

  async refresh() {
    if (this.busy || this.closed || document.hidden || this.pages.length === 0) return;
    const turn = this.turn, place = this.pageInView();
    const page = this.pages[place];
    let answer;
    try { answer = await this.fetch(page.after); } catch { return; }
    if (turn !== this.turn || this.closed || this.pages[place] !== page) return;
    this.pages[place] = { after: page.after, ...answer, matches: answer.matches ?? page.matches };
    if (answer.next !== page.next) this.pages.length = place + 1;
    this.draw();
  }

  pageInView() {
    let first = Math.max(0, Math.floor(-this.list.element.getBoundingClientRect().top / (this.list.height || 1)));
    for (let place = 0; place < this.pages.length; place++) {
      if (first < this.pages[place].units.length) return place;
      first -= this.pages[place].units.length;
    }
    return this.pages.length - 1;
  }

  update(row) {
    const names = (row.lanes || []).map((lane) => lane.lane);
    if (names.join() !== this.laneNames) {
      this.laneNames = names.join();
      this.lane.replaceChildren(el("option", { value: "" }, "All lanes"), ...names.map((name) => el("option", { value: name }, name)));
      this.lane.value = names.includes(this.wantedLane) ? this.wantedLane : "";
    }
    show(this.lane, names.length > 1);
    const state = `${endedUnits(row.counts)} ${row.state}`;
    if (state !== this.seen) { this.seen = state; if (this.pages.length && !this.waits) { this.waits = true; setTimeout(() => { this.waits = false; this.refresh(); }, REFRESH_MS); } }
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    clearTimeout(this.typing);
    this.list.close();
  }
}

class UnitLine {
  constructor(job) {
    this.job = job;
    this.status = mark("pending");
    this.attempts = el("span", { class: "soft small" });
    this.id = el("b", { class: "id foreign" });
    this.prompt = el("span", { class: "preview soft" });
    this.answer = el("span", { class: "preview" });
    this.lane = el("span", { class: "soft small lane-name" });
    this.took = el("span", { class: "small" });
    this.cost = el("span", { class: "soft small" });
    this.link = el("a", { class: "unit-line", "data-item": true }, el("span", { class: "c-status" }, this.status, this.attempts), el("span", { class: "c-unit" }, this.id, this.prompt), el("span", { class: "c-answer" }, this.answer), el("span", { class: "c-lane" }, this.lane), el("span", { class: "c-took" }, this.took, this.cost));
    this.element = el("li", {}, this.link);
  }

  update(unit, place) {
    setAttribute(this.link, "href", jobPath(this.job, "units", String(unit.index)));
    setAttribute(this.element, "aria-posinset", place + 1);
    setAttribute(this.element, "aria-setsize", -1);
    setMark(this.status, unit.status);
    setText(this.attempts, unit.attempts > 1 ? plural(unit.attempts, "attempt") : "");
    setText(this.id, unit.id || String(unit.index));
    setText(this.prompt, oneLine(unit.prompt));
    const failed = unit.status === "failed" || unit.status === "timed_out";
    setAttribute(this.answer, "class", "preview" + (failed ? " s-fail" : unit.code ? " soft" : ""));
    setText(this.answer, unit.code ? `${unit.code}: ${oneLine(unit.message)}` : oneLine(unit.answer));
    setText(this.lane, unit.lane || "");
    setText(this.took, unit.took_s === null || unit.took_s === undefined ? "" : duration(unit.took_s));
    setText(this.cost, unit.cost_usd === null || unit.cost_usd === undefined ? "" : money(unit.cost_usd));
  }
}

const oneLine = (text) => (text || "").replace(/\s+/g, " ").slice(0, 240);
