// A table of any length: only the rows in view are elements. All rows have the same height, which is measured.
// Arrow keys move from cell to cell, Enter opens one.

const AROUND = 8;

class RowView {
  // `draw(row, position)` makes the row element; `open(row, column)` is called for Enter and a click.
  constructor(scroller, body, width, draw, open) {
    Object.assign(this, { scroller, body, draw, open, width });
    this.shown = [];
    this.elements = new Map();
    this.height = 0;
    this.active = { position: 0, column: 0 };
    this.above = el("tr", { class: "space", "aria-hidden": "true" }, el("td", { colspan: width }));
    this.below = el("tr", { class: "space", "aria-hidden": "true" }, el("td", { colspan: width }));
    this.listen();
  }

  listen() {
    const refresh = () => { if (!this.waiting) { this.waiting = true; requestAnimationFrame(() => { this.waiting = false; this.refresh(); }); } };
    this.scroller.addEventListener("scroll", refresh, { passive: true });
    addEventListener("scroll", refresh, { passive: true });
    addEventListener("resize", () => { this.height = 0; this.clear(); refresh(); });
    this.scroller.addEventListener("keydown", (event) => this.key(event));
    this.body.addEventListener("click", (event) => this.click(event));
    this.body.addEventListener("focusin", (event) => this.focused(event));
    addEventListener("beforeprint", () => this.print(true));
    addEventListener("afterprint", () => this.print(false));
    matchMedia("print").addEventListener("change", (event) => this.print(event.matches));
  }

  // Show these rows, from the first.
  show(rows) {
    this.shown = rows;
    this.active = { position: 0, column: Math.min(this.active.column, this.width - 1) };
    this.scroller.scrollTop = 0;
    this.clear();
    this.refresh();
  }

  clear() {
    this.elements.clear();
    this.body.replaceChildren(this.above, this.below);
    this.space(this.above, 0);
    this.space(this.below, 0);
  }

  space(row, pixels) {
    row.hidden = pixels <= 0;
    row.firstChild.style.height = pixels + "px";
  }

  refresh() {
    if (this.printing) return;
    if (this.height === 0) this.measure();
    const [first, end] = this.range();
    this.drop(first, end);
    this.fill(first, end);
    this.space(this.above, first * this.height);
    this.space(this.below, (this.shown.length - end) * this.height);
  }

  measure() {
    if (this.shown.length === 0) return;
    this.fill(0, 1);
    this.height = this.elements.get(0).getBoundingClientRect().height;
  }

  // The positions in view, and some around them.
  range() {
    const place = this.body.getBoundingClientRect(), clip = this.scroller.getBoundingClientRect();
    const top = Math.max(0, clip.top), bottom = Math.min(innerHeight, clip.bottom);
    const height = this.height || 1;
    const first = Math.max(0, Math.floor((top - place.top) / height) - AROUND);
    const end = Math.min(this.shown.length, Math.ceil((bottom - place.top) / height) + AROUND);
    return [Math.min(first, this.shown.length), Math.max(end, Math.min(first, this.shown.length))];
  }

  drop(first, end) {
    for (const [position, row] of this.elements) {
      if (position >= first && position < end) continue;
      if (row.contains(document.activeElement)) this.scroller.focus({ preventScroll: true });
      row.remove();
      this.elements.delete(position);
    }
  }

  fill(first, end) {
    let before = this.below;
    for (let position = end - 1; position >= first; position--) {
      let row = this.elements.get(position);
      if (row === undefined) {
        row = this.draw(this.shown[position], position);
        row.setAttribute("aria-rowindex", position + 2);
        row.dataset.position = position;
        this.elements.set(position, row);
        before.before(row);
        this.mayFocus(row, position);
      }
      before = row;
    }
  }

  mayFocus(row, position) {
    [...row.querySelectorAll("[role=gridcell]")].forEach((cell, column) => {
      cell.tabIndex = position === this.active.position && column === this.active.column ? 0 : -1;
    });
  }

  cellOf(target) {
    const cell = target.closest("[role=gridcell]");
    if (cell === null) return null;
    const row = cell.closest("tr");
    return { position: Number(row.dataset.position), column: [...row.querySelectorAll("[role=gridcell]")].indexOf(cell) };
  }

  click(event) {
    const place = this.cellOf(event.target);
    if (place === null || String(getSelection()) !== "") return;
    this.activate(place.position, place.column);
    this.open(this.shown[place.position], place.column);
  }

  focused(event) {
    const place = this.cellOf(event.target);
    if (place === null) return;
    const before = this.active;
    this.active = place;
    for (const position of [before.position, place.position]) {
      if (this.elements.has(position)) this.mayFocus(this.elements.get(position), position);
    }
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / (this.height || 1)) - 2);
    const { position, column } = this.active;
    const moves = {
      ArrowUp: [position - 1, column], ArrowDown: [position + 1, column], ArrowLeft: [position, column - 1], ArrowRight: [position, column + 1],
      PageUp: [position - page, column], PageDown: [position + page, column],
      Home: [event.ctrlKey ? 0 : position, 0], End: [event.ctrlKey ? this.shown.length - 1 : position, Infinity],
    };
    if (event.key === "Enter" && this.shown.length) this.open(this.shown[position], column);
    else if (event.key in moves && !event.altKey && !event.metaKey) this.activate(...moves[event.key]);
    else return;
    event.preventDefault();
  }

  // Scroll a cell into view and focus it.
  activate(position, column) {
    if (this.shown.length === 0) return;
    position = Math.max(0, Math.min(this.shown.length - 1, position));
    this.reveal(position);
    const cells = this.elements.get(position).querySelectorAll("[role=gridcell]");
    const cell = cells[Math.max(0, Math.min(cells.length - 1, column))];
    cell.focus({ preventScroll: true });
    cell.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  reveal(position) {
    if (!this.elements.has(position)) {
      const inside = getComputedStyle(this.scroller).overflowY !== "visible";
      const from = this.body.getBoundingClientRect().top + position * this.height;
      if (inside) this.scroller.scrollTop += from - this.scroller.getBoundingClientRect().top - this.scroller.clientHeight / 2;
      else scrollBy(0, from - innerHeight / 2);
      this.refresh();
    }
  }

  // Paper shows rows in full, up to a number.
  print(printing) {
    if (printing === Boolean(this.printing)) return;
    this.printing = printing;
    this.clear();
    if (printing) this.fill(0, Math.min(this.shown.length, PRINTED));
    else { this.height = 0; this.refresh(); }
    document.body.dataset.cut = printing && this.shown.length > PRINTED ? `The first ${count(PRINTED)} of ${plural(this.shown.length, "row")} are printed.` : "";
  }
}

const PRINTED = 500;
const SLICE_MS = 24;

// The rows that `has` accepts. The page can answer between two slices; it ends with null as soon as `goOn(found)` is false.
async function slowFilter(rows, has, goOn) {
  const found = [];
  let until = performance.now() + SLICE_MS;
  for (const row of rows) {
    if (has(row)) found.push(row);
    if (performance.now() < until) continue;
    await new Promise((next) => setTimeout(next));
    if (!goOn(found.length)) return null;
    until = performance.now() + SLICE_MS;
  }
  return found;
}
