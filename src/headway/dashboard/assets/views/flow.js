// A flow: what it asks, its graph, coloured live, the node that is chosen, and all nodes as a table.

import { KeyedChildren, el, setText, show } from "../parts/dom.js";
import { get, jobApi, jobPath } from "../parts/api.js";
import { asList, compact, count, duration, known, money, pretty } from "../parts/format.js";
import { FlowGraph, progressOf } from "../flows/flow_graph.js";
import { approve } from "../parts/steering.js";
import { empty, mark, pairs, setMark } from "../parts/widgets.js";

const REFRESH_MS = 1000;

export const open = (page) => new FlowView(page);

class FlowView {
  constructor({ job, row }) {
    Object.assign(this, { job, rowOf: row });
    this.questions = el("div", { class: "troubles" });
    this.asked = new KeyedChildren(this.questions, ({ unit }) => unit, (one) => new Question(job, one));
    this.graph = new FlowGraph((id) => this.choose(id));
    this.chosen = el("div", { class: "panel node-card", hidden: true, role: "region", "aria-label": "The chosen node", tabindex: "-1" });
    this.body = el("tbody", {});
    this.rows = new KeyedChildren(this.body, (node) => node.id, (node) => new NodeRow(node, (id) => this.choose(id)));
    const heads = [["Node"], ["Status"], ["Units", 1], ["Time", 1], ["Cost", 1], ["Waits for"], ["Detail"]];
    this.table = el("div", { class: "panel scroll", tabindex: "0", role: "group", "aria-label": "Nodes" }, el("table", { class: "nodes" }, el("thead", {}, el("tr", {}, heads.map(([name, right]) => el("th", { scope: "col", class: right ? "number" : null }, name)))), this.body));
    this.key = el("p", { class: "soft small" }, "Thick: the critical path, which made the flow take its time. Dashed: taken only under a condition.");
    this.element = el("section", { class: "flow", "aria-label": "Flow" }, this.questions, this.graph.element, this.key, this.chosen, this.table);
  }

  async start() {
    try {
      this.take(await get(jobApi(this.job, "flow")));
    } catch (error) {
      if (!this.flow) this.element.replaceChildren(empty(error.message));
    }
  }

  reload() { this.start(); }

  take(flow) {
    if (this.closed) return;
    this.flow = flow;
    this.asked.update(asList(flow.waiting));
    this.graph.update({ nodes: flow.nodes, edges: asList(flow.edges), critical: flow.critical });
    this.rows.update(flow.nodes);
    this.drawChosen();
  }

  // Events say that something has changed; the whole is read again at most once a second.
  update(row) {
    const state = `${row.state} ${row.attempts} ${JSON.stringify(row.nodes ?? null)}`;
    if (!this.flow || this.state === state) return;
    this.state = state;
    if (this.timer) return;
    this.timer = setTimeout(() => { this.timer = 0; if (!this.closed) this.start(); }, REFRESH_MS);
  }

  choose(id) {
    this.id = id;
    this.drawn = "";
    this.drawChosen();
    this.chosen.scrollIntoView({ block: "nearest" });
  }

  drawChosen() {
    const node = this.flow.nodes.find(({ id }) => id === this.id);
    show(this.chosen, Boolean(node));
    if (!node || JSON.stringify(node) === this.drawn) return;
    this.drawn = JSON.stringify(node);
    const focused = this.chosen.contains(document.activeElement);
    const { done, total } = progressOf(node);
    const answer = node.status === "waiting" ? el("button", { type: "button", class: "primary", click: () => approve(this.job, node.waiting || node.id) }, "Answer…") : null;
    this.chosen.replaceChildren(el("div", { class: "title" }, el("h3", {}, el("span", { class: "foreign" }, node.id), " ", mark(node.status)), el("div", { class: "tools" }, answer, total ? el("a", { class: "button", href: `${jobPath(this.job, "units")}?q=${encodeURIComponent(node.id)}` }, "Its units") : null)),
      pairs([["Why", node.reason], ["Kind", node.kind], ["Units", total ? `${count(done)} of ${count(total)} done` : null], ["Attempts", node.attempts ? `${count(node.attempts)}${node.refused ? `, ${count(node.refused)} refused by a limit` : ""}` : null], ["Time", node.seconds > 0 ? duration(node.seconds) : null], ["Cost", node.cost_usd > 0 ? money(node.cost_usd) : null], ["Lane", node.lane], ["Waits for", waitsOf(node)], ["Detail", typeof node.detail === "object" && node.detail ? pretty(node.detail) : node.detail]]));
    if (focused) this.chosen.focus();
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
  }
}

const waitsOf = ({ waits_for: waits }) => (Array.isArray(waits) ? waits.join(", ") : waits || "");

// What the flow asks a person.
class Question {
  constructor(job, { unit }) {
    this.text = el("p", { class: "what foreign" });
    this.element = el("div", { class: "trouble is-warning" }, el("span", { class: "sign", "aria-hidden": "true" }, "?"), el("div", { class: "text" }, el("p", { class: "soft" }, `${unit} asks:`), this.text), el("div", { class: "side" }, el("button", { type: "button", class: "primary", click: () => approve(job, unit) }, "Answer…")));
  }

  update({ question }) { setText(this.text, question || "Approve?"); }
}

class NodeRow {
  constructor(node, choose) {
    this.status = mark("pending");
    [this.units, this.time, this.cost] = [0, 0, 0].map(() => el("td", { class: "number" }));
    [this.waits, this.detail] = [0, 0].map(() => el("td", { class: "foreign soft small" }));
    const name = el("th", { scope: "row", class: "foreign" }, el("button", { type: "button", class: "link", click: () => choose(node.id) }, node.id));
    name.style.paddingLeft = 14 + 16 * (node.depth || 0) + "px";
    this.element = el("tr", {}, name, el("td", {}, this.status), this.units, this.time, this.cost, this.waits, this.detail);
  }

  update(node) {
    const { done, total } = progressOf(node);
    setMark(this.status, node.status);
    setText(this.units, total ? `${compact(done)} / ${compact(total)}` : "");
    setText(this.time, known(node.seconds) && node.seconds > 0 ? duration(node.seconds) : "");
    setText(this.cost, node.cost_usd > 0 ? money(node.cost_usd) : "");
    setText(this.waits, waitsOf(node));
    setText(this.detail, node.reason || (typeof node.detail === "string" ? node.detail : ""));
  }
}
