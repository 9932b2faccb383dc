// The graph of a flow as SVG. Steps inside of a pipeline, a loop or an inner flow are lines in its box. The boxes stay; their colours, numbers and bars
// change while the flow runs.

import { el, setAttribute, setClass, setText, svg } from "../parts/dom.js";
import { compact, duration, known } from "../parts/format.js";
import { stateName } from "../parts/widgets.js";
import { BOX, layout } from "./flow_layout.js";

const MOST_NAME = 23;
const MOST_MEMBERS = 10;
const MEMBER = 24;
const SIGNS = { success: "✓", succeeded: "✓", running: "▸", ready: "▸", failed: "✗", waiting: "?", skipped: "–", interrupted: "!", pending: "·" };

export class FlowGraph {
  constructor(select) {
    this.select = select;
    this.element = el("div", { class: "panel graph", tabindex: "0", role: "group", "aria-label": "The graph of the flow" });
    this.boxes = new Map();
    this.shape = "";
  }

  update({ nodes, edges, critical }) {
    const shape = JSON.stringify([nodes.map(({ id }) => id), edges.map(({ from, to }) => [from, to])]);
    if (shape !== this.shape) { this.shape = shape; this.draw(nodes, edges); }
    const path = new Set(critical || []);
    for (const node of nodes) this.boxes.get(node.id)?.update(node, path.has(node.id) || node.critical);
    for (const line of this.lines) line.update(edges, path);
  }

  draw(nodes, edges) {
    const focused = this.element.contains(document.activeElement) ? document.activeElement.getAttribute("data-node") : null;
    const { tops, topOf } = grouped(nodes);
    const between = edges.map((edge) => ({ ...edge, from: topOf.get(edge.from), to: topOf.get(edge.to) })).filter(({ from, to }) => from && to && from !== to);
    const plan = layout(tops, between);
    this.lines = plan.lines.map((line) => new EdgeLine(line));
    this.boxes = new Map();
    const drawn = tops.map((top) => this.box(top, plan.boxes.get(top.id)));
    const tip = svg("marker", { id: "tip", viewBox: "0 0 8 8", refX: 1, refY: 4, markerWidth: 8, markerHeight: 8, orient: "auto-start-reverse", markerUnits: "userSpaceOnUse" }, svg("path", { d: "M0,0L8,4L0,8z", class: "tip" }));
    this.element.replaceChildren(svg("svg", { width: plan.width, height: plan.height, viewBox: `0 0 ${plan.width} ${plan.height}`, role: "group", "data-list": "", "aria-label": "Nodes" }, svg("defs", {}, tip), svg("g", { "aria-hidden": "true" }, this.lines.map(({ element }) => element)), drawn));
    if (focused !== null) this.boxes.get(focused)?.button.focus();
  }

  box({ id, height, members }, { x, y }) {
    const open = (node) => () => this.select(node);
    const own = new NodeBox(id, height, open(id));
    this.boxes.set(id, own);
    const lines = members.slice(0, MOST_MEMBERS).map((member, n) => {
      const line = new MemberLine(member, BOX.height + n * MEMBER, open(member.id));
      this.boxes.set(member.id, line);
      return line.button;
    });
    const more = members.length > MOST_MEMBERS ? svg("text", { class: "detail", x: 26, y: BOX.height + MOST_MEMBERS * MEMBER + 15 }, `and ${members.length - MOST_MEMBERS} more below`) : null;
    return svg("g", { transform: `translate(${x},${y})` }, own.button, lines, more);
  }
}

// The nodes that have boxes, with those inside of each. They are below it in the list, with a greater depth.
function grouped(nodes) {
  const tops = [], topOf = new Map();
  for (const node of nodes) {
    if (!node.depth || tops.length === 0) tops.push({ id: node.id, members: [] });
    else tops[tops.length - 1].members.push(node);
    topOf.set(node.id, tops[tops.length - 1].id);
  }
  for (const top of tops) top.height = BOX.height + (top.members.length ? (Math.min(top.members.length, MOST_MEMBERS + 1)) * MEMBER + 6 : 0);
  return { tops, topOf };
}

