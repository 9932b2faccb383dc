// Every second of a unit's life, by what it was doing: queued, held, backing off, in flight.

import { el } from "../parts/dom.js";
import { duration, known, localTime } from "../parts/format.js";
import { section, table, time } from "../parts/widgets.js";

const NAMES = { queued: "queued", held: "held", in_flight: "in flight", backing_off: "backing off", waiting: "waiting for others", writing: "being recorded", paused: "no process" };
const stateOf = (state) => NAMES[state] || String(state).replaceAll("_", " ");

export function timeLine(pieces) {
  if (pieces.length === 0) return null;
  const now = Date.now() / 1000;
  const whole = pieces.map((piece) => ({ ...piece, until: piece.until_utc ?? Math.max(now, piece.from_utc) })).map((piece) => ({ ...piece, took: Math.max(0, piece.until - piece.from_utc) }));
  const total = whole.reduce((sum, piece) => sum + piece.took, 0) || 1;
  const bar = el("div", { class: "time-bar", role: "img", "aria-label": sums(whole).map(([state, took]) => `${stateOf(state)} ${duration(took)}`).join(", ") });
  for (const piece of whole) {
    const part = el("span", { class: `t-${piece.state}`, title: [stateOf(piece.state), duration(piece.took), piece.why].filter(Boolean).join(" · ") });
    part.style.flexGrow = String(piece.took / total);
    if (piece.took / total > 0.09) part.append(duration(piece.took));
    bar.append(part);
  }
  const legend = el("ul", { class: "legend" }, sums(whole).map(([state, took]) => el("li", {}, el("span", { class: `dot t-${state}`, "aria-hidden": "true" }), el("b", {}, duration(took)), " " + stateOf(state))));
  const ends = el("p", { class: "soft small time-ends" }, time(whole[0].from_utc), el("span", {}, `${duration(total)} in all`), time(whole[whole.length - 1].until));
  const rows = whole.map((piece) => [el("span", {}, el("span", { class: `dot t-${piece.state}`, "aria-hidden": "true" }), stateOf(piece.state)), localTime(piece.from_utc), duration(piece.took), known(piece.attempt) && piece.attempt > 0 ? String(piece.attempt) : "", piece.why || ""]);
  return section("Where its time went", el("div", { class: "panel time-line" }, bar, ends, legend, el("details", {}, el("summary", {}, "Each piece"), table("Pieces of the unit's life", [["State"], ["From"], ["Took", 1], ["Attempt", 1], ["Why"]], rows, "flat"))));
}

function sums(pieces) {
  const all = new Map();
  for (const piece of pieces) all.set(piece.state, (all.get(piece.state) || 0) + piece.took);
  return [...all].filter(([, took], _, list) => took > 0 || list.length === 1);
}
