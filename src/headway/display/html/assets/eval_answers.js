// The dialog of a test: its variables, and all answers side by side with their differences marked.

class Answers {
  constructor(rows, neighbour) {
    Object.assign(this, { rows, neighbour, base: 0, marks: true });
    const { element, heading, bar, close, inside } = dialog("answers", "");
    Object.assign(this, { element, heading, inside });
    this.before = el("button", { type: "button", "aria-label": "Previous test" }, "←");
    this.after = el("button", { type: "button", "aria-label": "Next test" }, "→");
    bar.insertBefore(this.before, close);
    bar.insertBefore(this.after, close);
    this.before.addEventListener("click", () => this.step(-1));
    this.after.addEventListener("click", () => this.step(1));
    element.addEventListener("keydown", (event) => {
      if (isTyping(event.target) || event.altKey || event.ctrlKey || event.metaKey) return;
      if (event.key === "ArrowLeft" || event.key === "ArrowRight") { this.step(event.key === "ArrowLeft" ? -1 : 1); event.preventDefault(); }
    });
  }

  open(row, column) {
    Object.assign(this, { row, column });
    this.draw();
    if (!this.element.open) this.element.showModal();
    const chosen = this.inside.querySelector(".card.chosen");
    this.element.scrollTop = 0;
    if (chosen) chosen.scrollIntoView({ block: "nearest" });
  }

  step(by) {
    const next = this.neighbour(this.row, by);
    if (next !== null) this.open(next, this.column);
  }

  draw() {
    const [description, vars, metadata, repetition, prompts, cells] = this.rows.row(this.row);
    this.heading.replaceChildren();
    add(this.heading, [`Test ${count(INDEX.rows[this.row] + 1)}`, repetition ? ` · repetition ${repetition + 1}` : ""]);
    this.before.disabled = this.neighbour(this.row, -1) === null;
    this.after.disabled = this.neighbour(this.row, 1) === null;
    this.cells = cells;
    const places = cells.map((cell, place) => (cell === 0 ? -1 : place)).filter((place) => place >= 0);
    if (!places.includes(this.base)) this.base = places[0];
    this.inside.replaceChildren(
      ...[caseOf(description, vars, metadata), places.length > 1 ? this.choices(places) : null,
        el("div", { class: "cards" }, places.map((place) => this.card(place, cells[place], prompts)))].filter(Boolean));
  }

  choices(places) {
    const base = select("Compare with", places.map((place) => [place, columnName(place)]));
    base.value = String(this.base);
    base.addEventListener("change", () => { this.base = Number(base.value); this.draw(); });
    const box = el("input", { type: "checkbox" });
    box.checked = this.marks;
    box.addEventListener("change", () => { this.marks = box.checked; this.draw(); });
    return el("div", { class: "compare" }, el("label", {}, box, " Mark differences"), el("label", {}, "from ", base));
  }

  card(place, cell, prompts) {
    const letter = INDEX.letters[this.row * EVAL.columns.length + place];
    const { prompt, output, score, latency, cost, tokens, assertions, reason, error, cached, attempts, unit } = cellOf(cell);
    const meta = [mark(letter), `score ${(score || 0).toFixed(2)}`, latency === null ? null : seconds(latency), cost === null ? null : money(cost),
      tokens[0] + tokens[1] ? plural(tokens[0] + tokens[1], "token") : null, cached ? "cached" : null, attempts > 1 ? plural(attempts, "attempt") : null];
    return el("article", { class: "panel card" + (place === this.column ? " chosen" : ""), "aria-label": columnName(place) },
      el("h3", {}, columnName(place)), el("div", { class: "meta" }, meta.filter((one) => one !== null).map((one) => el("span", {}, one))),
      error ? el("p", { class: "problem foreign" }, error) : null, this.output(place, output),
      !error && reason && !assertions.length ? el("p", { class: "soft small foreign" }, reason) : null,
      assertions.length ? el("ul", { class: "grades", "aria-label": "Assertions" }, assertions.map(grade)) : null,
      el("details", {}, el("summary", {}, "Prompt"), el("pre", { class: "foreign" }, prompts[prompt] || ""), unit ? el("p", { class: "soft small" }, `headway show ${EVAL.job} ${unit}`) : null));
  }

  output(place, output) {
    if (output === "") return el("p", { class: "soft small" }, "No answer.");
    const shown = el("div", { class: "output foreign", tabindex: "0", role: "group", "aria-label": "Answer" });
    const base = this.marks && place !== this.base ? cellOf(this.cells[this.base]).output : "";
    const parts = base ? wordDiff(base, output) : null;
    if (parts === null) add(shown, [output]);
    else add(shown, parts.map(([kind, text]) => (kind === "same" ? text : el(kind === "added" ? "ins" : "del", {}, text))));
    const remarks = [base && parts === null ? "Too long or too different to mark words." : null,
      output.length >= EVAL.mostOutput && output.endsWith("…") ? `Cut at ${count(EVAL.mostOutput)} characters; headway show has all of it.` : null];
    return [shown, remarks.filter(Boolean).map((remark) => el("p", { class: "soft small" }, remark))];
  }
}

function cellOf(cell) {
  const [prompt = 0, output = "", score = 0, latency = null, cost = null, tokens = [0, 0], assertions = [], reason = "", error = "", cached = 0, attempts = 0, unit = ""] = cell;
  return { prompt, output, score, latency, cost, tokens, assertions, reason, error, cached, attempts, unit };
}

function caseOf(description, vars, metadata) {
  const pairs = (values) => values.map(([name, value]) => [el("dt", {}, name), el("dd", {}, el("span", { class: "foreign", tabindex: value.length > 400 ? "0" : null }, value))]);
  return el("div", { class: "panel case" }, description ? el("h3", { class: "foreign" }, description) : null,
    el("dl", {}, pairs(vars)), metadata.length ? el("details", {}, el("summary", {}, "Metadata"), el("dl", {}, pairs(metadata))) : null);
}

function grade([type, letter, score = 0, why = "", metric = "", value = "", parts = []]) {
  return el("li", {}, mark(letter, letter === "p" ? "" : STATUS[letter].name), " ", el("b", {}, type), " ", value ? el("span", { class: "foreign" }, value) : null,
    metric ? [" ", el("span", { class: "chip" }, metric)] : null, score !== 0 && score !== 1 ? ` ${score.toFixed(2)}` : null,
    why ? el("span", { class: "why foreign" }, why) : null, parts.length ? el("ul", {}, parts.map(grade)) : null);
}