class EdgeLine {
  constructor({ points, from, to, when, label, taken, back }) {
    Object.assign(this, { from, to, when, taken, back });
    this.element = svg("path", { d: points, class: "edge", "marker-end": "url(#tip)" }, when ? svg("title", {}, `when ${label || when}`) : null);
  }

  update(edges, path) {
    const edge = edges.find((one) => one.from === this.from && one.to === this.to);
    const taken = edge ? edge.taken : this.taken;
    const kinds = [taken && "is-taken", taken === false && "is-left", path.has(this.from) && path.has(this.to) && "is-critical", this.when && "is-conditional", this.back && "is-back"];
    setClass(this.element, ["edge", ...kinds.filter(Boolean)].join(" "));
  }
}

// Enter, Space and a click choose a node. Its title is its name for screen readers, and the tooltip.
function acts(open) {
  const act = (event) => { if (event.type === "click" || event.key === "Enter" || event.key === " ") { open(); event.preventDefault(); } };
  return { role: "button", tabindex: "0", "data-item": "", click: act, keydown: act };
}

const shortened = (name, most) => (name.length > most ? name.slice(0, most - 1) + "…" : name);

function nameOf(node, critical) {
  const { done, total } = progressOf(node);
  return [node.id, node.kind, stateName(node.status), total > 1 ? `${done} of ${total} units` : null, critical ? "on the critical path" : null, known(node.seconds) ? duration(node.seconds) : null].filter(Boolean).join(", ");
}

class NodeBox {
  constructor(id, height, open) {
    this.title = svg("title", {}, id);
    this.sign = svg("text", { class: "sign", x: 12, y: 24 });
    this.detail = svg("text", { class: "detail", x: 12, y: 44 });
    this.right = svg("text", { class: "detail", x: BOX.width - 12, y: 44, "text-anchor": "end" });
    this.bar = svg("rect", { class: "bar", x: 8, y: 52, height: 3, width: 0, rx: 1.5 });
    this.button = svg("g", { "data-node": id, ...acts(open) }, this.title, svg("rect", { class: "box", width: BOX.width, height, rx: 9 }), this.sign, svg("text", { class: "name", x: 30, y: 24 }, shortened(id, MOST_NAME)), this.detail, this.right, this.bar);
  }

  update(node, critical) {
    const { done, total } = progressOf(node);
    setClass(this.button, `node n-${node.status}${critical ? " is-critical" : ""}`);
    setText(this.sign, SIGNS[node.status] || "·");
    setText(this.detail, total > 1 ? `${node.kind} · ${compact(done)} of ${compact(total)}` : node.kind || stateName(node.status));
    setText(this.right, node.seconds > 0 ? duration(node.seconds) : "");
    setAttribute(this.bar, "width", total > 1 && done < total ? Math.max(0, Math.round(((BOX.width - 16) * done) / total)) : 0);
    setText(this.title, nameOf(node, critical));
  }
}

class MemberLine {
  constructor(node, y, open) {
    const x = 10 + 10 * Math.min(3, node.depth - 1);
    const name = node.id.split("/").pop();
    this.title = svg("title", {}, node.id);
    this.sign = svg("text", { class: "sign", x: x + 6, y: y + 15 });
    this.right = svg("text", { class: "detail", x: BOX.width - 14, y: y + 15, "text-anchor": "end" });
    this.button = svg("g", { "data-node": node.id, ...acts(open) }, this.title, svg("rect", { class: "member", x, y, width: BOX.width - 10 - x, height: MEMBER - 3, rx: 5 }), this.sign, svg("text", { class: "member-name", x: x + 22, y: y + 15 }, shortened(name, 16)), this.right);
  }

  update(node, critical) {
    const { done, total } = progressOf(node);
    setClass(this.button, `node n-${node.status}${critical ? " is-critical" : ""}`);
    setText(this.sign, SIGNS[node.status] || "·");
    setText(this.right, total > 1 ? `${compact(done)}/${compact(total)}` : node.seconds > 0 ? duration(node.seconds) : "");
    setText(this.title, nameOf(node, critical));
  }
}

// Done and all units of a node.
export function progressOf({ counts }) {
  const { units = 0, succeeded = 0, failed = 0, skipped = 0 } = counts || {};
  return { done: Math.min(units, succeeded + failed + skipped), total: units };
}
