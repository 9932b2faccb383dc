// The page of an eval: figures, filters, the matrix, and the dialog of a test.

const EVAL = block("eval");
const INDEX = block("index");
const KEYS = [
  [["↑", "↓", "←", "→"], "Move through the matrix"], [["Enter"], "Open the answers to a test"], [["←", "→"], "In the answers: the previous and the next test"],
  [["Esc"], "Close"], [["/"], "Search"], [["?"], "These keys"],
];

class Matrix {
  constructor() {
    this.rows = new StoredRows(EVAL.blockRows, 64);
    this.head = el("thead", {});
    this.body = el("tbody", {});
    this.table = el("table", { role: "grid", "aria-label": "Tests and answers", "aria-readonly": "true" }, this.head, this.body);
    this.scroller = el("div", { class: "panel rows", tabindex: "-1" }, this.table);
    this.none = el("p", { class: "none", hidden: true }, "No test matches the filters.");
    this.view = new RowView(this.scroller, this.body, EVAL.columns.length + 1, (row) => this.row(row), (row, column) => this.answers.open(row, this.places[column]));
    this.answers = new Answers(this.rows, (row, by) => this.neighbour(row, by));
    this.answers.element.addEventListener("close", () => this.back());
  }

  show(rows, places) {
    Object.assign(this, { places, positions: rows });
    const heads = places.map((place) => el("th", { role: "columnheader", scope: "col" }, el("b", {}, EVAL.columns[place].provider), el("span", { class: "sub" }, EVAL.columns[place].prompt)));
    this.head.replaceChildren(el("tr", { role: "row", "aria-rowindex": 1 }, el("th", { role: "columnheader", scope: "col", class: "first" }, "Test"), heads));
    this.table.style.setProperty("--columns", places.length);
    this.table.setAttribute("aria-rowcount", rows.length + 1);
    this.none.hidden = rows.length > 0;
    this.scroller.hidden = rows.length === 0;
    this.view.width = places.length + 1;
    this.view.height = 0;
    this.view.show(rows);
  }

  row(row) {
    const [description, vars, , repetition, , cells] = this.rows.row(row);
    const values = vars.map(([name, value]) => `${name}: ${value}`).join("\n");
    const name = description || (vars.length === 1 ? vars[0][1] : "");
    const first = el("th", { role: "rowheader", scope: "row", class: "first" }, el("div", { class: "clip" },
      el("div", { class: "name" }, el("span", { class: "soft" }, "#" + count(INDEX.rows[row] + 1)), el("span", { class: "clamp" }, name || `Test ${count(INDEX.rows[row] + 1)}`)),
      repetition ? el("div", { class: "soft" }, `repetition ${repetition + 1}`) : null, name === values.slice(values.indexOf(": ") + 2) ? null : el("div", { class: "clamp vars" }, values)));
    return el("tr", { role: "row" }, first, this.places.map((place) => this.cell(row, place, cells[place])));
  }

  cell(row, place, cell) {
    if (cell === 0) return el("td", { role: "gridcell", tabindex: "-1" }, el("div", { class: "clip soft" }, "–"));
    const { output, score, latency, error, reason } = cellOf(cell);
    const letter = INDEX.letters[row * EVAL.columns.length + place];
    const part = score > 0 && score < 1 ? ` ${score.toFixed(2)}` : "";
    const text = output || error || reason;
    return el("td", { role: "gridcell", tabindex: "-1", class: "is-" + STATUS[letter].name }, el("div", { class: "clip" }, el("span", { class: "column-name" }, columnName(place)),
      el("div", { class: "cell-head" }, mark(letter), part ? el("span", {}, part) : null, el("span", { class: "soft" }, latency === null ? "" : seconds(latency))),
      el("div", { class: "answer clamp" + (output ? "" : " soft") }, printing() ? text : text.slice(0, 600))));
  }

  neighbour(row, by) {
    const next = this.positions.indexOf(row) + by;
    return next >= 0 && next < this.positions.length ? this.positions[next] : null;
  }

  // After the dialog, the cell of the test that it showed last has the focus.
  back() {
    const { row, column } = this.answers;
    this.view.activate(this.positions.indexOf(row), Math.max(0, this.places.indexOf(column)));
  }
}

const printing = () => matchMedia("print").matches;

function evalHeader() {
  const about = [EVAL.job === EVAL.title ? null : EVAL.job, EVAL.state === "complete" ? null : EVAL.state, when(EVAL.finished || EVAL.created)].filter(Boolean).join(" · ");
  return pageHeader(EVAL.title, [el("p", { class: "soft" }, about), totalsLine()], KEYS);
}

function configuration() {
  const templates = EVAL.columns.map((column, place) => [el("dt", {}, columnName(place)), el("dd", {}, el("pre", { class: "foreign" }, column.template))]);
  return el("section", {}, el("details", {}, el("summary", {}, "Prompts"), el("dl", {}, templates)), EVAL.config && EVAL.config !== "{}" ? el("details", {}, el("summary", {}, "Configuration"), el("pre", { class: "foreign" }, EVAL.config)) : null);
}

const matrix = new Matrix();
const filters = new Filters(matrix.rows, (rows, places) => matrix.show(rows, places));
const main = el("main", { class: "wrap" }, figuresSection(), metricsSection(), el("section", { "aria-label": "Tests and answers" }, filters.element(), matrix.scroller, matrix.none), byId("run"), configuration());
const header = evalHeader();
header.classList.add("wrap");
document.body.prepend(header, main);
filters.apply();
performance.mark("headway-opened");
