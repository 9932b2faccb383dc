// One lane as a lane: its state and what binds it, its rate against its limit over time, what is in flight against its window, its limits and its buttons.

import { KeyedChildren, el, setAttribute, setClass, setShare, setText, show } from "../parts/dom.js";
import { asList, compact, count, known, localTime, money, percent, rate, utcTime, wholeDuration } from "../parts/format.js";
import { stopTick, tick } from "../parts/live.js";
import { changeLimits, limitsLine, reopen, reopenLine } from "../parts/steering.js";
import { LanePlot, laneOverlay } from "./lane_plot.js";

export class LaneStrip {
  constructor(job, lane, history, rowOf) {
    Object.assign(this, { job, name: lane.lane, history, rowOf });
    this.state = new LaneState();
    this.model = el("span", { class: "soft small foreign" });
    this.binding = el("p", { class: "binding small" });
    this.road = new Road();
    this.figures = new LaneFigures();
    this.limits = new LimitList();
    this.readout = el("p", { class: "readout small", "aria-hidden": "true" });
    this.plot = el("div", { class: "plot", role: "img", "aria-label": `Rate of ${lane.lane} against its limit over time` });
    this.noPlot = el("p", { class: "soft" }, "No history of this lane yet.");
    this.more = this.makeMore();
    this.reopen = el("button", { type: "button", hidden: true, title: reopenLine(lane.lane), click: () => reopen(this.name, this.reopen) }, "Open now");
    this.change = el("button", { type: "button", title: limitsLine(lane.lane), click: () => changeLimits(this.lane) }, "Limits…");
    const name = el("h3", {}, el("span", { class: "foreign" }, lane.lane), " ", this.model);
    this.element = el("article", { class: "panel lane", tabindex: "-1", "data-item": true, "aria-label": `Lane ${lane.lane}` },
      el("div", { class: "lane-head" }, name, this.state.element, el("div", { class: "tools" }, this.reopen, this.change)),
      el("div", { class: "lane-body" }, el("div", { class: "lane-side" }, this.road.element, this.binding, this.limits.element), el("div", { class: "lane-plot" }, this.noPlot, this.plot, this.readout)),
      el("div", { class: "lane-foot" }, this.figures.element, this.more));
    this.rates = null;
  }

  makeMore() {
    this.windowPlace = el("div", { class: "plot", role: "img", "aria-label": `In flight and window of ${this.name} over time` });
    this.windowReadout = el("p", { class: "readout small", "aria-hidden": "true" });
    const details = el("details", { class: "lane-more" }, el("summary", {}, "In flight against window"), this.windowPlace, this.windowReadout);
    details.addEventListener("toggle", () => { if (details.open) { this.window ??= this.windowPlot(); this.draw(); } });
    return details;
  }

  windowPlot() {
    return new LanePlot(this.windowPlace, { height: 110, readout: this.windowReadout, series: [{ label: "in flight", kind: "area" }, { label: "window", kind: "step" }, { label: "queued", kind: "line" }].slice(0, 2) });
  }

  update(lane) {
    this.lane = lane;
    setText(this.model, [lane.provider, lane.model].filter((text) => text && !this.name.includes(text)).join(" · "));
    this.state.update(lane);
    this.road.update(lane);
    this.figures.update(lane);
    this.limits.update(lane, this.hasLine());
    const shown = asList(lane.limits).some(({ name, limit }) => name === lane.binding && limit > 0);
    setText(this.binding, lane.held || lane.stopped || shown ? "" : lane.binding ? `Bound by ${lane.binding}` : lane.wait?.text && lane.in_flight > 0 ? `Waits: ${lane.wait.text}` : "");
    show(this.binding, this.binding.textContent !== "");
    show(this.reopen, Boolean(lane.held || (lane.stopped && this.rowOf().live)));
    setClass(this.element, "panel lane" + (lane.stopped ? " is-stopped" : lane.held ? " is-held" : ""));
    const byTokens = tokensBind(lane);
    if (this.rates === null || this.byTokens !== byTokens) this.choose(byTokens);
  }

  // Whether the plot draws a limit now.
  hasLine() {
    const columns = this.history.of(this.name);
    return columns !== null && [columns.limit_per_min, columns.token_limit_per_min].some((limits) => known(limits[limits.length - 1]));
  }

