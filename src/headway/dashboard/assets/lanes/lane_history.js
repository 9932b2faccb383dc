// The history of a job's lanes as the plots need it: one axis of time, and columns for each lane. New samples are added at the end.

import { get, jobApi, query } from "../parts/api.js";
import { asList } from "../parts/format.js";

const POINTS = 300;
const MOST_POINTS = 900;
const COLUMNS = ["starts_per_min", "limit_per_min", "tokens_per_min", "token_limit_per_min", "in_flight", "window", "queued", "refused"];

export class LaneHistory {
  constructor(job) {
    this.job = job;
    this.clear();
  }

  clear() {
    this.t = [];
    this.lanes = new Map();
    this.holds = [];
  }

  async load() {
    let history;
    try { history = await get(jobApi(this.job, "history") + query({ points: POINTS })); } catch { return; }
    this.clear();
    this.t = asList(history.t);
    this.holds = asList(history.holds);
    for (const [name, columns] of Object.entries(history.lanes || {})) this.lanes.set(name, Object.fromEntries(COLUMNS.map((column) => [column, asList(columns[column])])));
  }

  // A sample has the form of the history, with one column.
  add(sample) {
    const times = Array.isArray(sample.t) ? sample.t : [sample.t];
    if (Array.isArray(sample.holds)) this.takeHolds(sample.holds);
    times.forEach((at, n) => {
      if (!(at > (this.t[this.t.length - 1] ?? 0))) return;
      this.t.push(at);
      for (const name of Object.keys(sample.lanes || {})) this.columnsOf(name);
      for (const [name, columns] of this.lanes) for (const column of COLUMNS) columns[column].push(valueAt(sample.lanes?.[name]?.[column], n));
    });
    if (this.t.length > MOST_POINTS) this.thin();
  }

  takeHolds(holds) {
    for (const hold of holds) {
      const same = this.holds.find((one) => one.lane === hold.lane && one.from_utc === hold.from_utc);
      if (same) Object.assign(same, hold);
      else this.holds.push(hold);
    }
  }

  columnsOf(name) {
    if (!this.lanes.has(name)) this.lanes.set(name, Object.fromEntries(COLUMNS.map((column) => [column, new Array(this.t.length - 1).fill(null)])));
    return this.lanes.get(name);
  }

  // The older half loses every second point; refusals are summed, so that none disappears.
  thin() {
    const half = Math.floor(this.t.length / 4) * 2;
    const keeps = (n) => n >= half || n % 2 === 1;
    for (const columns of this.lanes.values()) {
      for (let n = 1; n < half; n += 2) columns.refused[n] = (columns.refused[n] || 0) + (columns.refused[n - 1] || 0);
      for (const column of COLUMNS) columns[column] = columns[column].filter((_, n) => keeps(n));
    }
    this.t = this.t.filter((_, n) => keeps(n));
  }

  of(name) { return this.lanes.get(name) || null; }

  holdsOf(name) { return this.holds.filter((hold) => hold.lane === name); }
}

const valueAt = (value, n) => (Array.isArray(value) ? value[n] : value) ?? null;
