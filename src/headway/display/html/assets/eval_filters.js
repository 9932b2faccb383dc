// Which rows of the matrix are shown: by status, column, metric and text.

class Filters {
  // `changed(rows, columns)` is told which rows and columns are shown, whenever that changes.
  constructor(rows, changed) {
    Object.assign(this, { rows, changed, search: 0 });
    this.status = select("Status", [["", "Any status"], ["p", "Passed"], ["f", "Failed"], ["e", "Errors"], ["t", "Timeouts"], ["w", "Pending"], ["x", "Columns disagree"]]);
    this.column = select("Column", [["", "All columns"], ...EVAL.columns.map((_, place) => [place, columnName(place)])]);
    this.metric = select("Metric", [["", "Any metric"], ...INDEX.metrics.map(([name], place) => [place, `${name} below 1`])]);
    this.text = el("input", { type: "search", id: "search", placeholder: "Search tests and answers", "aria-label": "Search tests and answers", "aria-keyshortcuts": "/" });
    this.count = el("span", { class: "count", role: "status", id: "count" });
    for (const one of [this.status, this.column, this.metric]) one.addEventListener("change", () => this.apply());
    this.text.addEventListener("input", () => this.soon());
    this.metrics = INDEX.metrics.map(([, places, scores]) => new Map(places.map((place, n) => [place, scores[n]])));
  }

  element() {
    const metric = this.metrics.length ? this.metric : null;
    const column = EVAL.columns.length > 1 ? this.column : null;
    return el("div", { class: "filters", role: "search", "aria-label": "Filter the tests" }, this.text, this.status, column, metric, this.count);
  }

  soon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.apply(), 120);
  }

  places() {
    return this.column.value === "" ? EVAL.columns.map((_, place) => place) : [Number(this.column.value)];
  }

  async apply() {
    const search = ++this.search;
    const places = this.places();
    const kept = [];
    for (let row = 0; row < INDEX.rows.length; row++) if (this.hasStatus(row, places) && this.hasMetric(row, places)) kept.push(row);
    const found = await this.matching(kept, places, search);
    if (found === null) return;
    this.count.textContent = found.length === INDEX.rows.length ? plural(found.length, "row") : `${count(found.length)} of ${plural(INDEX.rows.length, "row")}`;
    this.changed(found, places);
  }

  hasStatus(row, places) {
    const wanted = this.status.value;
    if (wanted === "") return true;
    const letters = places.map((place) => INDEX.letters[row * EVAL.columns.length + place]);
    return wanted === "x" ? letters.includes("p") && letters.includes("f") : letters.includes(wanted);
  }

  hasMetric(row, places) {
    if (this.metric.value === "") return true;
    const scores = this.metrics[Number(this.metric.value)];
    return places.some((place) => scores.get(row * EVAL.columns.length + place) < 1);
  }

  matching(kept, places, search) {
    const wanted = this.text.value.trim().toLowerCase();
    if (wanted === "") return kept;
    return slowFilter(kept, (row) => hasText(this.rows.row(row), places, wanted), (found) => {
      this.count.textContent = `Searching… ${count(found)} found`;
      return search === this.search;
    });
  }
}

function hasText([description, vars, , , , cells], places, wanted) {
  const has = (text) => text.toLowerCase().includes(wanted);
  if (has(description) || vars.some(([name, value]) => has(name) || has(value))) return true;
  return places.some((place) => {
    if (cells[place] === 0) return false;
    const { output, reason, error, assertions } = cellOf(cells[place]);
    return has(output) || has(reason) || has(error) || assertions.some(([, , , why = ""]) => has(why));
  });
}
