// The page of a review: totals, findings with their code, filters, and the dialog of a finding.

class Findings {
  constructor() {
    this.rows = new StoredRows(REVIEW.blockRows, 64);
    this.body = el("tbody", {});
    const names = [["Severity", "col-level"], ["Finding", "col-what"], ["Code", "col-code"]];
    const head = el("tr", { role: "row", "aria-rowindex": 1 }, names.map(([name, part]) => el("th", { role: "columnheader", scope: "col", class: part }, name)));
    this.table = el("table", { role: "grid", "aria-label": "Findings", "aria-readonly": "true" }, el("thead", {}, head), this.body);
    this.scroller = el("div", { class: "panel rows", tabindex: "-1" }, this.table);
    this.none = el("p", { class: "none", hidden: true }, INDEX.length ? "No finding matches the filters." : "Nothing was found.");
    this.view = new RowView(this.scroller, this.body, names.length, (row) => this.row(row), (row) => this.open(row));
    this.window = dialog("finding", "");
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
    const { file, rule, start, end, confidence, message, quote } = findingOf(this.rows.row(row));
    const marked = INDEX[row][MARK];
    const place = el("span", { class: "place" }, el("bdi", { class: "foreign" }, `${file}:${lines(start, end)}`));
    return el("tr", { role: "row", class: marked ? "is-marked" : null },
      el("td", { class: "col-level", role: "gridcell", tabindex: "-1" }, el("div", { class: "clip" }, level(INDEX[row][SEVERITY]), el("br"), el("span", { class: "soft" }, marked ? MARK_NAMES[marked] : percent(confidence)))),
      el("td", { class: "col-what", role: "gridcell", tabindex: "-1" }, el("div", { class: "clip" }, el("span", { class: "rule" }, rule), place, el("div", { class: "clamp" }, message.slice(0, 600)))),
      el("td", { class: "col-code", role: "gridcell", tabindex: "-1" }, el("div", { class: "clip" }, el("code", { class: "source foreign" }, dedented(quote.slice(0, 1200))))));
  }

  open(row) {
    this.opened = row;
    const finding = findingOf(this.rows.row(row));
    const [severity, axis, marked] = INDEX[row];
    const { file, rule, start, end, confidence, message, quote, fingerprint, suggestion, axes, why } = finding;
    const pairs = [["file", el("span", { class: "foreign" }, file)], [start === end ? "line" : "lines", lines(start, end)], ["confidence", percent(confidence)],
      [axes.length > 1 ? "axes" : "axis", axes.length > 1 ? axes.join(", ") : REVIEW.axes[axis]], ["fingerprint", el("code", {}, fingerprint)]];
    this.window.heading.replaceChildren();
    add(this.window.heading, [rule]);
    this.window.inside.replaceChildren();
    add(this.window.inside, [level(severity), marked ? el("p", { class: "s-error foreign" }, `Not counted. ${MARK_TEXTS[marked]}${why ? " " + why : ""}`) : null,
      el("p", { class: "message foreign" }, spans(message)), quote ? [el("h3", {}, "Code"), code(quote, start, end)] : null,
      quote.length >= REVIEW.mostQuote && quote.endsWith("…") ? el("p", { class: "soft small" }, `Cut at ${count(REVIEW.mostQuote)} characters.`) : null,
      suggestion ? [el("h3", {}, "Suggestion"), el("p", { class: "message foreign" }, suggestion.includes("\n") ? suggestion : spans(suggestion))] : null,
      el("dl", { class: "about" }, pairs.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])),
      el("p", { class: "soft small" }, `A comment with “headway: ignore ${rule}” and a reason silences this place.`)]);
    if (!this.window.element.open) this.window.element.showModal();
    this.window.element.scrollTop = 0;
  }

  key(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    const next = this.shown[this.shown.indexOf(this.opened) + by];
    if (next !== undefined) this.open(next);
    event.preventDefault();
  }
}

class FindingFilters {
  // `changed(rows)` is told which findings are shown.
  constructor(rows, changed) {
    Object.assign(this, { rows, changed, search: 0, file: null });
    this.severity = select("Severity", [["", "Any severity"], ...REVIEW.severities.map((name, place) => [place, place && place < 4 ? `${name} and graver` : name])]);
    this.axis = select("Axis", [["", "All axes"], ...REVIEW.axes.map((name, place) => [place, name])]);
    this.marked = select("Counted", [["0", "Counted findings"], ["all", "All findings"], ...[1, 2, 3, 4].filter((one) => INDEX.some((each) => each[MARK] === one)).map((one) => [one, MARK_NAMES[one]])]);
    this.order = select("Order", [["gravest", "Gravest first"], ["file", "By file"]]);
    this.text = el("input", { type: "search", id: "search", placeholder: "Search findings, files and code", "aria-label": "Search findings, files and code", "aria-keyshortcuts": "/" });
    this.chosen = el("button", { type: "button", hidden: true });
    this.count = el("span", { class: "count", role: "status", id: "count" });
    for (const one of [this.severity, this.axis, this.marked, this.order]) one.addEventListener("change", () => this.apply());
    this.chosen.addEventListener("click", () => this.choose(null));
    this.text.addEventListener("input", () => { clearTimeout(this.timer); this.timer = setTimeout(() => this.apply(), 120); });
  }