  // The plot shows the kind of limit that binds: requests, or tokens.
  choose(byTokens) {
    this.byTokens = byTokens;
    if (this.rates !== null) this.rates.close();
    const unit = byTokens ? "tokens/min" : "requests/min";
    const overlay = laneOverlay(() => this.history.holdsOf(this.name), () => this.history.of(this.name)?.refused || []);
    this.rates = new LanePlot(this.plot, { height: 104, readout: this.readout, overlay, unit: () => unit, series: [{ label: "rate", kind: "area" }, { label: "limit", kind: "step" }] });
    this.draw();
  }

  draw() {
    const columns = this.history.of(this.name);
    show(this.noPlot, columns === null);
    show(this.plot, columns !== null);
    if (columns === null) return;
    const own = this.byTokens ? ["tokens_per_min", "token_limit_per_min"] : ["starts_per_min", "limit_per_min"];
    if (this.rates !== null) this.rates.set(() => [this.history.t, smoothed(this.history.t, columns[own[0]]), columns[own[1]]]);
    if (this.window && this.more.open) this.window.set(() => [this.history.t, columns.in_flight, columns.window]);
  }

  close() {
    this.state.close();
    if (this.rates !== null) this.rates.close();
    if (this.window) this.window.close();
  }
}

// Starts are counted as they are recorded, second by second: a mean over some seconds shows the rate.
const SMOOTH_S = 6;

function smoothed(t, values) {
  return values.map((value, n) => {
    if (value === null) return null;
    let sum = 0, time = 0;
    for (let k = n; k > 0 && values[k] !== null && t[n] - t[k - 1] <= SMOOTH_S; k--) { sum += values[k] * (t[k] - t[k - 1]); time += t[k] - t[k - 1]; }
    return time > 0 ? sum / time : value;
  });
}

const limitOf = (lane, kinds) => asList(lane.limits).filter((limit) => kinds.test(limit.dimension) && limit.limit > 0).sort((a, b) => (b.used_share || 0) - (a.used_share || 0))[0];

function tokensBind(lane) {
  if (/token/i.test(lane.binding || "")) return true;
  if (/request/i.test(lane.binding || "")) return false;
  const tokens = limitOf(lane, /token/i), requests = limitOf(lane, /request/i);
  return Boolean(tokens && (!requests || (tokens.used_share || 0) > (requests.used_share || 0) + 0.05));
}

// What a lane does now, in words: running at a rate, waiting, held until, stopped because.
class LaneState {
  constructor() {
    this.sign = el("span", { "aria-hidden": "true" });
    this.text = el("span", {});
    this.until = el("span", { class: "until" });
    this.element = el("p", { class: "lane-state" }, this.sign, this.text, " ", this.until);
  }

  update(lane) {
    const until = lane.stopped ? null : lane.held ? lane.held.until_utc : lane.wait?.until_utc;
    if (lane.stopped) this.set("fail", "✗ ", `stopped: ${lane.stopped}`);
    else if (lane.held) this.set("error", "‖ ", `held: ${lane.held.reason}`);
    else if (lane.in_flight > 0 || lane.rate_per_s > 0) this.set("run", "▸ ", rate(lane.rate_per_s));
    else if (lane.wait?.text) this.set("pending", "… ", lane.wait.text);
    else this.set("pending", "· ", lane.remaining > 0 ? "idle" : "nothing left to do");
    this.count(lane.held && !lane.stopped ? until : null);
  }

  set(kind, sign, text) {
    setClass(this.element, "lane-state s-" + kind);
    setText(this.sign, sign);
    setText(this.text, text);
  }

  count(until) {
    show(this.until, Boolean(until));
    if (until === this.counted) return;
    this.counted = until;
    setAttribute(this.until, "title", until ? `${localTime(until)} · ${utcTime(until)}` : null);
    if (until) tick(this.until, (now) => setText(this.until, until > now ? `· opens in ${wholeDuration(until - now)}` : "· opens now"));
    else stopTick(this.until);
  }

  close() { stopTick(this.until); }
}

// What is in flight against the window, as a road that fills.
class Road {
  constructor() {
    this.fill = el("span", { class: "road-fill" });
    this.text = el("p", { class: "road-text" }, "");
    this.element = el("div", { class: "road-cell" }, el("div", { class: "road", "aria-hidden": "true" }, this.fill), this.text);
  }

