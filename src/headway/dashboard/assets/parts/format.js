// Numbers, money and times for people. Every number has a unit.

const grouped = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const known = (value) => value !== null && value !== undefined && Number.isFinite(value);
export const count = (n) => (known(n) ? grouped.format(Math.round(n)) : "–");
export const compact = (n) => (!known(n) ? "–" : Math.abs(n) < 10000 ? grouped.format(Math.round(n)) : short.format(n));
export const plural = (n, word, many = word + "s") => `${count(n)} ${n === 1 ? word : many}`;
export const percent = (share, digits = 0) => (known(share) ? (100 * share).toFixed(digits) + " %" : "–");

// Never "100 %" before the end, and never "0 %" after the start.
export function progressPercent(done, total) {
  if (!total) return "0 %";
  const share = done / total;
  if (done >= total) return "100 %";
  const digits = total >= 10000 && share < 0.1 ? 1 : 0;
  return Math.min(Math.floor(share * 100 * 10 ** digits) / 10 ** digits, 99).toFixed(digits) + " %";
}

export function money(usd) {
  if (!known(usd)) return "–";
  if (usd === 0 || usd >= 0.995) return "$" + usd.toFixed(2).replace(/\B(?=(\d{3})+\.)/g, ",");
  return "$" + usd.toFixed(usd >= 0.01 ? 3 : usd >= 0.0001 ? 5 : 7);
}

export function duration(s) {
  if (!known(s)) return "–";
  if (s < 0) s = 0;
  if (s < 0.9995) return Math.round(s * 1000) + " ms";
  if (s < 9.95) return s.toFixed(1) + " s";
  return wholeDuration(s);
}

// Whole seconds: what a countdown shows, so that its text does not change ten times a second.
export function wholeDuration(s) {
  if (!known(s)) return "–";
  s = Math.max(0, Math.round(s));
  if (s < 60) return s + " s";
  const two = (n) => String(n).padStart(2, "0");
  if (s < 3600) return `${Math.floor(s / 60)}m ${two(s % 60)}s`;
  if (s < 86400) return `${Math.floor(s / 3600)}h ${two(Math.floor((s % 3600) / 60))}m`;
  return `${Math.floor(s / 86400)}d ${two(Math.floor((s % 86400) / 3600))}h`;
}

export function rate(perSecond) {
  if (!known(perSecond)) return "–";
  if (perSecond >= 100) return count(perSecond) + "/s";
  if (perSecond >= 0.5) return perSecond.toFixed(1) + "/s";
  return perSecond === 0 ? "0/s" : (60 * perSecond).toFixed(perSecond * 60 >= 10 ? 0 : 1) + "/min";
}

const twoDigits = (n) => String(n).padStart(2, "0");

// What a Date can be: a tiny limit gives waits until much later.
const isInstant = (utc) => known(utc) && Math.abs(utc) < 8.64e12;
export const isoTime = (utc) => (isInstant(utc) ? new Date(utc * 1000).toISOString() : "");

export function localTime(utc, withSeconds = true) {
  if (!isInstant(utc)) return "–";
  const at = new Date(utc * 1000);
  const clock = `${twoDigits(at.getHours())}:${twoDigits(at.getMinutes())}${withSeconds ? ":" + twoDigits(at.getSeconds()) : ""}`;
  if (at.toDateString() === new Date().toDateString()) return clock;
  return `${at.getFullYear()}-${twoDigits(at.getMonth() + 1)}-${twoDigits(at.getDate())} ${clock}`;
}

export const utcTime = (utc) => (isInstant(utc) ? isoTime(utc).slice(0, 19).replace("T", " ") + " UTC" : "");

export function ago(utc, now = Date.now() / 1000) {
  const s = Math.max(0, now - utc);
  if (s < 10) return "just now";
  if (s < 3600) return (s < 60 ? Math.round(s) + " s" : Math.round(s / 60) + " min") + " ago";
  if (s < 86400) return Math.round(s / 3600) + " h ago";
  return plural(Math.round(s / 86400), "day") + " ago";
}

// A JSON value for reading: text as it is, anything else indented.
export function pretty(value) {
  if (typeof value !== "string") return value === undefined ? "" : JSON.stringify(value, null, 2);
  const start = value.trimStart()[0];
  if (start === "{" || start === "[") {
    try { return JSON.stringify(JSON.parse(value), null, 2); } catch { /* It only looks like JSON. */ }
  }
  return value;
}

export const asList = (value) => (Array.isArray(value) ? value : []);

// A sentence of an error, which begins small after "code: ".
export const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}`;
