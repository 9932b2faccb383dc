// Agents at work: each with its turn, its tool and what it said last.

import { KeyedChildren, el, setAttribute, setText, show } from "../parts/dom.js";
import { get, jobApi, jobPath } from "../parts/api.js";
import { ago, asList, compact, known, money, plural } from "../parts/format.js";
import { stopTick, tick } from "../parts/live.js";
import { empty } from "../parts/widgets.js";

export const open = (page) => new AgentsView(page);

class AgentsView {
  constructor({ job }) {
    this.job = job;
    this.list = el("ul", { class: "agents", "data-list": true });
    this.cards = new KeyedChildren(this.list, (agent) => String(agent.unit?.index ?? agent.unit), (agent) => new AgentCard(job, agent));
    this.none = el("div", { hidden: true }, empty("No agent is at work now.", `headway status ${job}`, "An agent appears here while its unit runs. The whole conversation of each is with its unit."));
    this.element = el("section", { "aria-label": "Agents" }, this.list, this.none);
  }

  async start() {
    try { this.take((await get(jobApi(this.job, "agents"))).agents); } catch (error) { this.element.append(empty(error.message)); }
  }

  reload() { this.start(); }

  update(row) { if (row.agents) this.take(row.agents); }

  take(agents) {
    this.cards.update(asList(agents));
    show(this.none, asList(agents).length === 0);
  }

  close() { this.cards.close(); }
}

class AgentCard {
  constructor(job, agent) {
    this.job = job;
    this.name = el("b", { class: "foreign" });
    this.about = el("span", { class: "soft small" });
    this.tool = el("code", { class: "tool" });
    this.last = el("p", { class: "foreign clamp" });
    this.cost = el("span", { class: "soft small" });
    this.age = el("span", { class: "soft small" });
    this.link = el("a", { href: jobPath(job, "units", String(agent.index ?? agent.unit?.index ?? agent.unit)), "data-item": true }, this.name);
    this.element = el("li", { class: "panel agent" }, el("p", {}, this.link, " ", this.about), el("p", { class: "now" }, this.tool), this.last, el("p", { class: "agent-foot" }, this.cost, this.age));
  }

  update(agent) {
    setText(this.name, agent.id || agent.unit?.id || agent.unit);
    setText(this.about, [agent.lane, known(agent.turn) ? `turn ${agent.turn}` : null].filter(Boolean).join(" · "));
    setText(this.tool, agent.tool || "");
    show(this.tool.parentElement, Boolean(agent.tool));
    setText(this.last, agent.last || "Nothing yet.");
    setText(this.cost, [agent.tokens > 0 ? `${compact(agent.tokens)} tokens` : null, known(agent.cost_usd) ? money(agent.cost_usd) : null].filter(Boolean).join(" · "));
    setAttribute(this.age, "title", agent.session_id ? `session ${agent.session_id}` : null);
    if (this.started !== agent.started_utc) { this.started = agent.started_utc; tick(this.age, (now) => setText(this.age, agent.started_utc ? "began " + ago(agent.started_utc, now) : "")); }
  }

  close() { stopTick(this.age); }
}
