// One unit: its error and what to do, the time line of its seconds, its attempts, its conversation, its request and its answer.

import { el, show } from "../parts/dom.js";
import { get, jobApi, jobPath } from "../parts/api.js";
import { asList, count, duration, known, money, pretty, sentence } from "../parts/format.js";
import { cancelLine, cancelUnit, retryUnit, retryUnitLine } from "../parts/steering.js";
import { command, empty, foreign, mark, pairs, section, time } from "../parts/widgets.js";
import { Conversation, longText } from "./conversation.js";
import { timeLine } from "./time_line.js";

const ENDED = new Set(["succeeded", "cached", "failed", "timed_out", "skipped", "cancelled"]);
const REFRESH_MS = 1000;

export const openUnit = (page) => new UnitView(page);

class UnitView {
  constructor({ job, row, item }) {
    Object.assign(this, { job, rowOf: row, index: Number(item) });
    this.parts = new Map();
    this.conversation = new Conversation();
    this.place = el("div", { class: "unit-parts" }, el("p", { class: "none" }, "Loading…"));
    const step = (by, word, sign) => el("a", { href: jobPath(job, "units", String(this.index + by)), class: "button", "aria-label": word }, sign);
    this.element = el("article", { class: "unit" }, el("p", { class: "crumbs" }, el("a", { href: jobPath(job, "units"), "data-up": true }, "← All units"), el("span", { class: "tools" }, this.index > 0 ? step(-1, "The unit before", "‹") : null, step(1, "The next unit", "›"))), this.place);
  }

  async start() {
    await this.load();
    this.timer = setInterval(() => this.refresh(), REFRESH_MS);
  }

  // A unit that has ended changes only by a retry.
  refresh() {
    if (document.hidden || this.busy) return;
    const open = this.status === undefined || !ENDED.has(this.status);
    const attempts = `${this.rowOf().attempts} ${this.rowOf().state}`;
    if (!(open && this.rowOf().live) && attempts === this.seen) return;
    this.seen = attempts;
    this.load();
  }

  async load() {
    this.busy = true;
    try {
      const answer = await get(jobApi(this.job, "units", String(this.index)));
      if (!this.closed) this.draw(answer);
    } catch (error) {
      if (!this.closed && this.parts.size === 0) this.place.replaceChildren(empty(error.message));
    } finally {
      this.busy = false;
    }
  }

  // Parts are made anew only if what they show has changed, so that a text being read stays where it is.
  draw(answer) {
    if (this.parts.size === 0) this.place.replaceChildren();
    const unit = answer.unit;
    this.status = unit.status;
    this.part("head", [unit, answer.command], () => this.head(unit, answer.command));
    this.part("error", answer.error, () => (answer.error ? errorCard(answer.error) : null));
    this.part("time", [answer.timeline, unit.status], () => timeLine(asList(answer.timeline)));
    this.part("attempts", [answer.attempts, answer.notes], () => attemptsPart(asList(answer.attempts), answer.notes || {}));
    this.part("conversation", null, () => this.conversation.element);
    this.conversation.update(asList(answer.conversation));
    this.part("raw", [answer.request, answer.answer], () => rawPart(answer.request, answer.answer));
  }

  part(name, value, make) {
    const text = JSON.stringify(value ?? null);
    const old = this.parts.get(name);
    if (old && old.text === text) return;
    const element = make() || el("div", { hidden: true });
    if (old) old.element.replaceWith(element);
    else this.place.append(element);
    this.parts.set(name, { text, element });
  }

