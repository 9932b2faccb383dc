// The page of a job: what it did, its lanes and failures, and its units.

const JOB = block("job");
const KEYS = [[["↑", "↓"], "Move through the units"], [["Enter"], "Open a unit"], [["←", "→"], "In a unit: the previous and the next one"], [["Esc"], "Close"], [["/"], "Search"], [["?"], "These keys"]];
const OF_STATUS = { succeeded: "p", cached: "p", failed: "f", timed_out: "t", skipped: "w", cancelled: "e", pending: "w", assigned: "w", running: "w" };
const word = (status) => status.replace("_", " ");

function jobHeader() {
  const about = [JOB.kind, JOB.state, when(JOB.started), JOB.models.join(", ")].filter(Boolean).join(" · ");
  return pageHeader(JOB.job, [el("p", { class: "soft foreign" }, about), JOB.input ? el("p", { class: "soft small foreign" }, JOB.input) : null], KEYS);
}

function facts() {
  const took = JOB.finished && JOB.started ? seconds(1000 * (JOB.finished - JOB.started)) : "–";
  const all = [[count(JOB.good), `of ${plural(JOB.total, "unit")} succeeded`], [count(JOB.bad), "failed or timed out"], [took, "from start to end"], [money(JOB.cost), "known cost"],
    [count(JOB.attempts), "attempts"], [count(JOB.refused), "refused by a limit"], [count(JOB.tokens[0] + JOB.tokens[1]), "tokens"]];
  return el("section", { "aria-label": "Totals" }, el("div", { class: "facts" }, all.map(([value, what]) => el("div", { class: "panel fact" }, el("b", {}, value), el("span", { class: "soft small" }, what)))));
}

function tables() {
  const lanes = JOB.lanes.map(([name, attempts, refused, tokens, cost]) => [name, count(attempts), count(refused), count(tokens), money(cost)]);
  const failures = JOB.failures.map(([code, units, message]) => [code, count(units), message]);
  return el("div", { class: "tables" }, table("Lanes", [["Lane"], ["Attempts", 1], ["Refused", 1], ["Tokens", 1], ["Cost", 1]], lanes), table("Failures", [["Reason"], ["Units", 1], ["The first says"]], failures));
}

class Units {
  constructor() {
    this.rows = new StoredRows(JOB.blockRows, 64);
    this.body = el("tbody", {});
    const names = [["Unit", "col-unit"], ["Status", "col-status"], ["Lane", "col-lane"], ["Took, cost", "col-use"], ["Answer or error", ""]];
    const head = el("tr", { role: "row", "aria-rowindex": 1 }, names.map(([name, part]) => el("th", { role: "columnheader", scope: "col", class: part }, name)));
    this.table = el("table", { role: "grid", "aria-label": "Units", "aria-readonly": "true" }, el("thead", {}, head), this.body);
    this.scroller = el("div", { class: "panel rows", tabindex: "-1" }, this.table);
    this.none = el("p", { class: "none", hidden: true }, "No unit matches the filters.");
    this.view = new RowView(this.scroller, this.body, names.length, (row) => this.row(row), (row) => this.open(row));
    this.window = dialog("unit", "");
    this.window.element.addEventListener("keydown", (event) => this.key(event));
    this.window.element.addEventListener("close", () => this.view.activate(this.shown.indexOf(this.opened), 0));
  }

  show(rows) {
    this.shown = rows;
    this.table.setAttribute("aria-rowcount", rows.length + 1);
    this.none.hidden = rows.length > 0;
    this.scroller.hidden = rows.length === 0;
    this.view.show(rows);
  }

  row(row) {
    const { id, status, attempts, lane, took, cost, error, answer } = unitOf(this.rows.row(row));
    const clip = (...inside) => el("div", { class: "clip" }, inside);
    return el("tr", { role: "row" }, el("th", { role: "rowheader", scope: "row", class: "col-unit" }, clip(el("span", { class: "clamp id" }, id))),
      el("td", { class: "col-status", role: "gridcell", tabindex: "-1" }, clip(mark(OF_STATUS[status], word(status)), attempts > 1 ? el("span", { class: "soft" }, ` ${plural(attempts, "attempt")}`) : null)),
      el("td", { class: "col-lane", role: "gridcell", tabindex: "-1" }, clip(el("span", { class: "clamp" }, lane))),
      el("td", { class: "col-use", role: "gridcell", tabindex: "-1" }, clip(took === null ? "" : seconds(took), el("br"), el("span", { class: "soft" }, cost === null ? "" : money(cost)))),
      el("td", { role: "gridcell", tabindex: "-1" }, clip(el("div", { class: "clamp" + (error ? " s-error" : "") }, (error || answer).slice(0, 600)))));
  }