  // Without a window the most that was in flight is the measure.
  update({ in_flight: flying, window }) {
    this.most = Math.max(this.most || 1, flying);
    setShare(this.fill, "width", flying / (window > 0 ? window : this.most));
    setText(this.text, known(window) ? `${count(flying)} in flight, window ${count(window)}` : `${count(flying)} in flight`);
  }
}

class LaneFigures {
  constructor() {
    this.parts = {};
    this.element = el("dl", { class: "lane-figures" });
    for (const [name, title] of [["queued", "Queued"], ["remaining", "To do"], ["succeeded", "Succeeded"], ["failed", "Failed"], ["refused", "429s"], ["tokens", "Tokens in / out"], ["cost", "Cost"], ["left", "Time left"], ["others", "Other programs"]]) {
      const value = el("dd", {});
      const element = el("div", { class: "is-" + name }, el("dt", {}, title), value);
      this.parts[name] = { value, element };
      this.element.append(element);
    }
  }

  set(name, text, shown = true) {
    setText(this.parts[name].value, text);
    show(this.parts[name].element, shown);
  }

  update(lane) {
    this.set("queued", compact(lane.queued), known(lane.queued));
    this.set("remaining", compact(lane.remaining), known(lane.remaining));
    this.set("succeeded", compact(lane.succeeded));
    this.set("failed", compact(lane.failed), lane.failed > 0);
    this.set("refused", compact(lane.refused));
    this.set("tokens", `${compact(lane.input_tokens)} / ${compact(lane.output_tokens)}`, lane.input_tokens > 0 || lane.output_tokens > 0);
    this.set("cost", money(lane.cost_usd), known(lane.cost_usd));
    this.set("left", wholeDuration(lane.eta_s), lane.eta_s > 0 && lane.remaining > 0 && !lane.stopped);
    this.set("others", percent(lane.others_share), lane.others_share > 0.01);
    setClass(this.parts.refused.element, "is-refused" + (lane.refused > 0 ? " some" : ""));
    setClass(this.parts.failed.element, "is-failed some");
  }
}

// The limits of a lane: how much of each is used, where it comes from, and which binds.
export class LimitList {
  constructor() {
    this.element = el("ul", { class: "limits" });
    this.rows = new KeyedChildren(this.element, (limit) => `${limit.name} ${limit.source}`, () => new LimitLine());
    this.none = el("li", { class: "soft small" });
  }

  // `hasLine`: the plot beside it draws a limit, which the records do not have yet.
  update(lane, hasLine = false) {
    const limits = asList(lane.limits).filter((limit) => limit.limit > 0);
    setText(this.none, hasLine ? "No limit is certain yet: the dashed line is what the lane keeps to for now." : "No limit is known: the lane finds it.");
    this.none.remove();
    // One limit may be known twice, from the configuration and from headers: the lower one counts.
    const binding = limits.filter(({ name }) => name === lane.binding).sort((a, b) => a.limit - b.limit)[0];
    this.rows.update(limits.map((limit) => ({ ...limit, binds: limit === binding })));
    if (limits.length === 0) this.element.append(this.none);
  }
}

const shortUnit = (name) => name.replace(/ per (minute|day|second|hour)/, (_, unit) => "/" + { minute: "min", day: "day", second: "s", hour: "h" }[unit]);

class LimitLine {
  constructor() {
    this.name = el("span", { class: "limit-name" });
    this.fill = el("span", {});
    this.text = el("span", { class: "limit-text" });
    this.element = el("li", {}, this.name, el("span", { class: "meter", "aria-hidden": "true" }, this.fill), this.text);
  }

  update(limit) {
    setClass(this.element, limit.binds ? "binds" : "");
    setText(this.name, `${compact(limit.limit)} ${shortUnit(limit.name)}`);
    setShare(this.fill, "width", limit.used_share || 0);
    setText(this.text, known(limit.used_share) ? percent(limit.used_share) : "");
    setAttribute(this.element, "title", `${count(limit.limit)} ${limit.name}, ${limit.source}${known(limit.used_share) ? `; ${percent(limit.used_share)} of it used` : ""}`);
  }
}