  head(unit, line) {
    const about = pairs([["Lane", unit.lane], ["Took", known(unit.took_s) ? duration(unit.took_s) : null], ["Started", unit.started_utc ? time(unit.started_utc) : null], ["Ended", unit.finished_utc ? time(unit.finished_utc) : null],
      ["Attempts", count(unit.attempts || 0)], ["Cost", known(unit.cost_usd) ? money(unit.cost_usd) : null], ["Waits for", unitLinks(this.job, asList(unit.waits_for))], ["Files", asList(unit.files).map(nameOf).join(", ")],
      ["Metadata", unit.metadata && Object.keys(unit.metadata).length ? pretty(unit.metadata) : null]]);
    const ended = ENDED.has(unit.status);
    const retry = el("button", { type: "button", title: retryUnitLine(this.job, unit.id), click: () => retryUnit(this.job, this.index, unit.id || String(this.index), retry) }, "Retry this unit");
    const stop = el("button", { type: "button", title: cancelLine(this.job, unit.id), click: () => cancelUnit(this.job, this.index, unit.id || String(this.index)) }, "Cancel…");
    show(retry, ended);
    show(stop, !ended && this.rowOf().live);
    return el("header", {}, el("div", { class: "title" }, el("h2", { class: "unit-title" }, el("span", { class: "foreign" }, unit.id || String(unit.index)), " ", mark(unit.status)), el("div", { class: "tools" }, retry, stop)), el("div", { class: "panel facts" }, about), line ? el("p", { class: "soft small" }, "On a terminal: ", command(line)) : null);
  }

  close() {
    this.closed = true;
    clearInterval(this.timer);
  }
}

const nameOf = (file) => (typeof file === "string" ? file : file.path || file.name || pretty(file));

function unitLinks(job, ids) {
  if (ids.length === 0) return null;
  const shown = ids.slice(0, 20).map((id, n) => [n ? ", " : "", typeof id === "object" ? el("a", { href: jobPath(job, "units", String(id.index)) }, id.id) : el("a", { href: `${jobPath(job, "units")}?q=${encodeURIComponent(id)}` }, id)]);
  return el("span", {}, shown, ids.length > 20 ? ` and ${count(ids.length - 20)} more` : null);
}

function errorCard(error) {
  return el("div", { class: "troubles" }, el("div", { class: "trouble is-error" }, el("span", { class: "sign", "aria-hidden": "true" }, "✗"), el("div", { class: "text" }, el("p", { class: "what foreign" }, `${error.code}: ${error.message}`), error.do ? el("p", { class: "soft" }, sentence(error.do)) : null)));
}

// The bodies as they were sent and as they came.
function rawPart(request, answer) {
  const shown = [["The request as it is sent", request?.body !== undefined ? request.body : request, request?.path], ["The answer as it came", answer]].filter(([, value]) => value !== null && value !== undefined);
  if (shown.length === 0) return null;
  return section("Request and answer", el("div", { class: "raw" }, shown.map(([title, value, path]) => el("details", {}, el("summary", {}, title, path ? el("span", { class: "soft" }, ` · ${path}`) : null), longText(pretty(value), "code")))));
}

function attemptsPart(attempts, notes) {
  if (attempts.length === 0) return null;
  return section("Attempts", el("ol", { class: "panel attempts" }, attempts.map((attempt) => attemptLine(attempt, notes[attempt.number] || {}))));
}

function attemptLine(attempt, note) {
  const tokens = known(attempt.input_tokens) || known(attempt.output_tokens) ? `${count(attempt.input_tokens || 0)} in, ${count(attempt.output_tokens || 0)} out` : null;
  const took = known(attempt.started_utc) && known(attempt.finished_utc) ? duration(attempt.finished_utc - attempt.started_utc) : null;
  const facts = [attempt.lane, took, tokens && tokens + " tokens", attempt.cost_usd > 0 ? money(attempt.cost_usd) : null, attempt.status_code ? `HTTP ${attempt.status_code}` : null].filter(Boolean).join(" · ");
  return el("li", {}, el("div", { class: "attempt-head" }, el("b", {}, `Attempt ${attempt.number}`), " ", mark(attempt.outcome === "throttled" ? "held" : attempt.outcome === "lost" ? "interrupted" : attempt.outcome, attempt.outcome), attempt.kind ? el("span", { class: "soft" }, " ", attempt.kind) : null,
    attempt.started_utc ? el("span", { class: "soft small" }, " ", time(attempt.started_utc)) : null), el("p", { class: "soft small foreign" }, facts), attempt.message ? foreign(attempt.message, "small attempt-message") : null,
    Object.entries(note).filter(([, text]) => text).map(([name, text]) => el("details", {}, el("summary", {}, name.replaceAll("_", " ")), longText(pretty(text), "code"))));
}
