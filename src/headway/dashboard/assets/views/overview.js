// The lanes of a job, and what goes wrong with its units.

import { KeyedChildren, el, setText, show } from "../parts/dom.js";
import { jobPath } from "../parts/api.js";
import { asList, count, plural } from "../parts/format.js";
import { LaneStrip } from "../lanes/lane_strip.js";
import { LaneHistory } from "../lanes/lane_history.js";
import { empty } from "../parts/widgets.js";

export const open = (page) => new Overview(page);

class Overview {
  constructor({ job, row }) {
    Object.assign(this, { job, rowOf: row });
    this.history = new LaneHistory(job);
    this.number = el("span", { class: "soft" });
    this.list = el("div", { class: "lanes", "data-list": true });
    this.strips = new KeyedChildren(this.list, (lane) => lane.lane, (lane) => new LaneStrip(job, lane, this.history, () => this.rowOf()));
    this.none = el("div", { hidden: true }, empty("This job has used no lane yet.", null, "A lane appears with its first request: one for each account and model."));
    this.failures = new Failures(job);
    const key = el("p", { class: "soft small plot-key" }, [["rate", "rate"], ["limit", "limit"], ["refused", "429s"], ["hold", "hold"]].map(([kind, name]) => el("span", {}, el("span", { class: "key-sign is-" + kind, "aria-hidden": "true" }), name)));
    this.element = el("div", {}, el("section", { "aria-label": "Lanes" }, el("div", { class: "section-head" }, el("h2", {}, "Lanes ", this.number), key), this.list, this.none), this.failures.element);
  }

  async start() {
    await this.history.load();
    if (!this.closed) this.draw();
  }

  async reload() { await this.start(); }

  sample(sample) {
    this.history.add(sample);
    this.draw();
  }

  draw() { for (const strip of this.strips.values()) strip.draw(); }

  update(row) {
    const lanes = asList(row.lanes);
    this.strips.update(lanes);
    setText(this.number, lanes.length > 1 ? count(lanes.length) : "");
    show(this.none, lanes.length === 0);
    this.failures.update(asList(row.failures));
  }

  close() {
    this.closed = true;
    this.strips.close();
  }
}

// Why units failed: each reason with what to do and a link to its units.
class Failures {
  constructor(job) {
    this.list = el("ul", { class: "panel failures" });
    this.rows = new KeyedChildren(this.list, (one) => one.code, (one) => new FailureLine(job, one));
    this.element = el("section", { hidden: true, "aria-label": "Failures" }, el("h2", {}, "Why units failed"), this.list);
  }

  update(failures) {
    this.rows.update(failures);
    show(this.element, failures.length > 0);
  }
}

class FailureLine {
  constructor(job, { code }) {
    this.job = job;
    this.number = el("b", {});
    this.message = el("p", { class: "foreign clamp" });
    this.todo = el("p", { class: "soft" });
    this.first = el("a", {}, "the first");
    this.element = el("li", {}, el("p", { class: "why" }, el("span", { class: "s-fail mark" }, el("span", { "aria-hidden": "true" }, "✗ "), code), " ", this.number), el("div", {}, this.message, this.todo),
      el("p", { class: "small links" }, this.first, " · ", el("a", { href: `${jobPath(job, "units")}?code=${encodeURIComponent(code)}` }, "all")));
  }

  update(one) {
    setText(this.number, plural(one.units, "unit"));
    setText(this.message, one.message);
    setText(this.todo, one.do || "");
    show(this.todo, Boolean(one.do));
    show(this.first, one.first !== null && one.first !== undefined);
    const index = typeof one.first === "object" && one.first ? one.first.index : one.first;
    this.first.setAttribute("href", jobPath(this.job, "units", String(index)));
  }
}
