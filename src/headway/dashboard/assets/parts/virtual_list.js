// A list of any length: only the rows in view are elements. All rows have the same height, which is measured.

import { el } from "./dom.js";

const AROUND = 10;

export class VirtualList {
  // `make(row, place)` gives { element, update(row, place) }; `needMore()` is called when the end comes into view.
  constructor({ label, make, needMore }) {
    Object.assign(this, { make, needMore });
    this.rows = [];
    this.parts = new Map();
    this.height = 0;
    this.element = el("ol", { class: "virtual", "aria-label": label, "data-list": true });
    this.refreshSoon = () => { this.frame ??= requestAnimationFrame(() => { this.frame = null; this.refresh(); }); };
    this.resized = () => { this.height = 0; this.refreshSoon(); };
    addEventListener("scroll", this.refreshSoon, { passive: true });
    addEventListener("resize", this.resized);
  }

  // The same rows in front keep their elements.
  show(rows) {
    this.rows = rows;
    for (const [place, part] of this.parts) {
      if (place >= rows.length) { part.element.remove(); this.parts.delete(place); }
      else part.update(rows[place], place);
    }
    this.refresh();
  }

  refresh() {
    if (!this.element.isConnected) return;
    if (this.rows.length === 0) { this.element.style.paddingBlock = "0px"; this.needMore(); return; }
    if (this.height === 0) this.measure();
    const top = this.element.getBoundingClientRect().top;
    const first = Math.max(0, Math.min(this.rows.length, Math.floor(-top / this.height) - AROUND));
    const end = Math.max(first, Math.min(this.rows.length, Math.ceil((innerHeight - top) / this.height) + AROUND));
    this.drop(first, end);
    this.fill(first, end);
    // Rows with the focus may be outside of the range: they keep their place, so the space is counted by what is there.
    const places = [...this.parts.keys()];
    this.element.style.paddingTop = Math.min(...places) * this.height + "px";
    this.element.style.paddingBottom = (this.rows.length - 1 - Math.max(...places)) * this.height + "px";
    if (end >= this.rows.length - AROUND) this.needMore();
  }

  measure() {
    this.fill(0, 1);
    this.height = this.parts.get(0).element.getBoundingClientRect().height || 1;
  }

  drop(first, end) {
    for (const [place, part] of this.parts) {
      if (place >= first && place < end) continue;
      if (part.element.contains(document.activeElement)) this.element.focus({ preventScroll: true });
      part.element.remove();
      this.parts.delete(place);
    }
  }

  fill(first, end) {
    let before = null;
    for (let place = end - 1; place >= first; place--) {
      let part = this.parts.get(place);
      if (part === undefined) {
        part = this.make(this.rows[place], place);
        part.update(this.rows[place], place);
        this.parts.set(place, part);
        this.element.insertBefore(part.element, before);
      }
      before = part.element;
    }
  }

  close() {
    removeEventListener("scroll", this.refreshSoon);
    removeEventListener("resize", this.resized);
  }
}