  open(row) {
    this.opened = row;
    const { id, status, attempts, lane, took, cost, tokens, error, answer } = unitOf(this.rows.row(row));
    const pairs = [["status", mark(OF_STATUS[status], word(status))], ["lane", lane], ["attempts", count(attempts)], ["took", seconds(took)], ["cost", money(cost)], ["tokens", `${count(tokens[0])} in, ${count(tokens[1])} out`]];
    this.window.heading.replaceChildren();
    add(this.window.heading, [id]);
    this.window.inside.replaceChildren();
    add(this.window.inside, [el("dl", {}, pairs.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])),
      error ? [el("h3", {}, "Error"), el("p", { class: "foreign" }, error)] : null,
      answer ? [el("h3", {}, "Answer"), el("div", { class: "full foreign", tabindex: "0", role: "group", "aria-label": "Answer" }, answer)] : null,
      answer.length >= JOB.mostAnswer && answer.endsWith("…") ? el("p", { class: "soft small" }, `Cut at ${count(JOB.mostAnswer)} characters.`) : null,
      el("p", { class: "soft small" }, `headway show ${JOB.job} ${id}`)]);
    if (!this.window.element.open) this.window.element.showModal();
  }

  key(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    const next = this.shown[this.shown.indexOf(this.opened) + by];
    if (next !== undefined) this.open(next);
    event.preventDefault();
  }
}

function unitOf([id, status, attempts = 0, lane = "", took = null, cost = null, tokens = [0, 0], error = "", answer = ""]) {
  return { id, status, attempts, lane, took, cost, tokens, error, answer };
}

class UnitFilters {
  constructor(units) {
    Object.assign(this, { units, search: 0 });
    this.status = select("Status", [["", "Any status"], ...[...new Set(JOB.statuses)].map((status) => [status, word(status)])]);
    this.lane = select("Lane", [["", "All lanes"], ...JOB.lanes.map(([name]) => [name, name])]);
    this.text = el("input", { type: "search", id: "search", placeholder: "Search units, answers and errors", "aria-label": "Search units, answers and errors", "aria-keyshortcuts": "/" });
    this.count = el("span", { class: "count", role: "status", id: "count" });
    for (const one of [this.status, this.lane]) one.addEventListener("change", () => this.apply());
    this.text.addEventListener("input", () => { clearTimeout(this.timer); this.timer = setTimeout(() => this.apply(), 120); });
  }

  element() {
    return el("div", { class: "filters", role: "search", "aria-label": "Filter the units" }, this.text, this.status, JOB.lanes.length > 1 ? this.lane : null, this.count);
  }

  async apply() {
    const search = ++this.search;
    const wanted = this.text.value.trim().toLowerCase();
    const rows = [];
    for (let row = 0; row < JOB.statuses.length; row++) if (this.status.value === "" || JOB.statuses[row] === this.status.value) rows.push(row);
    const found = wanted === "" && this.lane.value === "" ? rows : await slowFilter(rows, (row) => this.has(row, wanted), () => search === this.search);
    if (found === null || search !== this.search) return;
    const all = plural(JOB.statuses.length, "unit");
    this.count.textContent = found.length === JOB.statuses.length ? all : `${count(found.length)} of ${all}`;
    this.units.show(found);
  }

  has(row, wanted) {
    const { id, lane, error, answer } = unitOf(this.units.rows.row(row));
    return (this.lane.value === "" || lane === this.lane.value) && [id, error, answer].some((text) => text.toLowerCase().includes(wanted));
  }
}

const units = new Units();
const filters = new UnitFilters(units);
const left = JOB.total - JOB.statuses.length;
const cut = left > 0 ? el("p", { class: "soft" }, `The first ${plural(JOB.statuses.length, "unit")} of ${count(JOB.total)} are in this page.`) : null;
const main = el("main", { class: "wrap" }, facts(), byId("run"), tables(), el("section", { "aria-label": "Units" }, cut, filters.element(), units.scroller, units.none));
const header = jobHeader();
header.classList.add("wrap");
document.body.prepend(header, main);
filters.apply();
performance.mark("headway-opened");
