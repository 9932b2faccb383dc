// The matrix of an eval: columns are providers and prompts, rows are tests. A cell opens its answer with its grades.

import { el, setShare, setText, show } from "../parts/dom.js";
import { get, jobApi, jobPath, query } from "../parts/api.js";
import { asList, count, duration, known, money, percent, plural, pretty } from "../parts/format.js";
import { empty, mark, openDialog, pairs } from "../parts/widgets.js";
import { longText } from "./conversation.js";

const REFRESH_MS = 2500;

export const open = (page) => new EvalView(page);

class EvalView {
  constructor({ job }) {
    this.job = job;
    this.next = null;
    this.totals = el("p", { class: "totals" });
    this.head = el("thead", {});
    this.body = el("tbody", { "data-list": true });
    this.matrix = el("div", { class: "panel scroll matrix", tabindex: "0", role: "group", "aria-label": "Matrix" }, el("table", {}, this.head, this.body));
    this.more = el("button", { type: "button", hidden: true, click: () => this.load() }, "Show more tests");
    this.problem = el("p", { class: "s-fail", role: "alert" });
    this.element = el("section", { "aria-label": "Matrix" }, this.totals, this.problem, this.matrix, el("p", { class: "more" }, this.more));
    this.rows = new Map();
  }

  start() { return this.load(); }

  async load() {
    let answer;
    try {
      answer = await get(jobApi(this.job, "eval") + query({ after: this.next }));
    } catch (error) {
      setText(this.problem, error.message);
      return;
    }
    if (this.closed) return;
    this.next = answer.next;
    this.draw(answer);
  }

  // While the eval runs, the first page is read again.
  async reload() {
    try {
      const answer = await get(jobApi(this.job, "eval"));
      if (!this.closed) this.draw(answer);
    } catch { /* The state of the connection is in the bar. */ }
  }

  draw(answer) {
    this.columns = asList(answer.columns);
    if (answer.totals) this.drawTotals(answer);
    else if (!this.figures) this.reloadSoon(); // They are being counted.
    for (const row of answer.rows) this.drawRow(row);
    show(this.more, Boolean(this.next));
    show(this.matrix, this.rows.size > 0);
    if (this.rows.size === 0) setText(this.problem, "No test has an answer yet.");
    else setText(this.problem, "");
  }

  drawTotals({ totals, total_rows: rows }) {
    const columns = asList(totals.columns), sum = (name) => columns.reduce((all, one) => all + (one.counts?.[name] || 0), 0);
    const counts = [["passed", "pass"], ["failed", "fail"], ["errors", "error"], ["timeouts", "timeout"], ["pending", "pending"]].map(([name, state]) => [sum(name), name, state]).filter(([n, name]) => n > 0 || name === "passed");
    this.totals.replaceChildren(el("span", { class: "soft" }, `${plural(rows, "test")} × ${plural(this.columns.length, "column")}`), ...counts.map(([n, name, state]) => el("span", { class: "s-" + state }, el("b", {}, count(n)), ` ${name}`)));
    const key = JSON.stringify(columns.map((one) => [one.pass_rate, one.cost_usd]));
    if (key === this.figures) return;
    this.figures = key;
    this.head.replaceChildren(el("tr", {}, el("th", { scope: "col" }, "Test"), this.columns.map((column, n) => this.columnHead(column, columns[n]))));
  }

  columnHead({ provider, prompt }, figures) {
    const rate = figures?.pass_rate?.rate;
    const fill = el("span", {});
    setShare(fill, "width", rate);
    return el("th", { scope: "col" }, el("span", { class: "foreign" }, provider), prompt ? el("div", { class: "soft foreign" }, prompt.length > 90 ? prompt.slice(0, 90) + "…" : prompt) : null,
      known(rate) ? el("div", {}, el("b", {}, percent(rate, 1)), " passed", figures.cost_usd > 0 ? el("span", { class: "soft" }, ` · ${money(figures.cost_usd)}`) : null, el("div", { class: "rate-bar", "aria-hidden": "true" }, fill)) : null);
  }

