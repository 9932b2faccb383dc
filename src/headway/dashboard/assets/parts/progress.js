// The progress of a job as one bar, and its legend, whose parts lead to the units.

import { KeyedChildren, el, setAttribute, setShare, setText } from "./dom.js";
import { jobPath } from "./api.js";
import { count, progressPercent } from "./format.js";

// [what, statuses, class, filter of the units]
const PARTS = [
  ["succeeded", ["succeeded"], "pass", "succeeded"], ["cached", ["cached"], "cached", "cached"], ["failed", ["failed"], "fail", "failed"], ["timed out", ["timed_out"], "timeout", "timed_out"],
  ["cancelled", ["cancelled"], "error", "cancelled"], ["skipped", ["skipped"], "pending", "skipped"], ["in flight", ["running", "assigned"], "run", "running"],
];

export const endedUnits = (counts) => ["succeeded", "cached", "failed", "timed_out", "skipped", "cancelled"].reduce((sum, status) => sum + ((counts || {})[status] || 0), 0);
const sumOf = (counts, statuses) => statuses.reduce((sum, status) => sum + ((counts || {})[status] || 0), 0);

export class ProgressBar {
  constructor() {
    this.parts = PARTS.map(([, , name]) => el("span", { class: "part s-" + name }));
    this.element = el("div", { class: "progress", role: "progressbar", "aria-label": "Units done", "aria-valuemin": 0 }, this.parts);
  }

  update(row) {
    const total = Math.max(1, row.total || 0);
    PARTS.forEach(([, statuses], n) => setShare(this.parts[n], "width", sumOf(row.counts, statuses) / total));
    const ended = endedUnits(row.counts);
    setAttribute(this.element, "aria-valuemax", row.total || 0);
    setAttribute(this.element, "aria-valuenow", ended);
    setAttribute(this.element, "aria-valuetext", `${count(ended)} of ${count(row.total)} units, ${progressPercent(ended, row.total)}`);
  }
}

export class ProgressLegend {
  constructor(job) {
    this.element = el("ul", { class: "legend" });
    this.parts = new KeyedChildren(this.element, (part) => part.name, (part) => {
      const number = el("b", {});
      const link = el("a", { href: jobPath(job, "units") + (part.filter ? "?status=" + part.filter : "") }, el("span", { class: "dot s-" + part.kind, "aria-hidden": "true" }), number, " " + part.name);
      return { element: el("li", {}, link), update: (now) => setText(number, count(now.units)) };
    });
  }

  update(row) {
    const shown = PARTS.map(([name, statuses, kind, filter]) => ({ name, kind, filter, units: sumOf(row.counts, statuses) })).filter((part) => part.units > 0);
    const left = Math.max(0, (row.total || 0) - endedUnits(row.counts) - sumOf(row.counts, ["running", "assigned"]));
    if (left > 0 || shown.length === 0) shown.push({ name: "to do", kind: "todo", filter: "pending", units: left });
    this.parts.update(shown);
  }
}
