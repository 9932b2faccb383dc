// Server-sent events. Only the newest of each kind counts, and the page changes once a frame.

import { setClass, setText } from "./dom.js";

const RETRY_MS = 1500;

export class LiveEvents {
  // `handlers` have a function for each kind of event. `every` lists the kinds of which none may be left out. `back` is called when a lost connection is back.
  constructor(path, handlers, { every = [], back = () => {} } = {}) {
    Object.assign(this, { path, handlers, every: new Set(every), back });
    this.newest = new Map();
    this.queue = [];
    this.frame = 0;
    this.closed = false;
    this.wasOpen = false;
    this.open();
  }

  open() {
    this.source = new EventSource(this.path);
    this.source.addEventListener("open", () => this.opened());
    this.source.addEventListener("error", () => this.lost());
    for (const kind of Object.keys(this.handlers)) this.source.addEventListener(kind, (event) => this.take(kind, event.data));
    if (!this.wasOpen) connection("connecting");
  }

  opened() {
    connection("live");
    if (this.wasOpen) this.back();
    this.wasOpen = true;
  }

  lost() {
    if (this.closed) return;
    connection("disconnected");
    if (this.source.readyState !== EventSource.CLOSED) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => { if (!this.closed) this.open(); }, RETRY_MS);
  }

  take(kind, data) {
    if (this.every.has(kind)) this.queue.push([kind, data]);
    else this.newest.set(kind, data);
    if (this.frame === 0) this.frame = requestAnimationFrame(() => this.flush());
  }

  flush() {
    this.frame = 0;
    const queue = [...this.queue, ...this.newest];
    this.queue = [];
    this.newest.clear();
    for (const [kind, data] of queue) if (!this.closed) this.handlers[kind](JSON.parse(data));
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    cancelAnimationFrame(this.frame);
    this.source.close();
  }
}

const STATES = { connecting: "connecting…", live: "live", disconnected: "disconnected: trying again", still: "" };

// The state of the connection, in the bar. It is told to screen readers when it changes.
export function connection(state) {
  const place = document.getElementById("connection");
  setClass(place, "connection is-" + state);
  setText(place, STATES[state]);
  document.body.classList.toggle("is-disconnected", state === "disconnected");
}

// Countdowns: elements whose text depends on the time. They change once a second.
const ticking = new Map();
let timer = 0;

export function tick(element, update) {
  ticking.set(element, update);
  update(Date.now() / 1000);
  if (timer === 0) timer = setInterval(step, 1000);
}

export function stopTick(element) { ticking.delete(element); }

function step() {
  const now = Date.now() / 1000;
  for (const [element, update] of ticking) {
    if (element.isConnected) update(now);
    else ticking.delete(element);
  }
  if (ticking.size === 0) { clearInterval(timer); timer = 0; }
}