  drawRow(row) {
    const text = JSON.stringify(row), key = `${row.test} ${row.repetition}`, old = this.rows.get(key);
    if (old && old.text === text) return;
    const made = el("tr", {}, el("th", { scope: "row" }, this.rowHead(row)), this.columns.map((_, n) => el("td", {}, row.cells[n] ? this.cell(row, row.cells[n], n) : null)));
    if (old && old.element.contains(document.activeElement)) return;
    if (old) old.element.replaceWith(made);
    else this.body.append(made);
    this.rows.set(key, { text, element: made });
  }

  rowHead(row) {
    const vars = Object.entries(row.vars || {});
    return el("div", { class: "vars" }, row.description ? el("b", { class: "foreign" }, row.description) : null, vars.slice(0, 3).map(([name, value]) => el("div", { class: "foreign" }, el("span", { class: "soft" }, name + ": "), String(value))), row.repetition ? el("span", { class: "soft" }, `repetition ${row.repetition + 1}`) : null);
  }

  cell(row, cell, column) {
    const score = known(cell.score) && cell.status !== "pending" && cell.score > 0 && cell.score < 1 ? el("span", { class: "soft small" }, ` ${cell.score.toFixed(2)}`) : null;
    return el("button", { type: "button", class: "cell", "data-item": true, click: () => this.open(row, cell, this.columns[column]) }, el("span", {}, mark(cell.status), score), el("span", { class: "preview foreign" }, (cell.status === "pass" ? cell.output : cell.reason || cell.error || cell.output || "").slice(0, 300)));
  }

  open(row, cell, { provider, prompt }) {
    const facts = pairs([["Result", mark(cell.status)], ["Score", known(cell.score) ? cell.score.toFixed(2) : null], ["Took", known(cell.latency_ms) ? duration(cell.latency_ms / 1000) : null], ["Cost", known(cell.cost_usd) ? money(cell.cost_usd) : null], ["Tokens", cell.tokens ? count(cell.tokens) : null], ["Variables", pretty(row.vars)]]);
    const dialog = openDialog([provider, prompt].filter(Boolean).join(" · ").slice(0, 120), el("div", { class: "cell-view" }, cell.error ? el("p", { class: "s-fail foreign" }, cell.error) : null, facts, el("h3", {}, "Answer"), longText(pretty(cell.output) || "–"), cell.asserts?.length ? [el("h3", {}, "Assertions"), el("ul", { class: "assertions" }, cell.asserts.map(assertion))] : null,
      el("details", {}, el("summary", {}, "Prompt"), longText(pretty(cell.prompt))), cell.unit !== "" ? el("p", {}, el("a", { href: `${jobPath(this.job, "units")}?q=${encodeURIComponent(cell.unit)}`, click: () => dialog.close() }, "The unit, with its attempts")) : null));
    dialog.classList.add("is-wide");
  }

  update(row) {
    const state = `${row.state} ${row.attempts}`;
    if (this.state === undefined) this.state = state;
    if (this.state === state || this.timer) return;
    this.state = state;
    this.reloadSoon();
  }

  reloadSoon() {
    if (!this.timer) this.timer = setTimeout(() => { this.timer = 0; if (!this.closed) this.reload(); }, REFRESH_MS);
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
  }
}

function assertion({ type, passed, error, score, reason, metric, value, parts }) {
  const about = [metric ? `metric ${metric}` : null, known(score) ? `score ${score.toFixed(2)}` : null].filter(Boolean).join(" · ");
  return el("li", {}, el("p", {}, mark(error ? "error" : passed ? "pass" : "fail"), " ", el("code", {}, type), " ", el("span", { class: "soft small" }, about)), value ? el("p", { class: "soft small foreign" }, value) : null, reason ? el("p", { class: "small foreign" }, reason) : null, parts?.length ? el("ul", { class: "assertions" }, parts.map(assertion)) : null);
}