  element() {
    const marked = INDEX.some((one) => one[MARK]) ? this.marked : null;
    return el("div", { class: "filters", role: "search", "aria-label": "Filter the findings" }, this.text, this.severity, REVIEW.axes.length > 1 ? this.axis : null, marked, this.order, this.chosen, this.count);
  }

  // Only the findings of one file, or those of all files.
  choose(file) {
    this.file = file;
    this.chosen.hidden = file === null;
    this.chosen.replaceChildren();
    if (file !== null) add(this.chosen, [el("span", { class: "foreign" }, FILES[file][0]), " ✕"]);
    if (file !== null) this.chosen.setAttribute("aria-label", `Show the findings of all files, not only of ${visible(FILES[file][0])}`);
    this.apply();
  }

  async apply() {
    const search = ++this.search;
    const kept = [];
    for (let row = 0; row < INDEX.length; row++) if (this.hasNumbers(INDEX[row])) kept.push(row);
    const wanted = this.text.value.trim().toLowerCase();
    const found = wanted === "" ? kept : await slowFilter(kept, (row) => this.hasText(row, wanted), () => search === this.search);
    if (found === null || search !== this.search) return;
    if (this.order.value === "gravest") found.sort((one, other) => INDEX[one][SEVERITY] - INDEX[other][SEVERITY] || one - other);
    this.count.textContent = found.length === INDEX.length ? plural(found.length, "finding") : `${count(found.length)} of ${plural(INDEX.length, "finding")}`;
    this.changed(found);
  }

  hasNumbers([severity, axis, marked, file]) {
    return (this.severity.value === "" || (Number(this.severity.value) === 4 ? severity === 4 : severity <= Number(this.severity.value))) && (this.axis.value === "" || axis === Number(this.axis.value))
      && (this.marked.value === "all" || marked === Number(this.marked.value)) && (this.file === null || file === this.file);
  }

  hasText(row, wanted) {
    const { file, rule, message, quote, suggestion } = findingOf(this.rows.row(row));
    return [file, rule, message, quote, suggestion].some((text) => text.toLowerCase().includes(wanted));
  }
}

function reviewHeader() {
  const about = ["Review", REVIEW.state, when(REVIEW.finished || REVIEW.created), REVIEW.model].filter(Boolean).join(" · ");
  return pageHeader(REVIEW.job, [el("p", { class: "soft foreign" }, about)], KEYS);
}

function facts() {
  const counts = REVIEW.severities.map((_, severity) => INDEX.filter((one) => one[SEVERITY] === severity && one[MARK] === 0).length);
  const [files, reviewed, cached, failed, skipped] = REVIEW.totals;
  const took = REVIEW.finished ? seconds(1000 * (REVIEW.finished - REVIEW.created)) : "–";
  const all = [[count(reviewed + cached), `of ${plural(files, "file")} reviewed`], failed + skipped ? [count(failed + skipped), "not reviewed", "s-error"] : null, [took, "from start to end"], [money(REVIEW.cost), "known cost"]].filter(Boolean);
  return el("section", { "aria-label": "Totals" }, el("div", { class: "facts" },
    counts.map((n, severity) => el("div", { class: "panel fact" }, el("b", { class: n ? "v-" + REVIEW.severities[severity] : "soft" }, count(n)), el("span", { class: "soft small" }, REVIEW.severities[severity]))),
    all.map(([value, what, how]) => el("div", { class: "panel fact" }, el("b", { class: how }, value), el("span", { class: "soft small" }, what)))));
}

const numberOf = (has) => count(INDEX.filter((one) => one[MARK] === 0 && has(one)).length).replace(/^0$/, "");

function axesTable() {
  if (INDEX.length === 0 || REVIEW.axes.length < 2) return null;
  const rows = REVIEW.axes.map((name, axis) => [name, ...REVIEW.severities.map((_, severity) => numberOf((one) => one[AXIS] === axis && one[SEVERITY] === severity) || "–")]);
  return table("Axes", [["Axis"], ...REVIEW.severities.map((name) => [name, 1])], rows);
}

// The files of the change under review.
function changeSection() {
  if (!REVIEW.change.length) return null;
  return el("section", {}, el("h2", { class: "foreign" }, REVIEW.changeTitle), el("ul", { class: "change" }, REVIEW.change.map((line) => el("li", { class: "foreign" }, line))));
}

const findings = new Findings();
const filters = new FindingFilters(findings.rows, (rows) => findings.show(rows));
const files = new FileList((file) => { filters.choose(file); findings.scroller.scrollIntoView({ block: "nearest" }); });
const main = el("main", { class: "wrap" }, facts(), axesTable(), el("section", { "aria-label": "Findings" }, filters.element(), findings.scroller, findings.none), files.element(), changeSection(), byId("run"));
const header = reviewHeader();
header.classList.add("wrap");
document.body.prepend(header, main);
filters.apply();
files.apply();
performance.mark("headway-opened");
