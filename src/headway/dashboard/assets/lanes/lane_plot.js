// Plots of a lane over time, by uPlot: its rate against its limit with refusals and holds, and what is in flight against its window.

import { setText } from "../parts/dom.js";
import { compact, known, localTime } from "../parts/format.js";

let library = null;
const load = () => import("../vendor/uplot/uPlot.esm.js").then((module) => module.default);

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const COLOURS = ["accent", "accent-fill", "soft", "line", "fail", "error-fill", "grid"];
let colours = null;
const resolved = () => (colours ??= Object.fromEntries(COLOURS.map((name) => [name, concrete(colour(name))])));
addEventListener("headway-theme", () => { colours = null; });

// A canvas does not know light-dark(): the browser computes the colour for an element.
function concrete(value) {
  const probe = document.createElement("span");
  probe.style.color = value;
  probe.hidden = true;
  document.body.append(probe);
  const made = getComputedStyle(probe).color;
  probe.remove();
  return made;
}

// Plots are drawn one after another, as many in a frame as its time allows: twenty at once would be felt.
const FRAME_MS = 6;
const queue = new Set();

function drawSoon(plot) {
  queue.add(plot);
  if (queue.size === 1) requestAnimationFrame(drawQueue);
}

function drawQueue() {
  const until = performance.now() + FRAME_MS;
  for (const plot of queue) {
    queue.delete(plot);
    plot.draw();
    if (performance.now() > until) break;
  }
  if (queue.size > 0) requestAnimationFrame(drawQueue);
}

// A scale that begins at 0 and leaves room above the largest value. A lane starts with what its limit has saved up, many times the limit's own rate:
// that peak is cut off, because nobody could see the rate against the limit below it.
const PEAK = 3;
const fromZero = (plot, __, most) => {
  const limit = plot.data[2]?.findLast((value) => value > 0);
  return [0, Math.max(1, Math.min(most || 0, limit ? PEAK * limit : Infinity) * 1.12)];
};

// Whether the label of an instant would stick out on the right.
const LABEL_HALF = 25;
const isCut = (plot, at) => plot.valToPos(at, "x") > plot.over.clientWidth - LABEL_HALF;

export class LanePlot {
  // `series` are { label, kind: "area" | "step" | "line" }; `overlay(plot)` draws over the plot; `readout` shows the values under the pointer.
  constructor(place, { series, height, readout, unit, overlay }) {
    Object.assign(this, { place, series, height, readout, unit, overlay });
    this.plot = null;
    this.data = null;
    this.inView = false;
    this.watch = new ResizeObserver(() => this.resize());
    this.seen = new IntersectionObserver((entries) => { this.inView = entries[entries.length - 1].isIntersecting; if (this.inView) drawSoon(this); }, { rootMargin: "100px" });
    this.watch.observe(place);
    this.seen.observe(place);
    this.themed = () => this.rebuild();
    addEventListener("headway-theme", this.themed);
  }

  // `data` gives the columns; it is called when the plot is drawn, and not at all while it is out of view.
  set(data) {
    this.data = data;
    if (this.inView) drawSoon(this);
  }

  draw() {
    if (this.closed || this.data === null || this.data === this.drawn) return;
    if (library === null) { load().then((uPlot) => { library = uPlot; drawSoon(this); }); return; }
    const columns = this.data();
    if (columns[0].length === 0 || this.place.clientWidth === 0) return;
    if (this.plot === null) this.plot = new library(this.options(library), columns, this.place);
    else this.plot.setData(columns);
    this.drawn = this.data;
  }

  options(uPlot) {
    const c = resolved();
    const axis = { stroke: c.soft, font: "11px system-ui, sans-serif", ticks: { show: false }, grid: { stroke: c.grid, width: 1 } };
    return {
      width: this.place.clientWidth, height: this.height, padding: [6, 0, 0, 0], legend: { show: false },
      cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
      scales: { x: { time: true }, y: { range: fromZero } },
      axes: [{ ...axis, size: 22, space: 90, values: (plot, splits, _, __, step) => splits.map((at) => (isCut(plot, at) ? "" : localTime(at, step < 60).split(" ").pop())) },
        { ...axis, size: 44, space: 24, values: (_, splits) => splits.map(compact) }],
      series: [{}, ...this.series.map((one) => this.line(uPlot, one, c))],
      hooks: { drawClear: this.overlay?.behind ? [(plot) => this.overlay.behind(plot, c)] : [], draw: this.overlay?.above ? [(plot) => this.overlay.above(plot, c)] : [], setCursor: [(plot) => this.say(plot)] },
    };
  }

  line(uPlot, { label, kind }, c) {
    const base = { label, points: { show: false }, spanGaps: false };
    if (kind === "area") return { ...base, stroke: c.accent, width: 1.5, fill: c["accent-fill"] };
    if (kind === "step") return { ...base, stroke: c.soft, width: 1.25, dash: [5, 4], paths: uPlot.paths.stepped({ align: 1 }) };
    return { ...base, stroke: c.soft, width: 1 };
  }

  say(plot) {
    const n = plot.cursor.idx;
    if (n === null || n === undefined || plot.cursor.left < 0) { setText(this.readout, ""); return; }
    const values = this.series.map(({ label }, place) => { const value = plot.data[place + 1][n]; return known(value) ? `${label} ${compact(value)}` : null; });
    setText(this.readout, [localTime(plot.data[0][n]), ...values.filter(Boolean)].join(" · ") + (this.unit ? " " + this.unit() : ""));
  }

  resize() {
    const width = this.place.clientWidth;
    if (width === 0) return;
    if (this.plot !== null && this.plot.width !== width) this.plot.setSize({ width, height: this.height });
    else if (this.plot === null) { this.drawn = null; drawSoon(this); }
  }

  rebuild() {
    if (this.plot === null) return;
    this.plot.destroy();
    this.plot = this.drawn = null;
    drawSoon(this);
  }

  close() {
    this.closed = true;
    this.watch.disconnect();
    this.seen.disconnect();
    removeEventListener("headway-theme", this.themed);
    if (this.plot !== null) this.plot.destroy();
  }
}

// Holds as bands behind the plot, and refusals as marks at its upper edge. Their size follows their number.
export function laneOverlay(holdsOf, refusedOf) {
  return {
    behind(plot, c) {
      const { ctx, bbox } = plot;
      ctx.save();
      ctx.fillStyle = c["error-fill"];
      for (const { from_utc: from, until_utc: until } of holdsOf()) {
        const left = Math.max(bbox.left, plot.valToPos(from, "x", true));
        const right = Math.min(bbox.left + bbox.width, plot.valToPos(until ?? plot.scales.x.max, "x", true));
        if (right > left) ctx.fillRect(left, bbox.top, Math.max(2, right - left), bbox.height);
      }
      ctx.restore();
    },
    above(plot, c) {
      const { ctx, bbox } = plot, refused = refusedOf();
      ctx.save();
      ctx.fillStyle = c.fail;
      const unit = devicePixelRatio;
      for (let n = 0; n < plot.data[0].length; n++) {
        if (!(refused[n] > 0)) continue;
        const tall = Math.min(bbox.height / 3, (4 + 3 * Math.log2(refused[n])) * unit);
        ctx.fillRect(Math.round(plot.valToPos(plot.data[0][n], "x", true)) - unit, bbox.top, 2 * unit, tall);
      }
      ctx.restore();
    },
  };
}
